"""How an application begins and ends (ASGI's lifespan)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from bandanna.roles.serving.bodies import Bodies
from bandanna.roles.serving.limits import Limits
from bandanna.roles.serving.refusals import place
from bandanna.roles.serving.tallies import Tallies
from bandanna.roles.serving.threads import pool

if TYPE_CHECKING:
    from starlette.types import Receive, Send


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
    ) -> None:
        self.failure: Exception | None = None
        self._start, self._stop = start, stop
        self._bodies, self._tallies, self._limits = bodies, tallies, limits

    async def __call__(self, receive: Receive, send: Send) -> None:
        """From "lifespan.startup" to "lifespan.shutdown"."""
        await receive()
        threads = pool(self._limits.threads)
        watcher = asyncio.ensure_future(self._bodies.watch())
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
            watcher.cancel()
            threads.shutdown(wait=False)

    async def _try(self, name: str, step: Callable[[], Awaitable[None]]) -> bool:
        try:
            await step()
        except Exception as error:
            self.failure = error
            self._tallies.log.say(f"{name} failed", type=type(error).__name__, place=place(error))
            return False
        return True
