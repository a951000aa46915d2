"""Composition of events: the epsilon and delta that a sequence of releases costs one user.

Every number returned is an upper bound. Unknown events are refused.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import product
from typing import Any

from bandanna import validation
from bandanna.errors import UnknownEvent
from bandanna.numeric import search
from bandanna.privacy import amplification, events, gdp, prices, shuffled_gaussian
from bandanna.privacy.budgets import ZCDP, ApproxDP, Budget, PureDP, RenyiDP
from bandanna.privacy.gdp import Price
from bandanna.privacy.prices import (
    binomial_unit,
    compute_unrounded_share,
    concentrated_price,
    gaussian_price,
    pure_price,
)

# Numerical composition


_INTERVAL = 1e-4
_LEAST = 1e-5  # eps0 of reports so noisy that their tail would allow 0, which has no mixture
_LARGEST_PURE = 600.0  # pure epsilon of one event; what is larger is priced by it alone, and no search goes beyond


def composed_delta(counts: Counter[events.Event], epsilon: float, tail: float) -> float:
    """Return delta at `epsilon` of all events together, spending about `tail` of total-variation mass.

    Each event is replaced by a pair that dominates it; dp-accounting convolves the pairs' loss distributions.
    """
    rounded = 10.0 ** math.floor(math.log10(tail))  # neighbouring epsilons share one composition
    total, spent = _compose(tuple(counts.items()), rounded)
    if total is None:
        return 1.0
    return min(1.0, float(total.get_delta_for_epsilon(epsilon)) + spent * (1 + math.exp(min(epsilon, 700.0))))


@lru_cache(maxsize=64)
def _compose(counts: tuple[tuple[events.Event, int], ...], tail: float) -> tuple[Any, float]:
    """Return the composed losses (None if nothing is proven) and the mass beyond them."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    share = tail / sum(times for _, times in counts)
    gaussian = Price(mu=0.0)
    parts, spent = list[Any](), 0.0
    for event, times in counts:
        if isinstance(event, events.LaplaceEvent | events.DiscreteLaplaceEvent | events.CapEvent):
            if pure_price(event) > _LARGEST_PURE:
                return None, 1.0
            parts.append(_pure_distribution(event, times))
        elif isinstance(event, events.ShuffledGaussianEvent):
            distribution, mass = _shuffled_distribution(event, share)
            parts.append(_convolve_times(distribution, times))
            spent += times * mass
        else:
            gaussian = gaussian + gaussian_price(event, share).repeated(times)
    if math.isinf(gaussian.mu):
        return None, 1.0
    if gaussian.mu > 0:
        parts.append(_gaussian_distribution(gaussian.mu))
    total = reduce(lambda one, other: one.compose(other), parts) if parts else pld.identity(_INTERVAL)
    return total, spent + gaussian.tail


def _convolve_times(distribution: Any, times: int) -> Any:
    return distribution if times == 1 else distribution.self_compose(times)


@lru_cache(maxsize=16)  # for several tails the same
def _gaussian_distribution(mu: float) -> Any:
    from dp_accounting.pld import privacy_loss_distribution as pld

    return pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=_INTERVAL)


@lru_cache(maxsize=16)
def _pure_distribution(event: events.LaplaceEvent | events.DiscreteLaplaceEvent | events.CapEvent, times: int) -> Any:
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    if isinstance(event, events.LaplaceEvent) and event.dim == 1 and event.grid == 0.0:
        one = pld.from_laplace_mechanism(
            event.scale, sensitivity=event.sensitivity, value_discretization_interval=_INTERVAL
        )
        return _convolve_times(one, times)
    pure = common.DifferentialPrivacyParameters(pure_price(event), 0.0)
    return _convolve_times(pld.from_privacy_parameters(pure, value_discretization_interval=_INTERVAL), times)


def _shuffled_distribution(event: events.ShuffledGaussianEvent, tail: float) -> tuple[Any, float]:
    """Return a report among mixtures at the least eps0 that leaves `tail`, and the mass beyond it."""
    mu = event.sensitivity / event.std

    def left(local: float) -> float:
        return (event.users - 1) * math.exp(-local) * float(gdp.delta(local, mu))  # B.1

    most = max(gdp.epsilon(tail / event.users, mu), _LEAST)
    local = search.find_least(lambda local: left(local) <= tail, most / 1000, most, relative=1e-6)
    losses = amplification.blanket_losses(users=event.users, local_epsilon=local, mu=mu, discretization=_INTERVAL)
    return losses.pld(), left(local) + amplification.REPORT_TAILS * event.users * event.tail


# The accountant


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
    """An immutable account of events about one user.

    The first of these routes that applies gives the price:

    * one binomial release: exact for one integer, else Theorem A with the rounding bound for a single release (A.3);
    * Gaussian prices: squares of mu and tails add, parts of one record cost less (`RecordEvent`), conversion is exact;
    * Laplace noise, caps and shuffled Gaussians: numerical composition of privacy losses.

    Parameters
    ----------
    event
        All releases so far, as one event.
    """

    event: events.Event = events.NothingEvent()

    def compose(self, event: events.Event, times: int = 1) -> Accountant:
        """Return the account with `event` added `times` times."""
        added = event if times == 1 else events.RepetitionEvent(event=event, times=times)
        return Accountant(event=events.CompositionEvent(events=(self.event, added)))

    def delta(self, epsilon: float) -> float:
        """Return the smallest delta proven at `epsilon`."""
        return delta(self.event, epsilon)

    def epsilon(self, delta_: float) -> float:
        """Return the smallest epsilon proven at `delta_`; infinity if there is none."""
        return epsilon(self.event, delta_)

    def rho(self) -> float:
        """Return the smallest rho proven in zCDP; infinity if there is none."""
        return rho(self.event)

    def satisfies(self, budget: Budget) -> bool:
        """Return whether all events together keep within `budget`."""
        return satisfies(self.event, budget)


def count_atoms(event: events.Event) -> Counter[events.Event]:
    """Return the plain releases that `event` is composed of, with their multiplicities."""
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
    """Return the composed Gaussian price, spending about `tail` of total-variation mass in all."""
    counts = count_atoms(event)
    share = tail / max(1, sum(counts.values()))
    total, parts = Price(mu=0.0), list[tuple[events.RecordEvent, float]]()
    for atom, times in counts.items():
        own = gaussian_price(atom, share).repeated(times)
        total = total + own
        if isinstance(atom, events.RecordEvent):
            parts.append((atom, (own.mu * compute_unrounded_share(atom, share)) ** 2))
    if not parts or math.isinf(total.mu):
        return total
    return Price(mu=math.sqrt(total.mu**2 - events.compute_joint_saving(parts)), tail=total.tail)


def delta(event: events.Event, epsilon: float) -> float:
    """Return the smallest delta proven for `event` at `epsilon` > 0: the best over a ladder of tails."""
    epsilon = validation.epsilon(epsilon)
    if math.isinf(epsilon):
        return 0.0
    targets = (1e-14, 1e-11, 1e-8, 1e-5, 1e-2)
    return min(delta_near(event, epsilon, target) for target in targets)


def epsilon(event: events.Event, delta_: float) -> float:
    """Return the smallest epsilon proven for `event` at `delta_` in [0, 1); infinity if there is none.

    For shuffled Gaussian batches it is at most 1 part in 10^5 too large.
    """
    delta_ = validation.delta(delta_)
    counts = count_atoms(event)
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
    """Return the zCDP price: the sum of rho, less the joint saving of parts of one record."""
    own = [(atom, times * concentrated_price(atom)) for atom, times in count_atoms(event).items()]
    parts = [
        (atom, 2 * cost * compute_unrounded_share(atom, _LEAST_TAIL) ** 2)
        for atom, cost in own
        if isinstance(atom, events.RecordEvent)
    ]
    total = math.fsum(cost for _, cost in own)
    return total - events.compute_joint_saving(parts) / 2 if parts and math.isfinite(total) else total


def satisfies(event: events.Event, budget: Budget) -> bool:
    """Return whether `event` is proven to keep within `budget`."""
    if isinstance(budget, ApproxDP) and math.isinf(budget.epsilon):
        return True
    if isinstance(budget, ApproxDP) and budget.delta > 0:
        return delta_near(event, budget.epsilon, budget.delta) <= budget.delta
    if isinstance(budget, PureDP | ApproxDP):
        return epsilon(event, 0.0) <= budget.epsilon
    if isinstance(budget, ZCDP):
        return rho(event) <= budget.rho
    if isinstance(budget, RenyiDP):
        return budget.alpha * rho(event) <= budget.epsilon
    raise UnknownEvent(f"the accountant does not know budgets of type {type(budget).__name__}")


def delta_near(event: events.Event, epsilon: float, target: float) -> float:
    """Return the proven delta at `epsilon`, with tails chosen for a delta of about `target`."""
    return _delta_near(_unwrap_single(event), epsilon, target)


def _unwrap_single(event: events.Event) -> events.Event:
    while True:
        if isinstance(event, events.CompositionEvent) and len(event.events) == 1:
            (event,) = event.events
        elif isinstance(event, events.RepetitionEvent) and event.times == 1:
            event = event.event
        else:
            return event


@lru_cache(maxsize=4096)
def _delta_near(event: events.Event, epsilon: float, target: float) -> float:
    counts = count_atoms(event)
    if math.fsum(times * pure_price(atom) for atom, times in counts.items()) <= epsilon:
        return 0.0
    tail = tail_for(target, epsilon)
    ((atom, times), *others) = counts.items()
    if isinstance(atom, events.BinomialEvent) and times == 1 and not others:
        return single_binomial_delta(atom, epsilon, tail)
    if is_gaussian(counts):
        return price(event, tail).delta(epsilon)
    if (batches := _shuffled_batches(counts)) is not None:
        mixed = _mixed_delta(*batches, epsilon)
        return min(1.0, mixed, price(event, tail).delta(epsilon))  # shuffling never makes it worse
    # at large epsilon reports without a shuffler may beat the amplified bound
    alone = 1.0 if any(isinstance(atom, _PURE) for atom in counts) else price(event, tail).delta(epsilon)
    return min(composed_delta(counts, epsilon, tail), alone)


def _shuffled_batches(counts: Counter[events.Event]) -> tuple[events.ShuffledGaussianEvent, int] | None:
    ((atom, times), *others) = counts.items()
    return (atom, times) if not others and isinstance(atom, events.ShuffledGaussianEvent) else None


@lru_cache(maxsize=256)
def _shuffled_epsilon(event: events.ShuffledGaussianEvent, times: int, delta_: float) -> float:
    """Return epsilon without the reports' tails, within 1 part in 10^5."""
    return shuffled_gaussian.shuffled_gaussian_epsilon(
        std=event.std, sensitivity=event.sensitivity, users=event.users, times=times, delta=delta_
    )


@lru_cache(maxsize=256)
def _mixed_delta(event: events.ShuffledGaussianEvent, times: int, epsilon: float) -> float:
    mixed = shuffled_gaussian.shuffled_gaussian_delta(
        std=event.std, sensitivity=event.sensitivity, users=event.users, times=times, epsilon=epsilon
    )
    beyond = times * amplification.REPORT_TAILS * event.users * event.tail
    return mixed + Price(mu=0.0, tail=beyond).delta(epsilon)


def tail_for(target: float, epsilon: float) -> float:
    """Return the total-variation mass that costs a small share of a target delta, and of 1 - delta, at `epsilon`."""
    return max(_TAIL_SHARE * min(target, 1 - target) / (1 + math.exp(min(epsilon, 700.0))), _LEAST_TAIL)


def single_binomial_delta(event: events.BinomialEvent, epsilon: float, tail: float) -> float:
    """Return delta of one binomial release: exact for one integer, else by Theorem A with the rounding bound A.3."""
    beyond = event.tail * (1 + math.exp(min(epsilon, 700.0)))
    if event.dim == 1 and not event.rounded and event.trials <= prices.MOST_TRIALS:
        sure = prices.binomial_delta(event.trials, event.probability, math.ceil(event.shift), epsilon)
        return min(1.0, sure + beyond)
    unit = binomial_unit(event, tail)
    if unit is None:
        return 1.0
    if not event.rounded:
        return Price(mu=unit.mu * event.shift, tail=event.dim * unit.tail + event.tail).delta(epsilon)
    mean = prices.expected_delta(epsilon, unit.mu, event.shift, event.dim)
    return min(1.0, mean + beyond + event.dim * unit.tail * (1 + math.exp(min(epsilon, 700.0))))


def is_gaussian(atoms_: Iterable[events.Event]) -> bool:
    """Return whether all of these plain releases have a Gaussian price."""
    return all(isinstance(atom, _GAUSSIAN) for atom in atoms_)


# The most expensive user of a ledger


EventCounts = Counter[events.Event]

SEPARATOR = "\x1f"  # in the names of tasks that are parts of alternatives: task, alternative, part


def iterate_alternatives(tasks: Mapping[str, EventCounts]) -> Iterator[dict[str, EventCounts]]:
    """Yield the tasks that one user can be in: one alternative of each set; the dearest counts.

    Changing alternatives costs no more for reports in a ball around 0 (proofs.md 0.4), which the caller checks
    (`policies.base.check_group`).
    """
    families: dict[str, dict[str, list[str]]] = {}
    for name in tasks:
        if SEPARATOR in name:
            family, alternative, _ = name.split(SEPARATOR)
            families.setdefault(family, {}).setdefault(alternative, []).append(name)
    always = [name for name in tasks if SEPARATOR not in name]
    for chosen in product(*(family.values() for family in families.values())):
        yield {name: tasks[name] for name in (*always, *(name for names in chosen for name in names))}


def find_other_alternatives(task: str, tasks: Iterable[str]) -> list[str]:
    """Return the parts of the other alternatives in the set of a part."""
    if SEPARATOR not in task:
        return []
    family, alternative, _ = task.split(SEPARATOR)
    parts = [(name, name.split(SEPARATOR)) for name in tasks if SEPARATOR in name]
    return [name for name, (its, own, _) in parts if its == family and own != alternative]


def is_within_budget(tasks: Mapping[str, EventCounts], participations: int, budget: Budget) -> bool:
    """Return whether no user can have paid more than `budget`."""
    joined = _join_records(tasks, participations)
    return all(_check_within(chosen, participations, budget) for chosen in iterate_alternatives(joined))


def _join_records(tasks: Mapping[str, EventCounts], participations: int) -> Mapping[str, EventCounts]:
    """Drop records unless every user takes part once, because a user with several pays for each by itself."""
    if participations == 1:
        return tasks
    return {
        name: _sum_counters((events.unwrap_all_records(event), n) for event, n in batches.items())
        for name, batches in tasks.items()
    }


def _sum_counters(pairs: Iterable[tuple[events.Event, int]]) -> EventCounts:
    counts: EventCounts = Counter()
    for event, count in pairs:
        counts[event] += count
    return counts


def _check_within(tasks: Mapping[str, EventCounts], participations: int, budget: Budget) -> bool:
    if isinstance(budget, ApproxDP) and math.isinf(budget.epsilon):
        return True
    if len(tasks) == 1 and participations == 1:  # every user is in one batch: each must keep within the budget alone
        (batches,) = tasks.values()
        return all(satisfies(event, budget) for event in batches)
    if isinstance(budget, ApproxDP) and budget.delta > 0:
        return _delta(tasks, participations, budget.epsilon, budget.delta) <= budget.delta
    add = pure_total if isinstance(budget, PureDP | ApproxDP) else rho  # prices that add: the M dearest
    return satisfies(_select_dearest(tasks, participations, add), budget)


def compute_spent(tasks: Mapping[str, EventCounts], participations: int, delta: float) -> float:
    """Return the smallest epsilon at `delta` that holds for every user; 0 if nothing was released.

    A user is in at most M batches of a task, so a task costs as much as its M dearest batches. A continual release is
    one event and is charged once. Tasks compose.
    """
    joined = _join_records(tasks, participations)
    return max(_search_spent(chosen, participations, delta) for chosen in iterate_alternatives(joined))


def _search_spent(tasks: Mapping[str, EventCounts], participations: int, delta: float) -> float:
    if not tasks:
        return 0.0
    if len(tasks) == 1 and participations == 1:
        (batches,) = tasks.values()
        return max(epsilon(event, delta) for event in batches)
    pure = pure_total(_select_dearest(tasks, participations, pure_total))
    if delta == 0.0:
        return pure
    return min(pure, gdp.solve_epsilon(lambda e: _delta(tasks, participations, e, delta), delta))


def pure_total(event: events.Event) -> float:
    """Return the pure epsilon of a composed event."""
    return epsilon(event, 0.0)


def _delta(tasks: Mapping[str, EventCounts], participations: int, epsilon: float, target: float) -> float:
    kinds = [atom for batches in tasks.values() for event in batches for atom in count_atoms(event)]
    if is_gaussian(kinds) and any(len(batches) > 1 for batches in tasks.values()):
        tail = tail_for(target, epsilon) / (len(tasks) * participations)
        alike = [batches for batches in tasks.values() if len(batches) == 1]
        worst = price(_compose_worst_case(alike, participations), tail * participations * len(alike))
        for batches in tasks.values():
            if len(batches) > 1:
                worst = worst + _price_heaviest(batches, participations, tail)
        return worst.delta(epsilon)
    return delta_near(_compose_worst_case(tasks.values(), participations), epsilon, target)


def _compose_worst_case(tasks: Iterable[EventCounts], participations: int) -> events.Event:
    """Compose as many batches of every kind as a user can be in, which no choice of M exceeds."""
    parts = [
        events.RepetitionEvent(event=event, times=1 if is_stream(event) else min(participations, count))
        for batches in tasks
        for event, count in batches.items()
    ]
    return events.CompositionEvent(events=tuple(parts))


def is_stream(event: events.Event) -> bool:
    """Return whether an event covers a whole stream and is priced once for all participations."""
    counts = count_atoms(event)
    return bool(counts) and all(isinstance(events.unwrap_record(atom), events.ContinualEvent) for atom in counts)


def _select_dearest(
    tasks: Mapping[str, EventCounts], participations: int, price: Callable[[events.Event], float]
) -> events.Event:
    """Compose the M dearest batches of every task; valid for prices that add."""
    parts: list[events.Event] = []
    for batches in tasks.values():
        if len(batches) > 1:  # a user is in one of them: which is dearest beside other tasks is not known
            batches = _sum_counters((events.unwrap_all_records(event), n) for event, n in batches.items())
        parts += [event for event in batches if is_stream(event)]
        single = [event for event in batches.elements() if not is_stream(event)]
        parts += sorted(single, key=price, reverse=True)[:participations]
    return events.CompositionEvent(events=tuple(parts))


def _price_heaviest(batches: EventCounts, participations: int, tail: float) -> Price:
    """Compose the M largest mu, with M times the largest tail, which no choice of M batches exceeds."""
    streams = [price(event, tail) for event in batches if is_stream(event)]
    single = {event: count for event, count in batches.items() if not is_stream(event)}
    prices = [price(event, tail) for event in single]
    dearest = sorted(zip(prices, single.values(), strict=True), key=lambda pair: pair[0].mu, reverse=True)
    left, total = participations, sum((Price(mu=each.mu) for each in streams), start=Price(mu=0.0))
    for dear, count in dearest:
        taken = min(left, count)
        total, left = total + Price(mu=dear.mu).repeated(taken), left - taken
        if not left:
            break
    tail = math.fsum(each.tail for each in streams) + participations * max((p.tail for p in prices), default=0.0)
    return Price(mu=total.mu, tail=tail)
