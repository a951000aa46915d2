"""`bandanna demo-deployed`: the real processes, over loopback."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bandanna.cli.deploy import _print_demo
from bandanna.cli.main import app
from bandanna.deployment.processes import count_rows
from bandanna.deployment.task.document import Task
from bandanna.errors import BandannaError, InvalidArgument

from ..nursery import _quick_roles as _quick_roles


def command(*arguments: str) -> Any:
    """What it prints; its error is raised."""
    done = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "160"})
    if isinstance(done.exception, BandannaError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.usefixtures("_quick_roles")
def test_the_demonstration_says_what_each_role_saw(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    says_what_each_role_saw(tmp_path, capsys)


@pytest.mark.full
def test_the_demonstration_runs_in_unprepared_processes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    says_what_each_role_saw(tmp_path, capsys)


def says_what_each_role_saw(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """800 users of the command, and its page."""
    out = tmp_path / "kept"
    told = json.loads(command("demo-deployed", "--users", "800", "--out", str(out), "--json"))
    assert told["processes"] == list(Task.read(out).roles) == ["registrar", "analyzer", "shuffler"]
    crowd, saw = told["crowd"], {each["role"]: each for each in told["saw"]}
    assert crowd["users"] == 800
    assert 0 < crowd["regret"] < 800
    assert 0 < told["ledger"]["spent"] <= 1
    assert len(told["ledger"]["entries"]) == crowd["publications"] >= 1
    assert saw["shuffler"]["requests"] >= crowd["reports acknowledged"] > 200
    assert saw["shuffler"]["bytes"] >= 124 * crowd["reports acknowledged"] > saw["analyzer"]["bytes"] > 0
    most, end = saw["shuffler"]["tables"]["reports"]
    assert (most > 0, end) == (True, 0)
    assert saw["analyzer"]["tables"]["reports"] == [0, 0]
    assert saw["registrar"]["tables"]["users"][1] == crowd["reports acknowledged"]
    assert count_rows(out / "shuffler.db")["reports"] == 0
    with pytest.raises(BandannaError, match="has a task already"):
        command("demo-deployed", "--out", str(out))
    _print_demo(told)
    page = capsys.readouterr().out
    for words in (
        "random play loses",
        "ledger: epsilon = ",
        "noisy counts",
        "in the shuffler's database",
        "Shuffle diff",
    ):
        assert words in page


def test_rows_are_counted_where_they_can_be_read(tmp_path: Path) -> None:
    assert count_rows(tmp_path / "nothing.db") == {}
    (tmp_path / "none.db").write_bytes(b"no database" * 100)
    assert count_rows(tmp_path / "none.db") == {}
    with sqlite3.connect(tmp_path / "some.db") as rows:
        rows.execute("create table a (b)")
        rows.execute("insert into a values (1), (2)")
    rows.close()
    assert count_rows(tmp_path / "some.db") == {"a": 2}


def test_one_file_for_all_roles_is_refused_before_any_is_started(tmp_path: Path) -> None:
    policy = "dim = 2\nhorizon = 60\nepsilon = 5.0\ndelta = 1e-3\nbatch = 20\n"
    (tmp_path / "t.toml").write_text(f'title = "t"\nalgorithm = "LinTS-LDP"\n[policy]\n{policy}')
    command("task", "create", str(tmp_path / "t.toml"), "--no-forecast")
    with pytest.raises(InvalidArgument, match="SQLite files lie beside"):
        command("serve", "all", "--task", str(tmp_path / "t"), "--db", str(tmp_path / "x.db"))
    assert not list(tmp_path.glob("**/*.log"))
