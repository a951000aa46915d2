"""A batch that arrives in parts, each forgotten when the next one comes: memory for some users, not for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.core.domain import Domain, Statistic
from bandanna.errors import InvalidStatistic, Summary


class Arriving(Statistic):
    """Statistics of `users` users, from an iterable of statistics of some of them each; it can be read once.

    For simulations along `path="law"`, which need sums only. `clipped` counts what was read so far. Every part is
    checked by the domain as it comes. Whoever asks for all rows at once gets them, and pays for them.
    """

    def __init__(self, domain: Domain, *, users: int, source: Iterable[Statistic], replicates: tuple[int, ...]) -> None:
        clipped = np.zeros(replicates, dtype=np.int64)
        for name, value in {"domain": domain, "clipped": clipped, "counts": None, "seal": None}.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_expected", users)
        object.__setattr__(self, "_source", iter(source))

    _expected: int
    _source: Iterator[Statistic]

    @property
    def sealed(self) -> bool:
        """Every part is checked when it comes."""
        return True

    @property
    def users(self) -> int:
        """As announced; `parts` holds it to that."""
        return self._expected

    @property
    def values(self) -> Floats:
        """All rows at once."""
        return self.rows()

    def rows(self) -> Floats:
        """All rows at once, (..., users, dim)."""
        return np.concatenate([part.rows() for part in self.parts()], axis=-2)

    def total(self) -> Floats:
        """The sum, added up part by part: exact up to rounding, which is enough for simulations."""
        return np.asarray(sum(part.total() for part in self.parts()))

    def parts(self) -> Iterator[Statistic]:
        """The parts, as they come."""
        seen = 0
        for part in self._source:
            checked = self.domain.readmit(part)
            np.add(self.clipped, checked.clipped, out=self.clipped)
            seen += checked.users
            yield checked
        if seen != self._expected:
            raise InvalidStatistic("users", Summary(seen), f"{self._expected} users, read once")
