"""PrivUnit: a random direction that leans towards a vector; pure DP on the user's own device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from bandanna.accounting import caps
from bandanna.accounting.calibration.caps import best_cap
from bandanna.accounting.events import CapEvent
from bandanna.core.arrays import Floats
from bandanna.core.domain import Ball, Domain
from bandanna.device.caps import CAP_STEPS, Direction, units
from bandanna.device.noise import noise_source
from bandanna.errors import InvalidArgument, InvalidStatistic, Summary
from bandanna.mechanisms.base import Mechanism
from bandanna.mechanisms.sources import NoiseSource


@dataclass(frozen=True, kw_only=True)
class PrivUnit(Mechanism):
    """An unbiased estimate u/m of a vector w of the unit ball, u a unit vector.

        u0 = +-w/|w|, E u0 = w;     u uniform in the cap <u, u0> >= cosine with probability p, else outside of it
        E u = m u0,     E|u/m - w|^2 = 1/m^2 - |w|^2

    p is what `chance` and `candidates` make of it (`caps.share_inside`): a device draws N candidates, whatever its
    data, and sends the first on the wanted side (`device.caps`). Candidates are Gaussian vectors in whole steps: the
    mean is right to the share by which steps change the cap, some parts in 10^6 (`caps.masses`).

    Privacy: pure, p (1-q) / ((1-p) q) <= e^epsilon for a cap of mass q; steps are in the price (calibration.md D).
    References: Bhowmick, Duchi, Freudiger, Kapoor and Rogers 2018; Asi, Feldman and Talwar 2022 (the best cosine and p,
    and optimality). Ours: candidates of integers, a fixed number of them, and their price.
    """

    cosine: float
    chance: float
    candidates: int
    dim: int
    steps: int = CAP_STEPS

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("cosine", "chance", "candidates", "dim", "steps"):
            object.__setattr__(self, name, getattr(self.event, name))
        if not self.lean > 0:
            given = (self.cosine, self.chance, self.candidates)
            allowed = "a cap that is hit, two candidates or more, and a chance that favours it: messages must lean"
            raise InvalidArgument("cosine, chance, candidates", given, allowed)

    @classmethod
    def calibrate(cls, *, dim: int, epsilon: float) -> PrivUnit:
        """The least variance for a pure epsilon."""
        best = best_cap(dim=dim, epsilon=epsilon)
        return cls(cosine=best.cosine, chance=best.chance, candidates=best.candidates, dim=best.dim)

    @cached_property
    def event(self) -> CapEvent:
        """One direction."""
        return CapEvent(
            cosine=self.cosine, chance=self.chance, candidates=self.candidates, dim=self.dim, steps=self.steps
        )

    @cached_property
    def lean(self) -> float:
        """m = E<u, u0>."""
        return caps.lean(self.event)

    @property
    def variance(self) -> float:
        """1 / (m^2 dim): a bound on the mean over coordinates for every w, attained at w = 0."""
        return 1 / (self.lean**2 * self.dim)

    @property
    def most_variance(self) -> float:
        """E<u, u0>^2 / m^2: a bound in every direction, reached along w for |w| -> 0, where u0 is +-w/|w|."""
        return caps.square(self.event) / self.lean**2

    def device(self, domain: Domain) -> Direction:
        """What draws it with a user, of statistics in the ball around a domain."""
        return Direction(
            domain=domain,
            cosine=self.cosine,
            chance=self.chance,
            candidates=self.candidates,
            steps=self.steps,
        )

    def release(self, value: ArrayLike, source: NoiseSource) -> Floats:
        """Estimates of vectors of the unit ball, (..., dim) -> (..., dim)."""
        inside = self.reals(value)
        if inside.size and not np.max(np.sum(inside * inside, axis=-1)) <= 1 + 1e-9:
            raise InvalidStatistic("value", Summary("a vector longer than 1"), "vectors of the unit ball: clip before")
        device = self.device(Ball(dim=self.dim))
        sent = device.encode(inside.reshape(*inside.shape[:-1], 1, self.dim), noise_source(source))
        return np.asarray(units(sent[..., 0, :]) / self.lean)
