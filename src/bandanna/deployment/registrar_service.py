"""The registrar's HTTP service."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from bandanna.deployment.http.limits import Limits, json_of, name_of
from bandanna.deployment.http.metrics import Log, Metrics
from bandanna.deployment.http.requests import Refused, in_thread, json_response
from bandanna.deployment.messages import canonical
from bandanna.deployment.messages.canonical import sign
from bandanna.deployment.messages.tickets import COLLECTOR, HELPER
from bandanna.deployment.registrar import MOST, SCHEMA, Notary, Registrar
from bandanna.errors import InvalidArgument
from bandanna.storage.database.base import Database
from bandanna.storage.database.schema import open_database

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from bandanna.deployment.http.application import Application
    from bandanna.deployment.task.document import Secrets, Task


_LIMITS = Limits(body=1 << 21, peers=256)


class Office:
    """A registrar that is served: opened when the process begins to serve, closed at its end."""

    def __init__(
        self, registrar: dict[str, Any], notary: dict[str, Any], *, task_id: str, db_url: str, metrics: Metrics
    ) -> None:
        self._parts, self._notary_parts, self._task_id, self._db_url = registrar, notary, task_id, db_url
        self.database: Database | None = None
        self._registrar: Registrar | None = None
        self._notary: Notary | None = None
        self._given = metrics.counter("tickets_total", "Tickets that were given, repeats included.")
        self._refused = metrics.counter("tickets_refused_total", "Tickets that were not given.", ("reason",))

    async def start(self) -> None:
        """Open the database, as its only server."""
        self._registrar = await in_thread(self._open)

    def _open(self) -> Registrar:
        self.database = open_database(self._db_url, role="registrar", schema=SCHEMA)
        self.database.claim()
        self._notary = Notary(self.database, **self._notary_parts)
        return Registrar(self.database, **self._parts)

    async def stop(self) -> None:
        """Let go of the database."""
        if self.database is not None:
            self.database.close()

    async def status(self) -> dict[str, Any]:
        """Numbers only."""
        return {**await in_thread(self._at_work.counts), "witness": await in_thread(self._witnessing.newest)}

    async def tickets(
        self, body: bytes, params: dict[str, str], headers: dict[bytes, bytes]
    ) -> tuple[int, bytes, None]:
        """200 if some were given; if none was, 429 where nobody has a participation left, else 409."""
        self._of_task(params["task"])
        document = json_of(body)
        if not isinstance(document, dict) or set(document) != {"tickets"}:
            raise Refused(400, "json", error='{"tickets": [...]} is expected')
        if self._witnessing.behind:  # whoever took part since this database was newest could do so once more
            raise Refused(503, "behind", retry_after=5)
        try:
            answers = await in_thread(self._at_work.tickets, document["tickets"])
        except InvalidArgument:
            raise Refused(400, "tickets", most=MOST) from None
        reasons = [answer["refused"] for answer in answers if "refused" in answer]
        for reason in reasons:
            self._refused.add(reason=reason)
        self._given.add(len(answers) - len(reasons))
        status = 200 if len(reasons) < len(answers) else 429 if set(reasons) == {"participations"} else 409
        return status, canonical.dumps({"tickets": answers}), None

    async def put_witness(self, request: Request) -> Response:
        """201 cosigned now, 200 before, 409 with the newest one that stands, 403 if the analyzer has not signed it."""
        self._of_task(request.path_params["task"])
        status, answer = await in_thread(self._witnessing.witness, json_of(await request.body()))
        if status >= 400:
            raise Refused(status, "signature" if status == 403 else "witness" if answer else "behind", **answer)
        return json_response(answer, status)

    async def get_witness(self, request: Request) -> Response:
        """The newest; 404 before there is one."""
        self._of_task(request.path_params["task"])
        newest = await in_thread(self._witnessing.newest)
        if newest is None:
            raise Refused(404, "no-witness")
        return json_response(newest)

    @property
    def _at_work(self) -> Registrar:
        if self._registrar is None:
            raise Refused(503, "starting", retry_after=1)
        return self._registrar

    @property
    def _witnessing(self) -> Notary:
        if self._notary is None:
            raise Refused(503, "starting", retry_after=1)
        return self._notary

    @property
    def well(self) -> bool:
        """Whether it is at work, with its newest database as far as the analyzer can tell."""
        return self._registrar is not None and not self._witnessing.behind

    def _of_task(self, name: str) -> None:
        if name != self._task_id:
            raise Refused(404, "task")


def parts_of(task: Task, secrets: Secrets) -> dict[str, Any]:
    """What a task's registrar is made of."""
    verifiers = (COLLECTOR, HELPER)[: max(1, task.mixers)]
    return {
        "task": task.digest,
        "ticket_keys": {verifier: secrets.ticket_key(task, verifier) for verifier in verifiers},
        "secret": canonical.unpacked(secrets.person, 32),
        "participations": task.policy.privacy.participations,
        "moves": task.policy.privacy.model != "local",
    }


def notary_of(task: Task, secrets: Secrets) -> dict[str, Any]:
    """What a task's notary is made of."""
    return {
        "task": task.id,
        "analyzer_key": task.key("analyzer"),
        "sign": partial(sign, secrets.sign, task.id),
    }


def build(
    task: Task, secrets: Secrets, db_url: str, *, log: Log | None = None, limits: Limits = _LIMITS
) -> Application:
    """The application of a task's registrar; the host's login has its token."""
    from bandanna.deployment.http.application import application

    metrics = Metrics()
    office = Office(parts_of(task, secrets), notary_of(task, secrets), task_id=task.id, db_url=db_url, metrics=metrics)
    return application(
        role="registrar",
        routes=[
            ("PUT", "/tasks/{task}/witness", office.put_witness),
            ("GET", "/tasks/{task}/witness", office.get_witness),
        ],
        uploads={"/tasks/{task}/tickets": office.tickets},
        peers=["PUT /tasks/{task}/witness", "GET /tasks/{task}/witness"],
        keyed=["POST /tasks/{task}/tickets"],
        names=[name_of(task.url("registrar"))],
        start=office.start,
        stop=office.stop,
        health=lambda: {"ok": office.well, "task": task.id},
        status=office.status,
        metrics=metrics,
        log=log or Log("registrar"),
        token=secrets.token,
        database=lambda: office.database,
        limits=limits,
    )
