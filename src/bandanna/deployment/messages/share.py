"""Shares and jobs of mixers."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from bandanna.deployment.messages import canonical
from bandanna.deployment.messages.batch_plan import SEALED_LENGTH, Batch, Round
from bandanna.deployment.messages.canonical import SLOT, Signer, verify
from bandanna.deployment.messages.report import slots_checksum
from bandanna.errors import Unreadable

# Shares and receipts


def write_share(
    *,
    task_id: str,
    epoch: int,
    round_: int,
    mixer: str,
    count: int,
    checksum: str,
    bad: int,
    parts: Sequence[str],
    key: dict[str, Any] | None = None,
) -> bytes:
    """Return the document that a mixer signs.

    `bad` counts seeds that could not be opened or came without tickets: if there are any, `parts`, the encoded views of
    each part, is empty. `key` is the helper's key for which devices seal from now on.
    """
    return canonical.dumps(
        {
            "task": task_id,
            "epoch": epoch,
            "round": round_,
            "mixer": mixer,
            "count": count,
            "checksum": checksum,
            "bad": bad,
            "parts": list(parts),
            "key": key,
        }
    )


def write_receipt(
    *, task_id: str, epoch: int, round_: int, number: int, chain: str, outcome: str, sign: Signer
) -> dict[str, Any]:
    """State, signed, that a round was released, burned or refused, and in which publication."""
    plain = {"task": task_id, "epoch": epoch, "round": round_, "number": number, "chain": chain, "outcome": outcome}
    return {**plain, "signature": sign("receipt", canonical.dumps(plain))}


def check_receipt(receipt: Any, *, task_id: str, epoch: int, round_: int, key: str) -> None:
    """Refuse, with Unreadable, what is not the receipt of this round that the analyzer (`key`) has signed."""
    if not isinstance(receipt, dict):
        raise Unreadable("a receipt that is no document")
    plain = {name: value for name, value in receipt.items() if name != "signature"}
    if not verify(key, task_id, "receipt", canonical.dumps(plain), receipt.get("signature")):
        raise Unreadable("a receipt that the analyzer has not signed")
    if (plain.get("epoch"), plain.get("round")) != (epoch, round_):
        raise Unreadable("a receipt of another round")


# Jobs


_FIELDS = {"task", "batch", "round", "count", "checksum", "entries"}


class JobEntry(NamedTuple):
    """The report at one place, as the helper gets it."""

    slot: bytes
    key_id: int
    sealed: bytes  # a seed, and the ticket's key for the helper


@dataclass(frozen=True, kw_only=True)
class MixJob:
    """A complete round of a batch of one task: as many entries as slots, all different."""

    digest: bytes
    batch: Batch
    round: int
    checksum: str
    entries: tuple[JobEntry, ...]

    @property
    def parts(self) -> Round:
        return self.batch.rounds[self.round]


def write_job(*, task_id: str, batch: Batch, round_: int, entries: list[JobEntry]) -> bytes:
    """Return the job that the shuffler signs and sends."""
    listed = [
        [canonical.encode_base64url(each.slot), each.key_id, canonical.encode_base64url(each.sealed)]
        for each in entries
    ]
    return canonical.dumps(
        {
            "task": task_id,
            "batch": batch.to_dict(),
            "round": round_,
            "count": len(entries),
            "checksum": slots_checksum(each.slot for each in entries),
            "entries": listed,
        }
    )


def read_job(content: bytes, task_id: str) -> MixJob:
    """Read a job; Unreadable unless it is a complete job of this task."""
    plain = canonical.loads(content)
    if not isinstance(plain, dict) or set(plain) != _FIELDS:
        raise Unreadable(f"a job has the fields {', '.join(sorted(_FIELDS))}")
    if plain["task"] != task_id:
        raise Unreadable("a job of another task")
    try:
        batch = Batch.from_dict(plain["batch"])
    except (KeyError, TypeError) as error:
        raise Unreadable("a job without the plan of a batch") from error
    number, listed = plain["round"], plain["entries"]
    if type(number) is not int or not 0 <= number < len(batch.rounds):
        raise Unreadable("a job for a round that the batch has not")
    parts = batch.rounds[number]
    if not parts.split:
        raise Unreadable("a job for reports that are not shares")
    if type(listed) is not list or not len(listed) == plain["count"] == batch.slots:
        raise Unreadable("a job with other than one entry for every slot")
    entries = tuple(map(_read_entry, listed))
    slots = {entry.slot for entry in entries}
    if len(slots) < len(entries):
        raise Unreadable("a job with a slot that is there twice")
    if slots_checksum(slots) != plain["checksum"]:
        raise Unreadable("a job whose checksum is not that of its slots")
    digest = hashlib.sha256(content).digest()
    return MixJob(digest=digest, batch=batch, round=number, checksum=plain["checksum"], entries=entries)


def _read_entry(plain: Any) -> JobEntry:
    if type(plain) is not list or len(plain) != 3:
        raise Unreadable("an entry of a job that is none")
    slot, key_id, sealed = plain
    if type(key_id) is not int or not 0 <= key_id < 256:
        raise Unreadable("an entry of a job without the number of a key")
    return JobEntry(canonical.decode_base64url(slot, SLOT), key_id, canonical.decode_base64url(sealed, SEALED_LENGTH))
