"""What a task's analyzer publishes, verified: the newest that was seen is kept, and none before it is believed."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from bandanna.client.leaflet import Leaflet
from bandanna.client.outbox import Outbox
from bandanna.client.wants import Request, Unreachable, Want
from bandanna.errors import BandannaError
from bandanna.wire.plan import Batch
from bandanna.wire.publications import HASH, LINKS, Pin, Shown, check_between, read_publication

Content = dict[str, Any]

_MOST = 1 << 20  # publications that a device may have missed


class Published:
    """The publications of one task. What is asked for says nothing about who asks, nor what was seen before."""

    def __init__(self, leaflet: Leaflet, outbox: Outbox) -> None:
        self._leaflet, self._outbox = leaflet, outbox

    def newest(self, after: int | None = None) -> Generator[Want, Any, Content]:
        """The one in force; without an answer, the newest that was seen. `after`: what the same call was shown."""
        known = self._outbox.pinned(self._leaflet.id)
        query = "" if after is None else f"?after={after}"
        try:
            status, headers, document = yield self._get(f"snapshot{query}")
            if status == 204 and query:
                raise Unreachable("the analyzer has published nothing since")
            if status != 200:
                raise Unreachable(f"the analyzer shows no publication: {status}")
            content: Content = yield from self._pinned(Shown.of(document, headers), known and known[0])
        except Unreachable:
            if known is None:
                raise
            return self._read(known[1], None)[0]
        return content

    def _pinned(self, shown: Shown, pin: Pin | None) -> Generator[Want, Any, Content]:
        """A publication that follows upon what was seen when it was asked for; the newest that was seen from now on."""
        while True:
            content, made = self._read(shown, pin)
            if pin is not None and made.number > pin.number + 1:
                hashes = yield from self._between(pin.number + 1, made.number)
                check_between(pin, content, hashes)
            if self._outbox.pin(self._leaflet.id, made, shown, after=pin):
                return content
            seen = self._outbox.pinned(self._leaflet.id)  # another process has seen one
            assert seen is not None
            pin = seen[0]
            if pin.number > made.number:
                return self._read(seen[1], made)[0]  # a newer one, that follows upon this

    def _between(self, first: int, end: int) -> Generator[Want, Any, list[bytes]]:
        """Hashes of the documents of publications first, ..., end - 1: blocks of them, which many devices ask for."""
        if end - first > _MOST:
            raise BandannaError(f"publication {end} where {first} was expected: no analyzer publishes so often")
        hashes: list[bytes] = []
        for block in range(first // LINKS, (end - 1) // LINKS + 1):
            status, _, content = yield self._get(f"links/{block}")
            if status != 200:
                raise Unreachable(f"the analyzer shows no links: {status}")
            low, high = (min(max(each - block * LINKS, 0), LINKS) for each in (first, end))
            hashes += [content[HASH * each : HASH * (each + 1)] for each in range(low, high)]
        return hashes

    def _get(self, what: str) -> Request:
        return Request(role="analyzer", method="GET", url=f"{self._leaflet.url('analyzer')}/{what}")

    def seen(self) -> Content | None:
        """The newest that was seen."""
        known = self._outbox.pinned(self._leaflet.id)
        return None if known is None else self._read(known[1], None)[0]

    def _read(self, shown: Shown, before: Pin | None) -> tuple[Content, Pin]:
        """Its parts, with the batches that take reports."""
        keys = {"key": self._leaflet.key("analyzer"), "registrar_key": self._leaflet.key("registrar")}
        content, made = read_publication(shown, task_id=self._leaflet.id, before=before, **keys)
        batches = [Batch.from_dict(each) for each in content["batches"]]
        return {**content, "batches": [each.to_dict() for each in batches if each.rounds]}, made
