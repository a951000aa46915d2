"""What sealed messages are bound to, and the checksum by which two mixers know that they add the same people."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def seed_info(task: bytes, epoch: int, round_: int, part: int, slot: bytes) -> bytes:
    """Of the seed of a mask, for the helper."""
    return b"|".join((b"bandanna seed", task, _numbers(epoch, round_, part), slot))


def report_info(task: bytes, epoch: int, round_: int) -> bytes:
    """Of a whole report, for the analyzer, which must not know the slot."""
    return b"|".join((b"bandanna report", task, _numbers(epoch, round_)))


def checksum(slots: Iterable[bytes]) -> str:
    """The exclusive or of the slots' hashes."""
    total = 0
    for slot in slots:
        total ^= int.from_bytes(hashlib.sha256(slot).digest())
    return total.to_bytes(32).hex()


def _numbers(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(4, "little") for number in numbers)
