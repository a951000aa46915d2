"""Reports as devices send them: a fixed header and a body of one length for everybody.

    record = slot(16) tag(16) epoch:u32 round:u16 version:u8 key_id:u8 body                       little-endian
    tag    = HMAC-SHA256(k_C, "record" | all but the tag | plan), its first 16 bytes

Version 0 is the zero report that opens a slot, 1 the final one; a lower version never replaces a higher one. k_C is the
ticket's key for the collector (`ticket.Tickets`), plan the digest of the batch's plan: who does not have the ticket can
neither make a record nor change one, nor move it to another round, epoch, slot or plan. An analyzer that tells devices
of more people than it tells the mixer, so that they draw less noise, has their records refused.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from bandanna.errors import InvalidArgument
from bandanna.wire.ticket import MAC, SLOT, agrees, label, mac

_HEADER = struct.Struct(f"<{SLOT}s{MAC}sIHBB")
_TAIL = struct.Struct("<IHBB")
_LABEL = label("record")
HEADER = _HEADER.size  # 40 bytes
ZERO, FINAL = 0, 1  # versions
EPOCHS = 2**32 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One report of one slot for one round of an epoch."""

    slot: bytes
    tag: bytes
    epoch: int
    round: int
    version: int
    key_id: int
    body: bytes

    def to_bytes(self) -> bytes:
        """As it travels, and as an outbox keeps it."""
        head = _HEADER.pack(self.slot, self.tag, self.epoch, self.round, self.version, self.key_id)
        return head + self.body

    @classmethod
    def from_bytes(cls, content: bytes) -> Record:
        """The inverse of `to_bytes`."""
        if len(content) < HEADER:
            raise InvalidArgument("record", f"{len(content)} bytes", f"at least {HEADER}")
        slot, tag, epoch, round_, version, key_id = _HEADER.unpack_from(content)
        return cls(slot=slot, tag=tag, epoch=epoch, round=round_, version=version, key_id=key_id, body=content[HEADER:])

    @classmethod
    def tagged(
        cls,
        key: bytes,
        plan: bytes,
        *,
        slot: bytes,
        epoch: int,
        round_: int,
        version: int,
        key_id: int = 0,
        body: bytes,
    ) -> Record:
        """With the tag that the collector checks.

        Parameters
        ----------
        key : the ticket's for the collector
        plan : the digest of the batch's plan
        """
        tag = record_tag(key, plan, slot, epoch, round_, version, key_id, body)
        return cls(slot=slot, tag=tag, epoch=epoch, round=round_, version=version, key_id=key_id, body=body)


Fields = tuple[bytes, bytes, int, int, int, int, bytes]  # slot, tag, epoch, round, version, key_id, body


def record_tag(
    key: bytes, plan: bytes, slot: bytes, epoch: int, round_: int, version: int, key_id: int, body: bytes
) -> bytes:
    """What shows that the owner of a ticket has made these fields, for a batch of a plan with this digest."""
    return mac(key, _LABEL, slot, _TAIL.pack(epoch, round_, version, key_id), body, plan)


def is_tagged(record: Fields, key: bytes, plan: bytes) -> bool:
    """Whether a record has the tag that its fields must have; compared in constant time."""
    slot, tag, epoch, round_, version, key_id, body = record
    return agrees(tag, record_tag(key, plan, slot, epoch, round_, version, key_id, body))


def split(content: bytes, most: int) -> list[Fields]:
    """The records of a request, each with its length before it (u32), as tuples: this is where time is spent."""
    length, size = content[:4], 4 + int.from_bytes(content[:4], "little")
    places = range(0, len(content), size)
    whole = size >= 4 + HEADER and not len(content) % size and len(places) <= most
    if whole and {content[place : place + 4] for place in places} == {length}:  # all of one length, as honest ones are
        return list(_of(size).iter_unpack(content))
    return list(_one_by_one(content, most))


@lru_cache(maxsize=64)
def _of(size: int) -> struct.Struct:
    """Records of `size` bytes with their length."""
    return struct.Struct(f"<4x{_HEADER.format[1:]}{size - 4 - HEADER}s")


def _one_by_one(content: bytes, most: int) -> Iterator[Fields]:
    place, end, count = 0, len(content), 0
    while place < end:
        count += 1
        if count > most:
            raise InvalidArgument("records", f"more than {most}", f"at most {most} in a request")
        stop = place + 4 + int.from_bytes(content[place : place + 4], "little")
        if stop - place < 4 + HEADER or stop > end:
            raise InvalidArgument("records", f"{end} bytes", "whole records, each with its length before it")
        yield (*_HEADER.unpack_from(content, place + 4), content[place + 4 + HEADER : stop])
        place = stop


def joined(records: Iterator[bytes] | list[bytes]) -> bytes:
    """A request of some records."""
    return b"".join(len(record).to_bytes(4, "little") + record for record in records)
