"""docs/how-to/dashboard.md and docs/reference/cli.md say what the dashboard has."""

from __future__ import annotations

import re
from pathlib import Path

from typer.main import get_command

from bandanna.cli.main import app
from bandanna.deployment.dashboard.app import _LISTENERS, MIN_TOKEN_LENGTH, VARIABLE, DashboardRoutes, TaskBoard
from bandanna.deployment.dashboard.views import MOST, PAGE

DOCS = Path(__file__).parents[2] / "docs"
TEXT = " ".join((DOCS / "how-to" / "dashboard.md").read_text().split())


def test_every_route_is_on_the_page() -> None:
    made = {f"{method} {path}" for method, path, _ in DashboardRoutes(TaskBoard([]), None).routes}
    named = set(re.findall(r"`((?:GET|POST) /[^`]*)`", TEXT.partition("## Routes")[2]))
    assert named == made | {"GET /readyz", "GET /metrics", "GET /status"}


def test_every_option_is_in_the_list_of_commands() -> None:
    section = (DOCS / "reference" / "cli.md").read_text().partition("## dashboard\n")[2].partition("\n## ")[0]
    command = get_command(app).commands["dashboard"]  # type: ignore[attr-defined]
    options = {name for each in command.params for name in each.opts if name.startswith("--") and name != "--help"}
    assert set(re.findall(r"`(--[a-z-]+)`", section)) == options


def test_the_numbers_of_the_page_are_the_programs() -> None:
    for words in (
        f"at least {MIN_TOKEN_LENGTH} characters",
        f"pages of {PAGE}",
        f"at most {MOST + 1} publications",
        f"at most {_LISTENERS} readers",
        f"`{VARIABLE}`",
    ):
        assert words in TEXT
