"""Everything that a dashboard shows, by the address of its page: twins first, and how a page is made of each."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bandanna.dashboard.asking import Silent
from bandanna.dashboard.documents.releases import page_of, release_of, releases_of
from bandanna.dashboard.documents.tasks import listed, task_of
from bandanna.dashboard.pages.index import index
from bandanna.dashboard.pages.releases import release, releases
from bandanna.dashboard.pages.task import task
from bandanna.dashboard.readings import Reading
from bandanna.dashboard.watching import Watch
from bandanna.roles.serving import in_thread
from bandanna.tasks.exporting import Publication
from bandanna.tasks.published import Published

_SECONDS = 10.0  # that a page may wait for the analyzer
_KEPT = 16  # publications that were asked for


class NotThere(Exception):
    """There is no such page."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A twin, and the page that is made of it."""

    document: dict[str, Any]
    page: Callable[..., bytes]


class Board:
    """Tasks that are watched."""

    def __init__(self, watches: Sequence[Watch]) -> None:
        self.watches = list(watches)
        self._read: OrderedDict[tuple[str, int], Publication] = OrderedDict()

    def watch(self, name: str) -> Watch:
        """The one of a task."""
        found = next((each for each in self.watches if each.known.id == name), None)
        if found is None:
            raise NotThere(name)
        found.looked = found.clock()
        return found

    def version(self, name: str | None = None, *, inside: bool = False) -> tuple[int, ...]:
        """Changes with what there is to see: of one task, or of all; `inside`: by administrators."""
        watches = self.watches if name is None else [self.watch(name)]
        for each in watches:
            each.looked = each.clock()
        return tuple(each.changes if inside else each.version for each in watches)

    async def overview(self) -> Shown:
        """All of it."""
        return Shown(document={"tasks": listed([each.known for each in self.watches])}, page=index)

    async def task(self, name: str, *, admin: bool) -> Shown:
        """A task."""
        return Shown(document=task_of(self.watch(name).known, admin=admin), page=task)

    async def releases(self, name: str, number: int) -> Shown:
        """A page of its history."""
        watch = self.watch(name)
        pages, after, most = page_of(watch.known, number)
        if number > pages:
            raise NotThere(number)
        lines = []
        if watch.known.newest is not None:
            async with asyncio.timeout(_SECONDS):
                lines = await watch.lines(after, most)
        return Shown(document=releases_of(watch.known, lines, page=number, pages=pages), page=releases)

    async def release(self, name: str, number: int) -> Shown:
        """One publication."""
        watch = self.watch(name)
        if watch.known.newest is None or not 0 <= number <= watch.known.newest.number:
            raise NotThere(number)
        async with asyncio.timeout(_SECONDS):
            publication = await self._publication(watch, number)
            now = await self._reading(watch, number)
            before = await self._reading(watch, number - 1) if number else None
        document = release_of(watch.known, dict(publication.content), publication.chain, now, before)
        return Shown(document=document, page=release)

    async def _publication(self, watch: Watch, number: int) -> Publication:
        key = watch.known.id, number
        if key not in self._read:
            self._read[key] = await watch.read(number)
            while len(self._read) > _KEPT:
                self._read.popitem(last=False)
        return self._read[key]

    async def _reading(self, watch: Watch, number: int) -> Reading:
        """As it was followed, or of the publication alone where more is known of it then."""
        known = next((each.reading for each in watch.known.points if each.number == number), None)
        if known is not None and (known.theta or known.plays):
            return known
        publication = await self._publication(watch, number)
        assert watch.known.reader is not None
        try:
            alone = await in_thread(watch.known.reader.read, Published(content=publication.content), None)
        except Exception as error:  # whatever somebody else has written
            raise Silent(f"publication {number} cannot be read ({type(error).__name__})") from error
        return alone if known is None else replace(known, theta=alone.theta, plays=alone.plays)
