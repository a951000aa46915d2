"""The helper's service, and how it sends its shares."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge

from bandanna.deployment.helper import RELEASED, SCHEMA, UNUSABLE, Helper, JobRefused, Keyring, StoredJob
from bandanna.deployment.http.limits import Limits, host_from_url, parse_json_body
from bandanna.deployment.http.metrics import EventLog
from bandanna.deployment.http.routes import RequestRefused, check_task, json_response, mark_errors_safe, run_in_thread
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


_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 30.0  # seconds between two tries


class ShareSender:
    """Sends a helper's shares to the analyzer until they have receipts."""

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
        self._client = _make_client(verify_tls)
        self._one, self._news = asyncio.Lock(), asyncio.Event()
        self._logged: dict[tuple[int, int], str] = {}  # the last logged state of a share
        self._sent = Counter(
            "bandanna_shares_sent_total", "Answers of the analyzer to shares.", ["state"], registry=metrics
        )
        self._waiting = Gauge("bandanna_shares_waiting", "Shares without a receipt.", registry=metrics)

    def wake(self) -> None:
        self._news.set()

    async def run(self) -> None:
        """Send shares until cancelled, repeating more and more slowly."""
        pause = _FIRST_PAUSE
        while True:
            try:
                left = await self.sweep()
            except Exception as error:  # a full disk or a lost database may recover
                self._log.say("sweep failed", level="error", type=type(error).__name__)
                left = 1
            with suppress(TimeoutError):
                async with asyncio.timeout(pause if left else None):
                    await self._news.wait()
            pause = _FIRST_PAUSE if self._news.is_set() else min(2 * pause, _LONGEST_PAUSE)
            self._news.clear()

    async def sweep(self) -> int:
        """Send all shares without a receipt; return how many have none after that."""
        async with self._one:
            waiting = await run_in_thread(self._helper.waiting)
            left = len(waiting)
            for stored in waiting:
                state = await self._send(stored)
                left -= state in (RELEASED, UNUSABLE)
                self._sent.labels(state=state).inc()
                if state == "failed":
                    break
                if self._logged.get((stored.epoch, stored.round)) != state:
                    self._logged[stored.epoch, stored.round] = state
                    self._log.say("share " + state, epoch=stored.epoch, round=stored.round)
                if state in (RELEASED, UNUSABLE):
                    del self._logged[stored.epoch, stored.round]
            self._waiting.set(left)
            return left

    async def close(self) -> None:
        await self._client.aclose()

    async def _send(self, stored: StoredJob) -> str:
        """Send a share; return its state.

        "released" and "unusable" have a receipt; else "sent" waits for the other share, "refused" had another one, and
        "failed" did not reach the analyzer.
        """
        import httpx

        url = f"{self._base}/{stored.epoch}.{stored.round}/shares/helper"
        headers = {"Signature": stored.signature, "Content-Type": "application/json"}
        try:
            answer = await self._client.put(url, content=stored.share, headers=headers)
        except httpx.HTTPError as error:
            self._log.say("analyzer not reached", level="error", type=type(error).__name__)
            return "failed"
        try:
            document = json.loads(answer.content)
        except ValueError:
            document = None
        receipt = document.get("receipt") if isinstance(document, dict) else None
        other = answer.status_code == 409
        if receipt is not None:
            enter = partial(self._helper.receipted, stored.epoch, stored.round, receipt, other=other)
            try:
                return await run_in_thread(enter)
            except Unreadable:  # without a valid signature, or of something else
                self._log.say("receipt refused", epoch=stored.epoch, round=stored.round)
        if answer.status_code in (202, 409):
            return "refused" if other else "sent"
        self._log.say("share not taken", status=answer.status_code)
        return "failed"


def _make_client(verify_tls: Any) -> httpx.AsyncClient:
    try:
        import httpx
    except ImportError as error:  # pragma: no cover - tests have it
        raise MissingExtra("serve", "a helper") from error
    context = make_tls_context() if verify_tls is True else verify_tls
    return httpx.AsyncClient(timeout=10.0, verify=context, trust_env=False)


# The service


_LIMITS = Limits(body=1 << 26, memory=1 << 27, seconds=60.0)  # a job has about 140 bytes for every slot
_BATCH = re.compile(r"(0|[1-9]\d{0,9})\.(0|[1-9]\d{0,4})")
_SEND_SECONDS = 5.0  # for which the shuffler waits while the share is sent


class HelperService:
    """The handlers of a helper; it opens and closes with the server."""

    def __init__(
        self,
        task: Task,
        secrets: Secrets,
        db_url: str,
        *,
        log: EventLog,
        metrics: CollectorRegistry,
        verify_tls: Any,
    ) -> None:
        self._task, self._secrets, self._db_url = task, secrets, db_url
        self._log, self._metrics, self._verify_tls = log, metrics, verify_tls
        self.database: Database | None = None
        self._helper: Helper | None = None
        self._jobs = Counter("bandanna_jobs_total", "Jobs that were done.", registry=metrics)
        about = "Users whose seeds could not be opened, or came without their tickets."
        self._bad = Counter("bandanna_bad_seeds_total", about, registry=metrics)

    @property
    def ready(self) -> bool:
        return self._helper is not None and not self._sending.done()

    async def start(self) -> None:
        """Claim the database and send the shares of an earlier process."""
        self._helper = await run_in_thread(self._open)
        self._sender = ShareSender(
            self._helper,
            url=self._task.url("analyzer"),
            task_id=self._task.id,
            log=self._log,
            metrics=self._metrics,
            verify_tls=self._verify_tls,
        )
        self._sending = asyncio.ensure_future(self._sender.run())

    def _open(self) -> Helper:
        task, secrets = self._task, self._secrets
        self.database = open_database(self._db_url, role="helper", schema=SCHEMA)
        self.database.claim()
        keyring = Keyring(self.database, first=(secrets.seal, task.key("seal helper")))
        return Helper(
            self.database,
            task_id=task.id,
            task=task.digest,
            ticket_key=secrets.ticket_key(task, HELPER),
            leader_key=task.key("shuffler"),
            analyzer_key=task.key("analyzer"),
            keyring=keyring,
            sign=partial(sign, secrets.sign, task.id),
        )

    async def stop(self) -> None:
        """Stop sending; the next process continues."""
        if self._helper is not None:
            self._sending.cancel()
            with suppress(asyncio.CancelledError):
                await self._sending
            await self._sender.close()
        if self.database is not None:
            self.database.close()

    async def status(self) -> dict[str, Any]:
        waiting = await run_in_thread(self._open_role.waiting)
        return {"waiting": [f"{stored.epoch}.{stored.round}" for stored in waiting[:100]]}

    async def job(self, request: Request) -> Response:
        """Do a job and answer 201, or 200 if it was done; only the analyzer gets the share."""
        check_task(request.path_params["task"], self._task.id)
        found = _BATCH.fullmatch(request.path_params["batch"])
        if found is None:
            raise RequestRefused(404, "batch")
        epoch, round_ = int(found[1]), int(found[2])
        content, signature = await request.body(), request.headers.get("signature")
        do = partial(self._open_role.job, content, signature, epoch=epoch, round_=round_)
        try:
            try:
                status, share = await run_in_thread(do)
            except JobRefused as refused:
                if refused.reason != "waiting":
                    raise
                await self._sender.sweep()  # the missing receipt may be there by now
                status, share = await run_in_thread(do)
        except JobRefused as refused:
            again = 1.0 if refused.status == 503 else None
            raise RequestRefused(refused.status, refused.reason, retry_after=again, **refused.details) from None
        document = canonical.loads(share)
        if status == 201:
            self._jobs.inc()
            self._bad.inc(document["bad"])
        self._sender.wake()
        with suppress(TimeoutError):
            async with asyncio.timeout(_SEND_SECONDS):
                await self._sender.sweep()
        return json_response({name: document[name] for name in ("count", "checksum", "bad")}, status)

    async def change_keys(self, request: Request) -> Response:
        """Make the next key for {"action": "rotate"}, or delete an expired one for {"action": "delete", "id": n}."""
        document, keyring = parse_json_body(await request.body()), self._open_role.keyring
        match document:
            case {"action": "rotate", **rest} if not rest:
                with mark_errors_safe(409, "keys"):
                    number = await run_in_thread(keyring.rotate)
                self._log.say("key made", number=number)
            case {"action": "delete", "id": number, **rest} if not rest:
                with mark_errors_safe(409, "keys"):
                    await run_in_thread(keyring.delete, number)
                self._log.say("key deleted", number=number)
            case _:
                raise RequestRefused(400, "action", error='{"action": "rotate"} or {"action": "delete", "id": number}')
        return json_response({"keys": await run_in_thread(keyring.public)})

    @property
    def _open_role(self) -> Helper:
        if self._helper is None:
            raise RequestRefused(503, "starting", retry_after=1)
        return self._helper


def build_helper(task: Task, secrets: Secrets, *, database: str, log: EventLog, verify_tls: Any = True) -> Application:
    """Return the application of a task's helper."""
    from bandanna.deployment.http.application import build_application

    assert task.policy is not None  # loading the policy registers the parts of mixers
    metrics = CollectorRegistry()
    service = HelperService(task, secrets, database, log=log, metrics=metrics, verify_tls=verify_tls)
    return build_application(
        role="helper",
        routes=[
            ("PUT", "/tasks/{task}/batches/{batch}/job", service.job),
            ("POST", "/admin/keys", service.change_keys),
        ],
        peers=["PUT /tasks/{task}/batches/{batch}/job"],
        names=[host_from_url(task.url("helper"))],
        start=service.start,
        stop=service.stop,
        health=lambda: {"ok": service.ready, "task": task.id},
        status=service.status,
        metrics=metrics,
        log=log,
        token=secrets.token,
        database=lambda: service.database,
        limits=_LIMITS,
    )
