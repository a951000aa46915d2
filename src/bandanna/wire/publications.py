"""Publications as whoever reads them must: signed by the task's analyzer, of this task, and never a step back.

chain = SHA-256(document),   document["previous"] = chain of the one before
"""

from __future__ import annotations

from typing import Any, NamedTuple

from bandanna.errors import BandannaError, Unreadable
from bandanna.storage.declared import conforms
from bandanna.wire.canonical import digest, loads
from bandanna.wire.keys import verify

_FIELDS: dict[str, Any] = {
    "number": int, "previous": str, "status": str, "epoch": int, "round": int, "state": str, "snapshot": str,
    "answers": list, "batches": list,
}  # fmt: skip


class Pin(NamedTuple):
    """The newest publication that somebody has seen."""

    number: int
    chain: str


def read_publication(
    document: bytes, signature: str, *, task_id: str, key: str, before: Pin | None = None
) -> tuple[dict[str, Any], Pin]:
    """The parts of a publication that is signed with the analyzer's `key` and not older than `before`, and its pin.

    BandannaError for any other: of another history, or of another task.
    """
    if not verify(key, document, signature):
        raise BandannaError("a publication that the task's analyzer has not signed")
    content = loads(document)
    if not isinstance(content, dict) or content.get("task") != task_id:
        raise Unreadable("a publication of another task")
    if not set(_FIELDS) <= set(content) or not all(conforms(content[name], _FIELDS[name]) for name in _FIELDS):
        raise Unreadable("a publication with other fields than it has to have")
    if min(content["number"], content["epoch"], content["round"]) < 0:
        raise Unreadable("a publication with numbers that are none")
    made = Pin(int(content["number"]), digest(document))
    if before is not None:
        _follows(made, content["previous"], before)
    return content, made


def _follows(made: Pin, previous: str, before: Pin) -> None:
    """Refuse what is older, and what is of another history as far as two publications can tell."""
    if made.number < before.number:
        raise BandannaError(f"publication {made.number} after {before.number}: the analyzer has gone back")
    if made.number == before.number and made.chain != before.chain:
        raise BandannaError(f"two publications of number {made.number}: the analyzer tells different people apart")
    if made.number == before.number + 1 and previous != before.chain:
        raise BandannaError(f"publication {made.number} does not follow upon the one before it")
