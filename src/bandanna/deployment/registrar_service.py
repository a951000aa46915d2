"""The registrar's HTTP service."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter

from bandanna.deployment.http.limits import Limits, host_from_url, parse_json_body
from bandanna.deployment.http.metrics import EventLog
from bandanna.deployment.http.routes import RequestRefused, check_task, json_response, run_in_thread
from bandanna.deployment.messages import canonical
from bandanna.deployment.messages.canonical import COLLECTOR, HELPER, sign
from bandanna.deployment.registrar import MOST_TICKETS, SCHEMA, Notary, Registrar
from bandanna.errors import InvalidArgument
from bandanna.storage.database.base import Database, open_database

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from bandanna.deployment.http.application import Application
    from bandanna.deployment.task.document import Secrets, Task


_LIMITS = Limits(body=1 << 21, peers=256)


class RegistrarService:
    """The handlers of a registrar; it opens and closes with the server."""

    def __init__(self, task: Task, secrets: Secrets, db_url: str, metrics: CollectorRegistry) -> None:
        self._registrar_parts, self._notary_parts = make_registrar(task, secrets), make_notary(task, secrets)
        self._task_id, self._db_url = task.id, db_url
        self.database: Database | None = None
        self._roles: tuple[Registrar, Notary] | None = None
        self._given = Counter("bandanna_tickets_total", "Tickets that were given, repeats included.", registry=metrics)
        about = "Tickets that were not given."
        self._refused = Counter("bandanna_tickets_refused_total", about, ["reason"], registry=metrics)

    async def start(self) -> None:
        await run_in_thread(self._open)

    def _open(self) -> None:
        self.database = open_database(self._db_url, role="registrar", schema=SCHEMA)
        self.database.claim()
        registrar = Registrar(self.database, **self._registrar_parts)
        self._roles = registrar, Notary(self.database, **self._notary_parts)

    @property
    def _opened(self) -> tuple[Registrar, Notary]:
        if self._roles is None:
            raise RequestRefused(503, "starting", retry_after=1)
        return self._roles

    async def stop(self) -> None:
        if self.database is not None:
            self.database.close()

    async def status(self) -> dict[str, Any]:
        registrar, notary = self._opened
        return {**await run_in_thread(registrar.counts), "witness": await run_in_thread(notary.newest)}

    async def tickets(
        self, body: bytes, params: dict[str, str], headers: dict[bytes, bytes]
    ) -> tuple[int, bytes, None]:
        """Give tickets. Answer 200 if some were given; else 429 if no participation is left, else 409."""
        check_task(params["task"], self._task_id)
        document = parse_json_body(body)
        if not isinstance(document, dict) or set(document) != {"tickets"}:
            raise RequestRefused(400, "json", error='{"tickets": [...]} is expected')
        registrar, notary = self._opened
        if notary.behind:  # users without a record here could take part once more
            raise RequestRefused(503, "behind", retry_after=5)
        try:
            answers = await run_in_thread(registrar.tickets, document["tickets"])
        except InvalidArgument:
            raise RequestRefused(400, "tickets", most=MOST_TICKETS) from None
        reasons = [answer["refused"] for answer in answers if "refused" in answer]
        for reason in reasons:
            self._refused.labels(reason=reason).inc()
        self._given.inc(len(answers) - len(reasons))
        status = 200 if len(reasons) < len(answers) else 429 if set(reasons) == {"participations"} else 409
        return status, canonical.dumps({"tickets": answers}), None

    async def put_witness(self, request: Request) -> Response:
        """Cosign a publication. Answer 201, 200 if repeated, 409 with the newest one, or 403 without a signature."""
        check_task(request.path_params["task"], self._task_id)
        status, answer = await run_in_thread(self._opened[1].witness, parse_json_body(await request.body()))
        if status >= 400:
            raise RequestRefused(status, "signature" if status == 403 else "witness" if answer else "behind", **answer)
        return json_response(answer, status)

    async def get_witness(self, request: Request) -> Response:
        check_task(request.path_params["task"], self._task_id)
        newest = await run_in_thread(self._opened[1].newest)
        if newest is None:
            raise RequestRefused(404, "no-witness")
        return json_response(newest)

    @property
    def well(self) -> bool:
        """Whether it serves with its newest database, as far as it knows."""
        return self._roles is not None and not self._roles[1].behind


def make_registrar(task: Task, secrets: Secrets) -> dict[str, Any]:
    """Return the arguments of a task's `Registrar`."""
    verifiers = (COLLECTOR, HELPER)[: max(1, task.mixers)]
    return {
        "task": task.digest,
        "ticket_keys": {verifier: secrets.ticket_key(task, verifier) for verifier in verifiers},
        "secret": canonical.decode_base64url(secrets.person, 32),
        "participations": task.policy.privacy.participations,
        "moves": task.policy.privacy.model != "local",
    }


def make_notary(task: Task, secrets: Secrets) -> dict[str, Any]:
    """Return the arguments of a task's `Notary`."""
    return {"task": task.id, "analyzer_key": task.key("analyzer"), "sign": partial(sign, secrets.sign, task.id)}


def build_registrar(task: Task, secrets: Secrets, *, database: str, log: EventLog) -> Application:
    """Return the application of a task's registrar."""
    from bandanna.deployment.http.application import build_application

    metrics = CollectorRegistry()
    service = RegistrarService(task, secrets, database, metrics)
    return build_application(
        role="registrar",
        routes=[
            ("PUT", "/tasks/{task}/witness", service.put_witness),
            ("GET", "/tasks/{task}/witness", service.get_witness),
        ],
        uploads={"/tasks/{task}/tickets": service.tickets},
        peers=["PUT /tasks/{task}/witness", "GET /tasks/{task}/witness"],
        keyed=["POST /tasks/{task}/tickets"],
        names=[host_from_url(task.url("registrar"))],
        start=service.start,
        stop=service.stop,
        health=lambda: {"ok": service.well, "task": task.id},
        status=service.status,
        metrics=metrics,
        log=log,
        token=secrets.token,
        database=lambda: service.database,
        limits=_LIMITS,
    )
