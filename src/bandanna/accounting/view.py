"""What may be shown of a ledger: its budget, what was spent, what was released - and nothing that leads to the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

from bandanna.accounting import parallel
from bandanna.accounting.budgets import ApproxDP, Budget
from bandanna.accounting.events import Event
from bandanna.accounting.guarantee import rounded_up
from bandanna.accounting.stores import Entry


@dataclass(frozen=True, kw_only=True)
class Released:
    """What everybody may see of an expense: `release` is the noisy result, None if it was not drawn yet."""

    task: str
    batch: str
    event: Event
    release: Any


@dataclass(frozen=True, kw_only=True)
class LedgerView:
    """A ledger at one moment, as everybody may see it: values only, without key, fingerprints, members or store.

    A fingerprint is not noisy: with the key, who knows all data of a batch but one person's finds that person's by
    trying. So neither is here, and a view may be kept, pickled and published.
    """

    budget: Budget
    participations: int
    _released: tuple[Released, ...] = field(repr=False)

    @classmethod
    def of(cls, budget: Budget, participations: int, entries: Iterable[Entry]) -> LedgerView:
        """What may be shown of these entries."""
        released = tuple(
            Released(task=one.task, batch=one.batch, event=one.event, release=one.release and one.release[0])
            for one in entries
        )
        return cls(budget=budget, participations=participations, _released=released)

    @property
    def releases(self) -> tuple[Released, ...]:
        """What was released, in order; a copy, so that the stored releases stay what they are."""
        shown = (replace(one, task=one.task.replace(parallel.SEPARATOR, ", ")) for one in self._released)
        return deepcopy(tuple(shown))

    def __str__(self) -> str:
        """Price, budget and count, in a line."""
        spent, delta, count = rounded_up(self.spent()), stated_delta(self.budget), len(self._released)
        times = "once" if self.participations == 1 else f"{self.participations:,} times"
        released = "1 release" if count == 1 else f"{count:,} releases"
        return (
            f"epsilon = {spent} at delta = {delta:g} spent in {released}, by who takes part {times}; of {self.budget}"
        )

    def spent(self) -> float:
        """Smallest epsilon, at the budget's delta (or 1e-6), of what anybody can have paid so far."""
        tasks: dict[str, Counter[Event]] = {}
        for one in self._released:
            tasks.setdefault(one.task, Counter())[one.event] += 1
        return parallel.spent(tasks, self.participations, stated_delta(self.budget))


def stated_delta(budget: Budget) -> float:
    """The delta at which an expense is stated."""
    return budget.delta if isinstance(budget, ApproxDP) else 1e-6
