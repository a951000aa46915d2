"""Whoever is on the way of a report, and has not its ticket: the report arrives as it was made, or counts nowhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bandanna.deployment.messages.report import FINAL, ZERO, TaggedReport, join_reports

from ..deployment.batches import SLOTS, Collecting, report, tagged


def of(own: Collecting, number: int, **others: Any) -> TaggedReport:
    """An honest report of a user."""
    return tagged(TaggedReport.from_bytes(report(number, **others)), own.plans)


def said(own: Collecting, *sent: TaggedReport) -> list[str]:
    """The reasons for which reports are refused; "" for what is kept."""
    (verdicts,) = own.collector.accept([join_reports([each.to_bytes() for each in sent])])
    return [each.reason for each in verdicts]


def test_a_flipped_bit_anywhere_in_a_report_is_no_ticket(tmp_path: Path) -> None:
    """A report of which one bit was changed is answered `ticket`; where the bit makes it one of a batch that is not
    known, as any report of such a batch; and it is kept nowhere.
    """
    own = Collecting(str(tmp_path / "c.db"))
    content = of(own, 1).to_bytes()
    for place in range(len(content)):
        for bit in range(8):
            changed = bytearray(content)
            changed[place] ^= 1 << bit
            flipped = TaggedReport.from_bytes(bytes(changed))
            known = flipped.epoch in [plan.epoch for plan in own.plans]
            assert said(own, flipped) == ["ticket" if known else "early"], place
    assert own.rows() == []
    assert said(own, TaggedReport.from_bytes(content)) == [""]


@pytest.mark.parametrize(
    "moved",
    [{"round": 1}, {"round": 0, "epoch": 1}, {"version": ZERO}, {"slot": (2).to_bytes(16, "little")}, {"key_id": 1}],
)
def test_a_report_is_moved_nowhere(moved: dict[str, Any], tmp_path: Path) -> None:
    own = Collecting(str(tmp_path / "c.db"), rounds=2)
    made = [of(own, 1, round_=each, version=FINAL) for each in (0, 1)]
    assert said(own, replace(made[0], **moved), made[1])[0] == "ticket"
    assert own.rows() == []
    assert said(own, *made) == ["", ""]


def test_a_report_counts_under_its_own_plan_alone(tmp_path: Path) -> None:
    """An analyzer that tells a device of another plan than the collector has its report refused, whoever tries to bind
    it to the collector's plan on the way.
    """
    own = Collecting(str(tmp_path / "c.db"))
    plan = own.plans[0]
    other = replace(plan, slots=100 * SLOTS)
    made = tagged(TaggedReport.from_bytes(report(1)), [other])
    assert said(own, made) == ["ticket"]
    both = int.from_bytes(other.digest[:16]) ^ int.from_bytes(plan.digest[:16])
    rebound = replace(
        made, tag=(int.from_bytes(made.tag) ^ both).to_bytes(16)
    )  # which was enough where plans were XORed
    assert said(own, rebound) == ["ticket"]
    assert own.rows() == []


def test_a_report_that_was_seen_makes_no_other(tmp_path: Path) -> None:
    own = Collecting(str(tmp_path / "c.db"))
    zero, final = of(own, 1, version=ZERO), of(own, 1, value=101)
    assert said(own, zero) == [""]
    for tag in (zero.tag, final.tag, bytes(16)):
        assert said(own, replace(final, body=bytes(len(final.body)), tag=tag)) == ["ticket"]
    assert said(own, final) == [""]
