"""Requests of reports, quick where all have one length, and the same where they have not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandanna.deployment.messages.report import HEADER, TaggedReport, join_reports, split_reports
from bandanna.errors import InvalidArgument

reports = st.builds(
    TaggedReport,
    slot=st.binary(min_size=16, max_size=16),
    tag=st.binary(min_size=16, max_size=16),
    epoch=st.integers(0, 2**32 - 1),
    round=st.integers(0, 2**16 - 1),
    version=st.integers(0, 255),
    key_id=st.integers(0, 255),
    body=st.sampled_from([b"", b"four", b"eight888", bytes(4)]),
)


def fields(report: TaggedReport) -> tuple[object, ...]:
    return (report.slot, report.tag, report.epoch, report.round, report.version, report.key_id, report.body)


@given(st.lists(reports, max_size=8))
def test_split_is_the_inverse_of_joined(some: list[TaggedReport]) -> None:
    assert split_reports(join_reports([each.to_bytes() for each in some]), most=8) == [fields(each) for each in some]


@given(st.lists(reports, min_size=1, max_size=4), st.data())
def test_a_damaged_request_is_refused_or_split_into_whole_reports(
    some: list[TaggedReport], data: st.DataObject
) -> None:
    content = bytearray(join_reports([each.to_bytes() for each in some]))
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] = data.draw(st.integers(0, 255))
    cut = bytes(content[: data.draw(st.integers(1, len(content)))])
    try:
        found = split_reports(cut, most=10)
    except InvalidArgument:
        return
    assert sum(4 + HEADER + len(each[6]) for each in found) == len(cut)


@pytest.mark.parametrize("bodies", [[b"same"] * 3, [b"same", b"other", b"x"]])
def test_too_many_reports_are_refused(bodies: list[bytes]) -> None:
    parts = {"slot": bytes(16), "tag": bytes(16), "epoch": 0, "round": 0, "version": 1, "key_id": 0}
    content = join_reports([TaggedReport(**parts, body=body).to_bytes() for body in bodies])  # type: ignore[arg-type]
    assert len(split_reports(content, most=3)) == 3
    with pytest.raises(InvalidArgument, match="reports must be at most 2 in a request"):
        split_reports(content, most=2)
