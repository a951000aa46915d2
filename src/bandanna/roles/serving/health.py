"""Whether a role can do its work: what it says of itself, and whether its database can be written."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from bandanna.roles.serving.life import Claimed
from bandanna.roles.serving.tallies import Tallies
from bandanna.roles.serving.threads import in_thread

_EVERY = 5.0  # seconds between two writes
_PATIENCE = 5.0  # seconds that an answer waits for a write
_STUCK = 30.0  # seconds after which a write that does not end has failed
_WAITING = 64  # answers that wait for it at once: others are given what was known before
_FILLING = "x" * (1 << 16)  # more than a page: a full disk must not have room for it


def write_row(database: Claimed) -> None:
    """Write a row and delete it, in one transaction that reaches the disk; raises what the database raises."""
    with database.transaction() as rows:
        rows.execute("insert into about (role, version) values (?, ?)", _FILLING, -1)
        rows.execute("delete from about where version = ?", -1)


class Health:
    """What `GET /healthz` answers.

    Parameters
    ----------
    role : str
        The role's name.
    said : Callable[[], dict[str, Any]]
        What the role says of itself, asked on the loop: with "ok": False, or an exception, it is not well.
    database : Callable[[], Claimed or None]
        Where a row is written, at most once in 5 s: the role is not well if that fails, or if another process has taken
        the database over. None where there is nothing to write to.
    tallies : Tallies
        Told of a write that failed.
    """

    def __init__(
        self,
        role: str,
        said: Callable[[], dict[str, Any]],
        database: Callable[[], Claimed | None],
        tallies: Tallies,
    ) -> None:
        self._role, self._said, self._database, self._tallies = role, said, database, tallies
        self._writes, self._waiting = True, 0
        self._begun = -_EVERY  # when the last write began
        self._running: asyncio.Task[None] | None = None

    async def document(self) -> dict[str, Any]:
        """All that is known: for the inside."""
        database = self._database()
        writes = database is None or await self._tried(database)
        try:
            document = {"ok": True, **self._said(), "role": self._role}
        except Exception:  # whatever it is, the role is not well
            document = {"ok": False, "role": self._role}
        if database is not None and database.fenced:
            document = {**document, "ok": False, "fenced": True}
        return document if writes else {**document, "ok": False, "writes": False}

    async def _tried(self, database: Claimed) -> bool:
        """Whether the last write has worked; one is made if the last one is old."""
        now = asyncio.get_running_loop().time()
        if self._running is None and now - self._begun >= _EVERY:
            self._begun, self._running = now, asyncio.ensure_future(self._try(database))
        if self._running is not None and self._waiting < _WAITING:
            self._waiting += 1
            try:
                await asyncio.wait({self._running}, timeout=_PATIENCE)
            finally:
                self._waiting -= 1
        stuck = self._running is not None and asyncio.get_running_loop().time() - self._begun > _STUCK
        return self._writes and not stuck

    async def _try(self, database: Claimed) -> None:
        try:
            await in_thread(write_row, database)
            self._writes = True
        except Exception as error:
            self._writes = False
            self._tallies.failed("write failed", error)
        finally:
            self._running = None
