"""How an application begins and ends (ASGI's lifespan)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any, Protocol

from bandanna.roles.serving.bodies import Bodies
from bandanna.roles.serving.limits import Limits
from bandanna.roles.serving.refusals import place
from bandanna.roles.serving.tallies import Tallies
from bandanna.roles.serving.threads import in_thread, pool

_LOOK = 1.0  # seconds between two looks at the claim

if TYPE_CHECKING:
    from starlette.types import Receive, Send


class Claimed(Protocol):
    """A database that one process serves."""

    @property
    def fenced(self) -> bool:
        """Whether another process has taken over."""

    def check_claim(self) -> None:
        """Look whether another process has taken over."""

    def transaction(self) -> AbstractContextManager[Any]:
        """Begin a transaction that can write; it is committed when its block ends."""


class Life:
    """Start and stop of a role, around everything that is served; `failure` is what went wrong in either."""

    def __init__(
        self,
        *,
        start: Callable[[], Awaitable[None]],
        stop: Callable[[], Awaitable[None]],
        bodies: Bodies,
        tallies: Tallies,
        limits: Limits,
        database: Callable[[], Claimed | None],
    ) -> None:
        self.failure: Exception | None = None
        self._database = database
        self._start, self._stop = start, stop
        self._bodies, self._tallies, self._limits = bodies, tallies, limits

    async def __call__(self, receive: Receive, send: Send) -> None:
        """From "lifespan.startup" to "lifespan.shutdown"."""
        await receive()
        threads = pool(self._limits.threads)
        watchers = [asyncio.ensure_future(each) for each in (self._bodies.watch(), self._look())]
        try:
            if await self._try("start", self._start):
                await send({"type": "lifespan.startup.complete"})
            else:
                await send({"type": "lifespan.startup.failed"})
                return
            await receive()
            kind = "complete" if await self._try("stop", self._stop) else "failed"
            await send({"type": f"lifespan.shutdown.{kind}"})
        finally:
            for watcher in watchers:
                watcher.cancel()
            threads.shutdown(wait=False)

    @property
    def fenced(self) -> bool:
        """Whether another process serves the role's database: this one answers nothing, and ends."""
        database = self._database()
        return database is not None and database.fenced

    async def _look(self) -> None:
        """Look at the claim once a second: whoever only reads, or sleeps, does not notice otherwise."""
        while not self.fenced:
            await asyncio.sleep(_LOOK)
            database = self._database()
            if database is not None:
                with suppress(Exception):  # of a database that is away: it says nothing about the claim
                    await in_thread(database.check_claim)

    async def _try(self, name: str, step: Callable[[], Awaitable[None]]) -> bool:
        try:
            await step()
        except Exception as error:
            self.failure = error
            self._tallies.log.say(f"{name} failed", type=type(error).__name__, place=place(error))
            return False
        return True
