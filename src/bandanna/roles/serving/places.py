"""Places of requests: each class has its own, so that no class of requests can stop another one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from bandanna.roles.serving.bodies import Gone
from bandanna.roles.serving.limits import Limits
from bandanna.roles.serving.refusals import busy
from bandanna.roles.serving.routing import OTHERS, PEERS, UPLOADS, WAITERS

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Receive

PLACE = "bandanna.place"  # of a scope


class Places:
    """Requests in flight that came by one listener, and the bytes of their bodies, by class."""

    def __init__(self, limits: Limits) -> None:
        self.most = {
            UPLOADS: limits.uploads,
            WAITERS: limits.waiters,
            PEERS: limits.peers,
            OTHERS: limits.others,
        }
        self.taken = dict.fromkeys(self.most, 0)
        self.held = dict.fromkeys(self.most, 0)

    def take(self, kind: str) -> None:
        """One place; Refused (503) if all of the class are taken."""
        if self.taken[kind] >= self.most[kind]:
            raise busy()
        self.taken[kind] += 1

    def leave(self, kind: str) -> None:
        """Free the place for the next request."""
        self.taken[kind] -= 1


class Place:
    """The place of one request, which may be changed for one of another class."""

    def __init__(self, places: Places, kind: str) -> None:
        places.take(kind)
        self._places, self.kind = places, kind

    def change(self, kind: str) -> bool:
        """Take a place of another class instead; False if there is none."""
        if self._places.taken[kind] >= self._places.most[kind]:
            return False
        self._places.leave(self.kind)
        self._places.take(kind)
        self.kind = kind
        return True

    def leave(self) -> None:
        """Free the place for the next request."""
        self._places.leave(self.kind)


class Bell:
    """Wakes the requests that wait for something. `ring` may be called in any thread."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiters: set[asyncio.Future[None]] = set()
        self._over = False

    def ring(self) -> None:
        """Let all waiters look again."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._wake)

    def end(self) -> None:
        """Nobody waits any more; called on the loop."""
        self._over = True
        self._wake()

    async def wait(self, request: Request, reached: Callable[[], bool], seconds: float) -> bool:
        """Wait until something is reached, in a place of the class of waiters.

        Parameters
        ----------
        request : Request
            Whose client waits.
        reached : Callable[[], bool]
            What is waited for; asked at first, and whenever the bell has rung.
        seconds : float
            How long.

        Returns
        -------
        bool
            Whether it was reached. False also at once if all places are taken. Raises Gone if the client left.
        """
        if reached():
            return True
        place: Place | None = request.scope.get(PLACE)
        if seconds <= 0 or self._over or (place is not None and not place.change(WAITERS)):
            return False
        self._loop = asyncio.get_running_loop()
        left = asyncio.ensure_future(_left(request.receive))
        try:
            async with asyncio.timeout(seconds):
                while not reached() and not self._over:
                    await self._next(left)
        except TimeoutError:
            return reached()
        finally:
            left.cancel()
        return reached()

    async def _next(self, left: asyncio.Future[None]) -> None:
        assert self._loop is not None
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.add(waiter)
        try:
            await asyncio.wait({waiter, left}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._waiters.discard(waiter)
        if left.done():
            raise Gone

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
