"""Users' values in their own shape and as rows of a domain, and what an error says about a wrong one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bandanna.core.arrays import Floats
from bandanna.core.domain import Ball, Box, Domain, Statistic, all_finite, reals
from bandanna.core.shapes import Bits, SymmetricMatrix
from bandanna.errors import InvalidStatistic, Summary


@dataclass(frozen=True, kw_only=True)
class Values:
    """What a counter sums: one value of `domain` for each user."""

    domain: Domain

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one value: () for bits and numbers, (dim,) for vectors, (size, size) for matrices."""
        if isinstance(self.domain, SymmetricMatrix):
            return self.domain.size, self.domain.size
        return () if isinstance(self.domain, Box) and self.domain.dim == 1 else (self.domain.dim,)

    @property
    def noun(self) -> str:
        """What a guarantee protects."""
        if isinstance(self.domain, Bits):
            return "bit"
        return ("number", "vector", "matrix")[len(self.shape)]

    @property
    def allowed(self) -> str:
        """One value, in words."""
        domain, size = self.domain, " x ".join(map(str, self.shape))
        if isinstance(domain, Bits):
            return "0 or 1"
        if isinstance(domain, SymmetricMatrix):
            return f"a symmetric {size} matrix of Frobenius norm at most {domain.bound:g}"
        if isinstance(domain, Ball):
            return f"a vector of {size} numbers with norm at most {domain.bound:g}"
        if isinstance(domain, Box):
            numbers = f"[{domain.low:g}, {domain.high:g}]"
            return f"a vector of {size} numbers in {numbers}" if self.shape else f"a number in {numbers}"
        return f"a point of {domain}"

    def one(self, value: ArrayLike) -> Statistic:
        """The value of a single user as a statistic of one row, (1, dim); refused if it is outside of the domain."""
        array = self._numbers("value", value)
        if array.shape != self.shape:
            raise InvalidStatistic("value", array, f"shape {self.shape}: {self.allowed}")
        return self._inside("value", array[None], alone=True)

    def streams(self, values: ArrayLike) -> Statistic:
        """Values (*R, users, *value) as rows of the domain, (*R, users, dim); refused if one is outside."""
        array = self._numbers("values", values)
        end = len(self.shape)
        if array.ndim <= end or array.shape[array.ndim - end :] != self.shape or array.shape[-end - 1] < 1:
            shape = ", ".join(("...", "users", *map(str, self.shape)))
            given = array
            raise InvalidStatistic("values", given, f"shape ({shape}), at least one user, each with {self.allowed}")
        return self._inside("values", array, alone=False)

    def shaped(self, rows: Floats) -> Any:
        """(..., dim) in the shape of values; a single number as a float."""
        if isinstance(self.domain, SymmetricMatrix):
            return self.domain.unpack(rows)
        if self.shape:
            return rows.copy()
        return float(rows[0]) if rows.ndim == 1 else rows[..., 0]

    def _numbers(self, name: str, values: ArrayLike) -> Floats:
        array = reals(name, values, self.allowed)
        if array.ndim:
            all_finite(name, array)
        elif not np.isfinite(array):
            raise InvalidStatistic(name, float(array), self.allowed)
        return array

    def _inside(self, name: str, values: Floats, *, alone: bool) -> Statistic:
        """Rows of the domain, or an error with the value that is farthest outside, and its place."""
        if isinstance(self.domain, SymmetricMatrix):
            turned = np.max(np.abs(values - np.swapaxes(values, -1, -2)), axis=(-2, -1))
            self._refuse(name, values, turned * (turned > 1e-9 * self.domain.bound), alone=alone)
            rows = self.domain.pack(values)
        else:
            rows = values if self.shape else values[..., None]
        statistic = self.domain.admit(rows)
        if np.any(statistic.clipped):
            self._refuse(name, values, np.max(np.abs(rows - statistic.values), axis=-1), alone=alone)
        return statistic

    def _refuse(self, name: str, values: Floats, distances: Floats, *, alone: bool) -> None:
        """Raise an error if a distance, (*R, users), is not 0."""
        if not np.any(distances):
            return
        place = np.unravel_index(int(np.argmax(distances)), distances.shape)
        where = "" if alone else f"[{', '.join(str(int(i)) for i in place)}]"
        raise InvalidStatistic(name + where, Summary("a value outside"), self.allowed)
