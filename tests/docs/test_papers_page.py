"""What docs/appendix/papers.md says about its tables is what its tables show."""

from __future__ import annotations

import importlib
import math
import re
from pathlib import Path

import bandanna as bd
from reproductions.shuffle_linucb.privacy import shuffled_delta

PAGE = (Path(__file__).parents[2] / "docs" / "appendix" / "papers.md").read_text(encoding="utf-8")


def rows_below(heading: str) -> list[list[str]]:
    """Cells of the first table after `heading`, without its two first lines."""
    found = re.search(r"(?:^\|.*\n)+", PAGE[PAGE.index(heading) :], re.MULTILINE)
    assert found is not None
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in found[0].splitlines()[2:]]


def is_there(name: str) -> bool:
    """Whether a module, or something in one, has this name."""
    module, _, last = name.rpartition(".")
    try:
        return hasattr(importlib.import_module(module), last) or bool(importlib.import_module(name))
    except ModuleNotFoundError:
        return False


def test_the_page_says_where_the_published_shuffle_model_loses_to_the_local_one() -> None:
    reversed_at = {}
    for dim, variant, *_, vec, _, local in rows_below("Figure 2, epsilon = 1."):
        regrets = [int(cell.split()[0]) for cell in (vec, local)]
        if variant == "published" and regrets[0] > regrets[1]:
            reversed_at[dim] = regrets
    assert set(reversed_at) == {"10", "15"}
    (sentence,) = re.findall(r"\*\*Figure 2 as published has Vec above LDP\*\*[^\n]*", PAGE)
    assert all(f"d = {dim} ({vec} against {local})" in sentence for dim, (vec, local) in reversed_at.items())


def test_budgets_of_the_shuffle_model_are_called_upper_bounds() -> None:
    ours = [row for row in rows_below("Figure 1, d = 5.") if row[1] == "ours"]
    assert len(ours) == 3
    assert all("(at most 0.1)" in cell for row in ours for cell in row[4:6])
    assert "equal and true budgets" not in PAGE
    shown = []
    for epsilon in (0.2, 1.0, 10.0):
        budget = bd.privacy.ApproxDP(epsilon=epsilon, delta=0.1)
        protocol = bd.protocols.ShuffleGaussian.calibrate(
            domain=bd.device.LinearReport(features=5), budget=budget, batch=20
        )
        shown.append(f"{shuffled_delta(math.sqrt(4.5) / protocol.noise_std, 20, epsilon):.2g}")
    assert shown == ["0.02", "0.0017", "0.018"]
    assert "shows 0.020, 0.0017 and 0.018 at epsilon = 0.2, 1 and 10" in PAGE


def test_printed_regrets_beyond_three_standard_errors_are_not_called_reproduced() -> None:
    (row,) = [row for row in rows_below("### Table 2") if row[0] == "RS-GLinUCB, published"]
    far = []
    for cell, size in zip(row[1:], ("2", "2.5", "3"), strict=True):
        mean, error, printed = (float(each) for each in re.findall(r"^(\d+) ± (\d+).*\((\d+)\)$", cell)[0])
        if abs(mean - printed) > 3 * error:
            far.append(size)
        else:
            assert abs(mean - printed) <= 2 * error
    assert far == ["3"]
    assert "At S = 3 it is not reproduced: 171 ± 4 against 201" in PAGE


def test_the_page_knows_the_figures_of_paper_002() -> None:
    introduction = PAGE[: PAGE.index("## Two calibrations")]
    assert "[002] has none" not in introduction
    assert "The two figures of [002] are drawings of trees" in introduction
    assert "[002] has no experiments" in introduction


def test_functions_that_the_page_names_are_there() -> None:
    names = set(re.findall(r"`([a-z_]+(?:\.[A-Za-z_0-9]+){2,})\b", PAGE))
    assert "reproductions.shuffle_linucb.privacy.shuffled_delta" in names
    assert [name for name in names if not is_there(name)] == []
