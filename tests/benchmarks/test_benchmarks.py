"""`python -m benchmarks`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import bandanna as bd
from bandanna.errors import BandannaError, InvalidArgument, Unreadable
from bandanna.policies.registry import ALGORITHMS
from benchmarks import agents, peers, problems, run, serving
from benchmarks.__main__ import app
from benchmarks.clock import QUICK, exponent, peak, timed
from benchmarks.peers import CONTENDERS, EQUIVALENTS
from benchmarks.problems import ARGMAX, DRAWING, FRESH, MEMORY, Problem, all_problems, problems_of
from benchmarks.report import COLUMNS, Absent, Report, Row, compare, page_of

from .. import drawn

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


# Reports and their comparison: what is told, read again, and said to have become slower


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
    assert "**3.1** |" in page_of(whole)


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


# Everything runs, small: no time is asserted here


FAST = replace(QUICK, growth=False)


def tried() -> list[Problem]:
    """Every algorithm in one world, and every world; in the long tests, every algorithm in all of its worlds."""
    found: list[Problem] = []
    for each in all_problems():
        known = each.name in {one.name for one in found} and each.world in {one.world for one in found}
        found += [] if known and not drawn.LONG[0] else [each]
    return found


@pytest.fixture(scope="module")
def simulated() -> Report:
    """Every algorithm in the simulator."""
    with pytest.MonkeyPatch.context() as patched:
        few = tried()
        patched.setattr(run, "problems_of", lambda name: tuple(each for each in few if each.name == name))
        return run.run(only=["simulation"], effort=FAST)


def test_every_algorithm_has_a_row(simulated: Report) -> None:
    assert list(dict.fromkeys(row.name for row in simulated.rows)) == list(ALGORITHMS)
    assert [row.key[1:] for row in simulated.rows] == [(each.name, each.world) for each in tried()]
    assert {row.world for row in simulated.rows} == {each.world for each in all_problems()}


def test_rows_have_time_memory_and_floor(simulated: Report) -> None:
    for row in simulated.rows:
        assert row.cpu_seconds > 0
        assert row.memory
        assert row.floor is not None
        assert row.floor[0] == (DRAWING if row.world in FRESH else ARGMAX)
        assert row.ratio == pytest.approx(row.cpu_seconds / row.floor[1])


def test_growth_in_everything_that_grows() -> None:
    report = run.run(only=["CDP-DPE", "UCB1"], effort=QUICK)
    growth = {(row.part, row.name): set(row.growth) for row in report.rows}
    assert growth["simulation", "CDP-DPE"] == {"rounds", "seeds", "arms", "dim", "users"}
    assert growth["simulation", "UCB1"] == {"rounds", "seeds", "arms"}
    assert growth["agent", "UCB1"] == {"horizon", "arms", "users"}
    assert growth["agent", "CDP-DPE"] == {"horizon", "arms", "dim"}
    assert all(np.isfinite(power) for row in report.rows for power in row.growth.values())


@pytest.mark.parametrize("name", ["LinTS-JDP-rewards", "LinUCB-LDP", "AdaC-OFUL", "GOPE", "GLOC", "PE", "Thompson"])
def test_an_agent_of_every_kind(name: str) -> None:
    row = agents.measure(name, FAST)
    assert row.unit == "decision"
    assert row.ratio
    assert row.memory


def test_floors_are_rows() -> None:
    report = run.run(only=["floors"], effort=FAST)
    assert {row.name for row in report.rows} == {MEMORY, DRAWING, ARGMAX}
    assert {row.world for row in report.rows} == {"64 MB", "fixed", "fresh", "finite", "sphere", "contexts", "logistic"}


def test_a_peer_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:

    def broken(name: str) -> object:
        raise OSError(name)

    monkeypatch.setattr(peers, "importlib", replace_import(broken))
    report = run.run(only=["river UCB", "mabwiser UCB1"], effort=FAST)
    assert {(each.name, each.extra) for each in report.absent} == {("river", "bench"), ("mabwiser", "bench")}
    assert {row.name for row in report.rows} == {"bandanna UCB1"}
    with pytest.raises(bd.errors.MissingExtra, match=r"bandanna\[bench\]"):
        CONTENDERS["river UCB"].begin(3, 0)


def replace_import(find: object) -> object:
    """A module `importlib` whose imports are others."""
    return type("importlib", (), {"import_module": staticmethod(find)})


def test_peers_that_are_there_are_measured() -> None:
    there = [name for name, each in CONTENDERS.items() if each.installed]
    for name in there:
        report = run.run(only=[name], effort=FAST)
        theirs = [row for row in report.rows if row.name == name]
        assert len(theirs) == (3 if EQUIVALENTS[CONTENDERS[name].ours].batched else 2)
        assert all(row.ours is not None and row.cpu_seconds > 0 for row in theirs)


def test_a_server_is_measured_with_its_answers() -> None:
    server = serving.Server("route")
    try:
        assert server.cost(2) >= 0
    finally:
        server.stop()


@pytest.mark.parametrize("asked", [False, pytest.param(True, marks=pytest.mark.full)])
def test_servers_are_measured_beside_a_bare_one(asked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not asked:
        monkeypatch.setattr(serving.Server, "__init__", lambda self, kind: None)
        monkeypatch.setattr(serving.Server, "cost", lambda self, requests: 1e-3 / requests)
        monkeypatch.setattr(serving.Server, "stop", lambda self: None)
    report = run.run(only=["serving"], effort=FAST)
    assert [(row.part, row.name) for row in report.rows] == [
        ("floor", "the bare ASGI server"),
        ("serving", "an upload"),
        ("serving", "a route"),
        ("peer", "Starlette alone"),
    ]


def test_a_part_that_nobody_knows_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="LinUCB"):
        run.run(only=["LinUBC"])


def test_a_new_name_has_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problems, "SHAPES", {})
    assert [each.world for each in problems_of("LinUCB-JDP")] == ["fixed", "fresh"]
    assert [each.world for each in problems_of("UCB1")] == ["finite"]


def test_exponents_bytes_and_seconds_are_those_of_the_rows() -> None:
    assert exponent([1, 2, 4], [3.0, 12.0, 48.0]) == pytest.approx(2.0)
    assert 8e6 <= peak(lambda: np.ones(10**6)) < 9e6
    runs: list[int] = []
    assert timed(lambda: runs.append(1), 4) > 0
    assert len(runs) == 4
