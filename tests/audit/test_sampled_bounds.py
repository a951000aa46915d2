"""Lower bounds from samples, from one run, and by many workers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

import bandanna as bd
from bandanna import environments as worlds
from bandanna.audit.audit import audit, one_run_target
from bandanna.audit.exact import hockey_stick, least_epsilon, separation
from bandanna.audit.sampled_bounds import (
    LOOK_SCHEDULE,
    Claim,
    DrawRuns,
    SamplingPlan,
    bound_by_sampling,
    choose_test,
    draw_blocks_here,
    fisher_direction,
    lower_bound_of_guesses,
    lower_confidence_bound,
    make_claim,
    one_run_bound,
    probability_of_guesses,
    upper_confidence_bound,
)
from bandanna.errors import InvalidArgument
from bandanna.privacy import gdp
from bandanna.privacy.events import GaussianEvent, LaplaceEvent
from bandanna.types import Floats
from tests.policies.conformance.own_policy import copied

MU = 1.0
CLAIM = Claim(epsilon=gdp.epsilon(1e-3, MU), delta=1e-3, mu=MU)


def pair(mu: float, width: int = 1) -> DrawRuns:
    """N(mu, 1) against N(0, 1) in the first of some coordinates."""

    def draw(swapped: bool, runs: int, rng: np.random.Generator) -> Floats:
        return rng.normal(size=(runs, width)) + (0.0 if swapped else mu) * np.eye(width)[0]

    return draw


@given(hits=st.integers(0, 50), failure=st.sampled_from([0.3, 0.05, 1e-4]))
@settings(max_examples=60, deadline=None)
def test_bounds_of_probabilities_are_those_of_clopper_and_pearson(hits: int, failure: float) -> None:
    low, high = float(lower_confidence_bound(hits, 50, failure)), float(upper_confidence_bound(hits, 50, failure))
    assert 0 <= low <= hits / 50 <= high <= 1
    if hits:
        assert stats.binom.sf(hits - 1, 50, low) == pytest.approx(failure, rel=1e-6)
    if hits < 50:
        assert stats.binom.cdf(hits, 50, high) == pytest.approx(failure, rel=1e-6)


CHANCE = st.floats(0, 1).map(lambda chance: round(chance, 9))  # SciPy cannot evaluate some below 1e-300


@given(right=st.integers(0, 60), failure=st.sampled_from([0.05, 1e-3]), q=CHANCE, p=CHANCE)
@settings(max_examples=60, deadline=None)
def test_right_guesses_of_two_kinds_are_bounded_too(right: int, failure: float, q: float, p: float) -> None:
    mean, bound = (p + q) / 2, lower_bound_of_guesses(right, 60, failure)
    if bound > mean:
        total = np.convolve(stats.binom.pmf(np.arange(31), 30, p), stats.binom.pmf(np.arange(31), 30, q))
        assert total[right:].sum() <= failure * (1 + 1e-9)


@pytest.mark.parametrize(("width", "scored"), [(1, True), (1, False), (4, False)])
@pytest.mark.often(when=lambda width, scored: scored == (width == 1))
def test_a_true_claim_is_refuted_as_rarely_as_is_said(width: int, scored: bool) -> None:
    """Of 300 audits 24 or fewer, which a rate of 5 % exceeds with probability below 1 %."""
    audits = (
        bound_by_sampling(draw_blocks_here(pair(MU, width), [seed]), CLAIM, trials=1024, confidence=0.95, scored=scored)
        for seed in range(300)
    )
    assert sum(CLAIM.is_refuted_by(found.needed) for found in audits) <= 24


@given(trials=st.integers(512, 10**6), quick=st.booleans(), chunk=st.integers(1, 30_000))
@settings(max_examples=50, deadline=None)
def test_plans_spend_the_failure_once_and_end_their_blocks_at_looks(trials: int, quick: bool, chunk: int) -> None:
    plan = SamplingPlan.of(trials, quick=quick, chunk=chunk)
    assert sum(plan.looks.values()) == pytest.approx(1) == sum(LOOK_SCHEDULE.values())
    assert 2 * sum(plan.blocks) <= trials
    ends = set(np.cumsum(plan.blocks).tolist())
    assert ends >= {plan.pilot, *(plan.pilot + runs for runs in plan.looks)}
    assert max(plan.blocks) <= max(64, chunk)


def test_a_little_less_noise_is_refuted_and_ends_early() -> None:
    found = bound_by_sampling(draw_blocks_here(pair(MU / 0.8), [0]), CLAIM, trials=64_000, confidence=0.95)
    assert MU < found.needed < MU / 0.8
    assert found.trials < 64_000


def test_the_bound_comes_close_to_the_truth() -> None:
    found = bound_by_sampling(draw_blocks_here(pair(MU), [1]), CLAIM, trials=40_000, confidence=0.95, scored=True)
    assert 0.95 * MU < found.needed <= MU
    curve = found.curve
    assert curve is not None
    claimed = 1 - CLAIM.power(curve.level)
    assert np.max(np.abs(curve.missed - claimed)) < 0.02  # the measured trade-off is the Gaussian's


def test_numbers_that_always_agree_are_scored_by_their_difference() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(500, 1))
    one, two = np.hstack([noise + 0.01, noise]), np.hstack([noise, noise])
    direction = fisher_direction(one, two)
    assert np.min(one @ direction) > np.max(two @ direction)
    assert choose_test(one, two, CLAIM, 0.01).hits(one @ direction) == 500


def test_too_few_trials_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="trials"):
        bound_by_sampling(draw_blocks_here(pair(MU), [0]), CLAIM, trials=100, confidence=0.95)


@given(level=st.floats(1e-6, 0.999), epsilon=st.floats(0.01, 8.0), delta=st.sampled_from([0.0, 1e-3, 0.2]))
@settings(max_examples=100, deadline=None)
def test_claims_need_exactly_what_they_allow(level: float, epsilon: float, delta: float) -> None:
    plain = Claim(epsilon=epsilon, delta=delta)
    power = np.exp(epsilon) * level + delta
    if power <= 1:
        assert float(plain.needed(power, np.array(level))) == pytest.approx(epsilon, abs=1e-9)
    assert float(plain.power(np.array(level))) <= min(power, 1.0) + 1e-12
    gaussian = Claim(epsilon=epsilon, delta=max(delta, 1e-4), mu=gdp.mu(epsilon, max(delta, 1e-4)))
    edge = gaussian.power(np.array(level))
    if 1e-9 < edge < 1 - 1e-9:
        assert float(gaussian.needed(edge, np.array(level))) == pytest.approx(gaussian.mu, rel=1e-6)


def test_a_claim_is_gaussian_only_where_the_price_is() -> None:
    event = GaussianEvent(std=2.0, sensitivity=1.0)
    claim = make_claim(event, epsilon=gdp.epsilon(1e-5, 0.5), delta=1e-5)
    assert claim.mu == pytest.approx(0.5, rel=1e-9)
    assert make_claim(event, epsilon=0.1, delta=1e-5).mu == pytest.approx(gdp.mu(0.1, 1e-5))  # what is stated, not paid
    assert make_claim(LaplaceEvent(scale=1.0, sensitivity=1.0), epsilon=1.0, delta=0.0).mu is None


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_enumerated_laws_have_their_epsilon(epsilon: float) -> None:
    q = special.expit(epsilon)
    law = np.array([q, 1 - q]), np.array([1 - q, q])
    assert least_epsilon(*law, 0.0) == pytest.approx(epsilon)
    assert least_epsilon(*(np.outer(law[0], law[0]).ravel(), np.outer(law[1], law[1]).ravel()), 0.0) == pytest.approx(
        2 * epsilon
    )
    at = least_epsilon(*law, 0.05)
    assert hockey_stick(*law, at) == pytest.approx(0.05, abs=1e-9)
    assert least_epsilon(np.array([1.0, 0.0]), np.array([0.9, 0.1]), 0.0) == math.inf


def test_separations_of_releases_add_up_by_squares() -> None:
    assert separation([(np.array([3.0]), 1.0), (np.array([0.0, 8.0]), 2.0)]) == pytest.approx(5.0)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_without_delta_the_chance_is_a_binomial_tail(epsilon: float) -> None:
    q = math.exp(epsilon) / (1 + math.exp(epsilon))
    assert probability_of_guesses(80, guesses=100, canaries=100, epsilon=epsilon, delta=0.0) == pytest.approx(
        stats.binom.sf(79, 100, q)
    )


def test_delta_costs_what_the_theorem_says() -> None:
    q, m, r, v, delta = math.e / (1 + math.e), 60, 50, 45, 1e-3
    tails = [sum(stats.binom.pmf(k, r, q) for k in range(v - i, v)) / i for i in range(1, v + 1)]
    expected = stats.binom.sf(v - 1, r, q) + 2 * m * delta * max(tails)
    assert probability_of_guesses(v, guesses=r, canaries=m, epsilon=1.0, delta=delta) == pytest.approx(expected)


def test_the_bound_is_where_the_chance_is_the_failure() -> None:
    bound = one_run_bound(900, guesses=1000, canaries=1000, delta=0.0, confidence=0.95)
    assert probability_of_guesses(900, guesses=1000, canaries=1000, epsilon=bound, delta=0.0) == pytest.approx(
        0.05, rel=1e-2
    )
    assert one_run_bound(900, guesses=1000, canaries=1000, delta=1e-4, confidence=0.95) < bound
    assert one_run_bound(500, guesses=1000, canaries=1000, delta=0.0, confidence=0.95) == 0.0
    with pytest.raises(InvalidArgument, match="right"):
        one_run_bound(11, guesses=10, canaries=10, delta=0.0, confidence=0.95)


def test_one_run_of_local_bits_comes_close_and_no_further() -> None:
    policy = bd.policies.LDPUCB(n_arms=3, horizon=20, privacy=bd.local(epsilon=1.0, delta=0.0))
    env = worlds.FiniteArms(means=(0.8, 0.4, 0.2))
    row = one_run_target("LDP-UCB", policy, env, 20, confidence=0.95)
    assert 0.9 < row.reached <= 1.0
    assert row.trials == 1


def test_one_run_of_a_central_batch_uses_one_coordinate_for_each_user() -> None:
    dim, budget = 200, {"epsilon": 60.0, "delta": 1e-9}
    policy = bd.LinUCB(
        dim=dim, horizon=150, batch=150, width=0.2, privacy=bd.central(mechanism="independent", **budget)
    )
    row = one_run_target("LinUCB", policy, worlds.LinearContextual(dim=dim, n_arms=2), 150, confidence=0.95)
    assert 1.5 < row.lower_bound < row.claim.epsilon


class Backwards:
    """An executor whose last task ends first; it counts what it was asked for and what was done."""

    def __init__(self) -> None:
        self.asked = self.done = 0

    def call_all(self, function: Any, tasks: Any) -> Iterator[Any]:
        """Pairs in another order, so that blocks must wait for each other."""
        self.asked = len(tasks)
        keys = sorted(tasks, key=lambda number: number ^ 3)
        for key in keys:
            self.done += 1
            yield key, function(**tasks[key])


@pytest.mark.parametrize(
    ("target", "more"),
    [("gaussian", {}), ("LinUCB-CSDP", {}), ("LinUCB-JDP-batched", {"view": "snapshot"}), ("priv_unit", {"seed": 3})],
)
def test_the_order_of_blocks_does_not_matter(target: str, more: dict[str, Any]) -> None:
    at: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-3, "trials": 1200, **more}
    working = Backwards()
    alone, spread = audit(target, **at), audit(target, executor=working, **at)  # type: ignore[arg-type]
    assert working.done == working.asked > 8
    assert alone.rows == spread.rows
    assert alone.rows[0].curve is not None
    assert (alone.rows[0].curve.missed == spread.rows[0].curve.missed).all()  # type: ignore[union-attr]


def test_blocks_are_not_run_when_the_claim_is_refuted() -> None:
    quiet = bd.audit.gallery.UnderstatedGaussian(std=1.0, sensitivity=1.0, share=0.3)
    at: dict[str, Any] = {"epsilon": 4.0, "delta": 1e-3, "trials": 40_000}
    working = Backwards()
    alone, spread = audit(quiet, **at), audit(quiet, executor=working, **at)  # type: ignore[arg-type]
    assert alone.refuted
    assert alone.rows == spread.rows
    assert working.done < working.asked / 2


def test_processes_know_a_policy_by_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spread_policy.py").write_text(copied("Spread"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    at: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-3, "trust": "shuffle", "trials": 600}
    assert audit("spread_policy:Greedy", jobs=1, **at).rows == audit("spread_policy:Greedy", **at).rows


def test_targets_that_cannot_be_sent_are_refused_by_name() -> None:

    class Mine(bd.LinUCB):  # type: ignore[misc]
        """Nobody can import this."""

    env = worlds.LinearContextual(dim=2, n_arms=3)
    policy = Mine(dim=2, horizon=10, width=0.2, privacy=bd.local(epsilon=1.0, delta=1e-3))
    with pytest.raises(InvalidArgument, match="of a class that can be imported"):
        audit(policy, env=env, executor=Backwards(), trials=600)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="left out for the view"):
        audit("LinUCB-LDP", view="one-run", jobs=2)
