"""Users: known by a keyed hash, counted when they decide, refused before anything is recorded."""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Sequence
from typing import Any

from bandanna.accounting.stores import LedgerStore
from bandanna.agent.plan import Plan
from bandanna.agent.slots import Slots
from bandanna.errors import BudgetExceeded, InvalidArgument


def hashed(secret: bytes, user: Any, name: str) -> str:
    """The name under which a user is kept; 17 and "17" are the same."""
    if isinstance(user, bool) or not isinstance(user, str | int) or user == "":
        shown = "" if user == "" else f"a {type(user).__name__}"  # an id does not belong in a message
        raise InvalidArgument(name, shown, "a user's id: a text that is not empty, or a whole number")
    plain = str.__str__(user) if isinstance(user, str) else int.__repr__(user)  # an enumeration's member is its value
    return hmac.digest(secret, f"user {plain}".encode(errors="surrogatepass"), hashlib.sha256).hex()


def admit(
    users: Sequence[str | None],
    *,
    names: Sequence[str],
    made: int,
    filling: int,
    plan: Plan,
    slots: Slots,
    store: LedgerStore,
    task: str,
    participations: int,
) -> None:
    """Whether these users may make the next decisions, in this order; raises, and records nothing."""
    if participations > 1 and None in users:
        allowed = f"the user's id: the guarantee covers {participations} participations of each, which must be counted"
        raise InvalidArgument(names[users.index(None)], None, allowed)
    known = {user for user in users if user is not None}
    if not known:
        return
    before = store.appearances(task, known)
    counts = Counter({user: before[user] + slots.people[user] for user in known})
    batch = plan.batch(filling)
    assert batch is not None
    present = slots.present(batch.number) if participations > 1 else set()
    for number, (user, name) in enumerate(zip(users, names, strict=True), start=made):
        while number >= batch.end:
            following = plan.batch(batch.number + 1)
            assert following is not None
            batch, present = following, set()
        if user is None:
            continue
        if counts[user] >= participations:
            raise BudgetExceeded(
                f"{name} has taken part {counts[user]} times; allowed are at most {participations} for each user, in "
                f"as many batches; nothing was recorded"
            )
        if user in present:
            raise BudgetExceeded(
                f"{name} is in batch {batch.number} already; allowed is one participation in a batch, and the next "
                f"batch begins after {batch.end - number} more decisions; nothing was recorded"
            )
        present.add(user)
        counts[user] += 1
