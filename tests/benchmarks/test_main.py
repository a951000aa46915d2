"""`python -m benchmarks`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bandanna.errors import BandannaError
from bandanna.policies.registry import ALGORITHMS
from benchmarks import run
from benchmarks.__main__ import app
from benchmarks.report import Report, page_of

DOCS = Path(__file__).parents[2] / "docs"
SMALL = ["--quick", "--only", "DP-SE"]


def test_a_report_is_compared_with_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, file = tmp_path / "page.md", tmp_path / "before.json"
    said = CliRunner().invoke(app, [*SMALL, "--json", "--page", str(page)])
    assert said.exit_code == 0
    file.write_text(said.stdout)
    before = Report.read(file)
    assert page.read_text() == page_of(before)
    monkeypatch.setattr(run, "run", lambda **_: before)
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


def test_two_reports_are_compared_without_measuring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored, page = DOCS / "appendix" / "benchmarks.json", tmp_path / "page.md"
    told = json.loads(stored.read_text(encoding="utf-8"))
    for row in told["rows"]:
        row["cpu_seconds"] *= 2 if row["name"] == "GOPE" else 1
    slower = tmp_path / "slower.json"
    slower.write_text(json.dumps(told))

    def never(**_: object) -> None:
        raise AssertionError("measured")

    monkeypatch.setattr(run, "run", never)
    same = CliRunner().invoke(app, ["--from", str(stored), "--compare", str(stored), "--page", str(page)])
    assert same.exit_code == 0
    assert "nothing became slower" in same.stdout
    assert same.stdout.index("A *floor* is the least work") < same.stdout.index("slower than 3 times")
    assert page.read_text(encoding="utf-8") == (DOCS / "appendix" / "benchmarks.md").read_text(encoding="utf-8")
    found = CliRunner().invoke(app, ["--from", str(slower), "--compare", str(stored)])
    assert found.exit_code == 1
    assert "slower: simulation GOPE" in found.stdout
    for option in (["--quick"], ["--only", "GOPE"]):
        said = CliRunner().invoke(app, ["--from", str(stored), *option])
        assert isinstance(said.exception, BandannaError)
        assert str(said.exception).startswith(f"{option[0]} says what to measure")


def test_nothing_to_compare_is_no_success(tmp_path: Path) -> None:
    told = json.loads((DOCS / "appendix" / "benchmarks.json").read_text(encoding="utf-8"))
    few, rest = tmp_path / "few.json", tmp_path / "rest.json"
    few.write_text(json.dumps({**told, "quick": True, "rows": [row for row in told["rows"] if row["name"] == "GOPE"]}))
    rest.write_text(json.dumps({**told, "rows": [row for row in told["rows"] if row["name"] != "GOPE"]}))
    said = CliRunner().invoke(app, ["--from", str(few), "--compare", str(rest)])
    assert "nothing became slower" not in said.stdout
    assert isinstance(said.exception, BandannaError)
    assert "nothing could be compared" in str(said.exception)
    assert "--quick" in str(said.exception)


def test_floors_are_explained_before_the_first_table() -> None:
    page = (DOCS / "appendix" / "benchmarks.md").read_text(encoding="utf-8")
    assert page.index("A *floor* is the least work") < page.index("times its floor") < page.index("| ---")


def test_bad_files_are_found_before_the_work(tmp_path: Path) -> None:
    for options in (["--compare", str(tmp_path / "no")], ["--page", str(tmp_path)], ["--threshold", "1"]):
        said = CliRunner().invoke(app, [*options])
        assert said.exit_code == 1
        assert isinstance(said.exception, OSError | BandannaError)


def test_the_page_is_what_was_measured() -> None:
    report = Report.read(DOCS / "appendix" / "benchmarks.json")
    assert (DOCS / "appendix" / "benchmarks.md").read_text(encoding="utf-8") == page_of(report)
    assert not report.quick
    assert not report.absent
    for part in ("simulation", "agent"):
        assert {row.name for row in report.part(part)} == set(ALGORITHMS)
