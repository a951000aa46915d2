"""What sealed texts belong to, and the digest by which two mixers see that they add the same slots."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable

from bandanna.wire.plan import Batch
from bandanna.wire.ticket import label

_INFO = struct.Struct("<32s32sIH16s32s")  # label, task, epoch, round, slot, plan
_REPORT = struct.Struct("<32s32sIH")  # label, task, epoch, round


def sealing_info(task: bytes, batch: Batch, round_: int, slot: bytes) -> bytes:
    """For HPKE: a seed opens only as that of this slot, in this round of a batch with this very plan.

    So a shuffler cannot have the helper add fewer people, or other ones, than the device was told of. The version of
    the record is not in it: the helper would learn who has answered, and a share with the seed of another version is
    noise, which the shuffler can add without it.
    """
    return _INFO.pack(label("seed"), task, batch.epoch, round_, slot, batch.digest)


def report_info(task: bytes, epoch: int, round_: int) -> bytes:
    """For HPKE: a whole report, sealed for the analyzer, which must not know the slot."""
    return _REPORT.pack(label("report"), task, epoch, round_)


def checksum(slots: Iterable[bytes]) -> str:
    """SHA-256 of the sorted slots, in hexadecimal: equal for equal sets, in any order.

    >>> checksum([b"one", b"two"]) == checksum([b"two", b"one"])
    True
    """
    return hashlib.sha256(b"".join(sorted(slots))).hexdigest()
