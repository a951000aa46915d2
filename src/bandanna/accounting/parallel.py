"""What the person who is in the most expensive batches pays: at most M batches of each task, composed over tasks.

Batches of one task hold different people, each person at most M times; so a task costs what its M most expensive
batches cost together, not the sum over all. A continual release is one event for its whole stream: it is charged
once, whatever the number of steps, and its own price covers the person's participations. Tasks compose: a person may
be in all of them.

Some tasks are parts of alternatives, such as sums over those whom a policy has explored with and sums over the others:
a person is in one alternative only, with all its parts, and the dearest alternative counts. Whoever is in one of them
in the one world and in the other in the neighbouring one moves both by a contribution instead of a difference of two.
Where reports lie in a ball around 0 that is half the sensitivity, and two halves, (mu/2)^2 + (mu'/2)^2, cost less than
the dearer whole; up to 1/sqrt 2 of the sensitivity they do not cost more. Reports that are farther from 0 than that,
such as bits, have no alternatives: the ledger does not see them, whoever asks does (`loop.check_group`).

Parts of one record (`events.RecordEvent`) cost less together, whatever the tasks are in which they are released. This
is so for who takes part once, and for tasks whose batches all have one price: where a person may have several records,
or be in one of different batches, each is priced by itself. To move from one alternative to another costs
A + (B + B')/4 beside a matrix of price A, never more than the dearer of both with it (calibration.md 0.4).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product

from bandanna.accounting import accountant, events, gdp
from bandanna.accounting.budgets import ApproxDP, Budget, PureDP
from bandanna.accounting.gdp import Price

Batches = Counter[events.Event]

SEPARATOR = "\x1f"  # in the names of tasks that are parts of alternatives: task, alternative, part


def alternatives(tasks: Mapping[str, Batches]) -> Iterator[dict[str, Batches]]:
    """The tasks that one person can be in: of every set of alternatives one."""
    families: dict[str, dict[str, list[str]]] = {}
    for name in tasks:
        if SEPARATOR in name:
            family, alternative, _ = name.split(SEPARATOR)
            families.setdefault(family, {}).setdefault(alternative, []).append(name)
    always = [name for name in tasks if SEPARATOR not in name]
    for chosen in product(*(family.values() for family in families.values())):
        yield {name: tasks[name] for name in (*always, *(name for names in chosen for name in names))}


def others(task: str, tasks: Iterable[str]) -> list[str]:
    """The parts of the other alternatives of a part's own."""
    if SEPARATOR not in task:
        return []
    family, alternative, _ = task.split(SEPARATOR)
    parts = [(name, name.split(SEPARATOR)) for name in tasks if SEPARATOR in name]
    return [name for name, (its, own, _) in parts if its == family and own != alternative]


def within(tasks: Mapping[str, Batches], participations: int, budget: Budget) -> bool:
    """Whether nobody can have paid more than `budget`."""
    return all(_within(chosen, participations, budget) for chosen in alternatives(_known(tasks, participations)))


def _known(tasks: Mapping[str, Batches], participations: int) -> Mapping[str, Batches]:
    """Tasks whose releases are about the same features of a person where they say so: of one participation."""
    if participations == 1:
        return tasks
    return {name: _summed((events.apart(event), n) for event, n in batches.items()) for name, batches in tasks.items()}


def _summed(pairs: Iterable[tuple[events.Event, int]]) -> Batches:
    counts: Batches = Counter()
    for event, count in pairs:
        counts[event] += count
    return counts


def _within(tasks: Mapping[str, Batches], participations: int, budget: Budget) -> bool:
    if isinstance(budget, ApproxDP) and math.isinf(budget.epsilon):
        return True
    if len(tasks) == 1 and participations == 1:  # every person is in one batch: each must keep within the budget alone
        (batches,) = tasks.values()
        return all(accountant.satisfies(event, budget) for event in batches)
    if isinstance(budget, ApproxDP) and budget.delta > 0:
        return _delta(tasks, participations, budget.epsilon, budget.delta) <= budget.delta
    add = pure_total if isinstance(budget, PureDP | ApproxDP) else accountant.rho  # prices that add: the M dearest
    return accountant.satisfies(_dearest(tasks, participations, add), budget)


def spent(tasks: Mapping[str, Batches], participations: int, delta: float) -> float:
    """Smallest epsilon at `delta` within which everybody is proven to be; 0 if nothing was released."""
    return max(_spent(chosen, participations, delta) for chosen in alternatives(_known(tasks, participations)))


def _spent(tasks: Mapping[str, Batches], participations: int, delta: float) -> float:
    if not tasks:
        return 0.0
    if len(tasks) == 1 and participations == 1:
        (batches,) = tasks.values()
        return max(accountant.epsilon(event, delta) for event in batches)
    pure = pure_total(_dearest(tasks, participations, pure_total))
    if delta == 0.0:
        return pure
    return min(pure, gdp.solve_epsilon(lambda e: _delta(tasks, participations, e, delta), delta))


def pure_total(event: events.Event) -> float:
    """Pure epsilon of a composed event."""
    return accountant.epsilon(event, 0.0)


def _delta(tasks: Mapping[str, Batches], participations: int, epsilon: float, target: float) -> float:
    """delta at `epsilon` of the person who is in the most expensive batches."""
    if _mixed_gaussians(tasks):
        tail = accountant.tail_for(target, epsilon) / (len(tasks) * participations)
        alike = [batches for batches in tasks.values() if len(batches) == 1]
        worst = accountant.price(_all_of(alike, participations), tail * participations * len(alike))
        for batches in tasks.values():
            if len(batches) > 1:
                worst = worst + _heaviest(batches, participations, tail)
        return worst.delta(epsilon)
    return accountant.delta_near(_all_of(tasks.values(), participations), epsilon, target)


def _all_of(tasks: Iterable[Batches], participations: int) -> events.Event:
    """Of every kind of batch as many as a person can be in: no choice of M costs more."""
    parts = [
        events.RepetitionEvent(event=event, times=_times(event, count, participations))
        for batches in tasks
        for event, count in batches.items()
    ]
    return events.CompositionEvent(events=tuple(parts))


def is_stream(event: events.Event) -> bool:
    """Whether an event covers a whole stream: priced once for all of a person's participations, however many steps."""
    counts = accountant.atoms(event)
    return bool(counts) and all(isinstance(events.plain(atom), events.ContinualEvent) for atom in counts)


def _times(event: events.Event, count: int, participations: int) -> int:
    return 1 if is_stream(event) else min(participations, count)


def _dearest(tasks: Mapping[str, Batches], participations: int, price: Callable[[events.Event], float]) -> events.Event:
    """The M dearest batches of every task, where prices add."""
    parts: list[events.Event] = []
    for batches in tasks.values():
        if len(batches) > 1:  # one of which a person is in: which is dearest beside other tasks is not known
            batches = _summed((events.apart(event), n) for event, n in batches.items())
        parts += [event for event in batches if is_stream(event)]
        single = [event for event in batches.elements() if not is_stream(event)]
        parts += sorted(single, key=price, reverse=True)[:participations]
    return events.CompositionEvent(events=tuple(parts))


def _heaviest(batches: Batches, participations: int, tail: float) -> Price:
    """The M largest mu, and M times the largest tail: no choice of M batches costs more."""
    streams = [accountant.price(event, tail) for event in batches if is_stream(event)]
    single = {event: count for event, count in batches.items() if not is_stream(event)}
    prices = [accountant.price(event, tail) for event in single]
    dearest = sorted(zip(prices, single.values(), strict=True), key=lambda pair: pair[0].mu, reverse=True)
    left, total = participations, sum((Price(mu=price.mu) for price in streams), start=Price(mu=0.0))
    for price, count in dearest:
        taken = min(left, count)
        total, left = total + Price(mu=price.mu).repeated(taken), left - taken
        if not left:
            break
    tail = math.fsum(price.tail for price in streams) + participations * max((p.tail for p in prices), default=0.0)
    return Price(mu=total.mu, tail=tail)


def _mixed_gaussians(tasks: Mapping[str, Batches]) -> bool:
    """Whether different kinds of batches occur in a task, all of them with a Gaussian price."""
    kinds = [atom for batches in tasks.values() for event in batches for atom in accountant.atoms(event)]
    return any(len(batches) > 1 for batches in tasks.values()) and accountant.is_gaussian(kinds)
