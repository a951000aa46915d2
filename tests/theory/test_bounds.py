"""Bounds as functions: what they say, how they move, and whether measured regret keeps to them."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np
import pytest

from bandanna.errors import InvalidArgument
from bandanna.policies import contextual_bounds, regret_bounds
from bandanna.policies.regret_bounds import BOUNDS

SAMPLE: dict[str, Any] = {
    "horizon": 1e5, "n_arms": 10, "dim": 5, "rho": 0.1, "epsilon": 0.5, "delta": 1e-5, "failure": 0.01, "batch": 100,
    "batches": 10, "shufflers": 2, "gaps": (0.0, 0.1, 0.3), "optimism": 3.5, "radius": 5.0, "smallest": 10.0,
    "largest": 30.0, "shift": 2.0, "sampling": 0.8, "client_std": 0.1, "ridge": 1.0, "least_eigenvalue": 0.2,
    "ellipsoid": 5.0,
}  # fmt: skip


def arguments_of(name: str, **other: Any) -> dict[str, Any]:
    """Those of `SAMPLE` that the function needs, some replaced."""
    wanted = inspect.signature(BOUNDS[name].formula).parameters
    needed = {each: SAMPLE[each] for each, p in wanted.items() if p.default is p.empty or each == "rho"}
    return needed | {each: value for each, value in other.items() if each in wanted}


@pytest.mark.parametrize("name", BOUNDS)
def test_every_bound_is_documented_and_behaves(name: str) -> None:
    bound = BOUNDS[name]
    assert bound.side in ("upper", "lower")
    assert bound.paper in ("000", "001", "002", "003", "004")
    assert bound.statement
    assert bound.holds
    assert bound.formula.__doc__
    value = bound(**arguments_of(name))
    assert isinstance(value, float)
    assert 0 < value < math.inf
    horizons = np.array([1e3, 1e4, 1e6])
    values = bound(**arguments_of(name, horizon=horizons))
    assert values.shape == (3,)
    assert np.all(np.diff(values) >= 0)
    np.testing.assert_allclose(values, [bound(**arguments_of(name, horizon=t)) for t in horizons], rtol=1e-12)


@pytest.mark.parametrize("name", BOUNDS)
def test_constants_are_known_or_can_be_set(name: str) -> None:
    bound = BOUNDS[name]
    assert bound.explicit != ("constant" in inspect.signature(bound.formula).parameters)
    assert bound.explicit != name.endswith("_rate")
    if not bound.explicit:
        assert bound(**arguments_of(name, constant=3.0)) == pytest.approx(3 * bound(**arguments_of(name)))


PRIVATE = [name for name in BOUNDS if {"rho", "epsilon"} & {*inspect.signature(BOUNDS[name].formula).parameters}]


@pytest.mark.parametrize("name", PRIVATE)
def test_more_privacy_costs_more_and_none_costs_nothing(name: str) -> None:
    strict, mild = (BOUNDS[name](**arguments_of(name, rho=b, epsilon=b)) for b in (0.01, 0.5))
    assert strict >= mild
    free = BOUNDS[name](**arguments_of(name, rho=math.inf, epsilon=1e300))
    assert free <= mild
    huge = BOUNDS[name](**arguments_of(name, rho=1e-30, epsilon=1e-30))
    trivial = {"adac_gope_proof": 2e5, "adac_oful_proof": 2e5, "counter_lower_rate": strict, "glm_lower_rate": 1e5}
    assert huge >= min(1e6, trivial.get(name, math.inf)) * 0.99


def test_table_1_of_paper_004_by_hand() -> None:
    t, k, d, rho = 1e4, 5, 3, 0.25
    log = math.log(1e4)
    expected = math.sqrt(5e4 * log) + 10 * math.sqrt(log)
    assert regret_bounds.adac_ucb_rate(horizon=t, n_arms=k, rho=rho) == pytest.approx(expected)
    assert regret_bounds.finite_lower(horizon=t, n_arms=k, rho=rho) == pytest.approx(200 / 27)
    assert regret_bounds.finite_lower(horizon=4, n_arms=k, rho=1e-8) == pytest.approx(2e4 / 124)
    assert regret_bounds.finite_lower(horizon=3, n_arms=k, rho=1e-8) == 0
    assert regret_bounds.finite_lower(horizon=4, n_arms=k, rho=2.0) == pytest.approx(4 / 27)
    both = math.log(5e4)
    expected = math.sqrt(3e4 * both) + 6 * both**1.5
    assert regret_bounds.adac_gope_rate(horizon=t, n_arms=k, dim=d, rho=rho) == pytest.approx(expected)
    assert regret_bounds.linear_lower(horizon=t, dim=d, rho=rho) == pytest.approx(300 * math.exp(-2) / 8)
    oful = 300 * log + 18 * log**2
    assert contextual_bounds.adac_oful_rate(horizon=t, dim=d, rho=rho) == pytest.approx(oful)


def test_theorem_9_has_the_constant_that_its_proof_gives() -> None:
    private = regret_bounds.linear_lower(horizon=1, dim=2, rho=1e-6)
    assert private == pytest.approx(math.exp(-2.25) / 8 * 2e3)
    assert regret_bounds.linear_lower(horizon=1, dim=2, rho=1e-6, as_printed=True) == pytest.approx(2 * private)


@pytest.mark.parametrize(("n_arms", "directions"), [(2, 1), (16, 4), (2**20, 5), (math.inf, 5)])
def test_the_lower_rate_of_generalised_linear_bandits_grows_with_the_arms(n_arms: float, directions: int) -> None:
    found = contextual_bounds.glm_lower_rate(horizon=1e4, dim=5, n_arms=n_arms, epsilon=0.01)
    assert found == pytest.approx(math.sqrt(5e4 * directions) + 500)
    assert contextual_bounds.glm_lower_rate(horizon=100, dim=5, n_arms=n_arms, epsilon=1e-9) < 100 * (1 + 5)
    with pytest.raises(InvalidArgument, match="n_arms"):
        contextual_bounds.glm_lower_rate(horizon=100, dim=5, n_arms=1, epsilon=1.0)


def test_theorem_10_and_11_by_hand() -> None:
    log = math.log(1e6)
    found = regret_bounds.adac_ucb_gaps(horizon=1e6, gaps=(0, 0.5, 0.25), rho=0.01, optimism=4)
    assert found == pytest.approx(32 * log * (2 + 4) + 2 * 8 * math.sqrt(400 * log) + 2 * 8)
    worst = regret_bounds.adac_ucb_worst(horizon=1e6, n_arms=3, rho=0.01, optimism=4)
    assert worst == pytest.approx(4 * math.sqrt(24e6 * log) + 24 * math.sqrt(400 * log) + 24)
    wide = regret_bounds.adac_ucb_gaps(horizon=1e6, gaps=(0, 1.0, 0.5), rho=0.01, optimism=4, width=2)
    assert wide == pytest.approx(2 * found)
    assert regret_bounds.adac_ucb_gaps(horizon=1e6, gaps=(0, 0), rho=0.01, optimism=4) == 0  # equal means


def test_table_2_converted_bounds_are_worse() -> None:
    shared = {"horizon": 1e7, "rho": 0.01}
    gaps = {"gaps": (0.0, 0.1), "optimism": 3.5}
    assert regret_bounds.converted_ucb_gaps_rate(**shared, **gaps) > regret_bounds.adac_ucb_gaps(**shared, **gaps)
    assert regret_bounds.converted_ucb_rate(**shared, n_arms=5) > regret_bounds.adac_ucb_rate(**shared, n_arms=5)
    problem = {**shared, "n_arms": 5, "dim": 3}
    assert regret_bounds.converted_gope_rate(**problem) > regret_bounds.adac_gope_rate(**problem)


def test_in_table_1_of_paper_001_shuffle_and_central_regret_share_their_exponent() -> None:
    shared = {"n_arms": 100, "dim": 4, "sampling": 0.8, "epsilon": 1e-9, "delta": 1e-5}
    ratio = {
        formula: formula(horizon=1e8, **shared) / formula(horizon=1e4, **shared)
        for formula in (regret_bounds.cdp_dpe_rate, regret_bounds.ldp_dpe_rate, regret_bounds.sdp_dpe_rate)
    }
    logs = math.sqrt(math.log(1e10) / math.log(1e6))
    assert ratio[regret_bounds.cdp_dpe_rate] == pytest.approx(1e4**0.2 * logs, rel=1e-6)
    assert ratio[regret_bounds.sdp_dpe_rate] == pytest.approx(1e4**0.2 * logs, rel=1e-6)
    assert ratio[regret_bounds.ldp_dpe_rate] == pytest.approx(1e4**0.6 * logs, rel=1e-6)
    by_hand = 1e4**0.6 * math.sqrt(math.log(1e6)) * (1 + 8 * math.sqrt(math.log(1e5)) / 2)
    found = regret_bounds.ldp_dpe_rate(horizon=1e4, n_arms=100, dim=4, sampling=0.8, epsilon=2, delta=1e-5)
    assert found == pytest.approx(by_hand)


def test_exponents_of_paper_002_are_the_printed_ones() -> None:
    """1/(2k+1) and (k+1)/(2k+1)."""
    for k in (1, 2, 5):
        low, high = (regret_bounds.counter_lower_rate(horizon=n, shufflers=k, epsilon=0.5) for n in (1e3, 1e6))
        assert math.log(high / low) / math.log(1e3) == pytest.approx(1 / (2 * k + 1))
        shared = {"dim": 3, "shufflers": k, "epsilon": 0.5}
        low, high = (contextual_bounds.linucb_concurrent_rate(horizon=n, **shared) for n in (1e3, 1e6))
        assert math.log(high / low) / math.log(1e3) == pytest.approx((k + 1) / (2 * k + 1))
    c = math.exp(0.5) / (math.exp(1.0) + 1)
    expected = 0.5 * 1000 ** (1 / 5) * c ** (4 / 5)
    assert regret_bounds.counter_lower_rate(horizon=1000, shufflers=2, epsilon=0.5) == pytest.approx(expected)
    assert regret_bounds.counter_lower_rate(horizon=1000, shufflers=0, epsilon=0.5) == pytest.approx(500)


def test_the_best_batches_of_paper_000_balance_both_terms() -> None:
    """Corollaries B.2 and C.2, Theorems 3.2 and 3.5."""
    shared = {"dim": 5, "epsilon": 0.1, "delta": 1e-5, "failure": 0.01}
    slopes = []
    for formula in (contextual_bounds.linucb_sdp_amp_rate, contextual_bounds.linucb_sdp_vec_rate):
        best = [min(formula(horizon=t, batch=b, **shared) for b in np.geomspace(1, t, 200)) for t in (1e10, 1e15)]
        slopes.append(math.log(best[1] / best[0]) / math.log(1e5))
    assert slopes == pytest.approx([0.6 + 2 * 0.034] * 2, abs=0.03)  # 3/5, and two logarithms


def test_paper_000_corollaries_by_hand() -> None:
    """Corollaries 3.3, B.3 and C.3."""
    budget = {"horizon": 1e5, "epsilon": 0.25, "delta": 1e-5}
    fixed = contextual_bounds.linucb_sdp_fixed_rate(**budget)
    assert fixed == pytest.approx(1e3 * 2 * math.sqrt(math.log(1e10)))
    amp, vec = (
        formula(dim=16, **(budget | {"horizon": 1e4}))
        for formula in (contextual_bounds.linucb_sdp_amp_local_rate, contextual_bounds.linucb_sdp_vec_local_rate)
    )
    assert amp == pytest.approx(8 * 1e3 * 2 * math.log(1e5) ** 0.25)
    assert vec == pytest.approx(8 * 1e3 * 2 * math.log(256e5) ** 0.5)


def test_outside_of_a_theorem_is_refused_by_name() -> None:
    with pytest.raises(InvalidArgument, match="optimism"):
        regret_bounds.adac_ucb_worst(horizon=1e4, n_arms=3, rho=1.0, optimism=3.0)
    with pytest.raises(InvalidArgument, match="rho"):
        regret_bounds.adac_gope_rate(horizon=1e4, n_arms=3, dim=2, rho=0.0)
    with pytest.raises(InvalidArgument, match="arms"):
        regret_bounds.finite_lower(horizon=1e4, n_arms=1)
    with pytest.raises(InvalidArgument, match="delta"):
        contextual_bounds.linucb_ldp_rate(horizon=1e4, dim=2, epsilon=1.0, delta=0.0, failure=0.1)


def test_proof_constants_agree_with_the_rates() -> None:
    shared = {"n_arms": 10, "dim": 3, "failure": 1e-3}
    early, late = (regret_bounds.adac_gope_proof(horizon=t, rho=1.0, **shared) for t in (1e12, 1e16))
    assert math.log(late / early) / math.log(1e4) == pytest.approx(0.5, abs=0.02)
    free = regret_bounds.adac_gope_proof(horizon=1e16, rho=math.inf, **shared)
    some, more = (regret_bounds.adac_gope_proof(horizon=1e16, rho=rho, **shared) - free for rho in (1e-8, 1e-10))
    assert more / some == pytest.approx(10, rel=0.3)  # rho^(-1/2)
    oful = {"dim": 3, "failure": 1e-3, "ridge": 1.0, "least_eigenvalue": 0.3}
    early, late = (contextual_bounds.adac_oful_proof(horizon=t, rho=1.0, **oful) for t in (1e12, 1e16))
    assert math.log(late / early) / math.log(1e4) == pytest.approx(0.5 + math.log(4 / 3) / math.log(1e4), abs=0.02)
