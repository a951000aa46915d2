"""The client's session over HTTP, and its tickets."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from bandanna import validation
from bandanna.deployment.client.device_logic import ClientTask, DeviceLogic, DocumentDevice
from bandanna.deployment.client.outbox import (
    ClientDecision,
    EffectSteps,
    GetTicket,
    NoTicket,
    Outbox,
    Outcome,
    SendRequest,
    Sleep,
    Unreachable,
    default_path,
)
from bandanna.deployment.client.session_steps import SessionSteps
from bandanna.deployment.messages.canonical import dumps, encode_base64url, loads, make_tls_context
from bandanna.deployment.messages.report import Ticket, ticket_from_plain
from bandanna.errors import (
    BandannaError,
    InvalidArgument,
    InvalidStatistic,
    MissingExtra,
    Unreadable,
    ValueSummary,
    raise_without_context,
)

# Tickets


Refused = Sequence[tuple[int, bytes, bytes]]
Tickets = Callable[[int, Refused], Any] | Callable[[int, Refused], Awaitable[Any]]


@dataclass(frozen=True, kw_only=True)
class RegistrarClient:
    """Get tickets from the registrar, on a host's server that has logged the user in.

    Parameters
    ----------
    user
        The host's name of the user, 1 to 200 characters. The registrar keeps a keyed hash of it.
    token
        The token in `registrar.secret.json`.
    """

    user: str
    token: str

    def __post_init__(self) -> None:
        if not isinstance(self.user, str) or not 0 < len(self.user) <= 200:
            raise InvalidStatistic("user", self.user, "a text of 1 to 200 characters")
        if not isinstance(self.token, str) or not re.fullmatch(r"[!-~]+", self.token):
            raise InvalidArgument("token", "...", "the token in registrar.secret.json, in visible ASCII")

    def __repr__(self) -> str:
        return "Registrar(...)"  # neither the name nor the token belongs into a log

    def request(self, task: ClientTask, wanted: GetTicket) -> SendRequest:
        """Return the request of a ticket for the registrar."""
        asked: dict[str, Any] = {"user": self.user, "epoch": wanted.epoch}
        if wanted.refused:
            asked["refused"] = [
                [epoch, encode_base64url(slot), encode_base64url(proof)] for epoch, slot, proof in wanted.refused
            ]
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        url = f"{task.url('registrar')}/tickets"
        content = dumps({"tickets": [asked]})
        return SendRequest(role="registrar", method="POST", url=url, content=content, headers=headers)

    def answered(self, status: int, content: bytes) -> Ticket:
        """Return the ticket of the registrar's answer, or raise an error with the reason."""
        if status in (200, 409, 429):
            document = loads(content)
            (each,) = (
                document["tickets"] if isinstance(document, dict) and len(document.get("tickets", ())) == 1 else (None,)
            )
            if isinstance(each, Mapping) and "refused" in each:
                raise NoTicket(str(each["refused"]))
            return ticket_from_plain(each)
        if status == 401:
            raise InvalidArgument("token", "...", "the token in the registrar.secret.json of this task")
        raise Unreachable(f"the registrar answers {status}")


def to_ticket(given: Any) -> Ticket:
    """Return the ticket that a host's function gave, as a Ticket or a dictionary."""
    if isinstance(given, Ticket):
        return given
    if given is None:
        raise NoTicket("ticket")
    if isinstance(given, Mapping) and "refused" in given:
        raise NoTicket(str(given["refused"]))
    try:
        return ticket_from_plain(given)
    except Unreadable as error:
        raise_without_context(InvalidStatistic("tickets", given, str(error)))


# Sessions


_SECONDS = 30.0  # for one request


def _import_httpx() -> Any:
    try:
        import httpx
    except ImportError as error:  # pragma: no cover - tests have it
        raise MissingExtra("client", "a session with a deployment") from error
    return httpx


def _make_device_logic(task: ClientTask) -> DeviceLogic:
    if task.content["seed"] is not None:
        raise BandannaError(
            "the task is a seeded test, whose noise follows from the seed. Play it with `bandanna simulate-clients`"
        )
    if task.device is not None:
        return DocumentDevice(task)
    from bandanna.deployment.client.policy_device import PolicyDevice  # the whole library: policies, accounting and all

    return PolicyDevice(task)


class _BaseSession:
    """The common part of both sessions."""

    def __init__(
        self,
        task: Any,
        *,
        id: str | None = None,
        tickets: RegistrarClient | Tickets,
        user: str | None = None,
        outbox: Outbox | str | os.PathLike[str] | None = None,
        patience: float = 10.0,
        http: Any = None,
    ) -> None:
        if not isinstance(tickets, RegistrarClient) and not callable(tickets):
            allowed = "Registrar(user=..., token=...) on the host's server, or a function (epoch, refused) -> ticket"
            raise InvalidArgument("tickets", ValueSummary.of(tickets), allowed)  # a token is not for logs
        self.task = _find_client_task(task, id)
        self._tickets, self._patience = tickets, validation.non_negative("patience", patience)
        self._check_http(http)
        self._own_outbox = not isinstance(outbox, Outbox)
        self.outbox = outbox if isinstance(outbox, Outbox) else Outbox(default_path() if outbox is None else outbox)
        name = user if user is not None else tickets.user if isinstance(tickets, RegistrarClient) else ""
        self._steps = SessionSteps(self.task, _make_device_logic(self.task), self.outbox, name)
        self._steps.forget()
        self._user, self._http = name, http
        self._own_http = http is None

    @staticmethod
    def _check_http(http: Any) -> None:
        """Refuse an HTTP client of another type."""

    @property
    def promise(self) -> str:
        """The task's guarantee in sentences."""
        return str(self.task.content["promise"])

    @property
    def pending(self) -> int:
        """The number of decisions without a slot, or with a report that is not acknowledged. `flush` sends them."""
        return self._steps.pending

    @property
    def decisions(self) -> list[ClientDecision]:
        """The decisions without a reward, oldest first, also after a crash."""
        return self._steps.decisions

    def _answered(self, wanted: Any, answer: Any) -> tuple[int, dict[str, str], bytes]:
        busy = answer.status_code in (408, 429) and wanted.role != "registrar"  # of a proxy before a role
        if answer.status_code >= 500 or busy:
            raise Unreachable(f"the {wanted.role} answers {answer.status_code}, to be tried again")
        headers = {name.lower(): value for name, value in answer.headers.items()}
        return answer.status_code, headers, answer.content


class Session(_BaseSession):
    """Take part in a task as one user. Thread-safe for different decisions.

    Noise comes from the operating system and is drawn once for every report. A session sends nothing if the analyzer
    announces less noise, or fewer users, than the task's document.

    Parameters
    ----------
    task
        The folder or file of `bandanna task create`, or the bytes of the document.
    id
        The task's id. Needed unless `task` is a local file.
    tickets
        `Registrar(user=..., token=...)` on the host's server. On a device: a function (epoch, refused) -> ticket that
        calls the host, which returns the registrar's answer {"epoch", "slot", "collector", "helper"?}.
    user
        The name of this user in an outbox of several users.
    outbox
        A file for unsent decisions, or an `Outbox` that sessions share. Default: BANDANNA_OUTBOX, else a file in the
        state directory.
    patience
        Seconds to wait for a batch that is about to open.
    http
        Your own httpx.Client.
    """

    @staticmethod
    def _check_http(http: Any) -> None:
        if http is not None and not isinstance(http, _import_httpx().Client):
            raise InvalidArgument("http", type(http).__name__, "an httpx.Client", "AsyncSession takes an AsyncClient")

    def act(self, contexts: Any = None) -> ClientDecision:
        """Open a slot and choose an arm.

        Invalid features raise an error only after the slot is open: a user who is missing from a batch must not reveal
        anything about the features.

        Parameters
        ----------
        contexts
            The features of every arm, as for `Agent.act`; those of the user if arms are names only; None if arms are
            fixed.

        Returns
        -------
        ClientDecision
            The arm, and whether the user takes part.
        """
        made: ClientDecision = self._run(self._steps.act(contexts))
        return made

    def report(self, decision: ClientDecision | str, reward: float) -> Outcome:
        """Report the reward of a decision. Without a connection the report is kept, and `flush` sends it.

        An invalid reward raises an error only after a report of zeros was sent, so that sending reveals nothing.

        Parameters
        ----------
        decision
            The decision, or its id.
        reward
            A finite number.

        Returns
        -------
        Outcome
            Whether the collector kept the report.
        """
        made: Outcome = self._run(self._steps.report(_decision_id(decision), reward))
        return made

    def flush(self) -> int:
        """Send what is kept and return how many decisions still wait. This asks for one publication."""
        left: int = self._run(self._steps.flush())
        return left

    def _run(self, steps: EffectSteps) -> Any:
        end = time.monotonic() + self._patience
        value: Any = None
        try:
            wanted = next(steps)
            while True:
                try:
                    value = self._answer(wanted, end)
                except Exception as error:
                    wanted = steps.throw(error)
                else:
                    wanted = steps.send(value)
        except StopIteration as done:
            return done.value

    def _answer(self, wanted: Any, end: float) -> Any:
        if isinstance(wanted, Sleep):
            if time.monotonic() + wanted.seconds > end:
                return False
            time.sleep(wanted.seconds)
            return True
        if isinstance(wanted, SendRequest):
            return self._asked(wanted)
        assert isinstance(wanted, GetTicket)
        if not isinstance(self._tickets, RegistrarClient):
            return to_ticket(self._tickets(wanted.epoch, wanted.refused))
        status, _, content = self._asked(self._tickets.request(self.task, wanted))
        return self._tickets.answered(status, content)

    def _asked(self, wanted: SendRequest) -> tuple[int, dict[str, str], bytes]:
        httpx = _import_httpx()
        if self._http is None:
            self._http = httpx.Client(timeout=_SECONDS, verify=make_tls_context(environment=True))
        try:
            answer = self._http.send(_send_without_cookies(self._http, wanted), follow_redirects=False)
        except httpx.HTTPError as error:  # which holds the request
            raise_without_context(Unreachable(f"the {wanted.role} does not answer ({type(error).__name__})"))
        return self._answered(wanted, answer)

    def close(self) -> None:
        """Close connections. The outbox keeps what is not sent."""
        if self._own_http and self._http is not None:
            self._http.close()
        if self._own_outbox:
            self.outbox.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncSession(_BaseSession):
    """A `Session` for asyncio. `tickets` may be a coroutine function, and `http` is an httpx.AsyncClient."""

    @staticmethod
    def _check_http(http: Any) -> None:
        if http is not None and not isinstance(http, _import_httpx().AsyncClient):
            raise InvalidArgument("http", type(http).__name__, "an httpx.AsyncClient", "Session takes a Client")

    async def act(self, contexts: Any = None) -> ClientDecision:
        """Do what `Session.act` does."""
        made: ClientDecision = await self._run(self._steps.act(contexts))
        return made

    async def report(self, decision: ClientDecision | str, reward: float) -> Outcome:
        """Do what `Session.report` does."""
        made: Outcome = await self._run(self._steps.report(_decision_id(decision), reward))
        return made

    async def flush(self) -> int:
        """Do what `Session.flush` does."""
        left: int = await self._run(self._steps.flush())
        return left

    async def _run(self, steps: EffectSteps) -> Any:
        end = time.monotonic() + self._patience
        value: Any = None
        try:
            wanted = next(steps)
            while True:
                try:
                    value = await self._answer(wanted, end)
                except Exception as error:
                    wanted = steps.throw(error)
                else:
                    wanted = steps.send(value)
        except StopIteration as done:
            return done.value

    async def _answer(self, wanted: Any, end: float) -> Any:
        if isinstance(wanted, Sleep):
            if time.monotonic() + wanted.seconds > end:
                return False
            await asyncio.sleep(wanted.seconds)
            return True
        if isinstance(wanted, SendRequest):
            return await self._asked(wanted)
        assert isinstance(wanted, GetTicket)
        if not isinstance(self._tickets, RegistrarClient):
            given = self._tickets(wanted.epoch, wanted.refused)
            return to_ticket(await given if inspect.isawaitable(given) else given)
        status, _, content = await self._asked(self._tickets.request(self.task, wanted))
        return self._tickets.answered(status, content)

    async def _asked(self, wanted: SendRequest) -> tuple[int, dict[str, str], bytes]:
        httpx = _import_httpx()
        if self._http is None:
            self._http = httpx.AsyncClient(timeout=_SECONDS, verify=make_tls_context(environment=True))
        try:
            answer = await self._http.send(_send_without_cookies(self._http, wanted), follow_redirects=False)
        except httpx.HTTPError as error:  # which holds the request
            raise_without_context(Unreachable(f"the {wanted.role} does not answer ({type(error).__name__})"))
        return self._answered(wanted, answer)

    async def close(self) -> None:
        """Do what `Session.close` does."""
        if self._own_http and self._http is not None:
            await self._http.aclose()
        if self._own_outbox:
            self.outbox.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _send_without_cookies(http: Any, wanted: SendRequest) -> Any:
    """Build a request without cookies, which would tell a device from others."""
    request = http.build_request(wanted.method, wanted.url, content=wanted.content or None, headers=wanted.headers)
    request.headers.pop("cookie", None)
    return request


def _find_client_task(task: Any, id_: str | None) -> ClientTask:
    if id_ is not None and not (isinstance(id_, str) and re.fullmatch(r"[\w-]{43}", id_, re.ASCII)):
        raise InvalidArgument("id", ValueSummary.of(id_), "the 43 characters that `bandanna task create` printed")
    if isinstance(task, str) and task.startswith(("http://", "https://")):
        hint = "From an address, pass httpx.get(analyzer + '/task').content and id=..."
        raise InvalidArgument("task", ValueSummary("an address"), "a folder, a file, or the document's bytes", hint)
    if isinstance(task, str | os.PathLike):
        return ClientTask.read(Path(task), id_)
    document = task if isinstance(task, bytes) else getattr(task, "document", None)  # a ClientTask or a Task
    if not isinstance(document, bytes):
        allowed = "the folder or file of `bandanna task create`, or the document's bytes and id="
        raise InvalidArgument("task", ValueSummary.of(task), allowed)
    if id_ is None:
        hint = "The id fixes the noise, so it must not come from the server of the document"
        raise InvalidArgument("id", None, "the id that `bandanna task create` printed", hint)

    return ClientTask.from_bytes(document, id_)


def _decision_id(decision: ClientDecision | str) -> str:
    if isinstance(decision, ClientDecision):
        return decision.id
    if isinstance(decision, str):
        return decision
    raise InvalidStatistic("decision", decision, "what `act` returned, or its id")
