"""What a sealed seed belongs to, and the sum by which two mixers see that they add the same slots."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable

from bandanna.wire.plan import Batch

_INFO = struct.Struct("<32sIHH16s32s")  # task, epoch, round, part, slot, plan
_REPORT = struct.Struct("<32sIH")  # task, epoch, round


def sealing_info(task: bytes, batch: Batch, round_: int, part: int, slot: bytes) -> bytes:
    """For HPKE: a seed opens only as that of this slot, in this round of a batch with this very plan.

    So a shuffler cannot have the helper add fewer people, or other ones, than the device was told of.

    `part` counts the bodies that one user sends in a round (`Round.cut`): 0, 1, ... where everybody reports for all
    parts, 0 where everybody reports for the part of the own arm.
    """
    return b"bandanna seed|" + _INFO.pack(task, batch.epoch, round_, part, slot, batch.digest)


def report_info(task: bytes, epoch: int, round_: int) -> bytes:
    """For HPKE: a whole report, sealed for the analyzer, which must not know the slot."""
    return b"bandanna report|" + _REPORT.pack(task, epoch, round_)


def checksum(slots: Iterable[bytes]) -> str:
    """XOR of their SHA-256, in hexadecimal: equal for equal sets, in any order.

    >>> checksum([b"one", b"other"]) == checksum([b"other", b"one"])
    True
    """
    total = 0
    for slot in slots:
        total ^= int.from_bytes(hashlib.sha256(slot).digest())
    return f"{total:064x}"
