"""Runs GLM-JDP in blocks: exact sums plus the noise of the continual release, which does not depend on the data."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bandanna.core.linalg import positive_inverse
from bandanna.environments.base import World
from bandanna.glm.noisy_gradient import NoisyGradient
from bandanna.mechanisms.sources.fast import FastNoise
from bandanna.mechanisms.sources.replicated import ReplicatedNoise
from bandanna.policies.glm.glm_jdp import GLMJDP
from bandanna.protocols.base import FLOAT_BITS
from bandanna.simulation import rarely
from bandanna.simulation.rarely import Chunk, History, Ints
from bandanna.simulation.run import Run
from bandanna.simulation.tally import Tally

Floats = NDArray[np.float64]

_FLOOR = 0.05  # a released matrix that is not positive definite is shifted to this part of its regulariser


class _Seeds:
    """What decides, for every seed: exact sums, released matrices and their snapshots, the two estimates."""

    def __init__(self, policy: GLMJDP, world: World, seeds: int, path: str) -> None:
        d, self.policy = policy.dim, policy
        self.source = ReplicatedNoise(world.streams)
        self.refit_noise = [FastNoise(rng) for rng in world.streams.generators("refit noise")]
        stack = d * (d + 1)
        self.sums = np.zeros((seeds, stack))  # exact, by law: the server's; by messages the mechanism keeps them
        self.start, self.stop = 0, 0  # of the chunk that is played
        self.beside = np.zeros((seeds, 1, stack))  # what makes them the releases after start, ..., stop rounds
        messages, matrices = path == "messages", policy.mechanisms.matrices
        self.stream = matrices.begin((seeds,)) if messages else None
        self.prefixes: Iterator[Floats] | None = None if messages else matrices.prefix_noise(self.source, (seeds,))
        v, h = policy.matrices(np.zeros((seeds, stack)))
        self.v_o, self.h_tau = v, h
        self.h_inverse = positive_inverse(h, floor=1.0)[0]
        self.theta_o, self.theta_tau = np.zeros((seeds, d)), np.zeros((seeds, d))
        self.explorations, self.repairs = np.zeros(seeds, dtype=np.int64), np.zeros(seeds, dtype=np.int64)
        self.calls = np.zeros((2, seeds), dtype=np.int64)  # refits of theta_o and of theta_tau

    def draw(self, stop: int) -> None:
        """The noise of the prefixes up to round `stop`, in the law of the steps; by messages, room for the releases."""
        last, self.start, self.stop = self.beside[:, -1], self.stop, stop
        self.beside = np.zeros((len(last), self.stop - self.start + 1, last.shape[-1]))
        self.beside[:, 0] = last
        if self.prefixes is not None:
            for t in range(1, self.beside.shape[1]):
                self.beside[:, t] = next(self.prefixes)

    def _at(self, seeds: Ints, rounds: Ints) -> Floats:
        """`beside` after so many rounds, (s, B), as after the last one for those that do not exist: (s, B, d(d+1))."""
        return np.asarray(self.beside[seeds[:, None], np.minimum(rounds, self.stop) - self.start])

    def advance(self, history: History, chunk: Chunk, seeds: Ints, position: Ints, length: int) -> Ints:
        """Accept rounds up to the first event of every seed, then deal with the event; the new positions."""
        policy = self.policy
        if self.stream is not None:
            length = 1  # every step of the mechanism is run, for all seeds together
        if chunk.stop > self.stop:
            self.draw(chunk.stop)
        part = rarely.block(chunk, seeds, position, length)
        before, _ = policy.matrices(self.sums[seeds, None] + self._at(seeds, part.rounds))
        inverse, repaired = positive_inverse(before, floor=_FLOOR * policy.used.regulariser_v)
        norms = rarely.norms_of(part.contexts, inverse)
        explore = part.valid & (np.max(norms, axis=2) >= policy.threshold)
        actions = policy.choose(part.contexts, norms, self.theta_o[seeds], self.theta_tau[seeds], self.h_inverse[seeds])
        first = explore[:, 0]  # an explored round comes alone
        actions[first, 0] = np.argmax(norms[first, 0], axis=1)
        taken = np.where(first, 1, np.minimum(rarely.first_true(explore), np.sum(part.valid, axis=1)))
        taken, outgrown = self._release(part, actions, taken, first)
        rarely.record(history, chunk, part, actions, taken, explored=first)
        self.explorations[seeds] += first
        self.repairs[seeds] += np.sum(repaired * (np.arange(length) < taken[:, None]), axis=1)
        for row in np.flatnonzero(np.any(outgrown, axis=1)):
            self._refit(history, int(seeds[row]), int(position[row] + taken[row]), outgrown[row])
        return np.asarray(position + taken)

    def _release(
        self, part: rarely.Block, actions: Ints, taken: Ints, explored: NDArray[np.bool_]
    ) -> tuple[Ints, NDArray[np.bool_]]:
        """Sums after each round; rounds are taken up to the first after which a *released* matrix has outgrown.

        Returns how many are taken, and which matrix (V, H) has outgrown its snapshot then: (s,), (s, 2).
        """
        seeds, policy, index = part.seeds, self.policy, np.arange(len(part.seeds))
        x = np.take_along_axis(part.contexts, actions[..., None, None], axis=2)[:, :, 0]  # (s, B, d)
        flags = explored[:, None] & (np.arange(x.shape[1]) == 0)
        leaves = policy.leaf(x, policy.weights(self.theta_o[seeds], x), flags)
        running = self.sums[seeds, None] + np.cumsum(leaves, axis=1)  # (s, B, d(d+1))
        if self.stream is not None:  # the release itself: a difference would carry rounding errors of the raw sums
            self.stream, total = policy.mechanisms.matrices.step(self.stream, leaves[:, 0], self.source)
            self.beside[seeds, part.rounds[:, 0] + 1 - self.start] = total
            running = np.zeros(leaves.shape)
        v, h = policy.matrices(running + self._at(seeds, part.rounds + 1))
        left = self.calls[:, seeds] < np.array([[policy.used.calls_o], [policy.used.calls_tau]])
        outgrown = np.stack(
            [
                policy.outgrown(v, self.v_o[seeds, None]) & left[0][:, None],
                policy.outgrown(h, self.h_tau[seeds, None]) & left[1][:, None],
            ],
            axis=-1,
        )  # (s, B, 2)
        taken = np.minimum(taken, rarely.first_true(np.any(outgrown, axis=2)) + 1)
        last = taken - 1
        self.sums[seeds] = running[index, last]
        events = outgrown[index, last]
        for row in np.flatnonzero(events[:, 0]):
            self.v_o[seeds[row]] = v[row, last[row]]
        for row in np.flatnonzero(events[:, 1]):
            self.h_tau[seeds[row]] = h[row, last[row]]
        return taken, events

    def _refit(self, history: History, seed: int, position: int, outgrown: NDArray[np.bool_]) -> None:
        """Private estimates from everybody so far."""
        policy, explored = self.policy, history.explored[seed, :position]
        for kind, optimiser in enumerate((policy.mechanisms.estimate_o, policy.mechanisms.estimate_tau)):
            if outgrown[kind]:
                rows = np.flatnonzero(explored if kind == 0 else ~explored)
                theta = self._estimate(optimiser, history, seed, position, rows, kind)
                (self.theta_o if kind == 0 else self.theta_tau)[seed] = theta
                self.calls[kind, seed] += 1
        if outgrown[1]:
            floor = _FLOOR * policy.used.regulariser_h
            self.h_inverse[seed] = positive_inverse(self.h_tau[seed], floor=floor)[0]

    def _estimate(
        self, optimiser: NoisyGradient, history: History, seed: int, position: int, rows: Ints, kind: int
    ) -> Floats:
        policy = self.policy
        released = self.v_o[seed] * policy.model.slope_bound if kind == 0 else self.h_tau[seed] * np.e
        floor = _FLOOR * (policy.used.regulariser_v if kind == 0 else policy.used.regulariser_h)
        matrix: Floats = np.asarray(np.linalg.inv(positive_inverse(released, floor=floor)[0]), dtype=float)
        near = None
        if kind == 1 and self.calls[0, seed]:
            v = np.linalg.inv(positive_inverse(self.v_o[seed], floor=_FLOOR * policy.used.regulariser_v)[0])
            near = (self.theta_o[seed], np.asarray(v, dtype=float))
        return policy.estimate(
            optimiser,
            history.features[seed, rows],
            history.rewards[seed, rows],
            self.refit_noise[seed],
            rounds=position,
            start=(self.theta_o if kind == 0 else self.theta_tau)[seed],
            matrix=matrix,
            near=near,
        )


def run(policy: GLMJDP, world: World, tally: Tally, rounds: int, *, path: str) -> Run:
    """Play `rounds` rounds; path="messages" runs every step of the continual mechanism."""
    seeds = _Seeds(policy, world, tally.n_seeds, path)
    history = rarely.play(policy, world, tally, rounds, seeds.advance, policy.mechanisms.matrices.dim)
    return Run(
        guarantee=policy.guarantee,
        releases=rounds,
        users=rounds,
        reports=rounds,
        clipped=history.clipped,
        repairs=seeds.repairs,
        bits_per_user=FLOAT_BITS * (policy.dim + 1) + 1,  # x and the reward, for leaf and gradients; explored or not
        numbers_per_user=policy.dim + 1,
        counts={
            "explorations": seeds.explorations,
            "switches": seeds.calls[1],
            "refits of theta_o": seeds.calls[0],
        },
    )
