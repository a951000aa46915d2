"""Which bounds belong to a result, and how a figure shows them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bandanna.errors import InvalidArgument
from bandanna.policies.finite.gope import GOPE
from bandanna.policies.finite.thompson import Thompson
from bandanna.policies.finite.ucb import UCBEpisodes
from bandanna.policies.linear.anytime import Anytime
from bandanna.policies.linear.base import uniform
from bandanna.policies.linear.linucb import LinUCB
from bandanna.policies.linear.oful import OFUL
from bandanna.policies.registry import compute_bounds
from bandanna.privacy.budgets import ZCDP
from bandanna.protocols.privacy_model import central, concurrent, local, none, shuffle
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.finite import FiniteArms
from bandanna.simulation.environments.linear import LinearContextual, SphereArms
from bandanna.simulation.figures import bound_lines, plot_regret
from bandanna.simulation.result import Result

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
