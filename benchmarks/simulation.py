"""Simulating 50 seeds at once, beside a plain NumPy loop over rounds of one seed; and beside drawing the world alone.

Seconds are for the whole of 50 seeds; the plain loop runs one seed for fewer rounds and is scaled up. The promise is
2.5 times the drawing of contexts and rewards, with fresh ones, and 1/20 of the plain loop with fixed arms.
"""

from __future__ import annotations

import math

import numpy as np

from bandanna.accounting.factorisation import BLT
from bandanna.bench.floors import drawing
from bandanna.bench.problems import Problem
from bandanna.bench.simulations import seconds
from bandanna.environments import LinearContextual
from bandanna.policies.linear.linucb import LinUCB
from bandanna.protocols.base import BatchProtocol, Floats
from bandanna.protocols.central_continual import CentralContinual
from bandanna.protocols.shuffle_binomial import ShuffleBinomial
from bandanna.protocols.trust import Privacy, central, local, none, shuffle
from bandanna.simulation.engine import simulate
from benchmarks import Ratio, timed

SEEDS, ROUNDS, PLAIN, DIM, ARMS = 50, 4000, 1500, 5, 100
BUDGET = {"epsilon": 1.0, "delta": 1e-5}


def plain_loop(policy: LinUCB) -> float:
    """The same LinUCB of one seed, round by round, as one would write it in NumPy; returns its regret."""
    rng = np.random.default_rng(0)
    arms = rng.normal(size=(ARMS, DIM - 1))
    arms = np.column_stack([arms / np.linalg.norm(arms, axis=1, keepdims=True), np.ones(ARMS)]) / math.sqrt(2)
    means = arms @ arms[0]
    sums, noise = np.zeros(DIM + DIM * DIM), PlainNoise(policy, rng)
    estimate, inverse, beta = np.zeros(DIM), np.eye(DIM) / policy.radii.ridge[0], policy.radii.radius[0]
    regret, batch, batches = 0.0, [], 0
    for _ in range(PLAIN):
        index = arms @ estimate + beta * np.sqrt(np.einsum("kd,de,ke->k", arms, inverse, arms))
        action = int(np.argmax(index))
        x, y = arms[action], float(rng.random() < means[action])
        regret += means[0] - means[action]
        x, y = x / max(1.0, np.linalg.norm(x)), min(max(y, 0.0), 1.0)  # clipped before any statistic is formed
        batch.append(np.concatenate([x * y, np.outer(x, x).ravel()]))
        if len(batch) == policy.channel.sizes[batches]:
            sums = noise.release(sums, batch)
            batch, batches = [], batches + 1
            v = sums[DIM:].reshape(DIM, DIM) + policy.radii.ridge[batches] * np.eye(DIM)
            least = np.linalg.eigvalsh(v)[0]
            if least <= 0:  # noise made it indefinite
                v = v + (1e-3 - least) * np.eye(DIM)
            inverse, beta = np.linalg.inv(v), policy.radii.radius[batches]
            estimate = inverse @ sums[:DIM]
    return float(regret)


class PlainNoise:
    """The noise of every trust model for one seed: released running sums of d + d^2 numbers."""

    def __init__(self, policy: LinUCB, rng: np.random.Generator) -> None:
        self.rng, self.privacy, self.dim = rng, policy.privacy, DIM + DIM * DIM
        self.protocol = policy.channel.protocols[policy.channel.sizes[0]]
        if isinstance(self.protocol, CentralContinual) and isinstance(self.protocol.mechanism.factorisation, BLT):
            self.blt = self.protocol.mechanism.factorisation
            self.data, self.pulls = np.zeros((2, self.dim, self.blt.buffers))

    def release(self, sums: Floats, batch: list[Floats]) -> Floats:
        """Released sums with one more batch."""
        value, protocol = np.sum(batch, axis=0), self.protocol
        if isinstance(protocol, CentralContinual):
            noisy = value + self.data @ self.blt.weights + self.normal(protocol.mechanism.std)
            step = noisy - self.pulls @ self.blt.inverse_weights
            self.data = self.data * self.blt.theta + value[:, None]
            self.pulls = self.pulls * self.blt.theta_hat + noisy[:, None]
            return sums + step
        if isinstance(protocol, ShuffleBinomial):
            scaled = protocol.noise.scale * (np.array(batch) + 1)
            whole = np.floor(scaled)
            counts = np.sum(whole + (self.rng.random(scaled.shape) < scaled - whole), axis=0)
            flips = len(batch) * protocol.noise.trials
            counts = counts + self.rng.binomial(flips, 0.5, self.dim) - flips / 2
            return sums + counts / protocol.noise.scale - len(batch)
        std = protocol.std(len(batch)) if isinstance(protocol, BatchProtocol) else 0.0
        return sums + value + self.normal(std) if std else sums + value

    def normal(self, std: float) -> Floats:
        """Gaussian noise, that of the matrix symmetric."""
        noise = self.rng.normal(0.0, std, self.dim)
        matrix = noise[DIM:].reshape(DIM, DIM)
        noise[DIM:] = ((matrix + matrix.T) / 2).ravel()
        return noise


def fixed(name: str, privacy: Privacy, batch: int) -> Ratio:
    """Fixed arms: ours for all seeds beside the plain loop of as many."""
    policy = LinUCB(dim=DIM, horizon=ROUNDS, privacy=privacy, batch=batch, confidence="lemma")
    _ = policy.radii, policy.guarantee  # calibration is measured elsewhere
    env = LinearContextual(dim=DIM, n_arms=ARMS, fixed=True)
    ours = timed(lambda: simulate(policy, env, n_seeds=SEEDS))
    theirs = timed(lambda: plain_loop(policy)) * SEEDS * ROUNDS / PLAIN
    return Ratio(what=f"fixed, {name}", ours=ours, beside="plain loop", theirs=theirs, promise=theirs / 20)


def fresh() -> Ratio:
    """Fresh contexts: ours beside drawing contexts and rewards alone."""
    problem = Problem(
        name="LinUCB-SDP-Vec", world="fresh", rounds=ROUNDS, seeds=SEEDS, arms=ARMS, dim=DIM, options=BUDGET
    )
    theirs = drawing(problem, 3) * SEEDS * ROUNDS
    ours = seconds(problem, 3)
    return Ratio(what="fresh, shuffle", ours=ours, beside="drawing alone", theirs=theirs, promise=2.5 * theirs)


def measure() -> list[Ratio]:
    """Every variant of LinUCB with fixed arms, one with fresh contexts."""
    variants = {
        "no privacy": (none(), 1),
        "central": (central(**BUDGET), 1),
        "local": (local(**BUDGET), 1),
        "shuffled sums": (shuffle(**BUDGET), 20),
        "shuffled Gaussians": (shuffle(**BUDGET, protocol="gaussian"), 20),
    }
    return [*(fixed(name, privacy, batch) for name, (privacy, batch) in variants.items()), fresh()]
