"""The keys for which devices seal seeds: one is active, and every share tells the analyzer which one.

    pending -> active (after `delay` seconds) -> expired -> deleted

Devices learn of a key by publications, which are the same for all of them; none asks the helper for it.

Number 0 is the task's own. Whatever is not deleted opens what was sealed for it; what was deleted opens nothing ever
again. Records name a key in one byte, so there are 256 of them in a task's life.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from bandanna.core import require
from bandanna.errors import BandannaError, InvalidArgument
from bandanna.storage.database import Database, Transaction
from bandanna.wire.keys import Opener, sealing_key

MOST = 256
DELAY = 3600.0  # seconds for which a new key is pending


class Keyring:
    """A helper's keys, in its database; `first` is the task's pair, secret and public."""

    def __init__(
        self, db: Database, *, first: tuple[str, str], delay: float = DELAY, now: Callable[[], float] = time.time
    ) -> None:
        self._db, self._first = db, first
        self._delay, self._now = require.non_negative("delay", delay), now
        with db.transaction() as transaction:
            known = transaction.execute("select public from keys where id = 0")
            if not known:
                sql = "insert into keys (id, secret, public, state, since) values (0, null, ?, 'active', ?)"
                transaction.execute(sql, first[1], self._now())
        if known and known[0][0] != first[1]:
            raise BandannaError(f"{db.name} has another first key than the task")

    def openers(self) -> dict[int, Opener]:
        """Of all keys that are not deleted."""
        with self._db.reading() as transaction:
            rows = transaction.execute("select id, secret from keys where state <> 'deleted'")
        return {number: Opener(self._first[0] if secret is None else secret) for number, secret in rows}

    def public(self) -> list[dict[str, Any]]:
        """What the operator may know: number, public key, state, and since when (pending: from when) it is active."""
        with self._db.transaction() as transaction:
            self._settle(transaction)
            sql = "select id, public, state, since from keys where state <> 'deleted' order by id"
            rows = transaction.execute(sql)
        return [{"id": one, "public": public, "state": state, "since": since} for one, public, state, since in rows]

    def active(self) -> tuple[int, str]:
        """Number and public half of the key for which devices are to seal."""
        return next((each["id"], each["public"]) for each in self.public() if each["state"] == "active")

    def rotate(self) -> int:
        """Make the next key, pending until `delay` seconds have passed; its number."""
        secret, public = sealing_key()
        with self._db.transaction() as transaction:
            self._settle(transaction)
            if transaction.execute("select id from keys where state = 'pending'"):
                raise BandannaError("a key is pending already: wait until it is active")
            number = int(transaction.execute("select max(id) from keys")[0][0]) + 1
            if number >= MOST:
                raise BandannaError(f"all {MOST} keys of the task are used: make another task")
            sql = "insert into keys (id, secret, public, state, since) values (?, ?, ?, 'pending', ?)"
            transaction.execute(sql, number, secret, public, self._now() + self._delay)
            self._settle(transaction)
        return number

    def delete(self, number: Any) -> None:
        """An expired key, for ever; of number 0 also remove the secret from the task's secrets."""
        with self._db.transaction() as transaction:
            self._settle(transaction)
            expired = [row[0] for row in transaction.execute("select id from keys where state = 'expired' order by id")]
            if type(number) is not int or number not in expired:
                raise InvalidArgument(
                    "id", number, f"an expired key: {', '.join(map(str, expired)) or 'there is none'}"
                )
            transaction.execute("update keys set state = 'deleted', secret = null where id = ?", number)
        self._db.scrub()

    def _settle(self, transaction: Transaction) -> None:
        """A pending key whose time has come is active, and the one before is not any more."""
        sql = "select id from keys where state = 'pending' and since <= ?"
        for (number,) in transaction.execute(sql, self._now()):
            transaction.execute("update keys set state = 'expired' where state = 'active'")
            transaction.execute("update keys set state = 'active' where id = ?", number)
