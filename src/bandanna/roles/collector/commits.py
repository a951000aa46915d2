"""Group commit: requests that come while a transaction is written share the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from bandanna.roles.serving import Refused, in_thread

_DISTANCE = 0.005  # seconds between the beginnings of two transactions, at most
_SHARE = 1e-4  # and for each item of the first: who comes alone waits for nothing but the disk

Item = TypeVar("Item")
Result = TypeVar("Result")


class GroupCommit(Generic[Item, Result]):
    """`commit` is called with many items at a time, by one thread; whoever submitted one waits for its own result.

    most     items in one transaction
    waiting  items that may wait: above it, whoever comes is sent away
    """

    def __init__(
        self, commit: Callable[[Sequence[Item]], Sequence[Result]], *, most: int = 512, waiting: int = 4096
    ) -> None:
        self._commit, self._most, self._room = commit, most, waiting
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._busy = False

    async def submit(self, item: Item) -> Result:
        """The result of one item, when it is durable."""
        if len(self._waiting) >= self._room:
            raise Refused(503, "busy", retry_after=1.0)
        result: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, result))
        if not self._busy:
            self._busy = True
            asyncio.ensure_future(self._run())  # noqa: RUF006 - it ends with the last item
        return await result

    async def _run(self) -> None:
        """Until nobody waits. Transactions keep a distance: when many come, fewer of them are written, for more."""
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                group, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                next_at = loop.time() + min(_DISTANCE, _SHARE * len(group))
                await self._write(group)
                if len(self._waiting) < self._most and next_at > loop.time():
                    await asyncio.sleep(next_at - loop.time())
        finally:
            self._busy = False

    async def _write(self, group: list[tuple[Item, asyncio.Future[Result]]]) -> None:
        try:
            results = await in_thread(self._commit, [item for item, _ in group])
        except BaseException as error:
            for _, waiting in group:
                if not waiting.done():
                    waiting.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        for (_, waiting), result in zip(group, results, strict=True):
            if not waiting.done():
                waiting.set_result(result)
