"""A small deployment in this process, its roles behind their real routes, and a dashboard that watches it."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, TypeVar

import httpx
from prometheus_client import CollectorRegistry

from bandanna.deployment.analyzer.service import AnalyzerRoutes
from bandanna.deployment.client.load_simulation import SimulatedUsers, world_for_task
from bandanna.deployment.collector_service import CollectorRoutes
from bandanna.deployment.dashboard.app import AdminSessions, TaskBoard, build_dashboard
from bandanna.deployment.dashboard.poller import HttpRoleClient, TaskPoller
from bandanna.deployment.http.application import build_application
from bandanna.deployment.http.metrics import EventLog
from bandanna.deployment.messages.canonical import sealing_key
from bandanna.deployment.task import creation
from bandanna.deployment.task.document import Secrets, Task

from ..deployment.inside import Inside

TOKEN = "the administrator's-token".replace(" ", "-")
ROLES = {"registrar": 9700, "analyzer": 9701, "shuffler": 9702, "helper": 9703}
FILE: dict[str, Any] = {
    "title": "Which tea",
    "algorithm": "LinTS-SDP",
    "policy": {"dim": 3, "intercept": True, "horizon": 400, "epsilon": 5.0, "delta": 1e-3, "batch": 40},
    "arms": {"features": {"green": [0.9, 0.1, 1.0], "black": [0.1, 0.9, 1.0], "mint": [0.5, 0.2, 1.0]}},
    "rules": {"grace": "10 min"},
    "test": {"close": "answered"},
    "roles": {role: f"http://127.0.0.1:{port}" for role, port in list(ROLES.items())[:3]},
}
Result = TypeVar("Result")


def url(role: str) -> str:
    return f"http://127.0.0.1:{ROLES[role]}"


def made(**changes: Any) -> tuple[Task, dict[str, Secrets]]:
    task, secrets = creation.create_task({**FILE, **changes}, expect=False)
    return task, {each.role: each for each in secrets}


async def nothing() -> None:
    """Neither begin nor end."""


class Net(httpx.AsyncBaseTransport):
    """Roles by their ports; `down` are those that do not answer, `requested` lists ports and paths of all requests."""

    def __init__(self) -> None:
        self.apps: dict[int, Any] = {}
        self.down: set[int] = set()
        self.requested: list[tuple[int, str]] = []
        self.headers: list[dict[str, str]] = []
        self.lies: dict[str, Callable[[httpx.Response], httpx.Response]] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        port = request.url.port or 80
        self.requested.append((port, request.url.raw_path.decode()))
        self.headers.append(dict(request.headers))
        if port in self.down or port not in self.apps:
            raise httpx.ConnectError("nobody is there")
        answer = await httpx.ASGITransport(app=self.apps[port]).handle_async_request(request)
        content = await answer.aread()
        whole = httpx.Response(answer.status_code, headers=answer.headers, content=content)
        for path, lie in self.lies.items():
            if request.url.path.endswith(path):
                return lie(whole)
        return whole


class Town:
    """Analyzer and collector as they are, registrar as far as it is looked at."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        self.task, self.secrets = made(**changes)
        own = {role: replace(each, seal=each.seal or sealing_key()[0]) for role, each in self.secrets.items()}
        folder.mkdir(parents=True, exist_ok=True)
        self.inside = Inside(self.task, own, folder)
        self.processor = self.inside.processor
        self.net = Net()
        log = EventLog("town", stream=io.StringIO())
        reports = CollectorRoutes(self.inside.collector, self.task.id, CollectorRegistry())
        analyzer = AnalyzerRoutes(self.processor, self.processor._database, log)
        routes = [*analyzer.routes, *(reports.routes if self.task.mixers == 0 else [])]
        self.net.apps[ROLES["analyzer"]] = _app("analyzer", routes, self.secrets["analyzer"].token, log)
        self.net.apps[ROLES["registrar"]] = _app("registrar", [], self.secrets["registrar"].token, log)
        if self.task.mixers:
            token = self.secrets["shuffler"].token
            self.net.apps[ROLES["shuffler"]] = _app("shuffler", reports.routes, token, log)

    def play(self, users: int) -> SimulatedUsers:
        crowd = SimulatedUsers(self.task, self.inside, world_for_task(self.task, None), rounds=users, concurrency=1)
        crowd.run()
        self.inside.pump()
        return crowd


def _app(role: str, routes: Any, token: str, log: EventLog) -> Any:
    return build_application(
        role=role, routes=routes, start=nothing, stop=nothing, health=dict, status=lambda: {"secret": f"of the {role}"},
        metrics=CollectorRegistry(), log=log, token=token,
    )  # fmt: skip


class Seen:
    def __init__(
        self,
        *towns: Town,
        token: str | None = None,
        watches: tuple[TaskPoller, ...] = (),
        given: bool = False,
        named: tuple[str, ...] = tuple(map(url, ROLES)),
    ) -> None:
        net = towns[0].net if towns else Net()
        self.web = HttpRoleClient(transport=net)
        admin = None if token is None else AdminSessions(token)
        own = [
            TaskPoller(
                url("analyzer"), self.web, task=each.task if given else None, inside=admin is not None, named=named,
                tokens={role: own.token for role, own in each.secrets.items()} if given else None,
            )
            for each in towns
        ]  # fmt: skip
        self.watches = [*own, *watches]
        self.board = TaskBoard(self.watches)
        self.app = build_dashboard(
            self.board, admin=admin, log=EventLog("dashboard", stream=io.StringIO()), web=self.web
        )
        self.client = httpx.AsyncClient(
            transport=httpx.ASGITransport(app=self.app, raise_app_exceptions=False), base_url="http://127.0.0.1:8710"
        )

    async def look(self) -> Seen:
        for each in self.watches:
            await each.step()
            await each.glance()
        return self

    async def page(self, path: str, **more: Any) -> str:
        answer = await self.client.get(path, **more)
        assert answer.status_code == 200, (path, answer.status_code, answer.text)
        return answer.text

    async def twin(self, path: str, **more: Any) -> Any:
        answer = await self.client.get(path, **more)
        assert answer.status_code == 200, (path, answer.status_code, answer.text)
        return answer.json()


class Read(HTMLParser):
    void = frozenset({"meta", "link", "input", "img", "br", "hr"})

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def run(work: Callable[[], Awaitable[Result]]) -> Result:
    async def main() -> Result:
        return await work()

    return asyncio.run(main())
