"""What every factorisation of the prefix sums must state: its sensitivity, its error, and what it releases."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandanna.core import require
from bandanna.errors import InvalidArgument


@dataclass(frozen=True, kw_only=True)
class Factorisation(ABC):
    """A = B C with A the lower-triangular matrix of ones: all prefix sums of a stream of `horizon` elements.

    The mechanism releases y = C x + z, z_i ~ N(0, std^2), and estimates the prefix sums A x by B y, whose noise is B z.
    One element that changes by Delta in l2 moves C x by at most Delta `sensitivity()`, hence

        price mu = Delta sensitivity() / std,       std of the prefix at step t = std prefix_std(t),

    and at mu = 1, Delta = 1 the worst prefix has the standard deviation `unit_std()`.

    Adaptive streams. Every factorisation here is lower triangular in time: a released number depends on elements that
    have already arrived, and is noised once. For such matrices Gaussian noise has the same price when each element
    may be chosen after seeing the earlier releases (Denisov, McMahan, Rush, Smith, Thakurta: Improved Differential
    Privacy for SGD via Optimal Private Linear Operators on Adaptive Streams, 2022).

    Several participations. A user who changes M0 different elements, each by at most Delta, moves C x by at most
    Delta `sensitivity(M0)`, the largest norm of a sum of M0 different columns: no entry of a C here is negative, so
    moves into one direction are the worst (calibration.md C.1).
    """

    horizon: int
    name: ClassVar[str]

    def __post_init__(self) -> None:
        require.store(self, require.whole, "horizon")

    @abstractmethod
    def sensitivity(self, participations: int = 1) -> float:
        """Largest norm of a sum of so many different columns of C: how far as many elements that move by 1 move C x."""

    @abstractmethod
    def prefix_std(self, steps: ArrayLike) -> NDArray[np.float64]:
        """Row norms of B at the (1-based) steps: std of the prefix sums for unit noise on every released number."""

    @abstractmethod
    def releases(self, participations: int = 1) -> int:
        """How many released numbers (per coordinate) `participations` elements of the stream can touch."""

    @abstractmethod
    def total_releases(self) -> int:
        """How many numbers (per coordinate) are released over the whole horizon."""

    def error(self) -> float:
        """Largest row norm of B: std of the worst prefix for unit noise. Rows are nested here unless overridden."""
        return float(self.prefix_std(self.horizon))

    def unit_std(self) -> float:
        """Std of the worst prefix at price mu = 1 and element sensitivity 1."""
        return self.sensitivity() * self.error()

    def _steps(self, steps: ArrayLike) -> NDArray[np.int64]:
        """Steps as integers in 1..horizon, of any shape."""
        given: NDArray[Any] = np.asarray(steps)
        numeric = given.dtype.kind in "iuf"
        if not numeric or not np.all((given >= 1) & (given <= self.horizon) & (given == np.floor(given))):
            raise InvalidArgument("steps", steps, f"whole numbers from 1 to the horizon {self.horizon}")
        return given.astype(np.int64)
