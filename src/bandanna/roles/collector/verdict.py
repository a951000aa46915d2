"""What a collector says of a record, and how it says it to devices."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from bandanna.wire.canonical import packed

REASONS = {
    "malformed": "not a record of this task",
    "ticket": "no ticket of this task and batch has made this record, for the batch's plan",
    "length": "a report of another length or round than the batch has",
    "range": "numbers that no honest device sends",
    "copy": "a sealed report that another slot has sent",
    "incomplete": "a new slot needs a report for every round of its batch, in one request",
    "other": "another report of this version is kept; the first one stands",
    "early": "the batch is not open yet",
    "full": "the batch has all its slots; ask for a ticket of the next one",
    "closed": "the batch is closed",
}


class Verdict(NamedTuple):
    """Kept, at a place of the batch; or refused, for a reason, with a proof that the slot was not used."""

    place: int = -1
    reason: str = ""
    refusal: bytes = b""


MALFORMED = Verdict(reason="malformed")


def answer(verdicts: Sequence[Verdict]) -> tuple[int, bytes]:
    """Status and body: 201 with places, 400 for what is no record, 409 with a reason for each that was refused."""
    if not any(reason for _, reason, _ in verdicts):
        return 201, f'{{"places":[{",".join([str(place) for place, _, _ in verdicts])}]}}'.encode()
    if all(verdict.reason == "malformed" for verdict in verdicts):
        return 400, json.dumps({"error": REASONS["malformed"], "reason": "malformed"}).encode()
    results = [
        {"reason": each.reason, "error": REASONS[each.reason]}
        | ({"refusal": packed(each.refusal)} if each.refusal else {})
        if each.reason
        else {"place": each.place}
        for each in verdicts
    ]
    worst = 422 if any(each.reason in ("length", "range", "copy", "ticket", "incomplete") for each in verdicts) else 409
    return worst, json.dumps({"results": results, "reason": next(v.reason for v in verdicts if v.reason)}).encode()
