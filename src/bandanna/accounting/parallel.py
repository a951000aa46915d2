"""What the person who is in the most expensive batches pays: at most M batches of each task, composed over tasks.

Batches of one task hold different people, each person at most M times; so a task costs what its M most expensive
batches cost together, not the sum over all. Tasks compose, because a person may be in all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from bandanna.accounting import accountant, events
from bandanna.accounting.budgets import ApproxDP, Budget, PureDP
from bandanna.accounting.gdp import Price
from bandanna.accounting.prices import concentrated_price, gaussian_price, pure_price

Batches = Counter[events.Event]


def within(tasks: Mapping[str, Batches], participations: int, budget: Budget) -> bool:
    """Whether nobody can have paid more than `budget`."""
    if len(tasks) == 1 and participations == 1:  # every person is in one batch: each must keep within the budget alone
        (batches,) = tasks.values()
        return all(accountant.satisfies(event, budget) for event in batches)
    if isinstance(budget, ApproxDP) and budget.delta > 0 and _mixed_gaussians(tasks):
        tail = accountant.tail_for(budget.delta, budget.epsilon) / (len(tasks) * participations)
        worst = Price(mu=0.0)
        for batches in tasks.values():
            worst = worst + _heaviest(batches, participations, tail)
        return worst.delta(budget.epsilon) <= budget.delta
    return accountant.satisfies(most_expensive(tasks, participations, budget), budget)


def most_expensive(tasks: Mapping[str, Batches], participations: int, budget: Budget) -> events.Event:
    """An event at least as expensive as any person's share: M times each kind of batch, or the M dearest ones."""
    parts: list[events.Event] = []
    for batches in tasks.values():
        if isinstance(budget, ApproxDP) and budget.delta > 0:
            parts += [_times(event, min(participations, count)) for event, count in batches.items()]
        else:
            add = pure_price if isinstance(budget, PureDP | ApproxDP) else concentrated_price
            dearest = sorted(batches.elements(), key=add, reverse=True)[:participations]
            parts += dearest
    return events.CompositionEvent(events=tuple(parts))


def _heaviest(batches: Batches, participations: int, tail: float) -> Price:
    """The M largest mu, and M times the largest tail: no choice of M batches costs more."""
    prices = [gaussian_price(event, tail) for event in batches]
    dearest = sorted(zip(prices, batches.values(), strict=True), key=lambda pair: pair[0].mu, reverse=True)
    left, total = participations, Price(mu=0.0)
    for price, count in dearest:
        taken = min(left, count)
        total, left = total + Price(mu=price.mu).repeated(taken), left - taken
        if not left:
            break
    return Price(mu=total.mu, tail=participations * max((price.tail for price in prices), default=0.0))


def _mixed_gaussians(tasks: Mapping[str, Batches]) -> bool:
    """Whether different kinds of batches occur in a task, all of them with a Gaussian price."""
    kinds = [event for batches in tasks.values() for event in batches]
    return any(len(batches) > 1 for batches in tasks.values()) and accountant.is_gaussian(kinds)


def _times(event: events.Event, times: int) -> events.Event:
    return events.RepetitionEvent(event=event, times=times)
