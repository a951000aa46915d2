"""What a task's analyzer publishes, verified: the newest that was seen is kept, and none before it is believed."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from bandanna.client.leaflet import Leaflet
from bandanna.client.outbox import Outbox
from bandanna.client.wants import Request, Unreachable, Want
from bandanna.wire.publications import Pin, read_publication


class Published:
    """The publications of one task."""

    def __init__(self, leaflet: Leaflet, outbox: Outbox) -> None:
        self._leaflet, self._outbox = leaflet, outbox

    def newest(self) -> Generator[Want, Any, dict[str, Any]]:
        """The one in force; without an answer, the newest that was seen."""
        task, known = self._leaflet.id, self._outbox.pinned(self._leaflet.id)
        pin = None if known is None else known[0]
        headers = {} if pin is None else {"if-none-match": f'"{pin.chain}"'}
        try:
            url = f"{self._leaflet.url('analyzer')}/snapshot"
            status, found, document = yield Request(method="GET", url=url, headers=headers)
            if status not in (200, 304):
                raise Unreachable(f"the analyzer shows no publication: {status}")
        except Unreachable:
            if known is None:
                raise
            return self._read(known[1], known[2], None)[0]
        if status == 304 and known is not None:
            return self._read(known[1], known[2], None)[0]
        signature = found.get("signature", "")
        content, made = self._read(document, signature, pin)
        while not self._outbox.pin(task, made, document, signature, after=pin):  # another process has seen one
            known = self._outbox.pinned(task)
            assert known is not None
            pin = known[0]
            if pin.number > made.number:
                return self._read(known[1], known[2], made)[0]  # a newer one, that follows upon this
            content, made = self._read(document, signature, pin)
        return content

    def seen(self) -> dict[str, Any] | None:
        """The newest that was seen."""
        known = self._outbox.pinned(self._leaflet.id)
        return None if known is None else self._read(known[1], known[2], None)[0]

    def _read(self, document: bytes, signature: str, before: Pin | None) -> tuple[dict[str, Any], Pin]:
        key = self._leaflet.key("analyzer")
        return read_publication(document, signature, task_id=self._leaflet.id, key=key, before=before)
