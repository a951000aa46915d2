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
PAGE = (TESTS.parent / "docs" / "concepts" / "threat-model.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)
BUDGET, REPORT = bd.privacy.ApproxDP(epsilon=1.0, delta=1e-5), bd.device.LinearReport(features=5)


def lines() -> list[list[str]]:
    """The cells of the table."""
    section = PAGE.partition("\n## One table\n")[2].partition("\n## ")[0]
    rows = [row.strip("|").split(" | ") for row in section.splitlines() if row.startswith("|")]
    return rows[2:]


@pytest.mark.parametrize(("path", "name"), sorted(set(NAMED)))
def test_a_test_that_the_page_names_is_there(path: str, name: str) -> None:
    tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_line_of_the_table_names_a_test() -> None:
    rows = lines()
    assert len(rows) > 20
    for row in rows:
        assert len(row) == 4, row[0]
        assert re.fullmatch(r"`[\w/]+\.py::\w+`(, `[\w/]+\.py::\w+`)*", row[3].strip()), row[0]
    assert len(re.findall(r"\.py\b", PAGE)) == len(NAMED)  # nothing is named without its function


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
