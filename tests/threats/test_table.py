"""The tables of docs/concepts/threat-model.md name tests that exist, and numbers that the library computes."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest

import bandanna as bd
from bandanna.privacy.calibration import likely_reach
from bandanna.privacy.guarantee import format_rounded_up

TESTS = Path(__file__).parents[1]
DOCS = TESTS.parent / "docs"
PAGE = (DOCS / "concepts" / "threat-model.md").read_text(encoding="utf-8")
PLAYED = (DOCS / "appendix" / "threat-tests.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`([\w/]+\.py)::(\w+)`", PLAYED)
BUDGET, REPORT = bd.privacy.ApproxDP(epsilon=1.0, delta=1e-5), bd.device.LinearReport(features=5)


def list_parties(section: str) -> list[str]:
    """Return the first cells of the table of a section of the threat model."""
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return [line.strip("| ").partition(" | ")[0] for line in text.splitlines() if line.startswith("|")][2:]


@pytest.mark.parametrize(("path", "name"), sorted(set(NAMED)))
def test_a_test_that_the_page_names_is_there(path: str, name: str) -> None:
    tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_party_has_its_tests() -> None:
    parties = list_parties("Single parties") + list_parties("Pairs")
    assert len(parties) == len(set(parties)) > 20
    rows = dict(re.findall(r"^\| (.+?) \| (`.+`) \|$", PLAYED, re.MULTILINE))
    assert [party for party in parties if party not in rows] == []
    for names in rows.values():
        assert re.fullmatch(r"`[\w/]+\.py::\w+`(<br>`[\w/]+\.py::\w+`)*", names), names


def test_numbers_of_the_page_are_the_librarys() -> None:
    for batch in (60, 2000):
        sealed = bd.protocols.ShuffleGaussian.calibrate(domain=REPORT, budget=BUDGET, batch=batch)
        assert sealed.guarantee.shuffler is not None
        assert f"{format_rounded_up(sealed.guarantee.shuffler.epsilon)} for B = {batch:,}" in PAGE
    counted = bd.protocols.ShuffleBinomial.calibrate(domain=REPORT, budget=BUDGET, batch=200)
    fewer = replace(counted.event, trials=190 * counted.noise.trials)
    assert f"epsilon {format_rounded_up(bd.privacy.Accountant(event=fewer).epsilon(1e-5))} for 10 of 200" in PAGE
    for numbers, word in ((1, "one number"), (5, "five")):
        assert f"{likely_reach(numbers):.2f} for {word}" in PAGE
