"""Everything runs, small: no time is asserted here."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import bandanna as bd
from bandanna.errors import InvalidArgument
from bandanna.policies.registry import ALGORITHMS
from benchmarks import agents, peers, problems, run, serving
from benchmarks.clock import QUICK, exponent, peak, timed
from benchmarks.peers import CONTENDERS, EQUIVALENTS
from benchmarks.problems import ARGMAX, DRAWING, FRESH, MEMORY, Problem, all_problems, problems_of
from benchmarks.report import Report

from .. import drawn

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
