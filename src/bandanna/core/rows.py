"""A user's data as one row: the features of the arm that was given, the reward, and the group that keeps the row."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.core.domain import Domain, Statistic, all_finite, clip_norm
from bandanna.storage.declared import stored_as


@stored_as("Rows")
@dataclass(frozen=True, kw_only=True)
class Rows(Domain):
    """(x, r, g) with |x| <= 1 in `size` coordinates, r in [0, `reward_bound`] and g in 0, ..., `groups` - 1."""

    dim: int = 0  # derived from `size`
    size: int
    reward_bound: float
    groups: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", require.whole("size", self.size) + 2)
        super().__post_init__()
        require.positive("reward_bound", self.reward_bound)
        require.whole("groups", self.groups)

    @property
    def sensitivity(self) -> float:
        """Opposite features, the ends of the other two."""
        return math.hypot(2.0, self.reward_bound, self.groups - 1)

    @property
    def l1_sensitivity(self) -> float:
        """2 sqrt(size) for the features."""
        return 2 * math.sqrt(self.size) + self.reward_bound + self.groups - 1

    @property
    def lower(self) -> Floats:
        """-1 for features, 0 for reward and group."""
        return np.concatenate([np.full(self.size, -1.0), np.zeros(2)])

    @property
    def upper(self) -> Floats:
        """1 for features, then the largest reward and group."""
        return np.concatenate([np.ones(self.size), [self.reward_bound, self.groups - 1.0]])

    def project(self, values: Floats) -> Floats:
        """Features by their norm, the reward by its range, the group to the nearest."""
        x, r, g = self.parts(values)
        group = np.rint(np.clip(g, 0, self.groups - 1))
        return np.concatenate([clip_norm(x, 1.0), np.clip(r, 0.0, self.reward_bound)[..., None], group[..., None]], -1)

    def parts(self, values: Floats) -> tuple[Floats, Floats, Floats]:
        """Features (..., size), rewards (...) and groups (...)."""
        return np.ascontiguousarray(values[..., : self.size]), values[..., self.size], values[..., self.size + 1]

    def statistic(self, features: Floats, rewards: Floats, groups: NDArray[np.int64] | None = None) -> Statistic:
        """Rows of features (..., users, size) and rewards (..., users), clipped and counted; group 0 unless said."""
        values = np.zeros((*rewards.shape, self.dim))
        values[..., : self.size], values[..., self.size] = features, rewards
        if groups is not None:
            values[..., self.size + 1] = groups
        within = rewards.min() >= 0 and rewards.max() <= self.reward_bound
        if within and np.einsum("...i,...i->...", features, features).max() <= 1:  # the usual case: nothing to clip
            return self.sealed(values, clipped=np.zeros(rewards.shape[:-1], dtype=np.int64))
        all_finite("features", features)
        all_finite("rewards", rewards)
        inside = self.project(values)
        moved = np.abs(inside - values) > 1e-9
        clipped = np.any(moved[..., : self.size], axis=-1) * 1 + moved[..., self.size]
        return self.sealed(inside, clipped=np.sum(clipped, axis=-1, dtype=np.int64))
