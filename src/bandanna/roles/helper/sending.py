"""Brings shares to the analyzer, and brings them again until it has given a receipt: after a restart, too."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from bandanna.errors import MissingExtra, Unreadable
from bandanna.roles.helper.helper import Helper
from bandanna.roles.helper.tables import RELEASED, UNUSABLE, Stored
from bandanna.roles.serving import Log, Metrics, in_thread
from bandanna.wire.authorities import authorities

if TYPE_CHECKING:
    import httpx

_FIRST, _LONGEST = 0.25, 30.0  # seconds between two tries


class Sender:
    """One for each helper; `wake` it when there is something new."""

    def __init__(
        self, helper: Helper, *, url: str, task_id: str, log: Log, metrics: Metrics, verify_tls: Any = True
    ) -> None:
        self._helper, self._base, self._log = helper, f"{url}/tasks/{task_id}/batches", log
        self._client = _client(verify_tls)
        self._one, self._news = asyncio.Lock(), asyncio.Event()
        self._said: dict[tuple[int, int], str] = {}  # what was logged last of a share
        self._sent = metrics.counter("shares_sent_total", "Answers of the analyzer to shares.", ("state",))
        self._waiting = metrics.gauge("shares_waiting", "Shares without a receipt.")

    def wake(self) -> None:
        """Try now."""
        self._news.set()

    async def run(self) -> None:
        """Until it is cancelled. What fails is tried again, ever more slowly; so is what waits for the other share."""
        pause = _FIRST
        while True:
            try:
                left = await self.sweep()
            except Exception as error:  # a full disk, a lost database: they may come back
                self._log.say("sweep failed", kind=type(error).__name__)
                left = 1
            with suppress(TimeoutError):
                async with asyncio.timeout(pause if left else None):
                    await self._news.wait()
            pause = _FIRST if self._news.is_set() else min(2 * pause, _LONGEST)
            self._news.clear()

    async def sweep(self) -> int:
        """Send everything that has no receipt, the oldest first; how many are left without."""
        async with self._one:
            waiting = await in_thread(self._helper.waiting)
            left = len(waiting)
            for stored in waiting:
                state = await self._send(stored)
                left -= state in (RELEASED, UNUSABLE)
                self._sent.add(state=state)
                if state == "failed":
                    break
                if self._said.get((stored.epoch, stored.round)) != state:
                    self._said[stored.epoch, stored.round] = state
                    self._log.say("share " + state, epoch=stored.epoch, round=stored.round)
                if state in (RELEASED, UNUSABLE):
                    del self._said[stored.epoch, stored.round]
            self._waiting.set(left)
            return left

    async def close(self) -> None:
        """Let go of connections."""
        await self._client.aclose()

    async def _send(self, stored: Stored) -> str:
        """What has become of it: "released" or "unusable" by a receipt; "sent" if it waits for the other share,
        "refused" if the analyzer has another one, "failed" if it was not reached. All but receipts may be tried again.
        """
        import httpx

        url = f"{self._base}/{stored.epoch}.{stored.round}/shares/helper"
        headers = {"Signature": stored.signature, "Content-Type": "application/json"}
        try:
            answer = await self._client.put(url, content=stored.share, headers=headers)
        except httpx.HTTPError as error:
            self._log.say("analyzer not reached", kind=type(error).__name__)
            return "failed"
        receipt, other = _document(answer.content).get("receipt"), answer.status_code == 409
        if receipt is not None:
            enter = partial(self._helper.receipted, stored.epoch, stored.round, receipt, other=other)
            try:
                return await in_thread(enter)
            except Unreadable:  # nobody's, or of something else
                self._log.say("receipt refused", epoch=stored.epoch, round=stored.round)
        if answer.status_code in (202, 409):
            return "refused" if other else "sent"
        self._log.say("share not taken", status=answer.status_code)
        return "failed"


def _document(content: bytes) -> dict[str, Any]:
    try:
        document = json.loads(content)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _client(verify_tls: Any) -> httpx.AsyncClient:
    try:
        import httpx
    except ImportError as error:  # pragma: no cover - tests have it
        raise MissingExtra("serve", "a helper") from error
    known = authorities() if verify_tls is True else verify_tls
    return httpx.AsyncClient(timeout=10.0, verify=known, trust_env=False)
