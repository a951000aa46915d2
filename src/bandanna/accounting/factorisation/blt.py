"""Buffered linear Toeplitz: nearly the noise of the square root, in the memory of a few running sums."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandanna.accounting.cache import remember
from bandanna.accounting.factorisation.base import Factorisation
from bandanna.accounting.factorisation.search import search
from bandanna.accounting.factorisation.series import columns_square, residues, row_square
from bandanna.core import require
from bandanna.errors import InvalidArgument
from bandanna.storage.declared import stored_as

_WORTHWHILE = 1e-4  # a further buffer is kept only if it lowers the unit std by at least this fraction
_BEGUN: ContextVar[Mapping[int, BLT] | None] = ContextVar("begun", default=None)  # by horizon


@stored_as("BLT")
@dataclass(frozen=True, kw_only=True)
class BLT(Factorisation):
    """C is lower-triangular Toeplitz with the rational generating function

        C(x) = prod_i (1 - theta_hat_i x) / prod_i (1 - theta_i x),   1 >= th_1 > thh_1 > th_2 > ... > thh_n >= 0.

    Interlacing makes all residues positive: c_0 = 1, c_k = sum_i w_i theta_i^{k-1} > 0, and B(x) = 1/((1-x) C(x)) has
    b_k = b_inf + sum_i u_i theta_hat_i^k > 0 (see `series`), so that both norms are finite sums of positive terms:

        sensitivity^2 = sum_{k < T} c_k^2,      prefix_std(t)^2 = sum_{k < t} b_k^2.

    Column j of C holds c_0..c_{T-j}: the first column has every term that another one has, and is the longest. Row t of
    B holds b_{t-1}..b_0: the last row is the longest. Both are evaluated in closed form by geometric series, so the
    cost does not depend on T. Without buffers C = I, and every element is noised by itself.

    Streaming: (C x)_t = x_t + sum_i w_i s_i, s_i <- theta_i s_i + x_t; C^{-1} the same with -w_hat_i and theta_hat_i.

    Adaptive streams: C is lower triangular, so the price holds for them too (Denisov et al. 2022; see Factorisation).

    References: Dvijotham, McMahan, Pillutla, Steinke, Thakurta, Efficient and Near-Optimal Noise Generation for
    Streaming Differential Privacy (2024). Deviation: parameters found by our own search for the worst prefix.
    """

    theta: tuple[float, ...]
    theta_hat: tuple[float, ...]
    name: ClassVar[str] = "blt"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "theta", tuple(float(value) for value in self.theta))
        object.__setattr__(self, "theta_hat", tuple(float(value) for value in self.theta_hat))
        if not interlaced(self.theta, self.theta_hat):
            allowed = "as many as theta_hat, interlaced: 1 >= theta_1 > theta_hat_1 > theta_2 > ... > theta_hat_n >= 0"
            raise InvalidArgument("theta, theta_hat", (self.theta, self.theta_hat), allowed)

    @classmethod
    def optimal(cls, *, horizon: int, buffers: int = 4) -> BLT:
        """The least unit_std() that the search finds with at most `buffers` buffers; remembered on disk.

        Never worse than with fewer buffers: one more is kept only if it helps, and the search ends when it does not.
        n buffers can match the first 2n + 1 coefficients of the square root, so more than T // 2 are not tried.
        What is remembered are parameters: sensitivity and error are computed anew from them. Inside of `begun` it is
        the one that was begun.
        """
        horizon, buffers = require.whole("horizon", horizon), require.whole("buffers", buffers)
        most = min(buffers, horizon // 2)

        def build(found: Mapping[str, Any]) -> BLT:
            return cls(horizon=horizon, theta=tuple(found["theta"]), theta_hat=tuple(found["theta_hat"]))

        def compute() -> dict[str, Any]:
            best = cls(horizon=horizon, theta=(), theta_hat=())
            for count in range(1, most + 1):
                theta, theta_hat = search(horizon, count)
                if not interlaced(theta, theta_hat):  # pragma: no cover - two poles met in floating point
                    break
                found = cls(horizon=horizon, theta=theta, theta_hat=theta_hat)
                if found.unit_std() > best.unit_std() * (1 - _WORTHWHILE):
                    break
                best = found
            return {"theta": list(best.theta), "theta_hat": list(best.theta_hat)}

        def valid(found: Mapping[str, Any]) -> bool:
            stored = build(found)
            return (
                stored.buffers <= most and stored.unit_std() <= cls(horizon=horizon, theta=(), theta_hat=()).unit_std()
            )

        started = (_BEGUN.get() or {}).get(horizon)
        if started is not None and started.buffers <= most:
            return started
        return build(remember("blt", {"horizon": horizon, "buffers": most}, compute, valid=valid))

    @property
    def buffers(self) -> int:
        """n, the running sums that a stream must keep (and as many for the estimate)."""
        return len(self.theta)

    @cached_property
    def _rates(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """1 - theta and 1 - theta_hat, exact for parameters above 1/2."""
        return 1 - np.asarray(self.theta), 1 - np.asarray(self.theta_hat)

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """w > 0 of C(x) = 1 + sum_i w_i x / (1 - theta_i x)."""
        rate, rate_hat = self._rates
        return residues(rate, rate_hat)

    @cached_property
    def inverse_weights(self) -> NDArray[np.float64]:
        """w_hat > 0 of 1/C(x) = 1 - sum_i w_hat_i x / (1 - theta_hat_i x)."""
        rate, rate_hat = self._rates
        return -residues(rate_hat, rate)

    def sensitivity(self, participations: int = 1) -> float:
        """Norm of C's first column, its longest; for several, of the sum of the first ones.

        c_0 >= c_1 >= ... (c_1 <= theta_1 by interlacing), so columns have the more in common the earlier they are and
        the closer together (calibration.md C.1).
        """
        count = min(require.whole("participations", participations), self.horizon)
        return math.sqrt(columns_square(*self._rates, self.horizon, count))

    def prefix_std(self, steps: ArrayLike) -> NDArray[np.float64]:
        """Norm of row t of B, in closed form."""
        return np.asarray(np.sqrt(row_square(*self._rates, self._steps(steps).astype(np.float64))))

    def releases(self, participations: int = 1) -> int:
        """The first element touches every later release."""
        require.whole("participations", participations)
        return self.horizon

    def total_releases(self) -> int:
        """One number per step."""
        return self.horizon


@contextmanager
def begun(factorisations: Iterable[BLT]) -> Iterator[None]:
    """Inside, `optimal` is one of these where one has the horizon.

    The search ends where its cost is flat, and its last digits depend on the processor. Half a stream of one
    factorisation and half of another has no price: whoever goes on with a stream, perhaps elsewhere, has its own.
    """
    token = _BEGUN.set({each.horizon: each for each in factorisations})
    try:
        yield
    finally:
        _BEGUN.reset(token)


def interlaced(theta: Sequence[float], theta_hat: Sequence[float]) -> bool:
    """1 >= theta_1 > theta_hat_1 > theta_2 > ... > theta_hat_n >= 0 (false for NaN, true for no buffers)."""
    if len(theta) != len(theta_hat):
        return False
    mixed = [value for pair in zip(theta, theta_hat, strict=True) for value in pair]
    inside = all(0 <= value <= 1 for value in mixed)
    return inside and all(upper > lower for upper, lower in pairwise(mixed))
