"""`python -m reproductions 004 definitions`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from bandanna.errors import InvalidBudget
from reproductions.__main__ import app

KEYS = ["view_delta_at_epsilon", "table_delta_at_epsilon", "view_epsilon_at_delta", "table_epsilon_at_delta"]


def run(*arguments: str) -> Result:
    """The command in this process."""
    return CliRunner(env={"COLUMNS": "120", "NO_COLOR": "1"}).invoke(app, ["004", "definitions", *arguments])


def document(*arguments: str) -> dict[str, Any]:
    """Its JSON, and nothing beside it."""
    done = run("--json", *arguments)
    assert done.exit_code == 0
    assert done.stderr == ""
    parsed: dict[str, Any] = json.loads(done.stdout)
    return parsed


def test_the_defaults_are_the_papers() -> None:
    found = document()
    assert list(found) == KEYS
    assert found["view_delta_at_epsilon"] <= 0.17 < found["table_delta_at_epsilon"]
    assert round(found["table_epsilon_at_delta"], 2) == 0.98


def test_epsilon_and_delta_can_be_set() -> None:
    found = document("--epsilon", "0", "--delta", "0")
    assert found["view_epsilon_at_delta"] is None
    assert found["table_delta_at_epsilon"] >= found["view_delta_at_epsilon"] > 0.36


def test_the_text_says_what_holds() -> None:
    lines = run().stdout.splitlines()
    assert lines[1].startswith("  (0.95, 0.17)-View DP")
    assert lines[2].startswith("  not (0.95, 0.17)-Table DP")
    assert "none" in run("--delta", "0").stdout


def test_a_malformed_budget_is_refused_by_name() -> None:
    done = run("--delta", "2")
    assert done.exit_code != 0
    with pytest.raises(InvalidBudget, match="delta"):
        raise done.exception or AssertionError
