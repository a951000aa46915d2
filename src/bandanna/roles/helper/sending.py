"""Brings shares to the analyzer, and brings them again until it has given a receipt: after a restart, too."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from bandanna.errors import MissingExtra
from bandanna.roles.helper.helper import Helper
from bandanna.roles.helper.tables import Stored
from bandanna.roles.serving import Log, Metrics, in_thread
from bandanna.wire.authorities import authorities

if TYPE_CHECKING:
    import httpx

_FIRST, _LONGEST = 0.25, 30.0  # seconds between two tries
_FINAL = ("other", "over", None)  # why the analyzer will never take a share


class Sender:
    """One for each helper; `wake` it when there is something new."""

    def __init__(
        self, helper: Helper, *, url: str, task_id: str, log: Log, metrics: Metrics, verify_tls: Any = True
    ) -> None:
        self._helper, self._base, self._log = helper, f"{url}/tasks/{task_id}/batches", log
        self._client = _client(verify_tls)
        self._one, self._news = asyncio.Lock(), asyncio.Event()
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
                left -= state not in (None, "sent")
                self._sent.add(state=state or "failed")
                if state != stored.state and state is not None:
                    self._log.say("share " + state, epoch=stored.epoch, round=stored.round)
                if state is None:
                    break
            self._waiting.set(left)
            return left

    async def close(self) -> None:
        """Let go of connections."""
        await self._client.aclose()

    async def _send(self, stored: Stored) -> str | None:
        """What has become of it; None if the analyzer could not be asked."""
        import httpx

        url = f"{self._base}/{stored.epoch}.{stored.round}/shares/helper"
        headers = {"Signature": stored.signature, "Content-Type": "application/json"}
        try:
            answer = await self._client.put(url, content=stored.share, headers=headers)
        except httpx.HTTPError as error:
            self._log.say("analyzer not reached", kind=type(error).__name__)
            return None
        document = _document(answer.content)
        if answer.status_code == 409 and document.get("reason") not in _FINAL:
            self._log.say("share not taken", status=409)  # an analyzer that was rolled back may be itself again
            return None
        receipt = document.get("receipt")
        state = await in_thread(self._helper.answered, stored.epoch, stored.round, answer.status_code, receipt)
        if state is None:
            self._log.say("share not taken", status=answer.status_code)
        return state


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
