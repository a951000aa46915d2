"""Reports for off-policy evaluation: importance-weighted rewards and doubly robust corrections."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from bandanna import validation
from bandanna.device.domain import Domain, Statistic, check_all_finite, check_domain_size
from bandanna.errors import InvalidArgument, InvalidStatistic, ValueSummary
from bandanna.storage.encoding import stored_as
from bandanna.types import Floats, Ints

_PLAIN = (1.0, 0.0, 0.0, 0.0)  # of w, w^2 rho^2, w^2 rho, w^2 beside w rho
_MOMENTS = (math.sqrt(0.55125), math.sqrt(1.9), 0.2, math.sqrt(0.11))  # fill 1.04 = 1 + 0.2^2 (proofs.md E.2)
_CORNER = (0.5, 1.0, 0.25, 0.5, 1.0)  # of w = M, rho = 1/2, for M = 1
_MOST_TARGETS = 10_000


@stored_as("Weights")
@dataclass(frozen=True, kw_only=True)
class ImportanceWeightDomain(Domain):
    """(w rho, w) for each of `targets` policies, w in [0, `bound`], |rho| <= 1/2: sensitivity sqrt(5)/2 `bound`.

    The weight is w = min(pi / p, M) for a target's probability pi and the logged probability p of the arm. A reward
    r in [0, 1] gives rho = r - 1/2.

    `moments` adds w^2 rho^2, w^2 rho and w^2 for variances, with factors that keep the diameter at sqrt(1.04) M
    (proofs.md E). `exclusive`: a user has a weight for at most one target.

    Parameters
    ----------
    bound
        Public bound M of weights; larger weights are clipped, and noise grows with M.
    targets
        Number of policies, at most 10,000.
    moments, exclusive
        As above; both are public and change the sensitivity.
    dim
        Derived.
    """

    dim: int = 0  # derived
    bound: float = field(kw_only=False)
    targets: int = 1
    moments: bool = False
    exclusive: bool = False

    def __post_init__(self) -> None:
        validation.set_validated(self, check_domain_size, "bound")
        validation.set_validated(self, validation.integer, "targets", most=_MOST_TARGETS)
        validation.set_validated(self, validation.boolean, "moments", "exclusive")
        object.__setattr__(self, "dim", self.targets * self._each)
        super().__post_init__()

    @property
    def _each(self) -> int:
        return 5 if self.moments else 2

    @cached_property
    def scales(self) -> tuple[float, ...]:
        weight, square, cross, weights = _MOMENTS if self.moments else _PLAIN
        less = math.sqrt(3) if self.exclusive and self.targets > 1 and self.moments else 1.0
        return (1.0, weight / less, square / less, cross, weights / less)[: self._each]

    def _corner(self) -> tuple[float, float]:
        """Squares of the distances between the corners w = M, rho = +-1/2, and from each of them to 0; for M = 1."""
        (_, weight, square, cross, weights) = (*self.scales, 0.0, 0.0, 0.0)[:5]
        return 1 + cross**2, 1 / 4 + weight**2 + square**2 / 16 + cross**2 / 4 + weights**2

    @property
    def sensitivity(self) -> float:
        """Largest distance of two corners over all targets, or over one or two exclusive ones (proofs.md E)."""
        apart, norm = self._corner()
        one = max(apart, norm)
        if self.exclusive:
            return self.bound * math.sqrt(max(one, 2 * norm) if self.targets > 1 else one)
        return self.bound * math.sqrt(self.targets * one)

    @property
    def l1_sensitivity(self) -> float:
        """Distance of a corner to 0 over all targets; for exclusive ones, between two corners."""
        several = min(self.targets, 2) if self.exclusive else self.targets
        return several * self.bound * float(np.dot(self.scales, _CORNER[: self._each]))

    @cached_property
    def lower(self) -> Floats:
        return self._ends((-0.5, 0.0, 0.0, -0.5, 0.0))

    @cached_property
    def upper(self) -> Floats:
        return self._ends(_CORNER)

    def _ends(self, of_each: tuple[float, ...]) -> Floats:
        ends = np.tile(self.bound * np.multiply(of_each[: self._each], self.scales), self.targets)
        ends.setflags(write=False)  # cached
        return ends

    @property
    def ball(self) -> tuple[Floats, float]:
        """The ball through the corners of a single target; around 0 for exclusive ones; else the one around the box."""
        norm = self._corner()[1]
        if self.targets == 1:
            middle = self.upper * np.array([0.0, 1.0, 1.0, 0.0, 1.0])[: self._each]  # of the corners that are not 0
            square = float(middle @ middle)
            return middle * (self.bound**2 * norm / (2 * square)), self.bound**2 * norm / (2 * math.sqrt(square))
        if self.exclusive:
            return np.zeros(self.dim), self.bound * math.sqrt(norm)
        return super().ball

    def pack(self, weights: Floats, rho: Floats) -> Floats:
        """Pack weights (..., targets) in [0, M] and centred rewards of the same shape -> (..., dim)."""
        value = weights * rho
        parts = [value, weights]
        if self.moments:
            parts += [value * value / self.bound, value * weights / self.bound, weights * weights / self.bound]
        stacked = np.stack(parts, axis=-1) * np.array(self.scales)  # (..., targets, each)
        return np.asarray(stacked.reshape(*weights.shape[:-1], self.dim))

    def unpack(self, total: Floats) -> Floats:
        """Return sums of w rho, w, and with moments w^2 rho^2, w^2 rho, w^2: (..., dim) -> (..., targets, 2 or 5)."""
        parts = np.reshape(total, (*np.shape(total)[:-1], self.targets, self._each))
        return np.asarray(parts * self.units)

    @property
    def units(self) -> Floats:
        """Factors that turn coordinates into sums, (2 or 5,); noise is multiplied by them too."""
        powers = np.array([1.0, 1.0, self.bound, self.bound, self.bound])[: self._each]
        return np.asarray(powers / np.array(self.scales))

    def project(self, values: Floats) -> Floats:
        """Read w and rho off the first two numbers of a target, clip them, and form the rest anew.

        If targets are exclusive, only the one with the largest weight stays.
        """
        parts = np.reshape(values, (*np.shape(values)[:-1], self.targets, self._each))
        weights = np.clip(parts[..., 1] / self.scales[1], 0.0, self.bound)
        if self.exclusive and self.targets > 1:
            largest = np.argmax(weights, axis=-1)[..., None] == np.arange(self.targets)
            weights = np.where(largest, weights, 0.0)
        half = weights / 2
        value = np.clip(parts[..., 0], -half, half)
        rho = np.divide(value, weights, out=np.zeros_like(value), where=weights > 0)
        return self.pack(weights, rho)

    def statistic(self, weights: Floats, rewards: Floats) -> Statistic:
        """Return the report of weights (users, targets) and rewards (users,) in [0, 1].

        Weights are cut to `bound` by definition: `clipped` counts rewards outside, and negative weights.
        """
        weights, rewards = np.asarray(weights, dtype=float), np.asarray(rewards, dtype=float)
        if weights.shape != (*rewards.shape, self.targets) or rewards.ndim != 1:
            shape = ValueSummary(f"{weights.shape} and {rewards.shape}")
            raise InvalidStatistic("weights, rewards", shape, f"(users, {self.targets}) and (users,)")
        check_all_finite("weights", weights)
        check_all_finite("rewards", rewards)
        inside = np.clip(rewards, 0.0, 1.0)
        cut = np.clip(weights, 0.0, self.bound)
        if self.exclusive and np.any(np.count_nonzero(cut, axis=-1) > 1):
            raise InvalidStatistic(
                "weights", ValueSummary("several in one row"), "positive for at most one exclusive target"
            )
        moved = np.any(weights < 0, axis=-1) | (np.abs(inside - rewards) > 1e-9)
        values = self.pack(cut, np.broadcast_to(inside[:, None] - 0.5, cut.shape))
        clipped: Ints = np.asarray(np.count_nonzero(moved), dtype=np.int64)
        return self.sealed(values, clipped=clipped)


@stored_as("Corrections")
@dataclass(frozen=True, kw_only=True)
class DoublyRobustDomain(Domain):
    """A user's part of a doubly robust estimate: d = g - 1/2 + w (r - q), its weight, and its square (proofs.md E.4).

    A model q predicts rewards, g is its mean under the target, r is the logged reward. With w in [0, M], M the `bound`,
    and g and q within `spread` h of 1/2, |d| <= h + w (1/2 + h) <= R, and

        (d, (R/M) w, d^2 / (sqrt 2 R))

    has the diameter 2 R = 2 h + M (1 + 2 h), or a little more if M is small. `bound` = 0 is the direct method
    (d, d^2 / (sqrt 2 R)), |d| <= R = h.
    """

    dim: int = 0  # derived
    bound: float
    spread: float = 0.5

    def __post_init__(self) -> None:
        if self.bound != 0:
            validation.set_validated(self, check_domain_size, "bound")
        object.__setattr__(self, "spread", validation.unit_interval("spread", self.spread))
        if self.spread > 0.5 or (self.bound == 0 and self.spread == 0):
            raise InvalidArgument("spread", self.spread, "a number in [0, 1/2], above 0 where there are no weights")
        object.__setattr__(self, "dim", 3 if self.bound else 2)
        super().__post_init__()

    @property
    def largest(self) -> float:
        return self.spread + self.bound * (0.5 + self.spread)

    @property
    def sensitivity(self) -> float:
        """Distance between the corners (d, w) = (+-R, M), or between one of them and (-+h, 0)."""
        y = self.spread / self.largest
        across = (1 + y) ** 2 + (1 - y * y) ** 2 / 2 + 1
        return self.largest * (math.sqrt(max(4.0, across)) if self.bound else 2.0)

    @property
    def l1_sensitivity(self) -> float:
        """An upper bound: all ranges, or sqrt(dim) times the l2 diameter."""
        return min(float(np.sum(self.upper - self.lower)), math.sqrt(self.dim) * self.sensitivity)

    @cached_property
    def lower(self) -> Floats:
        return self._ends(-1.0, 0.0, 0.0)

    @cached_property
    def upper(self) -> Floats:
        return self._ends(1.0, 1.0, math.sqrt(0.5))

    def _ends(self, correction: float, weight: float, square: float) -> Floats:
        parts = [correction, weight, square] if self.bound else [correction, square]
        ends = self.largest * np.array(parts)
        ends.setflags(write=False)  # cached
        return ends

    def pack(self, corrections: Floats, weights: Floats) -> Floats:
        square = corrections * corrections / (math.sqrt(2) * self.largest)
        if not self.bound:
            return np.stack([corrections, square], axis=-1)
        return np.stack([corrections, weights * (self.largest / self.bound), square], axis=-1)

    def unpack(self, total: Floats) -> Floats:
        units = self.units
        if self.bound:
            return np.asarray(total * units)
        return np.stack([total[..., 0], np.zeros_like(total[..., 0]), total[..., 1] * units[2]], axis=-1)

    @property
    def units(self) -> Floats:
        return np.array([1.0, self.bound / self.largest, math.sqrt(2) * self.largest])

    def project(self, values: Floats) -> Floats:
        weights = np.clip(values[..., 1] * (self.bound / self.largest), 0.0, self.bound) if self.bound else 0.0
        most = self.spread + weights * (0.5 + self.spread)
        return self.pack(np.clip(values[..., 0], -most, most), np.broadcast_to(weights, values.shape[:-1]))

    def statistic(self, corrections: Floats, weights: Floats) -> Statistic:
        """Return the clipped report of corrections and weights, (users,)."""
        check_all_finite("corrections", corrections)
        check_all_finite("weights", weights)
        cut = np.clip(weights, 0.0, self.bound)
        most = self.spread + cut * (0.5 + self.spread)
        inside = np.clip(corrections, -most, most)
        moved = (np.abs(inside - corrections) > 1e-9) | (np.abs(cut - weights) > 1e-9)
        return self.sealed(self.pack(inside, cut), clipped=np.asarray(np.count_nonzero(moved), dtype=np.int64))
