"""The helper's service, and how it sends its shares."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge

from bandanna.deployment.helper import DELAY, RELEASED, SCHEMA, UNUSABLE, Helper, JobRefused, Keyring, StoredJob
from bandanna.deployment.http.limits import Limits, host_from_url, parse_json_body
from bandanna.deployment.http.metrics import EventLog
from bandanna.deployment.http.requests import RequestRefused, json_response, mark_errors_safe, run_in_thread
from bandanna.deployment.messages import canonical
from bandanna.deployment.messages.canonical import HELPER, make_tls_context, sign
from bandanna.errors import MissingExtra, Unreadable
from bandanna.storage.database.base import Database, open_database

if TYPE_CHECKING:
    import httpx
    from starlette.requests import Request
    from starlette.responses import Response

    from bandanna.deployment.http.application import Application
    from bandanna.deployment.task.document import Secrets, Task


# Sending shares


_FIRST, _LONGEST = 0.25, 30.0  # seconds between two tries


class ShareSender:
    """One for each helper; `wake` it when there is something new."""

    def __init__(
        self,
        helper: Helper,
        *,
        url: str,
        task_id: str,
        log: EventLog,
        metrics: CollectorRegistry,
        verify_tls: Any = True,
    ) -> None:
        self._helper, self._base, self._log = helper, f"{url}/tasks/{task_id}/batches", log
        self._client = _client(verify_tls)
        self._one, self._news = asyncio.Lock(), asyncio.Event()
        self._said: dict[tuple[int, int], str] = {}  # what was logged last of a share
        self._sent = Counter(
            "bandanna_shares_sent_total", "Answers of the analyzer to shares.", ["state"], registry=metrics
        )
        self._waiting = Gauge("bandanna_shares_waiting", "Shares without a receipt.", registry=metrics)

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
                self._log.say("sweep failed", level="error", type=type(error).__name__)
                left = 1
            with suppress(TimeoutError):
                async with asyncio.timeout(pause if left else None):
                    await self._news.wait()
            pause = _FIRST if self._news.is_set() else min(2 * pause, _LONGEST)
            self._news.clear()

    async def sweep(self) -> int:
        """Send everything that has no receipt, the oldest first; how many are left without."""
        async with self._one:
            waiting = await run_in_thread(self._helper.waiting)
            left = len(waiting)
            for stored in waiting:
                state = await self._send(stored)
                left -= state in (RELEASED, UNUSABLE)
                self._sent.labels(state=state).inc()
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

    async def _send(self, stored: StoredJob) -> str:
        """What has become of it: "released" or "unusable" by a receipt; "sent" if it waits for the other share,
        "refused" if the analyzer has another one, "failed" if it was not reached. All but receipts may be tried again.
        """
        import httpx

        url = f"{self._base}/{stored.epoch}.{stored.round}/shares/helper"
        headers = {"Signature": stored.signature, "Content-Type": "application/json"}
        try:
            answer = await self._client.put(url, content=stored.share, headers=headers)
        except httpx.HTTPError as error:
            self._log.say("analyzer not reached", level="error", type=type(error).__name__)
            return "failed"
        receipt, other = _document(answer.content).get("receipt"), answer.status_code == 409
        if receipt is not None:
            enter = partial(self._helper.receipted, stored.epoch, stored.round, receipt, other=other)
            try:
                return await run_in_thread(enter)
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
    known = make_tls_context() if verify_tls is True else verify_tls
    return httpx.AsyncClient(timeout=10.0, verify=known, trust_env=False)


# The service


_LIMITS = Limits(body=1 << 26, held=1 << 27, seconds=60.0)  # a job has about 140 bytes for every slot
_BATCH = re.compile(r"(0|[1-9]\d{0,9})\.(0|[1-9]\d{0,4})")
_PATIENCE = 5.0  # seconds for which the shuffler waits while the analyzer is told


class HelperService:
    """A helper that is served: opened when the process begins to serve, closed at its end."""

    def __init__(
        self,
        task: Task,
        secrets: Secrets,
        db_url: str,
        *,
        delay: float,
        log: EventLog,
        metrics: CollectorRegistry,
        verify_tls: Any,
    ) -> None:
        self._task_id, self._db_url, self._delay, self._log, self._metrics = task.id, db_url, delay, log, metrics
        self._sign = partial(sign, secrets.sign, task.id)
        self._first = (secrets.seal, task.key("seal helper"))
        self._url, self._verify_tls = task.url("analyzer"), verify_tls
        self._parts: dict[str, Any] = {
            "task_id": task.id,
            "task": task.digest,
            "ticket_key": secrets.ticket_key(task, HELPER),
            "leader_key": task.key("shuffler"),
            "analyzer_key": task.key("analyzer"),
        }
        self.database: Database | None = None
        self._helper: Helper | None = None
        self._jobs = Counter("bandanna_jobs_total", "Jobs that were done.", registry=metrics)
        self._bad = Counter(
            "bandanna_bad_seeds_total",
            "Users whose seeds could not be opened, or came without their tickets.",
            registry=metrics,
        )

    @property
    def ready(self) -> bool:
        """Whether it can take jobs, and still sends what it owes."""
        return self._helper is not None and not self._sending.done()

    async def start(self) -> None:
        """Open the database, as its only server, and go on where the process before has ended."""
        self._helper = await run_in_thread(self._open)
        self._sender = ShareSender(
            self._helper, url=self._url, task_id=self._task_id, log=self._log, metrics=self._metrics,
            verify_tls=self._verify_tls,
        )  # fmt: skip
        self._sending = asyncio.ensure_future(self._sender.run())

    def _open(self) -> Helper:
        self.database = open_database(self._db_url, role="helper", schema=SCHEMA)
        self.database.claim()
        self._keyring = Keyring(self.database, first=self._first, delay=self._delay)
        return Helper(self.database, keyring=self._keyring, sign=self._sign, **self._parts)

    async def stop(self) -> None:
        """What was not sent is sent by the next process."""
        if self._helper is not None:
            self._sending.cancel()
            with suppress(asyncio.CancelledError):
                await self._sending
            await self._sender.close()
        if self.database is not None:
            self.database.close()

    async def status(self) -> dict[str, Any]:
        """Numbers only."""
        waiting = await run_in_thread(self._open_role.waiting)
        return {"waiting": [f"{stored.epoch}.{stored.round}" for stored in waiting[:100]]}

    async def job(self, request: Request) -> Response:
        """201 done, 200 known; the share itself is for the analyzer only."""
        self._of_task(request.path_params["task"])
        found = _BATCH.fullmatch(request.path_params["batch"])
        if found is None:
            raise RequestRefused(404, "batch")
        epoch, round_ = int(found[1]), int(found[2])
        content, signature = await request.body(), request.headers.get("signature")
        try:
            status, share = await self._do(content, signature, epoch, round_)
        except JobRefused as refused:
            again = 1.0 if refused.status == 503 else None
            raise RequestRefused(refused.status, refused.reason, retry_after=again, **refused.details) from None
        document = canonical.loads(share)
        if status == 201:
            self._jobs.inc()
            self._bad.inc(document["bad"])
        self._sender.wake()
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                await self._sender.sweep()
        return json_response({name: document[name] for name in ("count", "checksum", "bad")}, status)

    async def _do(self, content: bytes, signature: str | None, epoch: int, round_: int) -> tuple[int, bytes]:
        do = partial(self._open_role.job, content, signature, epoch=epoch, round_=round_)
        try:
            return await run_in_thread(do)
        except JobRefused as refused:
            if refused.reason != "waiting":
                raise
        await self._sender.sweep()  # the receipt that is missing may be there by now
        return await run_in_thread(do)

    async def change_keys(self, request: Request) -> Response:
        """{"action": "rotate"} makes the next key, {"action": "delete", "id": n} removes an expired one."""
        document = parse_json_body(await request.body())
        match document:
            case {"action": "rotate", **rest} if not rest:
                with mark_errors_safe(409, "keys"):
                    number = await run_in_thread(self._opened.rotate)
                self._log.say("key made", number=number)
            case {"action": "delete", "id": number, **rest} if not rest:
                with mark_errors_safe(409, "keys"):
                    await run_in_thread(self._opened.delete, number)
                self._log.say("key deleted", number=number)
            case _:
                raise RequestRefused(400, "action", error='{"action": "rotate"} or {"action": "delete", "id": number}')
        return json_response({"keys": await run_in_thread(self._opened.public)})

    @property
    def _open_role(self) -> Helper:
        if self._helper is None:
            raise RequestRefused(503, "starting", retry_after=1)
        return self._helper

    @property
    def _opened(self) -> Keyring:
        assert self._open_role is not None
        return self._keyring

    def _of_task(self, name: str) -> None:
        if name != self._task_id:
            raise RequestRefused(404, "task")


def build_helper(
    task: Task,
    secrets: Secrets,
    db_url: str,
    *,
    log: EventLog | None = None,
    limits: Limits = _LIMITS,
    delay: float = DELAY,
    verify_tls: Any = True,
) -> Application:
    """The application of a task's helper; `delay`: seconds for which a new key is pending before it is used.

    verify_tls  by which certificates the analyzer is known, beside the system's
    """
    from bandanna.deployment.http.application import build_application

    assert task.policy is not None  # what mixers are made of is known when the policy is loaded
    metrics, said = CollectorRegistry(), log or EventLog("helper", task=task.id)
    office = HelperService(task, secrets, db_url, delay=delay, log=said, metrics=metrics, verify_tls=verify_tls)
    return build_application(
        role="helper",
        routes=[
            ("PUT", "/tasks/{task}/batches/{batch}/job", office.job),
            ("POST", "/admin/keys", office.change_keys),
        ],
        peers=["PUT /tasks/{task}/batches/{batch}/job"],
        names=[host_from_url(task.url("helper"))],
        start=office.start,
        stop=office.stop,
        health=lambda: {"ok": office.ready, "task": task.id},
        status=office.status,
        metrics=metrics,
        log=said,
        token=secrets.token,
        database=lambda: office.database,
        limits=limits,
    )
