"""Faults that privacy software has really had, each with the claim that it made: every one of them must be refuted.

Mechanisms and protocols here state the right price for noise that they do not draw, or draw the right noise and use it
wrongly. None of them is reachable from the rest of the library.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandanna.accounting import gdp
from bandanna.accounting.budgets import ApproxDP
from bandanna.audit.claims import Claim
from bandanna.audit.gallery.floats import float_laplace
from bandanna.audit.gallery.papers import amplified, optimiser, printed_local, reused_tree
from bandanna.audit.gallery.partial import (
    FailsForSome,
    FixedSeed,
    LongForSome,
    LongInTheMiddle,
    RawVariance,
    of_batches,
    served,
)
from bandanna.audit.gallery.refits import printed_refits
from bandanna.audit.mechanisms import of_mechanism
from bandanna.audit.neighbours import farthest
from bandanna.audit.protocols import of_protocol
from bandanna.audit.targets import Target
from bandanna.core.arrays import Floats
from bandanna.core.domain import Ball
from bandanna.mechanisms.gaussian import Gaussian
from bandanna.mechanisms.sources import FastNoise, NoiseSource
from bandanna.protocols.central_gaussian import CentralGaussian

BUDGET = ApproxDP(epsilon=4.0, delta=1e-3)
_USERS = 5


@dataclass(frozen=True, kw_only=True)
class TooQuiet(Gaussian):
    """Draws `share` of the noise that it states."""

    share: float = 1.0

    def release(self, value: ArrayLike, source: NoiseSource, *, rest: ArrayLike = 0.0) -> NDArray[np.float64]:
        """With too little noise: what was drawn is right, and then it is scaled."""
        exact = self.reals(value)
        return np.asarray(exact + self.share * (super().release(value, source, rest=rest) - exact))


@dataclass(frozen=True, kw_only=True)
class AddOrRemove(Ball):
    """A ball whose sensitivity is its radius: right if somebody is left out, wrong if somebody is replaced."""

    @property
    def sensitivity(self) -> float:
        """Half of the truth."""
        return self.bound


def too_quiet(share: float) -> Target:
    """Less noise than is stated."""
    mechanism = TooQuiet(std=1 / BUDGET.mu(), sensitivity=1.0, share=share)
    return of_mechanism(mechanism, epsilon=BUDGET.epsilon, delta=BUDGET.delta)


def forgotten_factor() -> Target:
    """A sensitivity without its factor 2."""
    protocol = CentralGaussian.calibrate(domain=AddOrRemove(dim=2), budget=BUDGET)
    honest = replace(protocol, domain=Ball(dim=2))  # the same noise, with what neighbours really are
    return of_protocol(honest, epsilon=BUDGET.epsilon, delta=BUDGET.delta)


def _sums() -> tuple[CentralGaussian, Floats]:
    """A protocol that keeps the budget, and the sums of a batch under both neighbours, (2, dim)."""
    protocol = CentralGaussian.calibrate(domain=Ball(dim=2), budget=BUDGET)
    return protocol, farthest(protocol.domain)


def reused_draw() -> Target:
    """Two batches with one draw: what they have in common goes away when they are subtracted."""
    protocol, sums = _sums()

    def draw(swapped: bool, runs: int, rng: np.random.Generator) -> Floats:
        noise = rng.normal(0.0, protocol.noise_std, (runs, 2))
        return np.concatenate([sums[int(swapped)] + noise, noise], axis=-1)  # the second batch has nobody in it

    return _target(draw)


def renoised_batch() -> Target:
    """A batch that was released, and once more with fresh noise: after a crash, or for a second reader."""
    protocol, sums = _sums()

    def draw(swapped: bool, runs: int, rng: np.random.Generator) -> Floats:
        value = np.broadcast_to(sums[int(swapped)], (runs, 2))
        twice = [protocol.mechanism.release(value, FastNoise(rng)) for _ in range(2)]
        return np.concatenate(twice, axis=-1)

    return _target(draw)


def closed_by_answers() -> Target:
    """A batch that ends when enough people have answered: how many slots it took tells who did not."""
    protocol, sums = _sums()

    def draw(swapped: bool, runs: int, rng: np.random.Generator) -> Floats:
        # the others answer with probability 0.9; the person does, or has nothing to say
        others = rng.random((runs, 4 * _USERS)) < 0.9
        others[:, 0] = not swapped
        slots = np.argmax(np.cumsum(others, axis=1) >= _USERS, axis=1) + 1.0  # public: the batch's length
        value = np.broadcast_to(sums[0] * (not swapped), (runs, 2))
        return np.column_stack([protocol.mechanism.release(value, FastNoise(rng)), slots])

    return _target(draw)


def _target(draw: Callable[[bool, int, np.random.Generator], Floats]) -> Target:
    claim = Claim(epsilon=BUDGET.epsilon, delta=BUDGET.delta, mu=gdp.mu(BUDGET.epsilon, BUDGET.delta))
    return Target(name="", claim=claim, draw=draw)


BAD: dict[str, Callable[[], Target]] = {
    "half the noise": lambda: too_quiet(0.5),
    "20 % less noise": lambda: too_quiet(0.8),
    "a forgotten factor 2": forgotten_factor,
    "a reused draw": reused_draw,
    "a re-noised batch": renoised_batch,
    "a batch closed by who answered": closed_by_answers,
    "the printed refit rule of GLM-JDP": printed_refits,
    "paper 000, LDP, epsilon 1": lambda: printed_local(1.0),
    "paper 000, LDP, epsilon 10": lambda: printed_local(10.0),
    "paper 000, JDP, epsilon 1": lambda: reused_tree(1.0),
    "paper 000, JDP, epsilon 10": lambda: reused_tree(10.0),
    "paper 000, Amp, epsilon 1": lambda: amplified(1.0),
    "paper 000, Amp, epsilon 10": lambda: amplified(10.0),
    "paper 003, the optimiser's noise": optimiser,
    "floating-point Laplace": float_laplace,
    "the raw sum in another field": lambda: served(RawVariance),
    "noise with a fixed seed": lambda: served(FixedSeed),
    "long rows, less noise later": lambda: of_batches(LongInTheMiddle),
    "long reports for some rewards": lambda: of_batches(LongForSome),
    "an error for some rewards": lambda: of_batches(FailsForSome),
}
