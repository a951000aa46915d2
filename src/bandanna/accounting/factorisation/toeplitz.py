"""The square root of the prefix-sum matrix: the yardstick that bounded memory is measured against."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandanna.accounting.factorisation.base import Factorisation
from bandanna.core import require
from bandanna.storage.declared import stored_as

_EXACT = 64  # terms summed one by one; beyond, the expansion's first omitted term is below 1e-17


def _sums_of_squares() -> NDArray[np.float64]:
    """S_t for t = 1.._EXACT, with f_0 = 1, f_k = f_{k-1} (1 - 1/(2k))."""
    ratios = 1 - 1 / (2 * np.arange(1, _EXACT))
    coefficients = np.concatenate([[1.0], np.cumprod(ratios)])
    return np.asarray(np.cumsum(coefficients**2))


@stored_as("SquareRootToeplitz")
@dataclass(frozen=True, kw_only=True)
class SquareRootToeplitz(Factorisation):
    """B = C = A^{1/2}: lower-triangular Toeplitz with C(x) = (1 - x)^{-1/2} = sum_k f_k x^k, f_k = binom(2k, k) / 4^k.

        sensitivity = error = sqrt(S_T),      prefix_std(t)^2 = S_t = sum_{k < t} f_k^2.

    S_t is Landau's constant G_{t-1}; for large t, with N = t - 1/4 and Euler's gamma,

        pi S_t = ln N + gamma + 4 ln 2 + 11/(192 N^2) - 1541/(122880 N^4) + 63433/(8257536 N^6) + O(N^-8).

    It has no sampler: streaming it needs the whole past, and a BLT of four buffers comes within 2 % for T <= 2^20.

    Reference: Fichtenberger, Henzinger, Upadhyay (2023).
    """

    name: ClassVar[str] = "toeplitz"

    def sensitivity(self, participations: int = 1) -> float:
        """The first column of C is its longest: column j holds f_0..f_{T-j}. Several add up at most."""
        return require.whole("participations", participations) * self.error()

    def prefix_std(self, steps: ArrayLike) -> NDArray[np.float64]:
        """sqrt(S_t): summed for small t, Landau's expansion beyond."""
        t = self._steps(steps)
        centre = t - 0.25  # N
        series = 11 / (192 * centre**2) - 1541 / (122880 * centre**4) + 63433 / (8257536 * centre**6)
        expansion = (np.log(centre) + np.euler_gamma + 4 * math.log(2) + series) / math.pi  # Landau's constants
        return np.asarray(np.sqrt(np.where(t > _EXACT, expansion, _sums_of_squares()[np.minimum(t, _EXACT) - 1])))

    def releases(self, participations: int = 1) -> int:
        """The first element touches every later release."""
        require.whole("participations", participations)
        return self.horizon

    def total_releases(self) -> int:
        """One number per step."""
        return self.horizon
