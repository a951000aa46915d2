"""The tree of batches: which users share a batch on which level, and which batches cover a prefix.

Level j = 1..k has batches of s_j = d_1 d_2 ... d_j consecutive users: d_1 = d_low users in the lowest ones, and d_{j+1}
batches of level j in one of level j + 1. The top level has as many complete batches as the horizon holds; the root of
the paper's tree, a batch of everybody, is not used. A batch that the horizon does not complete is never released.

Reference: Tenenbaum, Kaplan, Mansour and Stemmer 2023 [002], Algorithms 2 and 3.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from operator import mul

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandanna.core import require
from bandanna.errors import InvalidArgument
from bandanna.storage.declared import stored_as


@stored_as("BatchTree")
@dataclass(frozen=True, kw_only=True)
class BatchTree:
    """Batches over `horizon` users with `degrees` (d_low, d_2, ..., d_k), one level for each shuffler."""

    horizon: int
    degrees: tuple[int, ...]

    def __post_init__(self) -> None:
        require.store(self, require.whole, "horizon", least=2)
        degrees = tuple(require.whole("degrees", degree, least=2) for degree in self.degrees)
        object.__setattr__(self, "degrees", degrees)
        if not degrees or math.prod(degrees) > self.horizon:
            allowed = f"at least one, with a product of at most the horizon {self.horizon}: a batch must fill"
            raise InvalidArgument("degrees", degrees, allowed)

    @property
    def levels(self) -> int:
        """k: as many as shufflers."""
        return len(self.degrees)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """s_1, ..., s_k: users in a batch of each level."""
        return tuple(accumulate(self.degrees, mul))

    @cached_property
    def batches(self) -> tuple[int, ...]:
        """Complete batches of each level."""
        return tuple(self.horizon // size for size in self.sizes)

    @property
    def delay(self) -> int:
        """d_low - 1: most users who have arrived and are in no released batch."""
        return self.degrees[0] - 1

    def covering(self, steps: ArrayLike) -> NDArray[np.int64]:
        """V*_t by levels: how many batches of each level the prefixes of `steps` users add up, (...) -> (..., k).

        The maximal complete batches are the digits of t in the mixed radix of the tree; the top digit is not bounded.
        """
        sizes, above = self._radix
        return np.asarray(np.asarray(steps, dtype=np.int64)[..., None] % above // sizes)

    @cached_property
    def _radix(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Users of a batch of each level, and of one above it; above the top, beyond every step."""
        sizes = np.asarray(self.sizes)
        return sizes, np.append(sizes[1:], self.horizon + sizes[-1])

    @cached_property
    def worst_steps(self) -> NDArray[np.int64]:
        """Prefixes of which one has the largest variance, whatever the variances of the levels are.

        The horizon itself, or the horizon with one digit lowered by one and all lower digits at their largest.
        """
        steps = [self.horizon]
        for size in self.sizes:
            lowered = self.horizon // size * size - 1
            steps.append(lowered)
        return np.asarray([step for step in steps if step >= self.sizes[0]])

    def spans(self) -> Iterator[tuple[int, int, int]]:
        """Every released batch as (level, first user, last user), counted from 1, in the order of their release."""
        for t in range(self.sizes[0], self.horizon + 1, self.sizes[0]):
            for level, size in enumerate(self.sizes, start=1):
                if t % size == 0:
                    yield level, t - size + 1, t
