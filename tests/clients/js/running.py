"""The browser client in Node: cases in, answers out. Built by `make client`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
CLIENT = ROOT / "clients" / "js"
BUILT = CLIENT / "dist" / "bandanna.mjs"


def node(script: str, given: Any = None, *, before: tuple[str, ...] = (), after: tuple[str, ...] = ()) -> str:
    """What a script of clients/js/test writes when it is given JSON; it must end well and complain about nothing.

    before, after: arguments of Node, and of the script.
    """
    command = [_node(), "--disable-warning=ExperimentalWarning", *before, str(CLIENT / "test" / script), *after]
    made = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, timeout=600)
    assert made.returncode == 0, made.stdout[-4000:] + made.stderr[-4000:]
    assert not made.stderr
    return made.stdout


def answers(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of clients/js/test/vectors.mjs, one for each case."""
    answered: list[dict[str, Any]] = json.loads(node("vectors.mjs", cases))
    assert len(answered) == len(cases)
    return answered


def _node() -> str:
    found = shutil.which("node")
    if found is None:
        return str(_missing("Node.js", "make test-browser installs it, or: apt install nodejs npm"))
    return found if BUILT.exists() else str(_missing("the browser client", "make client"))


def _missing(what: str, command: str) -> None:
    """Fail where these tests are required, else skip."""
    said = f"{what} is not installed: {command}"
    if os.environ.get("BANDANNA_BROWSER") == "required":
        pytest.fail(said, pytrace=False)
    pytest.skip(said)
