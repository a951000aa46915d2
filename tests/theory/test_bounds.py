"""Regret bounds of the papers: by hand, by their rates, and of results."""

from __future__ import annotations

import inspect
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bandanna.errors import InvalidArgument
from bandanna.policies import contextual_bounds, regret_bounds
from bandanna.policies.finite.gope import GOPE
from bandanna.policies.finite.thompson import Thompson
from bandanna.policies.finite.ucb import UCBEpisodes
from bandanna.policies.linear.anytime import Anytime
from bandanna.policies.linear.base import uniform
from bandanna.policies.linear.linucb import LinUCB
from bandanna.policies.linear.oful import OFUL
from bandanna.policies.registry import compute_bounds, make
from bandanna.policies.regret_bounds import BOUNDS
from bandanna.privacy.budgets import ZCDP
from bandanna.protocols.privacy_model import central, concurrent, local, none, shuffle
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.finite import FiniteArms
from bandanna.simulation.environments.linear import LinearContextual, SphereArms
from bandanna.simulation.environments.population import Population
from bandanna.simulation.figures import bound_lines, plot_regret
from bandanna.simulation.result import Result

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


FINITE, CONTEXTS = FiniteArms(means=(0.6, 0.4)), LinearContextual(dim=2, n_arms=4, fixed=True)
SPHERE = SphereArms(dim=2, n_arms=3)
LINUCB: dict[str, Any] = {"dim": 2, "horizon": 500, "width": 0.2}
BUDGET = {"epsilon": 1.0, "delta": 1e-5}
RHO = ZCDP(rho=1.0)
CONTEXTUAL = "contextual_lower_rate"
GOPE_EARLY = ["converted_gope_rate", "linear_lower"]


def episodes(**arguments: Any) -> UCBEpisodes:
    """Two arms, 500 rounds."""
    return UCBEpisodes(**{"n_arms": 2, "horizon": 500, "privacy": none(), **arguments})


@pytest.mark.parametrize(
    ("policy", "env", "expected"),
    [
        (episodes(optimism=4), FINITE, ["adac_ucb_gaps", "adac_ucb_worst", "finite_lower"]),
        (episodes(privacy=central(budget=RHO)), FINITE, ["adac_ucb_rate", "finite_lower"]),
        (episodes(privacy=central(epsilon=1.0, delta=0.0), optimism=4), FINITE, ["converted_ucb_rate", "finite_lower"]),
        (Thompson(n_arms=2, horizon=500), FINITE, ["finite_lower"]),
        (GOPE(dim=2, horizon=500, privacy=central(**BUDGET)), SPHERE, ["adac_gope_proof", "linear_lower"]),
        (GOPE(dim=2, horizon=500, privacy=central(rho=1.0), noise="beginning"), SPHERE, GOPE_EARLY),
        (OFUL(dim=2, horizon=500, privacy=central(budget=RHO)), SPHERE, ["adac_oful_rate", CONTEXTUAL]),
        (
            OFUL(dim=2, horizon=500, privacy=central(budget=RHO), eigenvalue=0.1),
            SPHERE,
            ["adac_oful_proof", CONTEXTUAL],
        ),
        (LinUCB(dim=2, horizon=500, privacy=none()), CONTEXTS, ["linucb_ellipsoid", CONTEXTUAL]),
        (LinUCB(dim=2, horizon=500, confidence="lemma", privacy=none()), CONTEXTS, ["linucb_lemma", CONTEXTUAL]),
        (LinUCB(dim=2, horizon=500, explore=uniform(first=9), privacy=none()), CONTEXTS, ["linucb_rate", CONTEXTUAL]),
        (LinUCB(**LINUCB, privacy=none()), CONTEXTS, ["linucb_rate", CONTEXTUAL]),
        (LinUCB(**LINUCB, privacy=central(**BUDGET)), CONTEXTS, ["linucb_jdp_rate", CONTEXTUAL]),
        (
            LinUCB(**LINUCB, privacy=central(**BUDGET, participations=2)),
            CONTEXTS,
            ["linucb_jdp_returning_rate", CONTEXTUAL],
        ),
        (LinUCB(**LINUCB, privacy=local(**BUDGET)), CONTEXTS, ["linucb_ldp_rate", CONTEXTUAL]),
        (LinUCB(**LINUCB, privacy=local(**BUDGET, participations=2), batch=50), CONTEXTS, [CONTEXTUAL]),
        (LinUCB(**LINUCB, privacy=shuffle(**BUDGET)), CONTEXTS, ["linucb_sdp_vec_best_rate", CONTEXTUAL]),
        (
            LinUCB(**LINUCB, privacy=shuffle(**BUDGET, participations=2), batch=50),
            CONTEXTS,
            ["linucb_sdp_vec_returning_best_rate", CONTEXTUAL],
        ),
        (
            LinUCB(**LINUCB, privacy=shuffle(**BUDGET, protocol="gaussian")),
            CONTEXTS,
            ["linucb_sdp_amp_best_rate", CONTEXTUAL],
        ),
        (
            LinUCB(**LINUCB, privacy=shuffle(**BUDGET, protocol="gaussian", participations=2), batch=50),
            CONTEXTS,
            ["linucb_sdp_amp_returning_best_rate", CONTEXTUAL],
        ),
        (LinUCB(**LINUCB, privacy=concurrent(**BUDGET, shufflers=2)), CONTEXTS, ["linucb_concurrent_rate", CONTEXTUAL]),
    ],
)
def test_every_policy_finds_its_bounds(policy: Any, env: Any, expected: list[str]) -> None:
    found = simulate(policy, env, checkpoints=5).bounds()
    assert [curve.bound.name for curve in found] == expected
    assert all(curve.values.shape == (5,) for curve in found)


def test_the_bound_of_oful_is_that_of_the_radius_that_runs() -> None:
    policy = OFUL(dim=2, horizon=10**6, eigenvalue=0.1, privacy=none())
    setting = {"policy": "OFUL", "dim": 2, "n_arms": 3, "epsilon": math.inf, "delta": 0.0, "failure": policy.failure}
    setting |= {"eigenvalue": 0.1, "ridge": 1.0, "growth": 1.0, "feature_bound": 1.0, "parameter_bound": 1.0}
    curve, _ = compute_bounds(setting, [1e6])
    log_det = 2 * math.log1p(1e6 / 2)
    radius = math.sqrt(2 * math.log(2 / policy.failure) + log_det) + 1.0  # as in `policies/oful.py`
    assert curve.values[0] == pytest.approx(2 * math.sqrt(2) * math.sqrt(2 * log_det) * radius * 1e3)
    for outside in ({"feature_bound": 2.0}, {"parameter_bound": 2.0}, {"width": 0.5}):
        assert compute_bounds({**setting, **outside}, [1e6])[0].bound.name == "adac_oful_rate"


@pytest.mark.parametrize("policy", ["GLMJDP", "GLMSDP"])
def test_generalised_linear_policies_are_compared_for_their_number_of_arms(policy: str) -> None:
    setting = {"policy": policy, "dim": 6, "epsilon": 1.0, "delta": 1e-5}
    few, many = (compute_bounds({**setting, "n_arms": n_arms}, [1e4])[1] for n_arms in (4, 1000))
    assert few.bound.name == many.bound.name == "glm_lower_rate"
    assert few.values[0] == pytest.approx(math.sqrt(12e4) + 6)
    assert many.values[0] == pytest.approx(600 + 6)
    assert [curve.bound.side for curve in compute_bounds({**setting, "n_arms": 1}, [1e4])] == ["upper"]


@pytest.mark.parametrize("trust", ["none", "central", "local"])
def test_the_rate_of_linucb_counts_the_batch(trust: str) -> None:
    epsilon = math.inf if trust == "none" else 1.0
    setting = {"policy": "LinUCB", "trust": trust, "dim": 3, "n_arms": 4, "epsilon": epsilon, "delta": 1e-5}
    setting |= {"failure": 0.05}
    alone, batched = (compute_bounds({**setting, "batch": batch}, [1e4])[0].values[0] for batch in (1, 101))
    assert batched - alone == pytest.approx(300)


def test_linear_elimination_is_compared_for_its_number_of_arms() -> None:
    setting = {"policy": "GOPE", "dim": 20, "epsilon": math.inf, "delta": 0.0, "failure": 0.01}
    for n_arms, size in ((2, 1), (40, 5), (10**9, 20)):
        lower = compute_bounds({**setting, "n_arms": n_arms}, [1e6])[1]
        assert lower.bound.name == "linear_lower"
        assert lower.values[0] == pytest.approx(math.exp(-2) / 8 * size * 1e3)
    assert [curve.bound.side for curve in compute_bounds({**setting, "n_arms": 1}, [1e6])] == ["upper"]


@pytest.mark.parametrize("trust", ["none", "central", "local", "shuffle"])
def test_distributed_elimination_finds_its_row_of_table_1(trust: str) -> None:
    epsilon = math.inf if trust == "none" else 1.0
    setting = {"policy": "PhasedElimination", "dim": 3, "n_arms": 10, "alpha": 0.8, "delta": 1e-5}
    (curve,) = compute_bounds({**setting, "trust": trust, "epsilon": epsilon}, [1e4])
    prefix = {"none": "dpe", "central": "cdp", "local": "ldp", "shuffle": "sdp"}[trust]
    assert curve.bound.name.startswith(prefix)


def test_a_pure_budget_has_its_concentrated_price() -> None:
    shared = {"policy": "Thompson", "n_arms": 5, "dim": 5}
    pure, without = (
        compute_bounds({**shared, "epsilon": epsilon, "delta": 0.0}, [4.0])[0].values[0] for epsilon in (1e-3, math.inf)
    )
    assert pure == pytest.approx(2 * math.sqrt(2) * 1e3 / 124)
    assert without == pytest.approx(4 / 27)


def test_bounds_survive_a_file(tmp_path: Path) -> None:
    result = simulate(episodes(privacy=central(budget=RHO), optimism=4), FINITE)
    result.to_csv(tmp_path / "result.csv")
    again = Result.load(tmp_path / "result.csv")
    assert again == result
    for one, other in zip(result.bounds(), again.bounds(), strict=True):
        np.testing.assert_array_equal(one.values, other.values)


def test_the_figure_has_the_bounds_and_says_what_they_are(tmp_path: Path) -> None:
    result = simulate(episodes(privacy=central(budget=RHO), optimism=4), FINITE, n_seeds=3)
    axes = result.plot(tmp_path / "bounds.svg", bounds=True).axes[0]
    assert axes.get_yscale() == "log"
    texts = [text.get_text() for text in axes.texts]
    for label in ("upper bound, Theorem 10 [004]", "upper bound, Theorem 11 [004]", "lower bound, Theorem 17 [004]"):
        assert any(text.startswith(label) for text in texts)
    assert any("for the worst instance" in text for text in texts)
    low, high = axes.get_ylim()
    for curve in result.bounds():
        assert low < np.min(curve.values[curve.values > 0])
        assert high > np.max(curve.values)
    assert "Theorem 17" in (tmp_path / "bounds.svg").read_text(encoding="utf-8")


def test_a_rate_goes_through_the_measured_end() -> None:
    result = simulate(LinUCB(**LINUCB, privacy=none()), CONTEXTS, n_seeds=20)  # some of whom lose something
    axes = result.plot(bounds=True).axes[0]
    ends = [line.get_ydata()[-1] for line in axes.lines[:3]]
    assert ends == pytest.approx([ends[0]] * 3)
    assert len({str(line.dashes) for line in bound_lines([("", result)])}) == 2  # one can tell them apart
    assert any("scaled to the end" in text.get_text() for text in axes.texts)
    assert {"rate, Lemma 3.9 [000]", "lower rate, introduction [000]"} <= {text.get_text() for text in axes.texts}


def test_the_same_bound_is_drawn_once() -> None:
    results = [simulate(Thompson(n_arms=2, horizon=500), FINITE, seed=seed) for seed in (0, 1)]
    texts = [text.get_text() for text in plot_regret(results, bounds=True).axes[0].texts]
    assert sum("Theorem 17" in text for text in texts) == 1


def test_no_bound_is_refused_by_name() -> None:
    result = simulate(Anytime(first=LinUCB(dim=2, horizon=100, privacy=none())), CONTEXTS, horizon=200)
    with pytest.raises(InvalidArgument, match=r"bounds.*Anytime"):
        result.plot(bounds=True)
    assert result.bounds() == []
    assert compute_bounds({}, [1.0]) == []


def regret_of_dpe(log_horizon: int, *, dim: int, n_arms: int, alpha: float) -> float:
    """A bound on DPE's expected regret on every instance with sigma = 0: the proof of Theorem 5.1, phase by phase.

    A round of phase l costs at most 4 W_{l-1}, and at most 2. A phase has at most 2^l + S rounds. Widths fail with a
    probability of at most 2/T per phase, which costs at most 2 T.
    """
    horizon, support = 2**log_horizon, 4 * dim * math.log(math.log(dim)) + 16
    rounds, regret, phase, each = 0.0, 0.0, 1, 2.0
    while rounds < horizon:
        length = min(2**phase + support, horizon - rounds)
        regret += length * each + 4
        clients = math.ceil(2 ** (alpha * phase))
        width = math.sqrt(2 * dim / (clients * 2**phase)) * math.sqrt(2 * math.log(n_arms * horizon))
        rounds, phase, each = rounds + length, phase + 1, min(2.0, 4 * width)
    return regret


def test_phased_elimination_stays_below_any_multiple_of_the_root_of_the_horizon() -> None:
    ratios = [
        regret_of_dpe(log, dim=20, n_arms=1000, alpha=0.9) / math.sqrt(20 * 2.0**log) for log in (21, 30, 60, 200)
    ]
    assert ratios[:3] == pytest.approx([1.42, 0.123, 1.95e-5], rel=0.005)
    assert ratios[3] < 1e-20


@pytest.mark.parametrize("name", ["DPE", "CDP-DPE", "LDP-DPE", "SDP-DPE", "Laplace-DPE", "DPE-FixedU", "PE"])
def test_no_lower_bound_is_stated_for_phased_elimination(name: str) -> None:
    spent = {"DPE": {}, "DPE-FixedU": {}, "PE": {}, "Laplace-DPE": {"epsilon": 1.0}}
    budget = spent.get(name, {"epsilon": 1.0, "delta": 1e-5})
    result = simulate(make(name, dim=2, horizon=60, **budget), Population(dim=2, n_arms=3), checkpoints=3)
    assert all(curve.bound.side == "upper" for curve in result.bounds())
    assert not [name for name, bound in BOUNDS.items() if (bound.paper, bound.side) == ("001", "lower")]


def test_no_stated_lower_bound_is_above_what_phased_elimination_attains() -> None:
    setting = {"policy": "PhasedElimination", "dim": 20, "n_arms": 1000, "alpha": 0.9, "delta": 0.0}
    found = compute_bounds({**setting, "trust": "none", "epsilon": math.inf}, [2.0**60])
    attained = regret_of_dpe(60, dim=20, n_arms=1000, alpha=0.9)
    assert all(curve.values[0] / 1000 <= attained for curve in found if curve.bound.side == "lower")
