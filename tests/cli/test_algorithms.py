"""`bandanna list`."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from bandanna.cli.main import app
from bandanna.policies.algorithm import ALGORITHMS


def test_every_algorithm_is_listed() -> None:
    """An algorithm that can be made by name is missing from the table or from the JSON."""
    shown = CliRunner().invoke(app, ["list"])
    rows = json.loads(CliRunner().invoke(app, ["list", "--json"]).stdout)["rows"]
    assert shown.exit_code == 0
    assert [row["name"] for row in rows] == list(ALGORITHMS)
    assert all(name in shown.stdout for name in ALGORITHMS)
