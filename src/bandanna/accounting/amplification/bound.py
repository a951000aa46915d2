"""The bound on shuffled Gaussian batches, minimised: one class answers for delta, epsilon and the noise.

For every eps0 > 0 and every epsilon' <= epsilon, with M = `times` batches of n = `users`,

    delta <= clones_M(epsilon'; n, eps0) + (1 + e^epsilon') M tail_weight(n, eps0) delta_G(eps0; 1 / scale),

and delta <= delta_G(epsilon; sqrt(M) / scale) without any help from the shuffle; scale = sigma / Delta_2. Smaller
epsilon' matter because the factor 1 + e^epsilon makes the first bound rise where the tail dominates. At a fixed eps0 it
is convex in e^epsilon'. eps0 runs over a fixed geometric grid; wherever a search ends, the bound found is valid.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

from bandanna.accounting import gdp
from bandanna.accounting.amplification.clones import clones_delta, tail_weight
from bandanna.accounting.amplification.loss import composed_clones
from bandanna.core import search

_FINEST, _RATIO = 1e-5, 1.005  # the grid of eps0
_BEYOND = 8.0  # eps0 > log(n) + 8: no clones left, nothing to gain
_MOST = 100.0  # above this epsilon the price without a shuffle is used
_FINENESS = 2e3  # buckets of C are at most a 2000th of its mean: costs less than 1 % of delta, 0.02 % of std
_POINTS = 10  # of the grid, tried before halving steps
_MARGIN = 1e-5  # added to the std (relative), for `delta` and `epsilon` to agree: their searches may end elsewhere
_CONVOLUTION_ERROR = 1e-16  # per batch, absolute: rounding of the Fourier transforms (measured below 6e-17)
_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, kw_only=True)
class ShuffledBatches:
    """M shuffled batches of n users, the same person in each. `index` names a point of the grid of eps0."""

    users: int
    times: int = 1

    def delta(self, scale: float, epsilon: float) -> float:
        """Least delta at `epsilon`."""
        alone = float(gdp.delta(epsilon, math.sqrt(self.times) / scale))
        if self.users == 1 or not 0.0 < epsilon <= _MOST:
            return alone

        def reached(index: int, best: float) -> float:
            if self._clones(index, epsilon) + self._tail(index, scale, 0.0) >= best:
                return math.inf
            return _lowest(partial(self._sum, index, scale), epsilon)[0]

        return self._least(
            reached,
            best=alone,
            too_low=lambda index: self._tail(index, scale, 0.0) >= alone,
            too_high=lambda index: self._clones(index, epsilon) >= alone,
        )

    def epsilon(self, scale: float, delta: float) -> float:
        """Least epsilon at `delta`: for each eps0, where clones + tail first fall to delta."""
        alone = gdp.epsilon(delta, math.sqrt(self.times) / scale)
        if self.users == 1 or alone == 0.0:
            return alone
        most = min(alone, _MOST)
        sums_only = max(gdp.epsilon(delta, math.sqrt(self.times / self.users) / scale), 1e-12)

        def needed(index: int, best: float) -> float:
            profile = partial(self._sum, index, scale)
            value, epsilon = _lowest(profile, min(best, most))
            if value > delta:
                return most * (1 + value / delta)  # out of reach, but the search shall see by how much
            return search.least(lambda e: profile(e) <= delta, min(sums_only, epsilon), epsilon, relative=1e-7)

        found = self._least(
            needed,
            best=math.inf,
            too_low=lambda index: self._tail(index, scale, 0.0) >= delta,
            too_high=lambda index: self._clones(index, most) >= delta,
        )
        return found if found <= most else alone

    def scale(self, epsilon: float, delta: float) -> float:
        """Least sigma / Delta_2: for each eps0, what the clones leave of delta fixes delta0, hence sigma."""
        alone = math.sqrt(self.times) / gdp.mu(epsilon, delta)
        if self.users == 1 or epsilon > _MOST:
            return alone

        def minus_delta0(index: int, e: float) -> float:
            return (self._clones(index, e) - delta) / self._weight(index, e)

        def needed(index: int, best: float) -> float:
            if self._clones(index, epsilon) + self._tail(index, best, 0.0) >= delta:
                return math.inf
            return 1 / gdp.mu(_local(index), -_lowest(partial(minus_delta0, index), epsilon)[0])

        scale = self._least(
            needed,
            best=alone,
            too_low=lambda index: self._tail(index, alone, 0.0) >= delta,
            too_high=lambda index: self._clones(index, epsilon) >= delta,
        )
        margin = _MARGIN
        while scale < alone:
            scale, margin = min(alone, scale * (1 + margin)), 2 * margin
            if self.delta(scale, epsilon) <= delta:
                break
        return scale

    def _clones(self, index: int, epsilon: float) -> float:
        """clones_M(epsilon; n, eps0)."""
        local = _local(index)
        if self.times * local <= epsilon:
            return 0.0  # pure composition
        if self.times == 1:
            return float(clones_delta(users=self.users, local_epsilon=local, epsilon=epsilon, fineness=_FINENESS))
        composed = composed_clones(self.users, local, self.times)
        return float(composed.get_delta_for_epsilon(epsilon)) + self.times * _CONVOLUTION_ERROR

    def _weight(self, index: int, epsilon: float) -> float:
        """(1 + e^epsilon) M `tail_weight`: what one unit of delta0 costs."""
        return (1 + math.exp(epsilon)) * self.times * tail_weight(users=self.users, local_epsilon=_local(index))

    def _tail(self, index: int, scale: float, epsilon: float) -> float:
        return self._weight(index, epsilon) * _delta0(index, scale)

    def _sum(self, index: int, scale: float, epsilon: float) -> float:
        return self._clones(index, epsilon) + self._tail(index, scale, epsilon)

    def _least(
        self,
        objective: Callable[[int, float], float],
        *,
        best: float,
        too_low: Callable[[int], bool],
        too_high: Callable[[int], bool],
    ) -> float:
        """Least of `best` and the objective on the grid of eps0.

        Tails fall and clones grow with eps0: up to some index the tail alone, from another one on the clones alone rule
        out an improvement. Between them a few points are tried, and from every dip steps that are halved. The objective
        is told the best value so far, and may answer infinity where it cannot improve on it.
        """
        top = math.ceil(math.log((math.log(self.users) + _BEYOND) / _FINEST) / math.log(_RATIO))
        first = _first(lambda index: not too_low(index), 0, top)
        last = _first(too_high, first, top) - 1
        step = max(1, (last - first) // _POINTS)
        tried = [math.inf]
        for index in range(last, first - 1, -step):
            tried.append(objective(index, best))
            best = min(best, tried[-1])
        tried.append(math.inf)
        for turn in range(1, len(tried) - 1):
            if math.inf > tried[turn] <= min(tried[turn - 1], tried[turn + 1]):
                best = _descend(objective, tried[turn], last - (turn - 1) * step, step, range(first, last + 1), best)
        return best


def _descend(
    objective: Callable[[int, float], float], value: float, place: int, step: int, allowed: range, best: float
) -> float:
    """Least of `best` and a local minimum of the objective, from a value and its place by steps that are halved."""
    while step >= 1:
        around = [(objective(index, best), index) for index in (place - step, place + step) if index in allowed]
        closer = min(around, default=(math.inf, 0))
        if closer[0] < value:
            value, place = closer
            best = min(best, value)
        else:
            step //= 2
    return best


def _local(index: int) -> float:
    """eps0."""
    return _FINEST * _RATIO**index


@lru_cache(maxsize=1 << 12)  # searches over epsilon ask for the same ones
def _delta0(index: int, scale: float) -> float:
    """delta_G(eps0; 1 / scale)."""
    return float(gdp.delta(_local(index), 1 / scale))


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """First index in [low, high) from which a monotone condition holds; `high` if there is none."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def _lowest(profile: Callable[[float], float], epsilon: float) -> tuple[float, float]:
    """Least value of a unimodal profile over epsilon' in [epsilon/1000, epsilon], and where; golden sections of log."""
    end = (profile(epsilon), epsilon)
    if profile(0.99 * epsilon) >= end[0]:
        return end
    low, high = math.log(epsilon) - math.log(1000.0), math.log(epsilon)
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = profile(math.exp(left)), profile(math.exp(right))
    while high - low > 1e-3:
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = profile(math.exp(left))
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = profile(math.exp(right))
    return min(end, (at_left, math.exp(left)), (at_right, math.exp(right)))
