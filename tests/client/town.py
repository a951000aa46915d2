"""A deployment in one process behind an httpx transport: sessions talk to real parties, requests can be lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx

from bandanna.deployment.analyzer import publication
from bandanna.deployment.client.outbox import Outbox
from bandanna.deployment.client.session import Session
from bandanna.deployment.messages.publication import SignedPublication
from bandanna.deployment.messages.report import ReportFields, Ticket, split_reports
from bandanna.deployment.task.document import Secrets, Task
from bandanna.policies.base import Policy

from ..deployment.inside import Inside, a_task, headers_of, shown

URLS = {role: f"http://{role}.test" for role in ("analyzer", "shuffler", "helper", "registrar")}
Fault = Callable[[httpx.Request], str]  # "", "lost" (it never arrives), "unanswered" (it does, the answer does not)


class Town:
    """Analyzer and collector of a task; `fault` decides what happens to a request."""

    def __init__(self, policy: Policy[Any], folder: Path, **parts: Any) -> None:
        self.task: Task
        self.secrets: dict[str, Secrets]
        self.task, self.secrets = a_task(policy, seed=None, urls=URLS, **parts)
        self.inside = Inside(self.task, self.secrets, folder)
        self.fault: Fault = lambda request: ""
        self.bodies: list[bytes] = []  # of every upload that arrived
        self.tickets: list[tuple[int, Any]] = []
        self.replayed: SignedPublication | None = None  # what a hostile analyzer serves
        self.client = httpx.Client(transport=httpx.MockTransport(self._handle))

    def ticket(self, epoch: int, refused: Any) -> Ticket:
        self.tickets.append((epoch, refused))
        return self.inside.tickets(["somebody"], epoch)[0]

    def session(self, outbox: Outbox | str | Path = ":memory:", **parts: Any) -> Session:
        given = {"tickets": self.ticket, "patience": 2.0, **parts}
        return Session(self.task.document, id=self.task.id, outbox=outbox, http=self.client, **given)

    def play(self, users: int, contexts: Callable[[], Any], *, reward: float | None = 1.0) -> None:
        """Let users act, and report this reward unless it is None."""
        for _ in range(users):
            session = self.session()
            decision = session.act(contexts())
            assert decision.taking_part
            if reward is not None:
                session.report(decision, reward)

    def _handle(self, request: httpx.Request) -> httpx.Response:
        fault = self.fault(request)
        if fault == "lost":
            raise httpx.ConnectError("lost", request=request)
        answer = self._answer(request)
        if fault == "unanswered":
            raise httpx.ReadError("unanswered", request=request)
        return answer

    def _answer(self, request: httpx.Request) -> httpx.Response:
        parts = urlsplit(str(request.url))
        base = f"/tasks/{self.task.id}"
        if parts.path == f"{base}/snapshot":
            self.inside.pump()
            published = self.inside.processor.published
            given = self.replayed or shown(published)
            assert not {"if-none-match", "if-modified-since", "cookie"} & set(request.headers)
            after = parse_qs(parts.query).get("after", ["-1"])
            if published.number <= int(after[0]) and self.replayed is None:
                return httpx.Response(204)
            return httpx.Response(200, content=given.document, headers=headers_of(given))
        if parts.path.startswith(f"{base}/links/"):
            processor, block = self.inside.processor, int(parts.path.rsplit("/", 1)[1])
            with processor._database.reading() as rows:
                return httpx.Response(200, content=publication.read_document_hashes(rows, block, processor.number))
        if parts.path == f"{base}/reports":
            self.bodies.append(request.content)
            (verdicts,) = self.inside.collector.accept([request.content])
            from bandanna.deployment.messages.report import encode_verdicts

            status, content = encode_verdicts(verdicts)
            return httpx.Response(status, content=content)
        return httpx.Response(404)

    def reports(self, version: int) -> list[ReportFields]:
        return [report for body in self.bodies for report in split_reports(body, 1000) if report[4] == version]
