"""`python -m reproductions 002`: every figure at a small scale, as JSON, as a table and as files."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from bandanna.errors import InvalidArgument
from reproductions.__main__ import app
from reproductions.concurrent_shuffle import error

from ...sketches import sketch
from ...strict_json import strict
from ..found_once import remember

SCALES = {"error": ("--seeds", "2", "--horizon", "1024"), "regret": ("--seeds", "2", "--horizon", "400"), "tree": ()}
FILES = {"error": ["error"], "regret": ["regret-ours", "regret-paper"], "tree": ["tree-n32-k3"]}
SHOWN = {"error": "shuffle, k = 2", "regret": "LinUCB-SDP-Vec", "tree": "level  3"}


@pytest.fixture(autouse=True)
def _computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a figure finds with the same options is found once: these tests are about how it is shown."""
    remember(monkeypatch)
    sketch(monkeypatch)
    monkeypatch.setattr(error, "HALVINGS", 3)


def run(figure: str, *arguments: str) -> Result:
    """The command at a small scale, in this process."""
    small = ["002", figure, "--jobs", "1", *SCALES[figure]]
    return CliRunner(env={"COLUMNS": "120", "NO_COLOR": "1"}).invoke(app, [*small, *arguments])


@pytest.mark.parametrize("figure", SCALES)
def test_error_figures_have_a_table_and_both_files(figure: str, tmp_path: Path) -> None:
    done = run(figure, "--out", str(tmp_path / "figures"))
    assert done.exit_code == 0
    assert SHOWN[figure] in done.stdout
    assert "…" not in done.stdout
    names = {f"{name}.{suffix}" for name in FILES[figure] for suffix in ("png", "svg")}
    assert {path.name for path in (tmp_path / "figures").iterdir()} == names


def test_json_of_errors_has_every_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    document = strict(run("error", "--json").stdout)
    assert document.keys() == {"rows", "slopes"}
    kinds = {(row["model"], row["k"], row["degrees"]) for row in document["rows"]}
    shuffled = {("shuffle", k, degrees) for k in (1, 2, 3, 4, "best") for degrees in ("best", "paper")}
    assert kinds == shuffled | {("central", None, None), ("local", None, None)}
    assert len(document["rows"]) == (1 + error.HALVINGS) * len(kinds)
    for row in document["rows"]:
        assert row.keys() == {"n", "model", "k", "std", "predicted_std", "paper_rule_std", "degrees"}
        assert (row["paper_rule_std"] is None) == (row["model"] != "shuffle")
    assert [line.keys() for line in document["slopes"]] == [{"model", "k", "slope", "theory"}] * 7
    assert not list(tmp_path.iterdir())


def test_json_of_regrets_has_every_ratio() -> None:
    rows = strict(run("regret", "--json").stdout)["rows"]
    assert {row["algorithm"] for row in rows} == {"LinUCB-JDP-batched", "LinUCB-SDP-Vec", "LinUCB-CSDP"}
    assert {row["k"] for row in rows} == {None, 1, 2, 3, 4, "best"}
    for row in rows:
        assert {"mean", "stderr", "ratio", "batch", "batches", "epsilon"} <= row.keys()


def test_any_tree_is_drawn_or_refused_by_name(tmp_path: Path) -> None:
    document = strict(run("tree", "--json", "--horizon", "1000", "--shufflers", "2").stdout)
    assert document.keys() == {"horizon", "shufflers", "degrees", "batches"}
    assert (document["horizon"], document["shufflers"], len(document["degrees"])) == (1000, 2, 2)
    assert document["batches"][0] == {"level": 1, "first": 1, "last": document["degrees"][0], "released": True}
    assert strict(run("tree", "--json", "--shufflers", "best").stdout)["shufflers"] > 1
    large = run("tree", "--horizon", "100000", "--shufflers", "4", "--out", str(tmp_path))
    assert "users in a batch" in large.stdout
    assert (tmp_path / "tree-n100000-k4.svg").exists()
    for bad in ("0", "99", "many"):
        assert isinstance(run("tree", "--json", "--shufflers", bad).exception, InvalidArgument)
