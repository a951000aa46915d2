"""Commands of deployments without their extra: one error that names all that is needed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bandanna.cli.main import app
from bandanna.cli.terminal import SERVE_MODULES
from bandanna.errors import MissingExtra

COMMANDS = {
    "dashboard": ("dashboard", "."),
    "serve": ("serve", "all", "--task", "."),
    "simulate-clients": ("simulate-clients", "--task", "."),
    "demo-deployed": ("demo-deployed",),
    "task create": ("task", "create", "task.toml"),
    "task show": ("task", "show", "."),
    "task export": ("task", "export", "--task", ".", "--out", "kept"),
}


TURNS = [
    (command, SERVE_MODULES[turn % len(SERVE_MODULES)]) for turn, command in enumerate(COMMANDS)
]  # each of both at least once


@pytest.mark.parametrize("module", SERVE_MODULES)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.often(of=lambda command, module: (command, module) in TURNS)
def test_the_extra_serve_is_enough_for_deployments(
    command: str, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    refused = CliRunner().invoke(app, COMMANDS[command]).exception
    assert isinstance(refused, MissingExtra)
    assert str(refused) == f"`bandanna {command}` needs an optional dependency: pip install 'bandanna[serve]'"
    assert CliRunner().invoke(app, [*command.split(), "--help"]).exit_code == 0
