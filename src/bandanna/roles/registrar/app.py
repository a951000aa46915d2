"""The registrar over HTTP: tickets for the host's login, and the witness that an analyzer cannot go back behind."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Any

from bandanna.errors import InvalidArgument
from bandanna.roles.registrar.registrar import MOST, Registrar
from bandanna.roles.registrar.tables import MIGRATIONS
from bandanna.roles.serving import Limits, Log, Metrics, Refused, in_thread, json_of, json_response
from bandanna.storage.database import Database, open_database
from bandanna.wire import canonical

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from bandanna.roles.serving import Application
    from bandanna.tasks.document import Secrets, Task

_LIMITS = Limits(body=1 << 21, waiting=256)


class Office:
    """A registrar that is served: opened when the process begins to serve, closed at its end."""

    def __init__(self, registrar: dict[str, Any], *, task_id: str, db_url: str, token: str, metrics: Metrics) -> None:
        self._parts, self._task_id, self._db_url = registrar, task_id, db_url
        self._token = hashlib.sha256(token.encode()).digest()
        self._db: Database | None = None
        self._registrar: Registrar | None = None
        self._given = metrics.counter("tickets_total", "Tickets that were given, repeats included.")
        self._refused = metrics.counter("tickets_refused_total", "Tickets that were not given.", ("reason",))

    async def start(self) -> None:
        """Open the database, as its only server."""
        self._registrar = await in_thread(self._open)

    def _open(self) -> Registrar:
        self._db = open_database(self._db_url, role="registrar", migrations=MIGRATIONS)
        self._db.claim()
        return Registrar(self._db, **self._parts)

    async def stop(self) -> None:
        """Let go of the database."""
        if self._db is not None:
            self._db.close()

    async def status(self) -> dict[str, Any]:
        """Numbers only."""
        return {**await in_thread(self._at_work.counts), "witness": await in_thread(self._at_work.newest)}

    async def tickets(
        self, body: bytes, params: dict[str, str], headers: dict[bytes, bytes]
    ) -> tuple[int, bytes, None]:
        """200 if some were given; if none was, 429 where nobody has a participation left, else 409."""
        self._of_task(params["task"])
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer" or not hmac.compare_digest(hashlib.sha256(token).digest(), self._token):
            raise Refused(401, "token")
        document = json_of(body)
        if not isinstance(document, dict) or set(document) != {"tickets"}:
            raise Refused(400, "json", error='{"tickets": [...]} is expected')
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
        """201 stored, 200 known, 409 with the stored one, 403 if the analyzer has not signed it."""
        self._of_task(request.path_params["task"])
        status, stored = await in_thread(self._at_work.witness, json_of(await request.body()))
        if status == 403:
            raise Refused(403, "signature")
        if status == 409:
            raise Refused(409, "witness", witness=stored)
        return json_response(stored, status)

    async def get_witness(self, request: Request) -> Response:
        """The newest; 404 before there is one."""
        self._of_task(request.path_params["task"])
        newest = await in_thread(self._at_work.newest)
        if newest is None:
            raise Refused(404, "no-witness")
        return json_response(newest)

    @property
    def _at_work(self) -> Registrar:
        if self._registrar is None:
            raise Refused(503, "starting", retry_after=1)
        return self._registrar

    def _of_task(self, name: str) -> None:
        if name != self._task_id:
            raise Refused(404, "task")


def parts_of(task: Task, secrets: Secrets) -> dict[str, Any]:
    """What a task's registrar is made of."""
    own = secrets.sign or f"users|{secrets.token}"  # what no other role has: it hides people
    return {
        "task": task.digest,
        "ticket_key": canonical.unpacked(secrets.ticket),
        "secret": hashlib.sha256(f"bandanna registrar|{own}".encode()).digest(),
        "participations": task.policy.privacy.participations,
        "analyzer_key": task.key("analyzer"),
        "moves": task.policy.privacy.model != "local",
    }


def build(
    task: Task, secrets: Secrets, db_url: str, *, log: Log | None = None, limits: Limits = _LIMITS
) -> Application:
    """The application of a task's registrar; the host's login has its token."""
    from bandanna.roles.serving import application

    registrar = parts_of(task, secrets)
    metrics = Metrics()
    office = Office(registrar, task_id=task.id, db_url=db_url, token=secrets.token, metrics=metrics)
    return application(
        role="registrar",
        routes=[
            ("PUT", "/tasks/{task}/witness", office.put_witness),
            ("GET", "/tasks/{task}/witness", office.get_witness),
        ],
        uploads={"/tasks/{task}/tickets": office.tickets},
        start=office.start,
        stop=office.stop,
        health=lambda: {"ok": office._registrar is not None, "task": task.id},
        status=office.status,
        metrics=metrics,
        log=log or Log("registrar"),
        token=secrets.token,
        limits=limits,
    )
