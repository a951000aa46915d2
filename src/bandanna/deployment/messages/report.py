"""Reports, their sealed bodies, and the answers to them."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from bandanna.deployment.messages.batch_plan import Batch
from bandanna.deployment.messages.canonical import (
    MAC,
    SLOT,
    Signer,
    decode_base64url,
    draw_seed,
    dumps,
    encode_base64url,
    encode_label,
    expand_masks,
    is_equal_mac,
    is_sound,
    loads,
    mac,
    seal,
    verify,
)
from bandanna.errors import BandannaError, InvalidArgument, Unreadable, ValueSummary

# Reports


_HEADER = struct.Struct(f"<{SLOT}s{MAC}sIHBB")
_TAIL = struct.Struct("<IHBB")
_LABEL = encode_label("tag")
HEADER = _HEADER.size  # 40 bytes
ZERO, FINAL = 0, 1  # versions
EPOCHS = 2**32 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class TaggedReport:
    """One report of one slot for one round of an epoch: a fixed header and a body of the same length for all users.

        report = slot(16) tag(16) epoch:u32 round:u16 version:u8 key_id:u8 body                     little-endian
        tag    = HMAC-SHA256(k_C, "tag" | all but the tag | plan), its first 16 bytes

    Version 0 is the zero report that opens a slot, 1 the final one; a lower version never replaces a higher one. k_C is
    the ticket's key for the collector (`canonical.TicketKeys`), plan the digest of the batch's plan. Without the ticket
    no party can make or change a report, or move it to another round, epoch, slot or plan. If an analyzer announces
    more users to devices than to the mixer, so that they draw less noise, their reports are refused.
    """

    slot: bytes
    tag: bytes
    epoch: int
    round: int
    version: int
    key_id: int
    body: bytes

    def to_bytes(self) -> bytes:
        """Return the bytes that are sent, and that an outbox keeps."""
        head = _HEADER.pack(self.slot, self.tag, self.epoch, self.round, self.version, self.key_id)
        return head + self.body

    @classmethod
    def from_bytes(cls, content: bytes) -> TaggedReport:
        if len(content) < HEADER:
            raise InvalidArgument("report", ValueSummary(f"{len(content)} bytes"), f"at least {HEADER} bytes")
        slot, tag, epoch, round_, version, key_id = _HEADER.unpack_from(content)
        return cls(slot=slot, tag=tag, epoch=epoch, round=round_, version=version, key_id=key_id, body=content[HEADER:])

    @classmethod
    def make(
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
    ) -> TaggedReport:
        """Make a report with its tag, by the ticket's `key` for the collector and the digest `plan`."""
        tag = compute_report_tag(key, plan, slot, epoch, round_, version, key_id, body)
        return cls(slot=slot, tag=tag, epoch=epoch, round=round_, version=version, key_id=key_id, body=body)


ReportFields = tuple[bytes, bytes, int, int, int, int, bytes]  # slot, tag, epoch, round, version, key_id, body


def compute_report_tag(
    key: bytes, plan: bytes, slot: bytes, epoch: int, round_: int, version: int, key_id: int, body: bytes
) -> bytes:
    """Return the tag of these fields under a ticket's key, for a plan with this digest."""
    return mac(key, _LABEL, slot, _TAIL.pack(epoch, round_, version, key_id), body, plan)


def is_tagged(report: ReportFields, key: bytes, plan: bytes) -> bool:
    """Return, in constant time, whether a report has the right tag."""
    slot, tag, epoch, round_, version, key_id, body = report
    return is_equal_mac(tag, compute_report_tag(key, plan, slot, epoch, round_, version, key_id, body))


def split_reports(content: bytes, most: int) -> list[ReportFields]:
    """Split a request into reports, each with its length before it (u32), as tuples."""
    length, size = content[:4], 4 + int.from_bytes(content[:4], "little")
    places = range(0, len(content), size)
    whole = size >= 4 + HEADER and not len(content) % size and len(places) <= most
    if whole and {content[place : place + 4] for place in places} == {length}:  # all of one length, as honest ones are
        return list(_split_equal(size).iter_unpack(content))
    return list(_split_any(content, most))


@lru_cache(maxsize=64)
def _split_equal(size: int) -> struct.Struct:
    return struct.Struct(f"<4x{_HEADER.format[1:]}{size - 4 - HEADER}s")


def _split_any(content: bytes, most: int) -> Iterator[ReportFields]:
    place, end, count = 0, len(content), 0
    while place < end:
        count += 1
        if count > most:
            raise InvalidArgument("reports", ValueSummary("more than that"), f"at most {most} in a request")
        stop = place + 4 + int.from_bytes(content[place : place + 4], "little")
        if stop - place < 4 + HEADER or stop > end:
            allowed = "whole reports, each after its length"
            raise InvalidArgument("reports", ValueSummary(f"{end} bytes"), allowed)

        yield (*_HEADER.unpack_from(content, place + 4), content[place + 4 + HEADER : stop])
        place = stop


def join_reports(reports: Iterator[bytes] | list[bytes]) -> bytes:
    """Join reports to a request."""
    return b"".join(len(report).to_bytes(4, "little") + report for report in reports)


def encode_report(ticket: Ticket, batch: Batch, *, round_: int, version: int, key_id: int, body: bytes) -> bytes:
    """Return the bytes of a report that the holder of a ticket sends for a round of a batch."""
    parts: dict[str, Any] = {"round_": round_, "version": version, "key_id": key_id, "body": body}
    return TaggedReport.make(ticket.collector, batch.digest, slot=ticket.slot, epoch=ticket.epoch, **parts).to_bytes()


# Tickets and answers


_PLACES = 2**31  # no batch has more


@dataclass(frozen=True, kw_only=True)
class Ticket:
    """A slot of an epoch, with the registrar's key for each role that verifies it."""

    slot: bytes
    epoch: int
    collector: bytes  # makes the tags of reports
    helper: bytes | None = None  # with two mixers: sealed for the helper with the seed


@dataclass(frozen=True, kw_only=True)
class ReportAnswer:
    """The collector's answer to a report: its place, or why it was refused, with a proof that it was unused."""

    place: int = -1
    reason: str = ""
    refusal: bytes = b""


def ticket_from_plain(plain: Any) -> Ticket:
    """Read a ticket as the registrar writes it: {"epoch", "slot", "collector", "helper"?}; else Unreadable."""
    wanted = {"epoch", "slot", "collector"}
    if not isinstance(plain, Mapping) or not wanted <= set(plain) or type(plain["epoch"]) is not int:
        raise Unreadable(
            'a ticket is {"epoch", "slot", "collector"}, as the registrar gives it, "helper" if it has one'
        )
    slot, collector = decode_base64url(plain["slot"], SLOT), decode_base64url(plain["collector"], MAC)
    helper = decode_base64url(plain["helper"], MAC) if "helper" in plain else None
    return Ticket(slot=slot, epoch=plain["epoch"], collector=collector, helper=helper)


def parse_answers(status: int, content: bytes, count: int) -> list[ReportAnswer]:
    """Read a collector's answer: one for each of `count` reports."""
    document = loads(content)
    try:
        if status == 201:
            found = [ReportAnswer(place=_parse_place(place)) for place in document["places"]]
        elif "results" not in document:
            found = [ReportAnswer(reason=str(document.get("reason", status)))] * count
        else:
            found = [_parse_answer(each) for each in document["results"]]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Unreadable("an answer that no collector gives") from error
    if len(found) != count:
        raise Unreadable(f"{len(found)} answers to {count} reports")
    return found


def _parse_place(plain: Any) -> int:
    if type(plain) is not int or not 0 <= plain < _PLACES:
        raise ValueError("no place of a batch")
    return plain


def _parse_answer(plain: Mapping[str, Any]) -> ReportAnswer:
    if "place" in plain:
        return ReportAnswer(place=_parse_place(plain["place"]))
    return ReportAnswer(
        reason=str(plain["reason"]), refusal=decode_base64url(plain["refusal"]) if "refusal" in plain else b""
    )


# Sealing


_INFO = struct.Struct("<32s32sIH16s32s")  # label, task, epoch, round, slot, plan
_REPORT = struct.Struct("<32s32sIH")  # label, task, epoch, round


def sealing_info(task: bytes, batch: Batch, round_: int, slot: bytes) -> bytes:
    """Return the info for HPKE: a seed opens only as that of this slot, in this round of a batch with this plan.

    So a shuffler cannot have the helper add fewer or other users than the device expects. The version is left out: it
    would show the helper who has answered, and a share with the seed of another version is only noise.
    """
    return _INFO.pack(encode_label("seed"), task, batch.epoch, round_, slot, batch.digest)


def report_info(task: bytes, epoch: int, round_: int) -> bytes:
    """Return the info for HPKE of a report that is sealed for the analyzer, without its slot."""
    return _REPORT.pack(encode_label("report"), task, epoch, round_)


def slots_checksum(slots: Iterable[bytes]) -> str:
    """Return the SHA-256 of the sorted slots in hexadecimal, which does not depend on their order.

    >>> slots_checksum([b"one", b"two"]) == slots_checksum([b"two", b"one"])
    True
    """
    return hashlib.sha256(b"".join(sorted(slots))).hexdigest()


def write_seal_key(number: int, public: str, sign: Signer) -> dict[str, Any]:
    """State, signed by the helper, for which of its keys devices seal seeds.

    Devices read it from publications: a device that fetched it from the helper could be given a key of its own, by
    which the helper would know its seeds.
    """
    plain = {"id": number, "public": public}
    return {**plain, "signature": sign("keys", dumps(plain))}


def read_seal_key(document: Any, *, task_id: str, key: str) -> tuple[int, str]:
    """Read number and public key of `write_seal_key`; raise Unreadable unless the helper has signed it."""
    plain = (
        {name: value for name, value in document.items() if name != "signature"} if isinstance(document, dict) else {}
    )
    number, public = plain.get("id"), plain.get("public")
    known = isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 256 and len(plain) == 2
    if not (known and isinstance(public, str) and is_sound("seal", public)):
        raise Unreadable("a key for sealing that is none")
    if not verify(key, task_id, "keys", dumps(plain), document.get("signature")):
        raise Unreadable("a key for sealing that the task's helper has not signed")
    assert isinstance(number, int)
    return number, public


def choose_seal_key(document: Any, *, task_id: str, keys: Mapping[str, str], mixers: int) -> tuple[int, str | None]:
    """Return the number and the public key for which a task's devices seal; no key where nothing is sealed.

    With two mixers it is the helper's newest signed key, by default that of the task, for seeds; else the analyzer's,
    for reports.
    """
    if mixers == 2 and document is not None:
        return read_seal_key(document, task_id=task_id, key=keys.get("helper", ""))
    return 0, keys.get("seal helper" if mixers == 2 else "seal analyzer")


# Bodies


def encode_body(
    rows: Sequence[np.ndarray[Any, Any]], *, task: bytes, batch: Batch, round_: int, ticket: Ticket, key: str | None
) -> bytes:
    """Return the body of one user's report for a round.

    `rows` has the user's message (length,) for each part; they, or the seed that splits them, are sealed for `key`.
    """
    asked = batch.rounds[round_]
    if asked.own[0].form in ("plain", "row"):
        return b"".join(part.to_bytes(row) for part, row in zip(asked.own, rows, strict=True))
    if key is None:
        raise BandannaError("a report that must be sealed, and no key to seal it with")
    if not asked.split:
        info = report_info(task, batch.epoch, round_)
        return b"".join(seal(key, part.to_bytes(row), info) for part, row in zip(asked.own, rows, strict=True))
    if ticket.helper is None:
        raise BandannaError("the ticket has no key for the helper. The host must pass on the registrar's whole answer")
    seed = draw_seed()
    hidden = zip(asked.own, rows, expand_masks(seed, asked.lengths), strict=True)
    shares = b"".join(part.to_bytes(np.asarray(row, dtype=np.int64) - mask) for part, row, mask in hidden)  # mod 2^64
    return shares + seal(key, seed + ticket.helper, sealing_info(task, batch, round_, ticket.slot))


# Verdicts


REASONS = {
    "malformed": "not a report of this task",
    "ticket": "no ticket of this task and batch has made this report, for the batch's plan",
    "length": "a report of another length or round than the batch has",
    "range": "numbers that no honest device sends",
    "copy": "a sealed report that another slot has sent",
    "incomplete": "a new slot needs a report for every round of its batch, in one request",
    "other": "another report of this version is kept; the first one stands",
    "early": "the batch is not open yet",
    "full": "the batch has all its slots; ask for a ticket of the next one",
    "closed": "the batch is closed",
}


class ReportVerdict(NamedTuple):
    """The fate of a report: kept at a place, or refused with a reason and a proof that the slot is unused."""

    place: int = -1
    reason: str = ""
    refusal: bytes = b""


MALFORMED = ReportVerdict(reason="malformed")


def encode_verdicts(verdicts: Sequence[ReportVerdict]) -> tuple[int, bytes]:
    """Return status and body: 201 with places, 400 for malformed reports, 409 with a reason for each refused one."""
    if not any(reason for _, reason, _ in verdicts):
        return 201, f'{{"places":[{",".join([str(place) for place, _, _ in verdicts])}]}}'.encode()
    if all(verdict.reason == "malformed" for verdict in verdicts):
        return 400, json.dumps({"error": REASONS["malformed"], "reason": "malformed"}).encode()
    results = [
        {"reason": each.reason, "error": REASONS[each.reason]}
        | ({"refusal": encode_base64url(each.refusal)} if each.refusal else {})
        if each.reason
        else {"place": each.place}
        for each in verdicts
    ]
    worst = 422 if any(each.reason in ("length", "range", "copy", "ticket", "incomplete") for each in verdicts) else 409
    return worst, json.dumps({"results": results, "reason": next(v.reason for v in verdicts if v.reason)}).encode()
