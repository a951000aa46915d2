"""`bandanna bench`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bandanna import bench
from bandanna.bench import Report, page_of
from bandanna.cli import app
from bandanna.errors import BandannaError
from bandanna.policies.registry import ALGORITHMS

DOCS = Path(__file__).parents[2] / "docs"
SMALL = ["bench", "--quick", "--only", "DP-SE"]


def test_a_report_is_compared_with_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The JSON cannot be read again, the page is not written, or a slower row ends with code 0."""
    page, file = tmp_path / "page.md", tmp_path / "before.json"
    said = CliRunner().invoke(app, [*SMALL, "--json", "--page", str(page)])
    assert said.exit_code == 0
    file.write_text(said.stdout)
    before = Report.read(file)
    assert page.read_text() == page_of(before)
    monkeypatch.setattr(bench, "run", lambda **_: before)
    same = CliRunner().invoke(app, [*SMALL, "--compare", str(file)])
    assert same.exit_code == 0
    assert "nothing became slower" in same.stdout
    told = json.loads(file.read_text())
    for row in told["rows"]:
        row["cpu_seconds"] /= 10
    file.write_text(json.dumps(told))
    slower = CliRunner().invoke(app, [*SMALL, "--compare", str(file), "--json"])
    assert slower.exit_code == 1
    assert [each["times"] for each in json.loads(slower.stdout)["comparison"]["slower"]] == pytest.approx([10.0, 10.0])


def test_bad_files_are_found_before_the_work(tmp_path: Path) -> None:
    """Minutes are spent before a wrong file is noticed."""
    for options in (["--compare", str(tmp_path / "no")], ["--page", str(tmp_path)], ["--threshold", "1"]):
        said = CliRunner().invoke(app, ["bench", *options])
        assert said.exit_code == 1
        assert isinstance(said.exception, OSError | BandannaError)


def test_the_page_is_what_was_measured() -> None:
    """docs/benchmarks.md was edited by hand, or an algorithm has been added and the page was not written again."""
    report = Report.read(DOCS / "benchmarks.json")
    assert (DOCS / "benchmarks.md").read_text(encoding="utf-8") == page_of(report)
    assert not report.quick
    assert not report.absent
    for part in ("simulation", "agent"):
        assert {row.name for row in report.part(part)} == set(ALGORITHMS)
