"""Who has been counted, by keyed hashes: nobody more often than the guarantee covers."""

from __future__ import annotations

from collections import Counter
from typing import Any

from bandanna.accounting.people import hashed
from bandanna.errors import BudgetExceeded, InvalidArgument


class People:
    """The users of a counter in the order of their updates, if they are named."""

    def __init__(self, secret: bytes, participations: int, order: list[str] | None = None) -> None:
        self._secret, self._participations = secret, participations
        self.order = order or []
        self._counts = Counter(self.order)

    def forget_after(self, users: int) -> None:
        """Who was admitted to an update that did not take place."""
        if len(self.order) > users:
            del self.order[users:]
            self._counts = Counter(self.order)

    def admit(self, user: Any, users: int) -> str | None:
        """Count one more update, by this user; raises, and counts nothing."""
        if users and (user is None) == bool(self.order):
            given = "named" if self.order else "not named"
            raise InvalidArgument("user", "None" if user is None else "a user", f"as before: users are {given}")
        if user is None:
            return None
        person = hashed(self._secret, user, "user")
        if self._counts[person] >= self._participations:
            raise BudgetExceeded(
                f"user has been counted {self._counts[person]} times; allowed are at most {self._participations} for "
                "each user; nothing was counted"
            )
        self.order.append(person)
        self._counts[person] += 1
        return person
