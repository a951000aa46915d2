"""What sealed texts belong to, for whom seeds are sealed, and the digest by which two mixers compare their slots."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from typing import Any

from bandanna.errors import Unreadable
from bandanna.wire.canonical import dumps
from bandanna.wire.keys import Signer, is_sound, verify
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


def write_seal_key(number: int, public: str, sign: Signer) -> dict[str, Any]:
    """State, signed by the helper, for which of its keys devices seal seeds.

    The statement travels with the helper's shares to the analyzer, and in publications to devices: a device that
    fetched it from the helper could be given a key of its own, by which the helper would know its seeds.
    """
    plain = {"id": number, "public": public}
    return {**plain, "signature": sign("keys", dumps(plain))}


def read_seal_key(told: Any, *, task_id: str, key: str) -> tuple[int, str]:
    """Read the number and the public key of `write_seal_key`; Unreadable unless the helper, by `key`, has signed it."""
    plain = {name: value for name, value in told.items() if name != "signature"} if isinstance(told, dict) else {}
    number, public = plain.get("id"), plain.get("public")
    known = isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 256 and len(plain) == 2
    if not (known and isinstance(public, str) and is_sound("seal", public)):
        raise Unreadable("a key for sealing that is none")
    if not verify(key, task_id, "keys", dumps(plain), told.get("signature")):
        raise Unreadable("a key for sealing that the task's helper has not signed")
    assert isinstance(number, int)
    return number, public
