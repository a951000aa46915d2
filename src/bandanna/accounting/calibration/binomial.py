"""Least binomial noise for a private vector sum in the shuffle model (calibration.md A.4).

Statistics are encoded on a lattice of `scale` steps per unit, and every user adds Bin(b, 1/2) to each coordinate, so
a batch of B users carries Bin(B b, 1/2): std sqrt(B b) / (2 s), plus at most sqrt(B) / (2 s) of rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from bandanna.accounting import accountant, cache, events
from bandanna.accounting.budgets import ApproxDP, Budget
from bandanna.accounting.calibration.gaussian import finite_mu
from bandanna.core import require, search
from bandanna.errors import CalibrationError, InvalidBudget
from bandanna.storage.declared import stored_as

_OVERHEAD = 1.02  # how far above the central Gaussian a lattice may end before a finer one is tried


@stored_as("BinomialNoise")
@dataclass(frozen=True, kw_only=True)
class BinomialNoise:
    """Encoding and noise of one batch: `scale` s lattice steps per unit, `trials` b fair (or p-) coins per user."""

    scale: float
    trials: int
    users: int
    probability: float = 0.5

    def __post_init__(self) -> None:
        require.store(self, require.positive, "scale")
        require.store(self, require.whole, "trials", "users")
        require.store(self, require.chance, "probability")

    def for_users(self, users: int) -> BinomialNoise:
        """What every user does stays the same in a batch of so many."""
        return self if users == self.users else replace(self, users=users)

    def std(self) -> float:
        """Standard deviation of a coordinate of the batch sum: sqrt(B b p (1-p) + B/4) / s, rounding included."""
        noise = self.users * self.trials * self.probability * (1 - self.probability)
        return math.sqrt(noise + self.users / 4) / self.scale

    def event(self, *, sensitivity: float, reach: float, dim: int) -> events.BinomialEvent:
        """What the analyzer sees: totals with Bin(B b, p) noise."""
        return self._view(self.users, sensitivity, reach, dim)

    def local_event(self, *, sensitivity: float, reach: float, dim: int) -> events.BinomialEvent:
        """What the shuffler sees of one user: counts with Bin(b, p) noise only."""
        return self._view(1, sensitivity, reach, dim)

    def _view(self, users: int, sensitivity: float, reach: float, dim: int) -> events.BinomialEvent:
        return events.BinomialEvent(
            trials=users * self.trials,
            shift=self.scale * sensitivity,
            reach=math.ceil(self.scale * reach),
            dim=dim,
            probability=self.probability,
        )


def binomial_noise(
    *, sensitivity: float, reach: float, dim: int, users: int, budget: Budget, participations: int = 1
) -> BinomialNoise:
    """Least noise for a batch of `users`, a user being in at most `participations` batches of this size.

    `sensitivity` is the l2 diameter of the domain, `reach` its largest coordinate range. The first lattice is that of
    A.4; it is refined until the sum's std is within 2 % of the central Gaussian's.
    """
    if not isinstance(budget, ApproxDP):
        raise InvalidBudget("budget", budget, "ApproxDP(epsilon, delta): binomial noise has bounded support")
    sensitivity, reach = require.positive("sensitivity", sensitivity), require.positive("reach", reach)
    dim, users = require.whole("dim", dim), require.whole("batch", users, least=2)
    participations = require.whole("participations", participations)
    central = sensitivity * math.sqrt(participations) / finite_mu(budget)

    def search_lattices() -> dict[str, float]:
        for scale in _scales(sensitivity, dim, users, central, composed=participations > 1):
            noise = _least_trials(scale, central, sensitivity, reach, dim, users, budget, participations)
            if noise is not None:
                return {"scale": noise.scale, "trials": noise.trials}
        raise CalibrationError(f"no binomial noise within 2 % of the central mechanism meets {budget}, batch {users}")

    key = {
        "sensitivity": sensitivity,
        "reach": reach,
        "dim": dim,
        "users": users,
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "participations": participations,
    }

    def build(found: Mapping[str, float]) -> BinomialNoise:
        return BinomialNoise(scale=found["scale"], trials=require.whole("trials", found["trials"]), users=users)

    def meets(found: Mapping[str, float]) -> bool:
        """A file is never trusted with a promise, nor with more noise than a search would find."""
        noise = build(found)
        near = noise.std() <= 1.01 * _OVERHEAD * central
        return near and _meets(noise, sensitivity, reach, dim, budget, participations)

    return build(cache.remember("binomial", key, search_lattices, valid=meets))


def _scales(sensitivity: float, dim: int, users: int, central: float, *, composed: bool) -> Iterator[float]:
    """Lattices to try, coarsest first. A composed price pays for the spread of the rounding: it starts finer."""
    first = max(5 * math.sqrt(dim) / sensitivity, 5 * math.sqrt(users) / central, math.sqrt(375) / central)
    if composed:
        first = max(first, 240 / sensitivity)
    for step in range(24):
        yield float(math.ceil(first * 1.5**step))


def _least_trials(
    scale: float,
    central: float,
    sensitivity: float,
    reach: float,
    dim: int,
    users: int,
    budget: ApproxDP,
    participations: int,
) -> BinomialNoise | None:
    """Least b on this lattice, or None where even a std of 1.02 times the central one is not enough."""
    most = int(((_OVERHEAD * central * scale) ** 2 - users / 4) * 4 / users)
    unit = max(1, most // 4000)  # a step of 1/4000 in b is 0.0125 % in std

    def meets(units: int) -> bool:
        noise = BinomialNoise(scale=scale, trials=units * unit, users=users)
        return _meets(noise, sensitivity, reach, dim, budget, participations)

    if most < 1 or not meets(most // unit):
        return None
    guess = 4 * ((scale * sensitivity) ** 2 + dim / 4) * participations / (users * finite_mu(budget) ** 2)
    units = search.least_whole(meets, math.ceil(guess / unit), most=most // unit)
    return None if units is None else BinomialNoise(scale=scale, trials=units * unit, users=users)


def _meets(
    noise: BinomialNoise, sensitivity: float, reach: float, dim: int, budget: ApproxDP, participations: int
) -> bool:
    one = noise.event(sensitivity=sensitivity, reach=reach, dim=dim)
    return accountant.satisfies(events.RepetitionEvent(event=one, times=participations), budget)


def noise_of_std(std: float, *, sensitivity: float, dim: int, users: int, composed: bool) -> BinomialNoise:
    """The first lattice of A.4 on which some coins give the batch sum the std, rounding included, within 0.1 %."""
    for scale in _scales(sensitivity, dim, users, std, composed=composed):
        trials = math.floor(((std * scale) ** 2 - users / 4) * 4 / users)
        if trials >= 50:  # fewer coins than that are not near the Gaussian of their std
            noise = BinomialNoise(scale=scale, trials=trials, users=users)
            if noise.std() > (1 - 1e-3) * std:
                return noise
    raise CalibrationError(f"no lattice gives a batch of {users} a standard deviation of {std:.3g}")
