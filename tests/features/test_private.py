"""Ranges from people's records: what they cost, exactly, and how near they are."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.data.features.columns import CellCountDomain
from bandanna.data.features.map import Map, fit_privately
from bandanna.errors import BudgetExceeded, InvalidArgument, InvalidBudget

AGES = np.random.default_rng(0).normal(50, 12, 4_000).clip(0, 120)
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}


def noise(seed: int = 0) -> bd.device.FastNoise:
    return bd.device.FastNoise(np.random.default_rng(seed))


@pytest.mark.parametrize(("columns", "cells"), [(1, 2), (1, 4), (2, 3), (3, 2)])
def test_sensitivity_is_the_largest_distance(columns: int, cells: int) -> None:
    domain = CellCountDomain(columns=columns, cells=cells)
    everybody = np.array(list(itertools.product(range(cells), repeat=columns)))
    values = domain.statistic(everybody).values
    apart = values[:, None] - values[None]
    assert np.max(np.linalg.norm(apart, axis=-1)) == pytest.approx(domain.sensitivity, rel=1e-15)
    assert np.max(np.abs(apart).sum(axis=-1)) == domain.l1_sensitivity
    assert np.array_equal(domain.admit(values).values, values)
    assert np.array_equal(domain.check(values), values)
    assert domain.admit(np.full((1, domain.dim), 0.4)).values.sum() == 0


def exact_epsilon(std: float, columns: int) -> float:
    """The largest log ratio of the probabilities of two neighbours' noisy counts, by enumeration of a lattice.

    One person moves from a cell to another on every grid; noise is discrete Laplace on steps of 1/16 of a count, with
    this standard deviation in counts: P(z) ~ exp(-|z|/scale).
    """
    steps = 16
    scale = steps * std / math.sqrt(2)  # variance 2 scale^2, up to 1/scale^2
    span = np.arange(-40 * steps, 40 * steps + 1)
    return float(2 * columns * np.max((np.abs(span - steps) - np.abs(span)) / scale))


def test_pure_privacy_is_exact_and_less_noise_is_noticed() -> None:
    columns = {"age": (0, 120), "other": (0, 1)}
    records = {"age": AGES[:50], "other": np.zeros(50)}
    fitted = fit_privately(records, columns, privacy=bd.central(epsilon=1.0, delta=0.0), bins=4, source=noise())
    assert 0.999 < fitted.guarantee.epsilon <= 1.0
    assert 0.999 < exact_epsilon(fitted.std, len(columns)) <= 1.0
    assert exact_epsilon(0.8 * fitted.std, len(columns)) > 1.2


@pytest.mark.parametrize("trust", [bd.central, bd.shuffle, bd.local])
def test_the_price_is_that_of_the_protocol(trust: Any) -> None:
    fitted = fit_privately({"age": AGES}, {"age": (0, 120)}, privacy=trust(**BUDGET), bins=8, source=noise())
    assert 0.9 < fitted.guarantee.epsilon <= 1.0
    assert fitted.guarantee.trust == trust.__name__
    if trust is bd.central:
        event: Any = fitted.event
        assert event.sensitivity == math.sqrt(2)
        quieter = replace(event, std=0.8 * event.std)
        assert bd.privacy.Accountant().compose(quieter).epsilon(1e-5) > 1.1


def test_quantiles_are_near() -> None:
    """Released quantiles are farther off than a cell and five standard deviations of the noise."""
    fitted = fit_privately({"age": AGES}, {"age": (0, 120)}, privacy=bd.central(**BUDGET), source=noise(), bins=60)
    (column,) = fitted.range.columns
    slack = 5 * fitted.std * math.sqrt(61) / 2 / len(AGES)  # of a share of people, see `private`
    for end, quantile, cell in ((column.low, 0.05, 0.0), (column.high, 0.95, 2.0)):  # type: ignore[attr-defined]
        low, high = np.quantile(AGES, [max(quantile - slack, 0), min(quantile + slack, 1)])
        assert low - 2.0 <= end - cell <= high + 2.0
    assert Map(fitted.range).dim == 1
    assert fitted.counts["age"].shape == (61,)


def test_missing_values_have_a_cell() -> None:
    half = [None if i % 2 else age for i, age in enumerate(AGES.tolist())]
    fitted = fit_privately({"age": half}, {"age": (0, 120)}, privacy=bd.central(**BUDGET), source=noise(), bins=60)
    (column,) = fitted.range.columns
    assert abs(column.low - np.quantile(AGES, 0.05)) < 6  # type: ignore[attr-defined]
    assert abs(fitted.counts["age"][-1] - 2_000) < 6 * fitted.std


def test_ranges_from_records_need_a_budget() -> None:
    for privacy in (bd.none(), None, bd.central(epsilon=math.inf, delta=1e-5)):
        with pytest.raises(InvalidBudget, match="costs privacy"):
            fit_privately({"age": AGES}, {"age": (0, 120)}, privacy=privacy)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="at least one user"):
        fit_privately([], {"age": (0, 120)}, privacy=bd.central(**BUDGET))
    with pytest.raises(InvalidArgument, match="quantiles"):
        fit_privately({"age": AGES}, {"age": (0, 120)}, privacy=bd.central(**BUDGET), quantiles=(0.9, 0.1))


def test_a_ledger_pays_once() -> None:
    ledger = bd.Ledger(budget=bd.privacy.ApproxDP(**BUDGET))
    asked: dict[str, Any] = {"columns": {"age": (0, 120)}, "privacy": bd.central(**BUDGET), "ledger": ledger}
    first = fit_privately({"age": AGES}, source=noise(1), **asked)
    again = fit_privately({"age": AGES}, source=noise(2), **asked)
    assert np.array_equal(first.counts["age"], again.counts["age"])
    assert 0.9 < ledger.spent() <= 1.0
    with pytest.raises(BudgetExceeded):
        fit_privately({"age": AGES}, source=noise(3), **asked, task="more")


def test_secure_noise_is_the_default() -> None:
    asked: dict[str, Any] = {"columns": {"age": (0, 120)}, "privacy": bd.central(**BUDGET), "bins": 8}
    one, other = (fit_privately({"age": AGES[:50]}, **asked).counts["age"] for _ in range(2))
    assert not np.array_equal(one, other)
