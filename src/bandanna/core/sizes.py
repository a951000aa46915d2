"""Sizes of batches as runs: a million equal batches take the room of one, and their sums no time."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, groupby, repeat

import numpy as np
from numpy.typing import NDArray

from bandanna.storage.declared import stored_as


@stored_as("Sizes")
@dataclass(frozen=True)
class Sizes:
    """The sizes of batches 0, 1, ..., as `runs` of (size, how often); `len`, `[number]` and iteration as of a tuple."""

    runs: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, sizes: Iterable[int]) -> Sizes:
        """From sizes one by one."""
        return cls(tuple((size, sum(1 for _ in run)) for size, run in groupby(sizes)))

    @cached_property
    def _begins(self) -> tuple[list[int], list[int]]:
        """Batches and users before each run, and before its end."""
        times, users = (time for _, time in self.runs), (size * time for size, time in self.runs)
        return list(accumulate(times, initial=0)), list(accumulate(users, initial=0))

    def __len__(self) -> int:
        return self._begins[0][-1]

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(repeat(size, times) for size, times in self.runs)

    def __getitem__(self, number: int) -> int:
        if not 0 <= number < len(self):
            raise IndexError(number)
        return self.runs[bisect_right(self._begins[0], number) - 1][0]

    @property
    def users(self) -> int:
        """In all batches together."""
        return self._begins[1][-1]

    def before(self, number: int) -> int:
        """Users in the batches before this one; `number` may be the number of batches."""
        if number == len(self):
            return self.users
        run = bisect_right(self._begins[0], number) - 1
        return self._begins[1][run] + (number - self._begins[0][run]) * self.runs[run][0]

    def counts(self) -> Counter[int]:
        """How many batches there are of each size."""
        counts: Counter[int] = Counter()
        for size, times in self.runs:
            counts[size] += times
        return counts

    def each(self, values: Iterable[float]) -> NDArray[np.float64]:
        """One value for each run, as often as the run has batches."""
        return np.repeat(np.fromiter(values, np.float64, len(self.runs)), [times for _, times in self.runs])
