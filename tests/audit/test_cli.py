"""`bandanna audit` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import bandanna as bd
from bandanna.audit.targets import COLUMNS, AuditResult
from bandanna.cli import main


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["bandanna", "audit", *arguments])
    with pytest.raises(SystemExit) as ended:
        main.main()
    return int(ended.value.code or 0)


def test_json_has_the_promised_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    picture = tmp_path / "curve.svg"
    code = run(monkeypatch, "gaussian", "--epsilon", "2", "--trials", "2e3", "--json", "--plot", str(picture))
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert code == 0
    assert [tuple(row) for row in rows] == [COLUMNS]
    assert rows[0]["known"] is None
    assert rows[0]["verdict"] == "consistent"
    assert rows[0]["lower_bound"] <= rows[0]["claimed_epsilon"]
    assert "claim" in picture.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("LinUCB-JPD",), "Did you mean 'LinUCB-JDP'?"),
        ((), "TARGET is missing"),
        ((".",), "with its task.json"),
        (("gaussian", "--gallery"), "or left out with --gallery"),
        (("--gallery", "--epsilon", "2"), "--epsilon"),
        (("--gallery", "--confidence", "0.99"), "--confidence"),
        (("--gallery", "--trust", "local"), "--trust"),
        (("--gallery", "--view", "snapshot"), "--view"),
        (("gaussian", "--trials", "10"), "trials"),
        (("gaussian", "--epsilon", "-1"), "epsilon"),
        (("gaussian", "--view", "snapshot"), "TARGET must be a policy, got 'gaussian'"),
        (("gaussian", "--trust", "local"), "--trust"),
        (("shuffle_binomial", "--trust", "local"), "--trust"),
        (("LinUCB-JDP", "--view", "snapshots"), "view"),
        (("gaussian", "--plot", "curve.txt"), "suffix"),
        (("gaussian", "--jobs", "0"), "jobs"),
        (("gaussian", "--scheduler", "tcp://127.0.0.1:9"), "scheduler"),
        (("LinUCB-LDP", "--view", "one-run", "--jobs", "2"), "must be left out for the view"),
        (("DP-SE", "--view", "actions"), "'snapshot' for DP-SE"),
        (("LinUCB", "--delta", "1e-3"), "given together with an epsilon"),
        (("LinUCB", "--epsilon", "1", "--view", "snapshot"), "releases"),
    ],
)
def test_mistakes_are_answered_in_one_line(
    arguments: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, *arguments) == 2
    message = capsys.readouterr().err
    assert said in message
    assert message.count("\n") == 1


def test_a_gallery_that_is_surprised_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = bd.audit.audit("gaussian", trials=1000).rows
    result = AuditResult(rows=tuple(type(rows[0])(**{**vars(row), "known": "bad"}) for row in rows))
    monkeypatch.setattr("bandanna.audit.gallery.run_gallery", lambda **_: result)
    assert run(monkeypatch, "--gallery") == 1
    assert "is known to be bad" in capsys.readouterr().out
