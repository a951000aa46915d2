"""`bandanna plan`."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from typer.testing import CliRunner

from bandanna.cli.main import app
from bandanna.experiments import plan

SMALL = ("plan", "--dim", "3", "--arms", "4", "--users", "200", "--epsilon", "2", "--seeds", "2")


def test_every_trust_model_is_forecast() -> None:
    done = CliRunner().invoke(app, SMALL)
    assert done.exit_code == 0
    for word in ("none", "central", "shuffle", "local", "first batch", "1e-05", "standard error", "typical"):
        assert word in done.stdout


def test_json_of_plan_has_the_rows_of_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    done = CliRunner().invoke(app, [*SMALL, "--trust", "central", "--fixed", "--json"])
    (row,) = json.loads(done.stdout)["rows"]
    (expected,) = plan.plan(dim=3, n_arms=4, users=200, epsilon=2.0, n_seeds=2, trust="central", fixed=True)
    assert row == json.loads(json.dumps(expected.to_dict()))


def test_fresh_contexts_are_the_default() -> None:
    said = [
        CliRunner().invoke(app, [*SMALL, "--trust", "none", *more]).stdout for more in ([], ["--fresh"], ["--fixed"])
    ]
    assert said[0] == said[1] != said[2]
    assert "fresh for each user" in said[0]
    assert "the same for everybody" in said[2]


@pytest.mark.parametrize(
    ("enough", "words"), [(1_600, "With 1,600 users the share is below 0.5"), (None, "3,200 users, the largest")]
)
def test_where_nothing_is_learned_it_says_what_would_help(
    enough: int | None, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    forecasts = plan.plan(dim=3, n_arms=4, users=200, n_seeds=2, trust="none")

    def hopeless(**_: Any) -> tuple[plan.Forecast, ...]:
        return tuple(replace(each, share=0.93, enough=enough, tried=enough or 3_200) for each in forecasts)

    monkeypatch.setattr(plan, "plan", hopeless)
    done = CliRunner().invoke(app, SMALL)
    assert "200 users are too few to learn from. Use more users, or a larger epsilon" in done.stdout
    assert words in done.stdout


def test_one_seed_has_no_standard_error() -> None:
    done = CliRunner().invoke(app, [*SMALL, "--seeds", "1", "--trust", "none"])
    assert done.exit_code == 0
    assert "nan" not in done.stdout
    assert "with one seed no standard error" in done.stdout
