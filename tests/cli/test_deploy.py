"""`bandanna task create` and `bandanna task show`."""

from __future__ import annotations

import http.server
import json
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bandanna.cli.deploy import _print_demo
from bandanna.cli.main import app
from bandanna.deployment.processes import count_rows
from bandanna.deployment.task.document import Secrets, Task
from bandanna.errors import BandannaError, InvalidArgument

from ..nursery import _quick_roles as _quick_roles

TEXT = """
title = "Which [bold]treatment"
algorithm = "LinUCB-SDP-Vec"
[policy]
dim = 2
horizon = 60
epsilon = 5.0
delta = 1e-3
[rules]
mixers = 2
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "which.toml").write_text(TEXT)
    return tmp_path


def command(*arguments: str) -> Any:
    """What the command prints; its error is raised."""
    done = CliRunner().invoke(app, ["task", *arguments], env={"COLUMNS": "200"})
    if isinstance(done.exception, BandannaError):
        raise done.exception
    assert done.exit_code == 0
    return done.stdout


def test_a_task_is_made_and_shown(folder: Path) -> None:
    said = command("create", "which.toml")
    task = Task.read(folder / "which")
    flat = " ".join(said.split())
    for words in (
        "Which [bold]treatment",
        task.id,
        task.content["promise"],
        "a uniform share of every report",
        "Expected regret: ",
        "known users only",
        "helper.secret.json",
        "Next: bandanna serve all --task which",
    ):
        assert words in flat
    for place in ("which", "which/task.json"):
        shown = command("show", place)
        assert said.startswith(shown)
        assert task.id in shown
    for secret in folder.glob("which/*.secret.json"):
        secret.unlink()
    assert command("show", "which") == shown


def test_json_of_task_has_the_facts_of_the_document(folder: Path) -> None:
    said = json.loads(command("create", "which.toml", "--out", "some/where", "--no-forecast", "--json"))
    assert said["id"] == Task.read(folder / "some" / "where").id
    assert said["expected"] is None
    assert [each["role"] for each in said["sight"]][-2:] == ["analyzer", "everybody"]
    assert json.loads(command("show", "some/where", "--json")) == said


def test_a_task_never_replaces_another(folder: Path) -> None:
    command("create", "which.toml", "--no-forecast")
    before = {each: each.read_bytes() for each in sorted(folder.rglob("*.json"))}
    with pytest.raises(BandannaError, match="holds a task already"):
        command("create", "which.toml", "--no-forecast")
    assert {each: each.read_bytes() for each in sorted(folder.rglob("*.json"))} == before


def test_what_is_no_task_is_refused(folder: Path) -> None:
    for place in ("which.toml", ".", "nowhere"):
        with pytest.raises(BandannaError, match=r"which\.toml is not a task|cannot be read"):
            command("show", place)


class _Analyzer(http.server.BaseHTTPRequestHandler):
    content, status = b"", 200

    def do_GET(self) -> None:
        """The document, at its place."""
        self.send_response(self.status if self.path == "/some/task" else 404)
        self.end_headers()
        self.wfile.write(self.content)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    """Of something that answers as an analyzer does."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Analyzer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/some/"
        server.shutdown()


def test_a_task_is_read_from_its_analyzer(folder: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command("create", "which.toml", "--no-forecast")
    monkeypatch.setattr(_Analyzer, "content", (folder / "which" / "task.json").read_bytes())
    assert command("show", url) == command("show", "which")
    for content, status, words in ((b"{}", 200, "has no task"), (b"", 503, "it answers 503")):
        monkeypatch.setattr(_Analyzer, "content", content)
        monkeypatch.setattr(_Analyzer, "status", status)
        with pytest.raises(BandannaError, match=words):
            command("show", url)
    for nowhere in ("http://127.0.0.1:1", "http://", "http://a b"):
        with pytest.raises(BandannaError, match="has no task: it cannot be reached"):
            command("show", nowhere)


def test_roles_join_a_task_on_machines_of_their_own(folder: Path) -> None:
    said = command("draft", "which.toml", "--no-forecast")
    assert "which.draft.json" in said
    for role in ("registrar", "analyzer", "shuffler", "helper"):
        said = command("join", "which.draft.json", "--role", role, "--operator", f"{role} Ltd", "--out", role)
        assert "a uniform share of every report" in " ".join(said.split())  # the page that is joined
        assert f"{role}.join.json" in said
        with pytest.raises(BandannaError, match="already"):
            command("join", "which.draft.json", "--role", role, "--operator", "another", "--out", role)
    joins = [f"{role}/{role}.join.json" for role in ("registrar", "analyzer", "shuffler", "helper")]
    with pytest.raises(BandannaError, match="one of each"):
        command("seal", "which.draft.json", *joins[:3])
    assert "task accept" in command("seal", "which.draft.json", *joins)
    with pytest.raises(BandannaError, match="already"):
        command("seal", "which.draft.json", *joins)
    task = Task.read(folder / "task.json")
    for role in task.roles:
        with pytest.raises(BandannaError, match="task accept"):
            Secrets.read(folder / role, role, task)
        said = command("accept", "task.json", "--secret", f"{role}/{role}.secret.json")
        assert f"bandanna serve {role}" in said
        assert "helper: helper Ltd" in " ".join(said.split())
        assert Secrets.read(folder / role, role, task).task == task.id


# `bandanna demo-deployed`: the real processes, over loopback


def command_demo_deployed(*arguments: str) -> Any:
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
    told = json.loads(command_demo_deployed("demo-deployed", "--users", "800", "--out", str(out), "--json"))
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
    with pytest.raises(BandannaError, match="holds a task already"):
        command_demo_deployed("demo-deployed", "--out", str(out))
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
    command_demo_deployed("task", "create", str(tmp_path / "t.toml"), "--no-forecast")
    with pytest.raises(InvalidArgument, match="SQLite files lie beside"):
        command_demo_deployed("serve", "all", "--task", str(tmp_path / "t"), "--db", str(tmp_path / "x.db"))
    assert not list(tmp_path.glob("**/*.log"))
