"""The accountant: what a sequence of releases about one person costs in total.

Three routes, in this order of preference:

* one binomial release: exact for one integer, else Theorem A with the rounding bound for a single release (A.3);
* everything with a Gaussian price: squares of mu and tails add (parts of one record cost less, `records`), the
  conversion to (epsilon, delta) is exact;
* anything else that is known (Laplace, caps, shuffled Gaussians): numerical composition of privacy loss distributions.

Unknown events are refused. Every number returned is an upper bound on the truth.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from bandanna.accounting import amplification, events, exact, gdp, loss, records, rounding
from bandanna.accounting.budgets import ZCDP, ApproxDP, Budget, PureDP, RenyiDP
from bandanna.accounting.gdp import Price
from bandanna.accounting.prices import binomial_unit, concentrated_price, gaussian_price, pure_price, unrounded
from bandanna.core import require
from bandanna.errors import UnknownEvent

_TAIL_SHARE = 1e-4  # share of a target delta that tails may use
_OF_TAILS = 1e-6  # of an epsilon, relative: enough for the tails of secure reports
_LEAST_TAIL = 1e-300  # below, its logarithm leaves the floats
_GAUSSIAN = (
    events.NothingEvent,
    events.ClearEvent,
    events.GaussianEvent,
    events.DiscreteGaussianEvent,
    events.BinomialEvent,
    events.ContinualEvent,
    events.RecordEvent,
)
_PURE = (events.LaplaceEvent, events.DiscreteLaplaceEvent, events.CapEvent)
_NUMERICAL = (*_PURE, events.ShuffledGaussianEvent)


@dataclass(frozen=True, kw_only=True)
class Accountant:
    """An immutable account: compose events into it, then ask what they cost together."""

    event: events.Event = events.NothingEvent()

    def compose(self, event: events.Event, times: int = 1) -> Accountant:
        """The account with `event` added `times` times."""
        added = event if times == 1 else events.RepetitionEvent(event=event, times=times)
        return Accountant(event=events.CompositionEvent(events=(self.event, added)))

    def delta(self, epsilon: float) -> float:
        """Smallest delta proven at `epsilon`."""
        return delta(self.event, epsilon)

    def epsilon(self, delta_: float) -> float:
        """Smallest epsilon proven at `delta_`; infinity where there is none."""
        return epsilon(self.event, delta_)

    def rho(self) -> float:
        """Smallest rho proven in zCDP; infinity where there is none."""
        return rho(self.event)

    def satisfies(self, budget: Budget) -> bool:
        """Whether everything composed so far keeps within `budget`."""
        return satisfies(self.event, budget)


def atoms(event: events.Event) -> Counter[events.Event]:
    """The plain releases of which `event` is composed, with their multiplicities."""
    counts: Counter[events.Event] = Counter()
    for atom, times in _walk(event, 1):
        if not isinstance(atom, events.NothingEvent):
            counts[atom] += times
    return counts


def _walk(event: events.Event, times: int) -> Iterator[tuple[events.Event, int]]:
    if isinstance(event, events.CompositionEvent):
        for part in event.events:
            yield from _walk(part, times)
    elif isinstance(event, events.RepetitionEvent):
        yield from _walk(event.event, times * event.times)
    elif type(event) in _GAUSSIAN + _NUMERICAL:  # a subclass may be something else
        yield event, times
    else:
        raise UnknownEvent(f"the accountant does not know {type(event).__name__} and does not guess: {event!r}")


def price(event: events.Event, tail: float) -> Price:
    """Composed Gaussian price, spending about `tail` of total-variation mass in all: squares of mu add, tails add.

    But parts of one record have no common worst case (`records`).
    """
    counts = atoms(event)
    share = tail / max(1, sum(counts.values()))
    total, parts = Price(mu=0.0), list[tuple[events.RecordEvent, float]]()
    for atom, times in counts.items():
        own = gaussian_price(atom, share).repeated(times)
        total = total + own
        if isinstance(atom, events.RecordEvent):
            parts.append((atom, (own.mu * unrounded(atom, share)) ** 2))
    if not parts or math.isinf(total.mu):
        return total
    return Price(mu=math.sqrt(total.mu**2 - records.spared(parts)), tail=total.tail)


def delta(event: events.Event, epsilon: float) -> float:
    """Smallest delta proven for `event` at `epsilon` > 0: the best over a ladder of tails."""
    epsilon = require.epsilon(epsilon)
    if math.isinf(epsilon):
        return 0.0
    targets = (1e-14, 1e-11, 1e-8, 1e-5, 1e-2)
    return min(delta_near(event, epsilon, target) for target in targets)


def epsilon(event: events.Event, delta_: float) -> float:
    """Smallest epsilon proven for `event` at `delta_` in [0, 1); infinity where there is none.

    That of shuffled Gaussian batches is proven too, and at most 1 part in 10^5 above what a longer search would find.
    """
    delta_ = require.delta(delta_)
    counts = atoms(event)
    pure = math.fsum(times * pure_price(atom) for atom, times in counts.items())
    if delta_ == 0.0 or not counts:
        return pure
    if any(isinstance(atom, events.ClearEvent) for atom in counts):
        return math.inf
    if (batches := _shuffled_batches(counts)) is not None:
        near = _shuffled_epsilon(*batches, delta_)
        for found in (near, near * (1 + _OF_TAILS)):
            if delta_near(event, found, delta_) <= delta_:
                return found
    guess = price(event, _TAIL_SHARE * delta_ / 4).mu if is_gaussian(counts) else 0.0
    reach = gdp.epsilon(delta_, guess) if 0 < guess < math.inf else min(pure, 1.0)
    found = gdp.solve_epsilon(lambda e: delta_near(event, e, delta_), delta_, reach=reach * 1.001)
    return min(found, pure)


def rho(event: events.Event) -> float:
    """zCDP price: sums of rho, less what parts of one record cannot cost together."""
    own = [(atom, times * concentrated_price(atom)) for atom, times in atoms(event).items()]
    parts = [
        (atom, 2 * cost * unrounded(atom, _LEAST_TAIL) ** 2)
        for atom, cost in own
        if isinstance(atom, events.RecordEvent)
    ]
    total = math.fsum(cost for _, cost in own)
    return total - records.spared(parts) / 2 if parts and math.isfinite(total) else total


def satisfies(event: events.Event, budget: Budget) -> bool:
    """Whether `event` is proven to keep within `budget`."""
    if isinstance(budget, ApproxDP):
        if math.isinf(budget.epsilon):
            return True
        if budget.delta == 0.0:
            return epsilon(event, 0.0) <= budget.epsilon
        return delta_near(event, budget.epsilon, budget.delta) <= budget.delta
    if isinstance(budget, PureDP):
        return epsilon(event, 0.0) <= budget.epsilon
    if isinstance(budget, ZCDP):
        return rho(event) <= budget.rho
    if isinstance(budget, RenyiDP):
        return budget.alpha * rho(event) <= budget.epsilon
    raise UnknownEvent(f"the accountant does not know budgets of type {type(budget).__name__}")


def delta_near(event: events.Event, epsilon: float, target: float) -> float:
    """Proven delta at `epsilon`, with tails chosen for a delta of about `target`."""
    return _delta_near(_only(event), epsilon, target)


def _only(event: events.Event) -> events.Event:
    """The one release of a composition or repetition of one: the same price, which is computed once."""
    while True:
        if isinstance(event, events.CompositionEvent) and len(event.events) == 1:
            (event,) = event.events
        elif isinstance(event, events.RepetitionEvent) and event.times == 1:
            event = event.event
        else:
            return event


@lru_cache(maxsize=4096)
def _delta_near(event: events.Event, epsilon: float, target: float) -> float:
    counts = atoms(event)
    if math.fsum(times * pure_price(atom) for atom, times in counts.items()) <= epsilon:
        return 0.0
    tail = tail_for(target, epsilon)
    if _is_single_binomial(counts):
        (atom,) = counts
        assert isinstance(atom, events.BinomialEvent)
        return single_binomial_delta(atom, epsilon, tail)
    if is_gaussian(counts):
        return price(event, tail).delta(epsilon)
    if (batches := _shuffled_batches(counts)) is not None:
        mixed = _mixed_delta(*batches, epsilon)
        return min(1.0, mixed, price(event, tail).delta(epsilon))  # shuffling never makes it worse
    return min(loss.composed_delta(counts, epsilon, tail), _without_amplification(event, counts, epsilon, tail))


def _shuffled_batches(counts: Counter[events.Event]) -> tuple[events.ShuffledGaussianEvent, int] | None:
    """One kind of them, and how many, if there is nothing else."""
    ((atom, times), *others) = counts.items()
    return (atom, times) if not others and isinstance(atom, events.ShuffledGaussianEvent) else None


@lru_cache(maxsize=256)
def _shuffled_epsilon(event: events.ShuffledGaussianEvent, times: int, delta_: float) -> float:
    """Without their tails; by their own search, which takes half the time and ends at most 1 part in 10^5 above the
    least.
    """
    return amplification.composed_shuffled_gaussian_epsilon(
        std=event.std, sensitivity=event.sensitivity, users=event.users, times=times, delta=delta_
    )


@lru_cache(maxsize=256)
def _mixed_delta(event: events.ShuffledGaussianEvent, times: int, epsilon: float) -> float:
    """Proven delta of shuffled batches alone: the same for every tail that a ladder tries."""
    mixed = amplification.composed_shuffled_gaussian_delta(
        std=event.std, sensitivity=event.sensitivity, users=event.users, times=times, epsilon=epsilon
    )
    beyond = times * amplification.REPORT_TAILS * event.users * event.tail
    return mixed + Price(mu=0.0, tail=beyond).delta(epsilon)


def _without_amplification(event: events.Event, counts: Counter[events.Event], epsilon: float, tail: float) -> float:
    """Shuffled reports priced as if nobody shuffled: better than the amplified bound where epsilon is large."""
    if any(isinstance(atom, _PURE) for atom in counts):
        return 1.0
    return price(event, tail).delta(epsilon)


def tail_for(target: float, epsilon: float) -> float:
    """Total-variation mass that costs a small share of a target delta, and of what it leaves of 1, at `epsilon`."""
    return max(_TAIL_SHARE * min(target, 1 - target) / (1 + math.exp(min(epsilon, 700.0))), _LEAST_TAIL)


def single_binomial_delta(event: events.BinomialEvent, epsilon: float, tail: float) -> float:
    """Exact for one integer; else Theorem A with the rounding bound of one release at one epsilon (A.3).

    Either is tighter than the composable price.
    """
    beyond = event.tail * (1 + math.exp(min(epsilon, 700.0)))
    if event.dim == 1 and not event.rounded and event.trials <= exact.MOST_TRIALS:
        sure = exact.binomial_delta(event.trials, event.probability, math.ceil(event.shift), epsilon)
        return min(1.0, sure + beyond)
    unit = binomial_unit(event, tail)
    if unit is None:
        return 1.0
    if not event.rounded:
        return Price(mu=unit.mu * event.shift, tail=event.dim * unit.tail + event.tail).delta(epsilon)
    mean = rounding.expected_delta(epsilon, unit.mu, event.shift, event.dim)
    return min(1.0, mean + beyond + event.dim * unit.tail * (1 + math.exp(min(epsilon, 700.0))))


def is_gaussian(atoms_: Iterable[events.Event]) -> bool:
    """Whether all of these plain releases have a Gaussian price."""
    return all(isinstance(atom, _GAUSSIAN) for atom in atoms_)


def _is_single_binomial(counts: Counter[events.Event]) -> bool:
    return sum(counts.values()) == 1 and isinstance(next(iter(counts)), events.BinomialEvent)
