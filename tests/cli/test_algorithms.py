"""`bandanna list`."""

from __future__ import annotations

import json
import subprocess
import sys

from typer.testing import CliRunner

from bandanna.cli.main import app
from bandanna.policies.registry import ALGORITHMS


def test_every_algorithm_is_listed() -> None:
    shown = CliRunner().invoke(app, ["list"])
    rows = json.loads(CliRunner().invoke(app, ["list", "--json"]).stdout)["rows"]
    assert shown.exit_code == 0
    assert [row["name"] for row in rows] == list(ALGORITHMS)
    assert all(name in shown.stdout for name in ALGORITHMS)


def test_a_new_process_lists_the_algorithms() -> None:
    done = subprocess.run([sys.executable, "-m", "bandanna", "list", "--json"], capture_output=True, check=True)
    assert [row["name"] for row in json.loads(done.stdout)["rows"]] == list(ALGORITHMS)
