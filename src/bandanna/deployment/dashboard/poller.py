"""Polls the roles of a deployment and verifies what they answer."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Protocol

from prometheus_client.parser import text_string_to_metric_families

from bandanna.deployment.dashboard.readings import PublicationReading, reader_for
from bandanna.deployment.dashboard.views import (
    BatchStatus,
    HistoryPoint,
    MetricCount,
    PublicationHistory,
    RoleState,
    TaskStatus,
)
from bandanna.deployment.http.routes import run_in_thread
from bandanna.deployment.messages.batch_plan import Batch
from bandanna.deployment.messages.canonical import loads
from bandanna.deployment.messages.publication import SignedPublication
from bandanna.deployment.task.description import task_facts
from bandanna.deployment.task.document import Task, check_announced, is_url
from bandanna.deployment.task.export import ExportedPublication, check_publication
from bandanna.deployment.task.query_plan import VerifiedPublication
from bandanna.errors import BandannaError, MissingExtra

# Requests


MOST = 1 << 24  # bytes of an answer
_SECONDS = 10.0


class RoleUnavailable(BandannaError):
    """A role does not answer, or answers something else."""


@dataclass(frozen=True, kw_only=True)
class RoleResponse:
    """The answer of a role."""

    status: int
    content: bytes
    headers: dict[str, str]

    def document(self) -> Any:
        """Parse the answer as JSON; RoleUnavailable for others and for a status other than 200."""
        if self.status != 200:
            raise RoleUnavailable(f"it answers {self.status}")
        try:
            return loads(self.content)
        except BandannaError as error:
            raise RoleUnavailable(f"its answer is no JSON: {error}") from error


class RoleClient(Protocol):
    """A client for requests to roles."""

    async def get(self, url: str, *, token: str = "", seconds: float = _SECONDS) -> RoleResponse:
        """Return the answer of an address; RoleUnavailable if there is none."""

    async def close(self) -> None: ...


class HttpRoleClient:
    """A client over HTTP that follows no redirects and keeps no cookies."""

    def __init__(self, *, verify_tls: Any = True, transport: Any = None) -> None:
        try:
            import httpx
        except ImportError as error:  # pragma: no cover - tests have it
            raise MissingExtra("serve", "asking a deployment") from error
        self._httpx = httpx
        self._client = httpx.AsyncClient(
            verify=verify_tls,
            transport=transport,
            trust_env=False,
            follow_redirects=False,
            timeout=_SECONDS,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),  # none are kept
        )

    async def get(self, url: str, *, token: str = "", seconds: float = _SECONDS) -> RoleResponse:
        headers = {"accept-encoding": "identity"} | ({"authorization": f"Bearer {token}"} if token else {})
        content = bytearray()
        if not is_url(url):
            raise RoleUnavailable("its address is no URL")
        try:
            async with (
                asyncio.timeout(seconds),  # for the whole answer, so that single bytes do not extend it
                self._client.stream("GET", url, headers=headers, timeout=seconds) as answer,
            ):
                async for part in answer.aiter_bytes():
                    content += part
                    if len(content) > MOST:
                        raise RoleUnavailable(f"it sends more than {MOST} bytes")
                named = {name.lower(): value for name, value in answer.headers.items()}
                return RoleResponse(status=answer.status_code, content=bytes(content), headers=named)
        except (self._httpx.HTTPError, self._httpx.InvalidURL, ValueError, TimeoutError) as error:
            raise RoleUnavailable(f"it cannot be reached ({type(error).__name__})") from error

    async def close(self) -> None:
        await self._client.aclose()


# Parsing


_WATCHED_METRICS = {  # metrics that are about refusals and answers, and what their label is
    "bandanna_refusals_total",
    "bandanna_reports_total",
    "bandanna_tickets_total",
    "bandanna_tickets_refused_total",
    "bandanna_jobs_total",
    "bandanna_bad_seeds_total",
    "bandanna_shares_waiting",
    "bandanna_requests_in_flight",
    "bandanna_received_bytes_total",
}
_COUNTS = 100  # of a role
_LABEL = 60  # letters of a label
_METRICS_BYTES = 1 << 16  # of a role's metrics that are read
_LONGEST = 2000  # letters of a status


def parse_batch_status(answer: RoleResponse) -> BatchStatus:
    """Parse `GET /tasks/{task}/open`."""
    document = answer.document()
    if not isinstance(document, dict):
        raise RoleUnavailable("its answer about the batch cannot be read")
    at = document.get("closes_at")
    opened = document.get("open")
    return BatchStatus(
        epoch=_whole(document.get("epoch")),
        round=_whole(document.get("round")),
        slots=_whole(document.get("slots")),
        wanted=_whole(document.get("of")),
        open=None if opened is None else _whole(opened),
        closes_at=float(at) if isinstance(at, int | float) and 0 <= at < 1e11 else None,
    )


def _whole(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**53:
        raise RoleUnavailable("its answer about the batch cannot be read")
    return value


def parse_health(answer: RoleResponse) -> str:
    """Parse `GET /readyz`: 503 means not well, other statuses than 200 that the role does not say."""
    if answer.status not in (200, 503):
        return "unclear"
    try:
        document = RoleResponse(status=200, content=answer.content, headers={}).document()
    except RoleUnavailable:
        return "unclear"
    if not isinstance(document, dict) or type(document.get("ok")) is not bool:
        return "unclear"
    return "well" if document["ok"] and answer.status == 200 else "unwell"


def parse_metrics(role: str, answer: RoleResponse) -> list[MetricCount]:
    """Parse the watched metrics of `GET /metrics`."""
    if answer.status != 200:
        return []
    text = answer.content[:_METRICS_BYTES].decode("utf-8", errors="replace")
    found: list[MetricCount] = []
    with suppress(ValueError, IndexError, OverflowError):  # what stands before the first error counts
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name in _WATCHED_METRICS and len(found) < _COUNTS and math.isfinite(sample.value):
                    label = "".join(sample.labels.values())[:_LABEL]
                    found.append(MetricCount(role=role, metric=sample.name, label=label, value=float(sample.value)))
    return found


def parse_status(answer: RoleResponse) -> str:
    """Return `GET /status` as one line."""
    if answer.status != 200:
        return f"it answers {answer.status}"
    return answer.content.decode("utf-8", errors="replace")[:_LONGEST]


# Reading all roles


async def fetch_batch_status(web: RoleClient, known: TaskStatus) -> BatchStatus | None:
    """Fetch the progress of the running batch; None if its collector does not say."""
    assert known.task is not None
    url = known.role_urls.get(known.task.collector)
    if url is None:
        return None
    try:
        return parse_batch_status(await web.get(f"{url}/tasks/{known.id}/open"))
    except RoleUnavailable:
        return None


async def fetch_health(web: RoleClient, known: TaskStatus) -> tuple[RoleState, ...]:
    """Fetch the state of every role with a known address."""
    states = []
    for role in known.roles:
        url, state = known.role_urls.get(role.name), "unnamed"
        if url is not None:
            try:
                state = parse_health(await web.get(f"{url}/readyz"))
            except RoleUnavailable:
                state = "silent"
        states.append(replace(role, state=state))
    return tuple(states)


async def fetch_admin_metrics(
    web: RoleClient, known: TaskStatus, tokens: Mapping[str, str]
) -> tuple[tuple[MetricCount, ...], tuple[tuple[str, str], ...]]:
    """Fetch metrics and status, for administrators, of the roles with known tokens."""
    counts: list[MetricCount] = []
    statuses: list[tuple[str, str]] = []
    for role, url in known.role_urls.items():
        try:
            if role in tokens:
                counts += parse_metrics(role, await web.get(f"{url}/metrics", token=tokens[role]))
                statuses.append((role, parse_status(await web.get(f"{url}/status", token=tokens[role]))))
        except RoleUnavailable as error:
            statuses.append((role, str(error)))
    return tuple(counts), tuple(statuses)


# The poller


_WAIT = 20.0  # seconds that the analyzer may let us wait for a newer publication
_PAUSE, _WATCHING_LONGEST = 0.2, 30.0
_BUSY, _IDLE = 1.0, 10.0  # seconds between two requests about a batch, while a page is read and otherwise
_ATTENTION_SECONDS = 30.0
_HEALTH = 5  # looks at a batch for one at all roles
_WARNINGS = 10

_INSIDE = frozenset({"counts", "statuses"})  # for administrators: they change with every report


class TaskPoller:
    """Follow one task: its analyzer by long poll, its collector and other roles by requests.

    Publications are checked as a device checks them. Failures become sentences on the page and are tried again. `known`
    is replaced, never changed; `version` counts changes of what is public, `changes` all of them.

    Parameters
    ----------
    place
        The analyzer's address, or the task's folder.
    task, tokens
        The task of a folder: then the addresses that it names are called, with the tokens.
    named
        Further addresses that may be called. A document from elsewhere could name any address that this machine
        reaches, so only its analyzer is called.
    inside
        Whether to fetch metrics and statuses, for administrators.
    """

    def __init__(
        self,
        place: str,
        web: RoleClient,
        *,
        task: Task | None = None,
        tokens: Mapping[str, str] | None = None,
        named: Collection[str] = (),
        inside: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.known = TaskStatus(place=place, url=place if task is None else task.url("analyzer"))
        self.version = self.changes = 0
        self.looked = 0.0  # when a page was last requested
        self._web, self._given, self.clock = web, task, clock
        self._tokens, self._administered = dict(tokens or {}), inside
        self._named = frozenset(each.rstrip("/") for each in named)
        self._series = PublicationHistory()
        self._last: tuple[VerifiedPublication, PublicationReading] | None = None
        self._caught = -1  # the publication up to which the series is complete
        self._bad: set[int] = set()  # publications that cannot be

    def tell(self, **changes: Any) -> None:
        """Replace fields of `known`."""
        if all(getattr(self.known, name) == value for name, value in changes.items()):
            return
        public = any(getattr(self.known, name) != changes[name] for name in changes if name not in _INSIDE)
        self.known = replace(self.known, **changes)
        self.version, self.changes = self.version + public, self.changes + 1

    async def follow(self) -> None:
        """Follow the analyzer until cancelled."""
        pause = _PAUSE
        while True:
            try:
                await self.step(_WAIT)
                pause = _PAUSE
            except RoleUnavailable as error:
                self.tell(trouble=str(error))
                pause = min(2 * pause, _WATCHING_LONGEST)
            except Exception as error:
                self.warn(_describe_error(error))
                pause = min(2 * pause, _WATCHING_LONGEST)
            await asyncio.sleep(pause)

    async def look(self) -> None:
        """Query collector and roles until cancelled, more often while a page is read."""
        turn, rested = 0, 0.0
        while True:
            wanted = self.clock() - self.looked < _ATTENTION_SECONDS or turn == 0
            if self.known.task is not None and (wanted or rested >= _IDLE):
                try:
                    await self.glance(health=turn % _HEALTH == 0)
                except Exception as error:  # no answer of a role may stop the loop
                    self.warn(_describe_error(error))
                turn, rested = turn + 1, 0.0
            await asyncio.sleep(_BUSY)
            rested += _BUSY

    def warn(self, words: str) -> None:
        """Add a warning to the page, once."""
        if words and words not in self.known.warnings and len(self.known.warnings) < _WARNINGS:
            self.tell(warnings=(*self.known.warnings, words))

    async def step(self, wait: float = 0.0) -> None:
        """Wait for a newer publication and read it; read the task first."""
        if self.known.task is None:
            await self._find()
        task, newest = self.known.task, self.known.newest
        assert task is not None
        query = "" if newest is None else f"?after={newest.number}&wait={wait:g}"
        answer = await self._fetch(f"snapshot{query}", seconds=wait + 10)
        if answer.status != 204:
            publication = self._checked(answer, None)
            self._compare(publication)
            if newest is None or publication.number > newest.number:
                self.tell(newest=publication, since=self.clock())
        self.tell(trouble="")
        assert self.known.newest is not None
        if self._caught != self.known.newest.number:
            await self._catch_up(self.known.newest)
            await self._ledger()

    async def _find(self) -> None:
        task = self._given
        if task is None:
            answer = await self._web.get(f"{self.known.url}/task")
            if answer.status != 200:
                raise RoleUnavailable(f"it answers {answer.status} to a request for its task")
        try:
            task = Task.from_bytes(answer.content) if task is None else task
            reader = await run_in_thread(reader_for, task)
            urls = {role: task.url(role) for role in task.roles}
        except Exception as error:  # a stranger wrote it
            raise RoleUnavailable(
                f"what it serves is no task that this program can read ({_describe_error(error)})"
            ) from error
        told, wrong = await run_in_thread(_check_document, task)
        roles = tuple(RoleState(name=role, url=url) for role, url in urls.items())
        role_urls = {role: url for role, url in urls.items() if self._given is not None or url in self._named}
        self.tell(task=task, reader=reader, facts=told, roles=roles, role_urls=role_urls | {"analyzer": self.known.url})
        self.warn(wrong)

    async def _fetch(self, what: str, *, seconds: float = 10.0) -> RoleResponse:
        return await self._web.get(f"{self.known.url}/tasks/{self.known.id}/{what}", seconds=seconds)

    async def read(self, number: int) -> ExportedPublication:
        """Return an earlier publication after checking it."""
        return self._checked(await self._fetch(f"snapshot/{number}"), number)

    async def lines(self, after: int, most: int) -> list[dict[str, Any]]:
        told = (await self._fetch(f"history?after={after}&most={most}")).document()
        lines = told.get("lines") if isinstance(told, dict) else None
        if not isinstance(lines, list) or len(lines) > most or not all(isinstance(each, dict) for each in lines):
            raise RoleUnavailable("its history cannot be read")
        return lines

    def _checked(self, answer: RoleResponse, number: int | None) -> ExportedPublication:
        if answer.status != 200:
            raise RoleUnavailable(f"it answers {answer.status} to a request for a publication")
        assert self.known.task is not None
        return check_publication(self.known.task, SignedPublication.of(answer.content, answer.headers), number)

    def _compare(self, new: ExportedPublication) -> None:
        """Refuse a publication that is older than the newest one or differs from it."""
        old = self.known.newest
        if old is None:
            return
        if new.number < old.number:
            raise BandannaError(f"The analyzer has gone back to publication {new.number}, from {old.number}.")
        if new.number == old.number and new.chain != old.chain:
            raise BandannaError(f"There are two publications of number {new.number}.")

    async def _catch_up(self, newest: ExportedPublication) -> None:
        """Read the newest publication and those that the history lacks."""
        if not self.known.points:
            reading = await self._put(newest, None)
            self.tell(latest=reading, points=self._series.points)
        try:
            for place, number in enumerate(list(self._series.missing(newest.number))):
                await self._fill(number)
                if place % 32 == 31:
                    self.tell(points=self._series.points)
        finally:
            self.tell(points=self._series.points)
        reading = await self._put(newest, self._before(newest.number))
        self.tell(latest=reading, points=self._series.points)
        self._caught = newest.number
        self.warn(await run_in_thread(self._announced, newest))

    async def _fill(self, number: int) -> None:
        """Read one publication of the history; a bad one becomes a warning."""
        if number in self._bad:
            return
        try:
            await self._put(await self.read(number), self._before(number))
        except RoleUnavailable:
            raise
        except BandannaError as error:
            self._bad.add(number)
            self.warn(f"Publication {number}: {error}")

    def _before(self, number: int) -> tuple[VerifiedPublication, PublicationReading] | None:
        return self._last if self._last is not None and self._last[0].number == number - 1 else None

    async def _put(
        self, publication: ExportedPublication, before: tuple[VerifiedPublication, PublicationReading] | None
    ) -> PublicationReading:
        verified = VerifiedPublication(content=publication.content)
        reading, wrong = await run_in_thread(self._reading, verified, before)
        self.warn(wrong)
        content, spent = publication.content, publication.content.get("spent")
        point = HistoryPoint(
            number=publication.number,
            epoch=int(content.get("epoch", 0)),
            chain=publication.chain,
            previous=str(content["previous"]),
            spent=float(spent) if isinstance(spent, int | float) else None,
            reading=reading.brief,
        )
        self._link(point)
        self._series.put(point)
        self._last = verified, reading
        return reading

    def _reading(
        self, verified: VerifiedPublication, before: tuple[VerifiedPublication, PublicationReading] | None
    ) -> tuple[PublicationReading, str]:
        assert self.known.reader is not None
        try:
            return self.known.reader.read(verified, before), ""
        except Exception as error:
            kind = type(error).__name__
            return PublicationReading(), f"Publication {verified.number} cannot be read as one of this policy ({kind})."

    def _link(self, point: HistoryPoint) -> None:
        before, after = self._series.link(point.number - 1), self._series.link(point.number + 1)
        if before is not None and point.previous != before.chain:
            self.warn(f"Publication {point.number} does not follow the one before it: another history.")
        if after is not None and after.previous != point.chain:
            self.warn(f"Publication {after.number} does not follow the one before it: another history.")

    def _announced(self, publication: ExportedPublication) -> str:
        assert self.known.task is not None
        try:
            batches = tuple(map(Batch.from_dict, publication.content["batches"]))
            check_announced(self.known.task, publication.content["state"], batches)
        except Exception as error:
            return f"Publication {publication.number}: {_describe_error(error)}"
        return ""

    async def _ledger(self) -> None:
        """Read the ledger's summary, whose sum must equal that of the signed publication."""
        try:
            told = (await self._fetch("ledger/summary")).document()
        except RoleUnavailable:
            return
        ledger = told.get("ledger") if isinstance(told, dict) else None
        now = self.known.now
        if isinstance(ledger, dict) and now is not None and ledger.get("spent") == now["spent"]:
            self.tell(ledger=ledger)

    async def glance(self, *, health: bool = True) -> None:
        """Query the running batch; with `health`, also the health of all roles."""
        if self.known.task is None:
            return
        self.tell(filling=await fetch_batch_status(self._web, self.known))
        if health:
            self.tell(roles=await fetch_health(self._web, self.known))
        if health and self._administered:
            counts, statuses = await fetch_admin_metrics(self._web, self.known, self._tokens)
            self.tell(counts=counts, statuses=statuses)


def _check_document(task: Task) -> tuple[dict[str, Any] | None, str]:
    """Compute the facts of a task again; return them, or None and the error."""
    try:
        return task_facts(task), ""
    except Exception as error:
        return None, _describe_error(error)


def _describe_error(error: Exception) -> str:
    """Return the text of an error of this package, and only the type of any other, whose contents may be foreign."""
    return (
        str(error)[:300]
        if isinstance(error, BandannaError)
        else f"What it says cannot be read ({type(error).__name__})."
    )
