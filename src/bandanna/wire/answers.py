"""What devices are answered: tickets by the registrar, a verdict for each record by the collector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bandanna.errors import Unreadable
from bandanna.wire.canonical import loads, unpacked
from bandanna.wire.ticket import MAC, SLOT

_PLACES = 2**31  # no batch has more


@dataclass(frozen=True, kw_only=True)
class Ticket:
    """A slot of an epoch, and the registrar's word for it: a key for each who verifies it.

    collector  makes the tags of records;  helper: goes to the helper inside what is sealed for it, with two mixers
    """

    slot: bytes
    epoch: int
    collector: bytes
    helper: bytes | None = None


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the collector says of one record: its place, or why it was not kept, with a proof that it was not used."""

    place: int = -1
    reason: str = ""
    refusal: bytes = b""


def ticket_of(plain: Any) -> Ticket:
    """As the registrar writes it: {"epoch", "slot", "collector", "helper"?}; Unreadable for anything else."""
    wanted = {"epoch", "slot", "collector"}
    if not isinstance(plain, Mapping) or not wanted <= set(plain) or type(plain["epoch"]) is not int:
        raise Unreadable(
            'a ticket is {"epoch", "slot", "collector"}, as the registrar gives it, "helper" if it has one'
        )
    slot, collector = unpacked(plain["slot"], SLOT), unpacked(plain["collector"], MAC)
    helper = unpacked(plain["helper"], MAC) if "helper" in plain else None
    return Ticket(slot=slot, epoch=plain["epoch"], collector=collector, helper=helper)


def answers(status: int, content: bytes, count: int) -> list[Answer]:
    """A collector's answer, one for each of `count` records."""
    document = loads(content)
    try:
        if status == 201:
            found = [Answer(place=_place(place)) for place in document["places"]]
        elif "results" not in document:
            found = [Answer(reason=str(document.get("reason", status)))] * count
        else:
            found = [_answer(each) for each in document["results"]]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Unreadable("an answer that no collector gives") from error
    if len(found) != count:
        raise Unreadable(f"{len(found)} answers to {count} records")
    return found


def _place(plain: Any) -> int:
    if type(plain) is not int or not 0 <= plain < _PLACES:
        raise ValueError("no place of a batch")
    return plain


def _answer(plain: Mapping[str, Any]) -> Answer:
    if "place" in plain:
        return Answer(place=_place(plain["place"]))
    return Answer(reason=str(plain["reason"]), refusal=unpacked(plain["refusal"]) if "refusal" in plain else b"")
