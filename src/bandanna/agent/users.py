"""Users: counted when they decide, refused before anything is recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from bandanna.accounting.stores import LedgerStore
from bandanna.agent.plan import Batch
from bandanna.agent.slots import Slots
from bandanna.core import require
from bandanna.errors import BudgetExceeded, InvalidArgument, InvalidStatistic, Summary


def listed(users: Any, count: int) -> list[Any]:
    """One entry for each set of arms: an id, or None."""
    if users is None:
        return [None] * count
    allowed = f"{count}, one for each set of arms"
    people = require.several("users", users, f"a list or an array of {allowed}")
    if len(people) != count:
        raise InvalidStatistic("users", Summary(f"{len(people)} users"), allowed)
    return people


def admit(
    users: Sequence[str | None],
    *,
    names: Sequence[str],
    made: int,
    batches: Iterator[Batch],
    slots: Slots,
    store: LedgerStore,
    task: str,
    participations: int,
    present: set[str] | None = None,
) -> None:
    """Whether these users may make the next decisions, in this order; raises, and records nothing.

    batches: that of the next decision, and those after it; where they are not known, nobody comes twice.
    present: who is in the first of them, the slots' users unless given.
    """
    if participations > 1 and None in users:
        allowed = f"the user's id: the guarantee covers {participations} participations of each, which must be counted"
        raise InvalidArgument(names[users.index(None)], None, allowed)
    known = {user for user in users if user is not None}
    if not known:
        return
    before = store.appearances(task, known)
    counts = Counter({user: before[user] + slots.people[user] for user in known})
    batch = next(batches, None)
    if present is None:
        present = slots.present(batch.number) if batch is not None and participations > 1 else set()
    for number, (user, name) in enumerate(zip(users, names, strict=True), start=made):
        while batch is not None and number >= batch.end:
            batch, present = next(batches, None), set()
        if user is None or (batch is not None and not batch.episode.released):
            continue  # of an episode that is never released nobody pays
        if counts[user] >= participations:
            raise BudgetExceeded(
                f"{name} has taken part {counts[user]} times; allowed are at most {participations} for each user, in "
                f"as many batches; nothing was recorded"
            )
        if user in present:
            where = "a batch" if batch is None else f"batch {batch.number}"
            further = "" if batch is None else f", and the next batch begins after {batch.end - number} more decisions"
            raise BudgetExceeded(
                f"{name} is in {where} already; allowed is one participation in a batch{further}; nothing was recorded"
            )
        present.add(user)
        counts[user] += 1
