"""A job as the shuffler writes it: the plan of the batch, and of every place its slot and its text for the helper."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, NamedTuple

from bandanna.errors import Unreadable
from bandanna.wire import canonical
from bandanna.wire.plan import SEALED, Batch, Round
from bandanna.wire.sealing import checksum
from bandanna.wire.ticket import SLOT

_FIELDS = {"task", "batch", "round", "count", "checksum", "entries"}


class Entry(NamedTuple):
    """What is at one place."""

    slot: bytes
    key_id: int
    sealed: bytes  # a seed, and the ticket's key for the helper


@dataclass(frozen=True, kw_only=True)
class Job:
    """A round of a batch, whole and of one task: as many entries as slots, nobody twice."""

    digest: bytes
    batch: Batch
    round: int
    checksum: str
    entries: tuple[Entry, ...]

    @property
    def parts(self) -> Round:
        """What is asked in its round."""
        return self.batch.rounds[self.round]


def write_job(*, task_id: str, batch: Batch, round_: int, entries: list[Entry]) -> bytes:
    """What the shuffler signs and sends."""
    listed = [[canonical.packed(each.slot), each.key_id, canonical.packed(each.sealed)] for each in entries]
    return canonical.dumps(
        {
            "task": task_id,
            "batch": batch.to_dict(),
            "round": round_,
            "count": len(entries),
            "checksum": checksum(each.slot for each in entries),
            "entries": listed,
        }
    )


def read_job(content: bytes, task_id: str) -> Job:
    """The inverse of `write_job`; Unreadable if it is no job of this task, or not a whole one."""
    plain = canonical.loads(content)
    if not isinstance(plain, dict) or set(plain) != _FIELDS:
        raise Unreadable(f"a job has the fields {', '.join(sorted(_FIELDS))}")
    if plain["task"] != task_id:
        raise Unreadable("a job of another task")
    batch = _batch(plain["batch"])
    number, listed = plain["round"], plain["entries"]
    if type(number) is not int or not 0 <= number < len(batch.rounds):
        raise Unreadable("a job for a round that the batch has not")
    parts = batch.rounds[number]
    if not parts.split:
        raise Unreadable("a job for reports that are not shares")
    if type(listed) is not list or not len(listed) == plain["count"] == batch.slots:
        raise Unreadable("a job with other than one entry for every slot")
    entries = tuple(map(_entry, listed))
    slots = {entry.slot for entry in entries}
    if len(slots) < len(entries):
        raise Unreadable("a job with a slot that is there twice")
    if checksum(slots) != plain["checksum"]:
        raise Unreadable("a job whose checksum is not that of its slots")
    digest = hashlib.sha256(content).digest()
    return Job(digest=digest, batch=batch, round=number, checksum=plain["checksum"], entries=entries)


def _batch(plain: Any) -> Batch:
    try:
        return Batch.from_dict(plain)
    except (KeyError, TypeError) as error:
        raise Unreadable("a job without the plan of a batch") from error


def _entry(plain: Any) -> Entry:
    if type(plain) is not list or len(plain) != 3:
        raise Unreadable("an entry of a job that is none")
    slot, key_id, sealed = plain
    if type(key_id) is not int or not 0 <= key_id < 256:
        raise Unreadable("an entry of a job without the number of a key")
    return Entry(canonical.unpacked(slot, SLOT), key_id, canonical.unpacked(sealed, SEALED))
