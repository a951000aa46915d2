"""The bound on shuffled Gaussian batches, minimised: one class answers for delta, epsilon and the noise.

With mu = 1 / scale, scale = sigma / Delta_2, p = e^-eps0 and delta0 = delta_G(eps0; mu), one batch of n = `users` has

    delta <= (1 + e^epsilon) E (m - tanh(epsilon/2))+ + (e^epsilon - 1 + 2 delta_G(epsilon; mu)) (n - 1) p delta0,

M = `times` of them the delta of the M-fold composition and (1 + e^epsilon) M (n - 1) p delta0 (calibration.md B.1), for
every eps0 > 0; and delta <= delta_G(epsilon; sqrt(M) / scale) without any help from the shuffle. What holds at a
smaller epsilon holds at a larger one: that matters where the second term dominates. Wherever a search ends, the bound
found is valid.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

from bandanna.accounting import gdp
from bandanna.accounting.amplification.blanket import stop_loss
from bandanna.accounting.amplification.returning import MOST, composed_blanket, loss_std
from bandanna.core import search

_LEAST = 1e-5  # eps0
_BEYOND = 8.0  # eps0 > log(n) + 8: nobody to hide among, nothing to gain
_POINTS = 8  # values of eps0 that are tried before a minimum is narrowed down
_WIDTH = 3e-4  # how far (relative), for one batch
_AROUND, _GRID = (
    0.12,
    0.01,
)  # for several: where it is looked for, and the grid (relative) on which compositions are kept
_MARGIN = 1e-5  # added to the std (relative), for `delta` and `epsilon` to agree: their searches may end elsewhere
_CONVOLUTION_ERROR = 1e-16  # per batch, absolute: rounding of the Fourier transforms (measured below 6e-17)
_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, kw_only=True)
class ShuffledBatches:
    """M shuffled batches of n users, the same person in each."""

    users: int
    times: int = 1

    def delta(self, scale: float, epsilon: float) -> float:
        """Least delta at `epsilon`."""
        alone = self._alone(scale, epsilon)
        if self.users == 1 or not 0.0 < epsilon <= MOST:
            return alone
        return min(alone, self._least(scale, epsilon))

    def epsilon(self, scale: float, delta: float) -> float:
        """Least epsilon at `delta`."""
        alone = gdp.epsilon(delta, math.sqrt(self.times) / scale)
        if self.users == 1 or alone == 0.0:
            return alone
        sums_only, most = gdp.epsilon(delta, math.sqrt(self.times / self.users) / scale), min(alone, MOST)
        if self.delta(scale, most) > delta:
            return alone
        return _crossing(lambda e: self.delta(scale, e), delta, max(sums_only, 1e-9 * most), most)

    def scale(self, epsilon: float, delta: float) -> float:
        """Least sigma / Delta_2, searched for around what the sketch needs."""
        alone = math.sqrt(self.times) / gdp.mu(epsilon, delta)
        if self.users == 1 or epsilon > MOST:
            return alone
        least, reached = alone / math.sqrt(self.users), cache(partial(self.delta, epsilon=epsilon))
        guess = _crossing(lambda s: self._sketched(s, epsilon), delta, least, alone)
        high = next((s for s in (1.1 * guess, 1.4 * guess) if s < alone and reached(s) <= delta), alone)
        low = next((s for s in (guess / 1.1, guess / 1.4) if s > least and reached(s) > delta), least)
        scale = _crossing(reached, delta, low, high, relative=1e-6 if self.times == 1 else 1e-4)
        margin = _MARGIN
        while scale < alone:
            scale, margin = min(alone, scale * (1 + margin)), 2 * margin
            if reached(scale) <= delta:
                break
        return scale

    def _alone(self, scale: float, epsilon: float) -> float:
        """Of M reports that nobody shuffles."""
        return float(gdp.delta(epsilon, math.sqrt(self.times) / scale))

    def _least(self, scale: float, epsilon: float) -> float:
        """Least bound over eps0 that a search finds."""

        def reached(place: float) -> float:
            return self._before(math.exp(place), scale, epsilon)

        if self.times == 1:
            return _narrowed(reached, *self._range(scale, epsilon), _WIDTH)[0]
        place = math.log(self._guess(scale, epsilon))  # compositions take time: near where the sketch has its least
        return _golden(reached, place - _AROUND, place + _AROUND, 4 * _GRID)[0]

    def _range(self, scale: float, epsilon: float) -> tuple[float, float]:
        """Logarithms of the least eps0 that may be better than no shuffle, by its tail, and of the greatest."""
        alone, most = self._alone(scale, epsilon), math.log(self.users) + _BEYOND
        low = search.least(lambda local: self._tail(local, scale, 0.0) < alone, _LEAST, most, relative=1e-2)
        return math.log(low), math.log(most)

    def _before(self, local: float, scale: float, epsilon: float) -> float:
        """Least bound from this eps0 up to `epsilon`: it is convex in e^epsilon, and may rise at its end."""
        value = self._bound(local, scale, epsilon)
        if self._bound(local, scale, 0.98 * epsilon) >= value:
            return value
        end = math.log(epsilon)
        return min(value, _golden(lambda e: self._bound(local, scale, math.exp(e)), end - 4, end, 0.04)[0])

    def _bound(self, local: float, scale: float, epsilon: float) -> float:
        """delta at `epsilon`, from eps0."""
        if self.times == 1:
            left = stop_loss(users=self.users, chance=math.exp(-local), mu=1 / scale, epsilon=epsilon)
            return (1 + math.exp(epsilon)) * left + self._tail(local, scale, epsilon)
        local = math.exp(_GRID * round(math.log(local) / _GRID))
        composed = composed_blanket(self.users, local, 1 / scale, self.times)
        hidden = float(composed.get_delta_for_epsilon(epsilon)) + self.times * _CONVOLUTION_ERROR
        return hidden + self._tail(local, scale, epsilon)

    def _tail(self, local: float, scale: float, epsilon: float) -> float:
        """What it costs that others' reports are not quite mixtures: in total variation (n - 1) p delta0 a batch."""
        moved = self.times * (self.users - 1) * math.exp(-local) * float(gdp.delta(local, 1 / scale))
        if self.times == 1:
            return (math.expm1(epsilon) + 2 * float(gdp.delta(epsilon, 1 / scale))) * moved  # B.1, step 3
        return (1 + math.exp(epsilon)) * moved

    def _sketch(self, local: float, scale: float, epsilon: float) -> float:
        """About the bound, by a Gaussian of the same variance."""
        spread = math.sqrt(self.times) * loss_std(users=self.users, local_epsilon=local, mu=1 / scale)
        return float(gdp.delta(epsilon, spread)) + self._tail(local, scale, epsilon)

    def _guess(self, scale: float, epsilon: float) -> float:
        """eps0 with the least sketch."""
        low, high = self._range(scale, epsilon)
        return math.exp(_golden(lambda local: self._sketch(math.exp(local), scale, epsilon), low, high, 1e-2)[1])

    def _sketched(self, scale: float, epsilon: float) -> float:
        return min(self._alone(scale, epsilon), self._sketch(self._guess(scale, epsilon), scale, epsilon))


def _crossing(
    delta: Callable[[float], float], target: float, low: float, high: float, *, relative: float = 1e-6
) -> float:
    """Least place at which a falling delta is at most `target`, as it is at `high`."""
    return search.crossing(lambda place: math.log(max(delta(place), 1e-300) / target), low, high, relative=relative)


def _narrowed(value: Callable[[float], float], low: float, high: float, width: float) -> tuple[float, float]:
    """Least of some values between `low` and `high`, narrowed down, and where."""
    step = (high - low) / _POINTS
    best = min((value(low + (turn + 0.5) * step), low + (turn + 0.5) * step) for turn in range(_POINTS))
    return min(best, _golden(value, max(low, best[1] - step), min(high, best[1] + step), width))


def _golden(value: Callable[[float], float], low: float, high: float, width: float) -> tuple[float, float]:
    """Least value of a unimodal function, and where, within `width`; golden sections."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = value(left), value(right)
    while high - low > width:
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = value(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = value(right)
    return min((at_left, left), (at_right, right))
