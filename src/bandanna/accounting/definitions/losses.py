"""The exact privacy of a mechanism that is given by its laws on a few datasets: delta, epsilon, Renyi, rho.

    delta(epsilon) = max_{d ~ d'} sum_o (P_d(o) - e^epsilon P_d'(o))_+                    hockey-stick divergence
    D_alpha        = max_{d ~ d'} 1/(alpha - 1) log sum_o P_d(o)^alpha P_d'(o)^(1 - alpha)
    rho            = sup_{alpha > 1} D_alpha / alpha

No event has to be enumerated: the worst one is {o : P_d(o) > e^epsilon P_d'(o)}. An adversary who chooses a question
after each output appears as an axis that is maximised instead of summed: what he asks after one output does not bind
him after another, so the best deterministic adversary is found by backward induction, one axis after the other.
Deterministic adversaries suffice: a randomised one is a mixture of them, and the sums above are convex.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.definitions.orders import largest_ratio
from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.errors import InvalidArgument, InvalidBudget

_ROUNDING = 1e-14  # laws are sums of a few products of floats: a delta is met if it is met up to this
_LARGEST = 600.0  # exponents beyond this are handled as logarithms


@dataclass(frozen=True, kw_only=True, eq=False)
class Definition:
    """A privacy definition applied to one mechanism (or, with leading axes, to many at once).

    laws   probability of every output under every dataset: (..., datasets, *outputs)
    pairs  neighbours, in both orders: (2, pairs)
    asked  which of the output axes are an adversary's questions: maximised, not summed
    """

    laws: Floats
    pairs: NDArray[np.int64]
    asked: tuple[bool, ...] = (False,)

    def delta(self, epsilon: Any) -> Any:
        """Smallest delta for `epsilon` >= 0 (a number, or one for every mechanism): exact up to rounding."""
        asked = np.asarray(epsilon, dtype=float)
        if not np.all(asked >= 0):  # also not a number
            raise InvalidBudget("epsilon", epsilon, "a number >= 0")
        excess, _ = self._hockey_stick(np.exp(np.minimum(asked, 700.0)))  # beyond, e^epsilon is no float: not less
        return _plain(np.clip(excess, 0.0, 1.0))

    def epsilon(self, delta: float = 0.0) -> Any:
        """Smallest epsilon >= 0 for `delta`: math.inf if there is none. Exact up to rounding.

        In x = e^epsilon the divergence is convex and piecewise linear, so Newton's steps from x = 1 end at the root.
        """
        target = require.delta(delta)
        if target == 0:
            return _plain(np.log(np.maximum(self._largest_ratio, 1.0)))
        x = np.ones(self.laws.shape[: self._leading])
        while True:
            excess, slope = self._hockey_stick(x)
            left = (excess > target + _ROUNDING) & np.isfinite(x)
            if not np.any(left):
                return _plain(np.log(x))
            with np.errstate(divide="ignore", invalid="ignore"):
                x = np.where(left, x + (excess - target) / slope, x)

    def renyi(self, order: float) -> Any:
        """Largest Renyi divergence of `order` >= 1 between neighbours; 1: Kullback-Leibler, math.inf: the pure loss."""
        if not order >= 1:
            raise InvalidArgument("order", order, "a number >= 1")
        if order == math.inf:
            return _plain(np.log(self._largest_ratio))
        first, _, ratio = self._leaves
        power = order - 1
        if power == 0:
            return _plain(np.maximum(self._worst(_product(first, ratio), np.sum), 0.0))
        if power * np.max(np.abs(ratio), initial=0.0, where=np.isfinite(ratio)) > _LARGEST:
            with np.errstate(divide="ignore"):
                return _plain(self._worst(np.log(first) + power * ratio, _log_sum) / power)
        sums = self._worst(_product(first, np.expm1(power * ratio)), np.sum)  # sum P (P / Q)^(alpha - 1), minus 1
        return _plain(np.log1p(np.maximum(sums, 0.0)) / power)

    def rho(self, *, relative: float = 1e-6) -> Any:
        """Smallest rho of zCDP over all orders: an upper bound, at most a factor 1 + `relative` too large."""
        found = np.empty(self.laws.shape[: self._leading])
        for index in np.ndindex(found.shape):
            one = replace(self, laws=self.laws[index])
            found[index] = largest_ratio(one.renyi, relative=relative)
        return _plain(found)

    @property
    def _leading(self) -> int:
        return self.laws.ndim - 1 - len(self.asked)

    @cached_property
    def _leaves(self) -> tuple[Floats, Floats, Floats]:
        """P, Q and log P / Q for all neighbours, (..., pairs, *outputs); the ratio is 0 where nothing can happen."""
        first, second = (np.take(self.laws, each, axis=self._leading) for each in self.pairs)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log(first) - np.log(second)
        ratio[np.isnan(ratio)] = 0.0
        return first, second, ratio

    @cached_property
    def _largest_ratio(self) -> Floats:
        """max P / Q over neighbours and outputs: every question can be asked, so none needs an adversary's plan."""
        _, _, ratio = self._leaves
        return np.asarray(np.exp(np.max(ratio, axis=tuple(range(self._leading, ratio.ndim)), initial=0.0)))

    def _hockey_stick(self, x: Floats) -> tuple[Floats, Floats]:
        """max sum (P - x Q)_+ and, at that maximum, sum Q over the event: minus the slope in x. Both (...)."""
        first, second, _ = self._leaves
        factor = np.asarray(x)[(..., *(None,) * (1 + len(self.asked)))]
        gain = first - np.multiply(factor, second, where=second > 0, out=np.zeros_like(second))  # x may be infinite
        paid = np.where(gain > 0, second, 0.0)
        gain = np.maximum(gain, 0.0)
        for asked in reversed(self.asked):
            if asked:
                best = np.argmax(gain, axis=-1)[..., None]
                gain, paid = (np.take_along_axis(each, best, axis=-1)[..., 0] for each in (gain, paid))
            else:
                gain, paid = np.sum(gain, axis=-1), np.sum(paid, axis=-1)
        best = np.argmax(gain, axis=-1)[..., None]
        return np.take_along_axis(gain, best, axis=-1)[..., 0], np.take_along_axis(paid, best, axis=-1)[..., 0]

    def _worst(self, values: Floats, total: Callable[..., Any]) -> Floats:
        """Outputs summed, questions maximised, from the last round to the first; then the worst pair."""
        for asked in reversed(self.asked):
            values = np.max(values, axis=-1) if asked else total(values, axis=-1)
        return np.asarray(np.max(values, axis=-1))


def _product(chance: Floats, value: Floats) -> Floats:
    """chance * value, and 0 where the chance is 0, whatever the value."""
    with np.errstate(invalid="ignore"):
        return np.where(chance > 0, chance * value, 0.0)


def _log_sum(values: Floats, axis: int) -> Floats:
    return np.asarray(np.logaddexp.reduce(values, axis=axis))


def _plain(values: Any) -> Any:
    """A float if it is a single number."""
    return float(values) if np.ndim(values) == 0 else values
