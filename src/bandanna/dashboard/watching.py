"""A task, watched: its analyzer is followed by long poll, its collector and its roles are asked how they are.

What is read is checked as a device would: signatures by the task's keys, every publication against those seen before.
Whatever goes wrong is kept as a sentence, for the page, and tried again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from bandanna.dashboard import looking
from bandanna.dashboard.asking import Answer, Asking, Silent
from bandanna.dashboard.known import Known, Role
from bandanna.dashboard.readings import Reading, reader_of
from bandanna.dashboard.series import Point, Series
from bandanna.errors import BandannaError
from bandanna.roles.serving import in_thread
from bandanna.tasks.announced import check_announced
from bandanna.tasks.document import Task
from bandanna.tasks.exporting import Publication, checked
from bandanna.tasks.page import facts
from bandanna.tasks.published import Published
from bandanna.wire.plan import Batch
from bandanna.wire.publications import Shown

_WAIT = 20.0  # seconds that the analyzer may let us wait for a newer publication
_PAUSE, _LONGEST = 0.2, 30.0
_BUSY, _IDLE = 1.0, 10.0  # seconds between two looks at a batch, while somebody looks at the page and else
_ATTENTION = 30.0
_HEALTH = 5  # looks at a batch for one at all roles
_WARNINGS = 10

_INSIDE = frozenset({"counts", "statuses"})  # for administrators: when they change, somebody has answered


class Watch:
    """One task. `known` is replaced, never changed; `version` counts changes of what is public, `changes` all of them.

    task    where it was read from a folder: only then are the addresses that it names asked, and `tokens` sent to them
    named   further addresses that the operator has given: of a document from elsewhere no others are asked but its
            analyzer's, which is `place`; else whoever writes documents could send us to any address that we reach
    inside  whether an administrator may look: then metrics and statuses are asked for
    """

    def __init__(
        self,
        place: str,
        web: Asking,
        *,
        task: Task | None = None,
        tokens: Mapping[str, str] | None = None,
        named: Collection[str] = (),
        inside: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.known = Known(place=place, url=place if task is None else task.url("analyzer"))
        self.version = self.changes = 0
        self.looked = 0.0  # when somebody last asked for a page
        self._web, self._given, self.clock = web, task, clock
        self._tokens, self._administered = dict(tokens or {}), inside
        self._named = frozenset(each.rstrip("/") for each in named)
        self._series = Series()
        self._last: tuple[Published, Reading] | None = None
        self._caught = -1  # the publication up to which the series is complete
        self._bad: set[int] = set()  # publications that cannot be

    def tell(self, **changes: Any) -> None:
        """Replace what is known."""
        if all(getattr(self.known, name) == value for name, value in changes.items()):
            return
        public = any(getattr(self.known, name) != changes[name] for name in changes if name not in _INSIDE)
        self.known = replace(self.known, **changes)
        self.version, self.changes = self.version + public, self.changes + 1

    async def follow(self) -> None:
        """For ever: the analyzer."""
        pause = _PAUSE
        while True:
            try:
                await self.step(_WAIT)
                pause = _PAUSE
            except Silent as error:
                self.tell(trouble=str(error))
                pause = min(2 * pause, _LONGEST)
            except Exception as error:
                self.warn(_said(error))
                pause = min(2 * pause, _LONGEST)
            await asyncio.sleep(pause)

    async def look(self) -> None:
        """For ever: collector and roles; often while somebody looks at a page."""
        turn, rested = 0, 0.0
        while True:
            wanted = self.clock() - self.looked < _ATTENTION or turn == 0
            if self.known.task is not None and (wanted or rested >= _IDLE):
                try:
                    await self.glance(everybody=turn % _HEALTH == 0)
                except Exception as error:  # whatever a role has answered, it stops nobody
                    self.warn(_said(error))
                turn, rested = turn + 1, 0.0
            await asyncio.sleep(_BUSY)
            rested += _BUSY

    def warn(self, words: str) -> None:
        """Say it on the page, once."""
        if words and words not in self.known.warnings and len(self.known.warnings) < _WARNINGS:
            self.tell(warnings=(*self.known.warnings, words))

    async def step(self, wait: float = 0.0) -> None:
        """What is newer than what is known, after waiting for it; the task itself at first."""
        if self.known.task is None:
            await self._find()
        task, newest = self.known.task, self.known.newest
        assert task is not None
        query = "" if newest is None else f"?after={newest.number}&wait={wait:g}"
        answer = await self._ask(f"snapshot{query}", seconds=wait + 10)
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
        """The task, and what its document says; what takes long is done beside."""
        task = self._given
        if task is None:
            answer = await self._web.get(f"{self.known.url}/task")
            if answer.status != 200:
                raise Silent(f"it answers {answer.status} to a question for its task")
        try:
            task = Task.from_bytes(answer.content) if task is None else task
            reader = await in_thread(reader_of, task)
            urls = {role: task.url(role) for role in task.roles}
        except Exception as error:  # somebody else has written it
            raise Silent(f"what it serves is no task that this program can read ({_said(error)})") from error
        told, wrong = await in_thread(_facts, task)
        roles = tuple(Role(name=role, url=url) for role, url in urls.items())
        asks = {role: url for role, url in urls.items() if self._given is not None or url in self._named}
        self.tell(task=task, reader=reader, facts=told, roles=roles, asks=asks | {"analyzer": self.known.url})
        self.warn(wrong)

    async def _ask(self, what: str, *, seconds: float = 10.0) -> Answer:
        return await self._web.get(f"{self.known.url}/tasks/{self.known.id}/{what}", seconds=seconds)

    async def read(self, number: int) -> Publication:
        """A publication of before, checked."""
        return self._checked(await self._ask(f"snapshot/{number}"), number)

    async def lines(self, after: int, most: int) -> list[dict[str, Any]]:
        """Of the history."""
        told = (await self._ask(f"history?after={after}&most={most}")).document()
        lines = told.get("lines") if isinstance(told, dict) else None
        if not isinstance(lines, list) or len(lines) > most or not all(isinstance(each, dict) for each in lines):
            raise Silent("it tells no history")
        return lines

    def _checked(self, answer: Answer, number: int | None) -> Publication:
        if answer.status != 200:
            raise Silent(f"it answers {answer.status} to a question for a publication")
        assert self.known.task is not None
        return checked(self.known.task, Shown.of(answer.content, answer.headers), number)

    def _compare(self, new: Publication) -> None:
        """With the one before: an analyzer does not go back, and tells everybody the same."""
        old = self.known.newest
        if old is None:
            return
        if new.number < old.number:
            raise BandannaError(f"The analyzer has gone back to publication {new.number}, from {old.number}.")
        if new.number == old.number and new.chain != old.chain:
            raise BandannaError(f"There are two publications of number {new.number}.")

    async def _catch_up(self, newest: Publication) -> None:
        """The newest, what the series lacks in order, then the newest once more with the one before it."""
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
        self.warn(await in_thread(self._announced, newest))

    async def _fill(self, number: int) -> None:
        """One of the series; one that cannot be is no reason not to read the others."""
        if number in self._bad:
            return
        try:
            await self._put(await self.read(number), self._before(number))
        except Silent:
            raise
        except BandannaError as error:
            self._bad.add(number)
            self.warn(f"Publication {number}: {error}")

    def _before(self, number: int) -> tuple[Published, Reading] | None:
        """The publication before this one, if it was the last that was read."""
        return self._last if self._last is not None and self._last[0].number == number - 1 else None

    async def _put(self, publication: Publication, before: tuple[Published, Reading] | None) -> Reading:
        said = Published(content=publication.content)
        reading, wrong = await in_thread(self._reading, said, before)
        self.warn(wrong)
        content, spent = publication.content, publication.content.get("spent")
        point = Point(
            number=publication.number,
            epoch=int(content.get("epoch", 0)),
            chain=publication.chain,
            previous=str(content["previous"]),
            spent=float(spent) if isinstance(spent, int | float) else None,
            reading=reading.brief,
        )
        self._link(point)
        self._series.put(point)
        self._last = said, reading
        return reading

    def _reading(self, said: Published, before: tuple[Published, Reading] | None) -> tuple[Reading, str]:
        """Whatever a state is made of, it stops nobody; what cannot be read is not shown, and why."""
        assert self.known.reader is not None
        try:
            return self.known.reader.read(said, before), ""
        except Exception as error:
            kind = type(error).__name__
            return Reading(), f"Publication {said.number} cannot be read as one of this policy ({kind})."

    def _link(self, point: Point) -> None:
        before, after = self._series.link(point.number - 1), self._series.link(point.number + 1)
        if before is not None and point.previous != before.chain:
            self.warn(f"Publication {point.number} does not follow upon the one before it: another history.")
        if after is not None and after.previous != point.chain:
            self.warn(f"Publication {after.number} does not follow upon the one before it: another history.")

    def _announced(self, publication: Publication) -> str:
        """What is wrong with the batches that it announces."""
        assert self.known.task is not None
        try:
            batches = tuple(map(Batch.from_dict, publication.content["batches"]))
            check_announced(self.known.task, publication.content["state"], batches)
        except Exception as error:
            return f"Publication {publication.number}: {_said(error)}"
        return ""

    async def _ledger(self) -> None:
        """Its summary; not signed, so it has to agree with what is. Without it a page says less."""
        try:
            told = (await self._ask("ledger/summary")).document()
        except Silent:
            return
        ledger = told.get("ledger") if isinstance(told, dict) else None
        now = self.known.now
        if isinstance(ledger, dict) and now is not None and ledger.get("spent") == now["spent"]:
            self.tell(ledger=ledger)

    async def glance(self, *, everybody: bool = True) -> None:
        """How far the batch is, and sometimes how the roles are."""
        if self.known.task is None:
            return
        self.tell(filling=await looking.filling(self._web, self.known))
        if everybody:
            self.tell(roles=await looking.health(self._web, self.known))
        if everybody and self._administered:
            counts, statuses = await looking.inside(self._web, self.known, self._tokens)
            self.tell(counts=counts, statuses=statuses)


def _facts(task: Task) -> tuple[dict[str, Any] | None, str]:
    """What the document says, computed again; or what is wrong with it."""
    try:
        return facts(task), ""
    except Exception as error:
        return None, _said(error)


def _said(error: Exception) -> str:
    """In words where they are ours, else by its kind: somebody else has written what it is about."""
    return (
        str(error)[:300]
        if isinstance(error, BandannaError)
        else f"What it says cannot be read ({type(error).__name__})."
    )
