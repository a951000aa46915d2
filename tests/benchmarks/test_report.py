"""Reports and their comparison: what is told, read again, and said to have become slower."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bandanna.errors import InvalidArgument, Unreadable
from benchmarks.report import COLUMNS, Absent, Report, Row, compare, page_of

SIZES = {"rounds": 100, "seeds": 4}


def row(name: str, ratio: float, *, part: str = "simulation", speed: float = 1.0, rounds: int = 100) -> Row:
    """One that takes `ratio` times as long as its floor, on a machine of this speed."""
    sizes = {**SIZES, "rounds": rounds}
    seconds = 1e-6 / speed
    return Row(
        part=part,
        name=name,
        world="fixed",
        unit="round",
        sizes=sizes,
        cpu_seconds=ratio * seconds,
        memory=1000,
        growth={"rounds": 1.0},
        floor=("the bare argmax", seconds),
        ours=("LinUCB", 2e-6) if part == "peer" else None,
    )


def report(*rows: Row) -> Report:
    """Of these rows."""
    machine = {"processor": "one", "cores": 1, "memory_bytes": 2**30, "system": "here", "python": "3"}
    machine |= {"blas": "some", "libraries": {"numpy": "2"}, "load": 0.0}
    return Report(rows=rows, machine=machine, absent=(Absent(name="river", extra="bench"),), cpu_seconds=1.5)


def test_a_report_is_read_as_it_was_written(tmp_path: Path) -> None:
    whole = report(row("LinUCB", 2.0), row("river UCB", 9.0, part="peer"))
    told = json.loads(json.dumps(whole.to_dict()))
    assert list(told["rows"][0]) == list(COLUMNS)
    (tmp_path / "report.json").write_text(json.dumps(told))
    again = Report.read(tmp_path / "report.json")
    assert again.rows[0] == whole.rows[0]
    assert again.rows[1].ours == ("LinUCB", pytest.approx(2e-6))
    assert again.to_dict()["absent"] == [{"name": "river", "extra": "bench"}]


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"format": 1, "rows": [{}]}', '{"format": 7}', "null"])
def test_what_is_no_report_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(Unreadable, match=r"other\.json") as refused:
        Report.read(tmp_path / "other.json")
    assert "python -m benchmarks --json" in str(refused.value) or "format 7" in str(refused.value)
    assert "Error" not in str(refused.value)


def test_only_rows_of_ours_are_slow() -> None:
    whole = report(row("a", 3.1), row("b", 2.9), row("theirs", 50.0, part="peer"))
    assert [each.name for each in whole.slow] == ["a"]
    assert "| simulation | a | fixed | 3.1 |" in page_of(whole)


def test_a_slower_machine_is_not_a_slower_program() -> None:
    change = compare(report(row("a", 2.0, speed=0.1)), report(row("a", 2.0)))
    assert not change.slower
    assert not change.faster
    assert change.changes[0].times == pytest.approx(1.0)


def test_slower_and_faster_rows_are_reported() -> None:
    before = report(row("slow", 2.0), row("fast", 2.0), row("same", 2.0), row("grown", 2.0), row("gone", 2.0))
    now = report(row("slow", 3.0), row("fast", 1.0), row("same", 2.2), row("grown", 9.0, rounds=7), row("new", 1.0))
    change = compare(now, before, threshold=1.25)
    assert [(each.row.name, each.times) for each in change.slower] == [("slow", pytest.approx(1.5))]
    assert [(each.row.name, each.times) for each in change.faster] == [("fast", pytest.approx(0.5))]
    assert [name for _, name, _ in change.apart] == ["gone", "grown", "new"]
    assert change.to_dict()["compared"] == 3


@pytest.mark.parametrize("threshold", [1.0, 0.5, -1.0, float("nan"), "much"])
def test_a_threshold_is_above_one(threshold: float) -> None:
    with pytest.raises(InvalidArgument, match=r"threshold must be a finite number > 1: how many times"):
        compare(report(), report(), threshold=threshold)


def test_nothing_in_common_is_said_with_its_reason() -> None:
    long, short = report(row("a", 2.0)), replace(report(row("a", 2.0, rounds=7)), quick=True)
    assert compare(long, long).note == ""
    assert compare(long, report(row("b", 2.0))).note.startswith("no row of ours is in both reports")
    assert compare(short, long).note.startswith("the later report was measured with --quick")
    assert compare(long, short).note.startswith("the earlier report was measured with --quick")
    assert compare(long, short).to_dict()["note"] == compare(long, short).note


def test_a_long_run_may_be_made_in_parts() -> None:
    whole = report(row("a", 2.0)).joined(report(row("a", 9.0), row("b", 1.0)))
    assert [(each.name, each.ratio) for each in whole.rows] == [("b", 1.0), ("a", 2.0)]
    assert (whole.runs, whole.cpu_seconds) == (2, 3.0)
    assert "2 runs" in page_of(whole)
    assert Report.from_dict(whole.to_dict()).runs == 2
