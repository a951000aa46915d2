"""A deployment as a client reaches it: publications, tickets, uploads."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Protocol, Self

from bandanna.errors import BandannaError
from bandanna.roles.calls import Calls, Unreachable
from bandanna.tasks.document import Task
from bandanna.wire.answers import Answer, Ticket, answers, ticket_of
from bandanna.wire.canonical import dumps, loads, packed
from bandanna.wire.publications import Shown
from bandanna.wire.record import joined

_PAUSE, _LONGEST = 0.05, 2.0  # seconds before something is tried again


class Deployment(Protocol):
    """What clients need of a deployment."""

    def publication(self, after: int | None, wait: float) -> Shown | None:
        """The publication in force, if it is newer."""

    def tickets(self, users: Sequence[str], epoch: int, refused: Sequence[Any] = ()) -> list[Ticket]:
        """One for each user."""

    def upload(self, records: Sequence[bytes]) -> list[Answer]:
        """Records of one request; returns when they are durable, or refused."""


class Http:
    """Over HTTP; what fails without an answer is tried again with the same bytes, for at most `patience` seconds."""

    def __init__(self, task: Task, *, token: str, patience: float = 60.0, verify_tls: Any = True) -> None:
        self._task, self._token, self._patience = task, token, patience
        self._calls = {role: Calls(task.url(role), verify_tls=verify_tls) for role in ("analyzer", "registrar")}
        if task.collector not in self._calls:
            self._calls[task.collector] = Calls(task.url(task.collector), verify_tls=verify_tls)
        self.retries = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for calls in self._calls.values():
            calls.close()

    def publication(self, after: int | None, wait: float) -> Shown | None:
        """From the analyzer."""
        analyzer = self._calls["analyzer"]
        found: Shown | None = self._again(lambda: analyzer.publication(self._task.id, after, wait))
        return found

    def tickets(self, users: Sequence[str], epoch: int, refused: Sequence[Any] = ()) -> list[Ticket]:
        """From the registrar, on behalf of the host's login."""
        asked: list[dict[str, Any]] = [{"user": user, "epoch": epoch} for user in users]
        for each, proofs in zip(asked, refused, strict=False):
            if proofs:
                each["refused"] = [[e, packed(slot), packed(proof)] for e, slot, proof in proofs]
        content = dumps({"tickets": asked})
        headers = {"Authorization": f"Bearer {self._token}"}
        path = f"/tasks/{self._task.id}/tickets"
        status, answer, _ = self._again(lambda: self._calls["registrar"].ask("POST", path, content, headers))
        if status != 200:
            raise BandannaError(f"the registrar gives no tickets: {status} {answer[:200]!r}")
        made = []
        for each in loads(answer)["tickets"]:
            if "refused" in each:
                raise BandannaError(f"the registrar refuses a ticket: {each['refused']}")
            made.append(ticket_of(each))
        return made

    def upload(self, records: Sequence[bytes]) -> list[Answer]:
        """To the collector; it may hear of a batch a little later than we do."""
        content, path = joined(list(records)), f"/tasks/{self._task.id}/reports"

        def asked() -> list[Answer]:
            status, answer, _ = self._calls[self._task.collector].ask("POST", path, content)
            told = answers(status, answer, len(records))
            if any(each.reason == "early" for each in told):
                raise Unreachable("the batch is not open yet")
            return told

        made: list[Answer] = self._again(asked)
        return made

    def _again(self, call: Any) -> Any:
        """Until there is an answer."""
        pause, end = _PAUSE, time.monotonic() + self._patience
        while True:
            try:
                return call()
            except Unreachable:
                if time.monotonic() + pause > end:
                    raise
                self.retries += 1
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST)
