"""Privacy of shuffled Gaussian reports (P_Amp): delta, epsilon and the least noise, for one batch or several.

Symbols: n `users`, M `times`, sigma `std` (per user), Delta_2 `sensitivity`, eps0 the local epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache, partial

import numpy as np

from bandanna import validation
from bandanna.errors import InvalidBudget
from bandanna.numeric import search
from bandanna.privacy import gdp
from bandanna.privacy.amplification import LARGEST_LOSS_RATIO, composed_blanket, loss_std, stop_loss

# The bound, minimised over eps0


_LEAST = 1e-5  # eps0
_BEYOND = 8.0  # eps0 > log(n) + 8: no other report to hide among
_POINTS = 8  # values of eps0 that are tried before a minimum is narrowed down
_WIDTH = 3e-4  # how far (relative), for one batch
_NEAR = 4e-3  # while noise or epsilon are searched for
_GRID = 0.01  # of log eps0, for several batches: compositions are kept
_LOUD = 9.0  # mu of reports that stand alone: nearly all losses, mu^2/2 in the middle, are beyond the last knot
_MARGIN = 1e-5  # added to the std (relative), for `delta` to agree: its search may end elsewhere
_ROUNDING, _NEARLY = 1e-12, 1e-6  # added to an epsilon, the second where searches end elsewhere
_CONVOLUTION_ERROR = 1e-16  # per batch, absolute: rounding of the Fourier transforms (measured below 6e-17)
_GOLDEN = 0.3819660112501051  # (3 - sqrt 5) / 2


@dataclass(frozen=True, kw_only=True)
class ShuffledBatches:
    """M shuffled batches of n users, the same user in each (proofs.md B.1).

    With mu = 1 / scale, scale = sigma / Delta_2, p = e^-eps0 and delta0 = delta_G(eps0; mu), one batch of n users has

        delta <= (1 + e^epsilon) E (m - tanh(epsilon/2))+ + (e^epsilon - 1 + 2 delta_G(epsilon; mu)) (n - 1) p delta0

    for every eps0 > 0, and M of them the delta of the M-fold composition and (1 + e^epsilon) M (n - 1) p delta0.
    Without a shuffle delta <= delta_G(epsilon; sqrt(M) / scale). Every search returns a valid bound.
    """

    users: int
    times: int = 1

    def delta(self, scale: float, epsilon: float) -> float:
        """Return the least delta at `epsilon`."""
        alone = self._alone(scale, epsilon)
        if self.users == 1 or not 0.0 < epsilon <= LARGEST_LOSS_RATIO:
            return alone
        return min(alone, self._least(scale, epsilon)[0])

    def epsilon(self, scale: float, delta: float) -> float:
        """Return the least epsilon at which `delta` is proven."""
        alone = gdp.epsilon(delta, math.sqrt(self.times) / scale)
        if self.users == 1 or alone == 0.0:
            return alone
        high, sums_only = min(alone, LARGEST_LOSS_RATIO), gdp.epsilon(delta, math.sqrt(self.times / self.users) / scale)
        low = max(sums_only, 1e-9 * high)
        if alone > LARGEST_LOSS_RATIO and self.delta(scale, LARGEST_LOSS_RATIO) > delta:
            return alone
        guess = _crossing(lambda e: self._sketched(scale, e)[0], delta, low, high, relative=1e-2)
        place = self._least(scale, guess)[1]

        @cache
        def reached(epsilon: float) -> float:
            nonlocal place  # the next least is near the last
            value, place = self._near(place, scale, epsilon)
            return min(value, self._alone(scale, epsilon))

        found = _crossing(reached, delta, *_bracket(lambda e: reached(e) <= delta, guess, low, high))
        return self._proven(scale, delta, found, low, high)

    def _proven(self, scale: float, delta: float, found: float, low: float, high: float) -> float:
        """Return an epsilon near `found` that `delta` proves, lowered while another eps0 is better."""
        proven, margin = high, _ROUNDING
        while found < proven * (1 - _ROUNDING):
            value, place = self._least(scale, found)
            if min(value, self._alone(scale, found)) > delta:
                found, margin = found * (1 + margin), max(_NEARLY, 2 * margin)
                continue
            proven, lower = found, self._fallen(place, scale, delta, found, low, high)
            found = lower if lower < proven * (1 - _NEARLY) else proven
        return proven

    def _fallen(self, place: float, scale: float, delta: float, start: float, low: float, high: float) -> float:
        reached = cache(lambda e: min(self._before(math.exp(place), scale, e), self._alone(scale, e)))
        return _crossing(reached, delta, *_bracket(lambda e: reached(e) <= delta, start, low, high))

    def scale(self, epsilon: float, delta: float) -> float:
        """Return the least sigma / Delta_2."""
        alone = math.sqrt(self.times) / gdp.mu(epsilon, delta)
        if self.users == 1 or epsilon > LARGEST_LOSS_RATIO:
            return alone
        least, relative = alone / math.sqrt(self.users), 1e-6 if self.times == 1 else 1e-4
        scale, margin = self._alternating(epsilon, delta, least, alone, relative), _MARGIN
        while scale < alone:
            scale, margin = min(alone, scale * (1 + margin)), 2 * margin
            if self.delta(scale, epsilon) <= delta:
                break
        return scale

    def _alternating(self, epsilon: float, delta: float, low: float, high: float, relative: float) -> float:
        """Return the least scale between two, the second of which keeps `delta`.

        The search alternates between the best eps0 for a scale and the least scale for that eps0.
        """

        def find_scale(bound: Callable[[float, float], float], start: float, relative: float) -> float:
            reached = cache(lambda scale: min(bound(scale, epsilon), self._alone(scale, epsilon)))
            ends = _bracket(lambda scale: reached(scale) <= delta, start, low, high)
            return _crossing(reached, delta, *ends, relative=relative)

        best, found = math.inf, find_scale(lambda *there: self._sketched(*there)[0], high, 1e-2)
        place = self._least(found, epsilon)[1]
        while True:
            found = find_scale(partial(self._before, math.exp(place)), found, relative)
            if found > best * (1 - relative):
                return min(found, best)
            best, place = found, self._near(place, found, epsilon)[1]

    def _near(self, place: float, scale: float, epsilon: float) -> tuple[float, float]:
        reached = partial(self._at, scale=scale, epsilon=epsilon)
        if self.times == 1:
            return _minimize_unimodal(reached, *_walk_downhill(reached, place, 8 * _NEAR)[1:], _NEAR)
        return _refine_minimum(reached, place, (2 * _GRID, _GRID))

    def _at(self, place: float, scale: float, epsilon: float) -> float:
        local = math.exp(place)
        return self._before(local, scale, epsilon) if _LEAST <= local <= self._most else math.inf

    def _alone(self, scale: float, epsilon: float) -> float:
        return float(gdp.delta(epsilon, math.sqrt(self.times) / scale))

    def _least(self, scale: float, epsilon: float) -> tuple[float, float]:
        return _search_delta(self, scale, epsilon)

    def _search(self, scale: float, epsilon: float) -> tuple[float, float]:
        reached = partial(self._at, scale=scale, epsilon=epsilon)
        if self.times == 1:
            return _narrow(reached, *self._range(scale, epsilon), _WIDTH)
        place = _GRID * round(math.log(self._sketched(scale, epsilon)[1]) / _GRID)
        return _refine_minimum(reached, place, (6 * _GRID, 2 * _GRID, _GRID))  # compositions take time: few of them

    @property
    def _most(self) -> float:
        return math.log(self.users) + _BEYOND

    def _range(self, scale: float, epsilon: float) -> tuple[float, float]:
        """Return logarithms of the least and the greatest eps0 that may beat no shuffle."""
        alone, most = self._alone(scale, epsilon), self._most
        low = search.find_least(lambda local: self._tail(local, scale, 0.0) < alone, _LEAST, most, relative=1e-2)
        return math.log(low), math.log(most)

    def _before(self, local: float, scale: float, epsilon: float) -> float:
        """Return the least bound from this eps0 up to `epsilon`; it is convex in e^epsilon."""
        value = self._bound(local, scale, epsilon)
        if self._bound(local, scale, 0.98 * epsilon) >= value:
            return value
        end = math.log(epsilon)
        return min(value, _minimize_unimodal(lambda e: self._bound(local, scale, math.exp(e)), end - 4, end, 0.04)[0])

    def _bound(self, local: float, scale: float, epsilon: float) -> float:
        if self.times == 1:
            left = stop_loss(users=self.users, chance=math.exp(-local), mu=1 / scale, epsilon=epsilon)
            return (1 + math.exp(epsilon)) * left + self._tail(local, scale, epsilon)
        if 1 / scale > _LOUD:
            return 1.0
        local = math.exp(_GRID * round(math.log(local) / _GRID))
        composed = composed_blanket(self.users, local, 1 / scale, self.times)
        hidden = composed.get_delta_for_epsilon(epsilon) + self.times * _CONVOLUTION_ERROR
        return hidden + self._tail(local, scale, epsilon)

    def _tail(self, local: float, scale: float, epsilon: float) -> float:
        """Return the cost of inexact mixtures: in total variation (n - 1) p delta0 a batch."""
        moved = self.times * (self.users - 1) * math.exp(-local) * float(gdp.delta(local, 1 / scale))
        return self._weight(scale, epsilon) * moved

    def _weight(self, scale: float, epsilon: float) -> float:
        if self.times == 1:
            return math.expm1(epsilon) + 2 * float(gdp.delta(epsilon, 1 / scale))  # B.1, step 3
        return 1 + math.exp(epsilon)

    def _sketched(self, scale: float, epsilon: float) -> tuple[float, float]:
        """Estimate the least delta and its eps0 from a Gaussian of the same variance."""
        local = np.geomspace(_LEAST, self._most, 200)
        spread = math.sqrt(self.times) * loss_std(users=self.users, local_epsilon=local, mu=1 / scale)
        moved = self.times * (self.users - 1) * np.exp(-local) * gdp.delta(local, 1 / scale)
        bound = gdp.delta(epsilon, spread) + self._weight(scale, epsilon) * moved
        best = int(np.argmin(bound))
        return min(float(bound[best]), self._alone(scale, epsilon)), float(local[best])


@lru_cache(maxsize=64)
def _search_delta(batches: ShuffledBatches, scale: float, epsilon: float) -> tuple[float, float]:
    return batches._search(scale, epsilon)


def _crossing(
    delta: Callable[[float], float], target: float, low: float, high: float, *, relative: float = 1e-6
) -> float:
    """Return the least point in [low, high] with delta <= `target`, for a falling delta."""
    return search.find_crossing(
        lambda place: math.log(max(delta(place), 1e-300) / target), low, high, relative=relative
    )


def _bracket(meets: Callable[[float], bool], start: float, low: float, high: float) -> tuple[float, float]:
    """Return two points by growing steps from `start`: `meets` fails at the first and holds at the second."""
    ratio, last = 1.02, start
    if meets(start):
        while last / ratio > low and meets(last / ratio):
            last, ratio = last / ratio, ratio**2
        return max(low, last / ratio), last
    while last * ratio < high and not meets(last * ratio):
        last, ratio = last * ratio, ratio**2
    return last, min(high, last * ratio)


def _narrow(value: Callable[[float], float], low: float, high: float, width: float) -> tuple[float, float]:
    step = (high - low) / _POINTS
    best = min((value(low + (turn + 0.5) * step), low + (turn + 0.5) * step) for turn in range(_POINTS))
    return min(best, _minimize_unimodal(value, max(low, best[1] - step), min(high, best[1] + step), width))


def _walk_downhill(value: Callable[[float], float], place: float, step: float) -> tuple[float, float, float]:
    """Return a place below the two beside it, and their values, by doubling steps."""
    at, ahead = value(place), value(place + step)
    if ahead >= at:
        step, ahead = -step, value(place - step)
    behind = place - step
    while ahead < at:
        behind, place, at, step = place, place + step, ahead, 2 * step
        ahead = value(place + step)
    return place, min(behind, place + step), max(behind, place + step)


def _refine_minimum(value: Callable[[float], float], place: float, steps: tuple[float, ...]) -> tuple[float, float]:
    for step in steps:
        place = _walk_downhill(value, place, step)[0]
    return value(place), place


def _minimize_unimodal(value: Callable[[float], float], low: float, high: float, width: float) -> tuple[float, float]:
    """Minimise a unimodal function to `width` by Brent's method (1973)."""
    near, ahead, last = width / 4, 0.0, 0.0  # the last two steps
    place = second = third = low + _GOLDEN * (high - low)
    at = at_second = at_third = value(place)
    while (middle := (low + high) / 2) - low > 2 * near - abs(place - middle):
        step = _vertex((place, second, third), (at, at_second, at_third))
        if not (low < place + step < high and 2 * abs(step) < abs(ahead)):  # nor where there is no parabola
            last = (low if place >= middle else high) - place
            step = _GOLDEN * last
        elif min(place + step - low, high - place - step) < 2 * near:
            step = math.copysign(near, middle - place)
        ahead, last = last, step
        new = place + (step if abs(step) >= near else math.copysign(near, step))
        there = value(new)
        if there <= at:
            low, high = (low, place) if new < place else (place, high)
            third, at_third, second, at_second, place, at = second, at_second, place, at, new, there
            continue
        low, high = (new, high) if new < place else (low, new)
        if there <= at_second or second == place:
            third, at_third, second, at_second = second, at_second, new, there
        elif there <= at_third or third in (place, second):
            third, at_third = new, there
    return at, place


def _vertex(places: tuple[float, float, float], values: tuple[float, float, float]) -> float:
    """Return the way from the first of three points to their parabola's vertex, or NaN."""
    (x, w, v), (at, at_w, at_v) = places, values
    one, other = (x - w) * (at - at_v), (x - v) * (at - at_w)
    twice = 2 * (one - other)
    return ((x - v) * other - (x - w) * one) / twice if twice else math.nan


# Price and least noise


def shuffled_gaussian_delta(*, std: float, sensitivity: float, users: int, epsilon: float, times: int = 1) -> float:
    """Return the least delta that we can prove at `epsilon` for a user in `times` shuffled batches of `users` each.

    Each user reports x_i + N(0, sigma^2 I), |x_i - x_i'|_2 <= Delta_2; `ShuffledBatches` has the bound. Reference:
    Balle, Bell, Gascon and Nissim 2019, for the sum over n; the mixture and its price are our own.
    """
    batches, scale = _read_batches(users, times), _read_scale(std, sensitivity)
    return batches.delta(scale, validation.non_negative("epsilon", epsilon))


def shuffled_gaussian_epsilon(*, std: float, sensitivity: float, users: int, delta: float, times: int = 1) -> float:
    """Return the least epsilon that we can prove at `delta` for a user in `times` shuffled batches."""
    batches, scale = _read_batches(users, times), _read_scale(std, sensitivity)
    return batches.epsilon(scale, _positive_delta(delta))


def shuffled_gaussian_std(*, sensitivity: float, users: int, epsilon: float, delta: float, times: int = 1) -> float:
    """Return the least standard deviation per coordinate with which `times` batches are (epsilon, delta)-DP."""
    batches, sensitivity = _read_batches(users, times), validation.positive("sensitivity", sensitivity)
    return sensitivity * batches.scale(validation.epsilon(epsilon), _positive_delta(delta))


def _read_batches(users: int, times: int) -> ShuffledBatches:
    return ShuffledBatches(users=validation.integer("users", users), times=validation.integer("times", times))


def _read_scale(std: float, sensitivity: float) -> float:
    return validation.positive("std", std) / validation.positive("sensitivity", sensitivity)


def _positive_delta(delta: float) -> float:
    if validation.delta(delta) == 0.0:
        raise InvalidBudget("delta", delta, "a number in (0, 1)", "Shuffled Gaussian reports are never pure")
    return float(delta)
