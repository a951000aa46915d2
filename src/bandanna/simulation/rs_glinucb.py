"""Runs RS-GLinUCB in blocks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bandanna.environments.base import World
from bandanna.policies.glm.rs_glinucb import RSGLinUCB
from bandanna.simulation import rarely
from bandanna.simulation.rarely import Chunk, History, Ints
from bandanna.simulation.run import Run
from bandanna.simulation.tally import Tally

Floats = NDArray[np.float64]


class _Seeds:
    """What decides, for every seed: V, H, their snapshots and the two estimates."""

    def __init__(self, policy: RSGLinUCB, seeds: int) -> None:
        d, self.policy = policy.dim, policy
        start = np.tile(policy.regulariser * np.eye(d), (seeds, 1, 1))
        self.v, self.h, self.h_tau = start.copy(), start.copy(), start.copy()
        self.v_inverse: Floats = np.array(start / policy.regulariser**2)
        self.h_inverse: Floats = self.v_inverse.copy()
        self.theta_o, self.theta_tau = np.zeros((seeds, d)), np.zeros((seeds, d))
        self.due = np.zeros(seeds, dtype=bool)  # criterion II holds: renew before the next round without exploration
        self.stale = np.zeros(seeds, dtype=bool)  # theta_o: nobody reads it in explored rounds
        self.switches, self.explorations = np.zeros(seeds, dtype=np.int64), np.zeros(seeds, dtype=np.int64)

    def advance(self, history: History, chunk: Chunk, seeds: Ints, position: Ints, length: int) -> Ints:
        """Accept rounds up to the first event of every seed, then deal with the event; the new positions."""
        policy = self.policy
        if policy.live and np.all(self.switches[seeds] > 0):
            length = 1  # the bonus follows H: no more would be accepted
        part = rarely.block(chunk, seeds, position, length)
        norms = rarely.norms_of(part.contexts, self.v_inverse[seeds, None])
        explore = part.valid & (np.max(norms, axis=2) >= policy.threshold)
        self._renew_o(history, seeds[self.stale[seeds] & ~explore[:, 0]], position)
        renew = seeds[self.due[seeds] & ~explore[:, 0]]
        if len(renew):
            self._switch(history, renew, position[np.isin(seeds, renew)])
        centre = policy.centre(self.theta_o[seeds], self.theta_tau[seeds], self.switches[seeds])
        actions = policy.choose(part.contexts, norms, self.theta_o[seeds], centre, self.h_inverse[seeds])
        taken = np.minimum(rarely.first_true(explore), np.sum(part.valid, axis=1))
        taken = self._grow(part, actions, taken)
        rarely.record(history, chunk, part, actions, taken)
        position = position + taken
        first = (taken < length) & explore[np.arange(len(seeds)), np.minimum(taken, length - 1)]
        if np.any(first):
            self._explore(history, chunk, seeds[first], position[first])
        return np.asarray(position + first)

    def _grow(self, part: rarely.Block, actions: Ints, taken: Ints) -> Ints:
        """H round by round; rounds are taken up to the one after which criterion II holds, that one included."""
        seeds, policy, index = part.seeds, self.policy, np.arange(len(part.seeds))
        x = np.take_along_axis(part.contexts, actions[..., None, None], axis=2)[:, :, 0]  # (s, B, d)
        weights = policy.weights(self.theta_o[seeds], x)
        steps = (weights[..., None] * x)[..., :, None] * x[..., None, :]
        running = self.h[seeds, None] + np.cumsum(steps, axis=1)  # (s, B, d, d): H after each round
        live = policy.live & (self.switches[seeds] > 0)  # the bonus follows H: one round at a time
        taken = np.where(live, np.minimum(taken, 1), taken)
        grown = policy.grown(running, self.h_tau[seeds, None]) & ~live[:, None]
        taken = np.minimum(taken, rarely.first_true(grown) + 1)
        some = taken > 0
        last = np.maximum(taken - 1, 0)
        self.h[seeds] = np.where(some[:, None, None], running[index, last], self.h[seeds])
        self.due[seeds] |= some & grown[index, last]
        if np.any(live):
            self.h_inverse[seeds[live]] = np.linalg.inv(self.h[seeds[live]])
        return np.asarray(taken)

    def _switch(self, history: History, seeds: Ints, position: Ints) -> None:
        """theta_tau from the rounds so far, H_tau = H."""
        most, policy = int(np.max(position)), self.policy
        weights = np.arange(most) < position[:, None]
        if not policy.uses_everything:
            weights = weights & ~history.explored[seeds, :most]
        self.theta_tau[seeds] = policy.fit_tau(
            history.features[seeds, :most],
            history.rewards[seeds, :most],
            weights.astype(float),
            self.theta_tau[seeds],
            self.theta_o[seeds],
            self.v[seeds],
        )
        self.h_tau[seeds] = self.h[seeds]
        self.h_inverse[seeds] = np.linalg.inv(self.h[seeds])
        self.due[seeds] = False
        self.switches[seeds] += 1

    def _explore(self, history: History, chunk: Chunk, seeds: Ints, position: Ints) -> None:
        """One explored round: V and theta_o change."""
        part = rarely.block(chunk, seeds, position, 1)
        norms = rarely.norms_of(part.contexts, self.v_inverse[seeds, None])
        actions = np.argmax(norms, axis=2)  # (s, 1)
        rarely.record(history, chunk, part, actions, np.ones(len(seeds), dtype=np.int64), explored=True)
        x = history.features[seeds, position]
        weight = self.policy.explored_weight(np.max(norms[:, 0], axis=1))
        self.v[seeds] += (weight[:, None] * x)[:, :, None] * x[:, None, :]
        self.v_inverse[seeds] = np.linalg.inv(self.v[seeds])
        self.explorations[seeds] += 1
        self.stale[seeds] = True

    def _renew_o(self, history: History, seeds: Ints, position: Ints) -> None:
        """theta_o from the explored rounds so far."""
        if not len(seeds):
            return
        rows = [np.flatnonzero(history.explored[seed, : int(np.max(position))]) for seed in seeds]
        count = np.array([len(each) for each in rows])
        places = np.stack([np.pad(each, (0, int(count.max()) - len(each))) for each in rows])
        self.theta_o[seeds] = self.policy.fit_o(
            history.features[seeds[:, None], places],
            history.rewards[seeds[:, None], places],
            (np.arange(places.shape[1]) < count[:, None]).astype(float),
            self.theta_o[seeds],
        )
        self.stale[seeds] = False


def run(policy: RSGLinUCB, world: World, tally: Tally, rounds: int, *, path: str) -> Run:
    """Play `rounds` rounds; there are no messages, both paths are the same."""
    seeds = _Seeds(policy, tally.n_seeds)
    history = rarely.play(policy, world, tally, rounds, seeds.advance)
    return Run(
        guarantee=policy.guarantee,
        releases=0,
        users=rounds,
        reports=rounds,
        clipped=history.clipped,
        repairs=np.zeros(tally.n_seeds, dtype=np.int64),
        bits_per_user=0,
        counts={"explorations": seeds.explorations, "switches": seeds.switches},
    )
