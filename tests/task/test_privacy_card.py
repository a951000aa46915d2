"""The privacy card of a task follows its published schema, and its page shows the card alone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from bandanna.deployment.task.creation import create_task
from bandanna.deployment.task.document import Task
from bandanna.deployment.task.privacy_card import make_privacy_card, render_privacy_card, write_privacy_card

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/reference/privacy-card.schema.json").read_text())
TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "central": ("LinTS-JDP", {}),
    "central with rows": ("GLM-JDP", {}),
    "local": ("LinTS-LDP", {}),
    "shuffle": ("LinTS-SDP", {}),
    "two mixers": ("LinTS-SDP", {"rules": {"mixers": 2}}),
}


def make_task(name: str) -> Task:
    algorithm, more = TASKS[name]
    policy = {"dim": 2, "horizon": 400, "epsilon": 1.0, "delta": 1e-5}
    return create_task({"title": "A task", "algorithm": algorithm, "policy": policy, **more}, expect=False)[0]


@pytest.mark.parametrize("name", TASKS)
def test_a_privacy_card_follows_its_schema_and_states_the_guarantee_of_the_task(name: str, tmp_path: Path) -> None:
    task = make_task(name)
    data, page = write_privacy_card(task, tmp_path)
    card = json.loads(data.read_text())
    jsonschema.validate(card, SCHEMA)
    assert card["guarantee"]["epsilon"] == task.content["guarantee"]["epsilon"]
    assert card["guarantee"]["sentences"] == task.content["promise"]
    assert [party["role"] for party in card["parties"]].count("helper") == (name == "two mixers")
    text = page.read_text()
    assert all(party["sees"].partition("'")[0] in text for party in card["parties"])
    assert not re.search(r"<script|src=|https?://", text)


@pytest.mark.parametrize("name", TASKS)
def test_a_privacy_card_states_which_rows_and_sums_an_analyzer_keeps(name: str) -> None:
    (keeps,) = [
        party["keeps"] for party in make_privacy_card(make_task(name))["parties"] if party["role"] == "analyzer"
    ]
    assert ("Rows of earlier batches" in keeps) == (name == "central with rows")
    assert ("Sums of earlier batches without noise" in keeps) == name.startswith("central")


def test_the_page_of_a_privacy_card_escapes_its_title() -> None:
    card = make_privacy_card(make_task("local"))
    card["task"]["title"] = "<script>alert(1)</script>"
    assert "<script" not in render_privacy_card(card)
