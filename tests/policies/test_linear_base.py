"""Schedules of linear policies, and the base for policies of one's own."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.errors import InvalidArgument
from bandanna.numeric.rng import GeneratorRandomness, NoRandomness
from bandanna.policies.base import drive_learning
from bandanna.policies.linear.base import find_best_batch_size, geometric
from bandanna.policies.linear.linucb import LinUCB
from bandanna.protocols.privacy_model import Privacy, central, concurrent, local, none, shuffle

from .conformance.own_policy import Ridge


@pytest.mark.parametrize("minimum", [1, 2, 17, 400, 1000])
def test_the_minimum_of_a_valley_is_found(minimum: int) -> None:
    asked: Counter[int] = Counter()

    def bound(size: int) -> float:
        asked[size] += 1
        return abs(size - minimum)

    assert minimum / 1.25 - 1 <= find_best_batch_size(bound, least=1, most=1000) <= minimum * 1.25 + 1
    assert max(asked.values()) == 1


@pytest.mark.parametrize("horizon", [20_000, 200_000])
def test_leaps_of_a_tree_do_not_hide_the_best_batch(horizon: int) -> None:
    policy = LinUCB(dim=5, horizon=horizon, privacy=central(epsilon=1.0, delta=1e-5, mechanism="tree"), batch="best")
    policy = replace(policy, confidence="lemma")
    others = (round(20 * 1.5**i) for i in range(14))
    bounds = [replace(policy, batch=size).regret_bound for size in others]
    assert policy.regret_bound <= 1.01 * min(bounds)


@pytest.mark.parametrize("dim", [2, 5])
@pytest.mark.parametrize(
    "privacy",
    [
        none(),
        central(epsilon=1.0, delta=1e-5, mechanism="tree"),  # factorisations by BLT are slow
        local(epsilon=1.0, delta=1e-5),
        shuffle(epsilon=1.0, delta=1e-5),
        shuffle(epsilon=0.2, delta=1e-5),
        concurrent(epsilon=1.0, delta=1e-5, shufflers=2),
    ],
    ids=["none", "central", "local", "shuffle", "shuffle-0.2", "concurrent"],
)
def test_the_bound_of_the_best_batch_is_never_above_that_of_the_paper(dim: int, privacy: Privacy) -> None:
    for horizon, confidence in ((2_000, "exact"), (2_000, "lemma"), (2_000, "paper"), (20_000, "exact")):
        given = {"dim": dim, "horizon": horizon, "privacy": privacy, "confidence": confidence}
        best, paper = (LinUCB(batch=batch, **given) for batch in ("best", "paper"))
        assert best.regret_bound <= paper.regret_bound


def test_the_best_batch_minimises_the_stated_bound_where_it_says_something() -> None:
    policy = LinUCB(dim=2, horizon=10**9, privacy=shuffle(epsilon=1.0, delta=1e-5), batch="best")
    assert policy.regret_bound < 0.5 * policy.horizon
    size = policy._channel.sizes[0]
    others = [replace(policy, batch=round(size * factor)).regret_bound for factor in (0.1, 0.3, 0.6, 1.7, 4.0, 20.0)]
    assert policy.regret_bound <= min(others)


def test_a_schedule_that_takes_no_end_is_refused() -> None:
    with pytest.raises(
        InvalidArgument, match=r"first, ratio must be such that at most 100,000 batches .*got \(1, 1.0\)"
    ):
        geometric(first=1, ratio=1.0).sizes(10**12)
    with pytest.raises(InvalidArgument, match=r"batch must be .*10,000,000"):
        _ = LinUCB(dim=2, horizon=10**9, privacy=local(epsilon=1.0, delta=1e-5))._channel
    with pytest.raises(InvalidArgument, match=r"batch must be so large that there are at most"):
        _ = LinUCB(dim=2, horizon=10**20, privacy=none())._channel
    assert (
        len(LinUCB(dim=2, horizon=10**12, privacy=none())._channel.sizes) == 10**12
    )  # nothing is planned where there is no noise


DP = {"epsilon": 1.0, "delta": 1e-5}
MODELS = {
    "none": bd.none(),
    "central": bd.central(**DP),
    "local": bd.local(**DP),
    "shuffle": bd.shuffle(**DP),
    "concurrent": bd.concurrent(**DP),
}
WORLD = bd.environments.LinearContextual(dim=3, n_arms=6)


def ridge(**given: Any) -> Any:
    return Ridge(**{"dim": 2, "horizon": 100, "batch": 25, "privacy": bd.none(), **given})


def learned(policy: Any, *released: bd.device.Estimate) -> Any:
    sums = policy.init()
    for each in released:
        steps = policy.learn(sums, policy.episode(sums))
        sums = drive_learning(steps, lambda query, answer=each: answer)
    return sums


@pytest.mark.parametrize("privacy", MODELS.values(), ids=MODELS)
def test_every_privacy_model_is_supported(privacy: bd.Privacy) -> None:
    result = bd.simulate(Ridge(dim=3, horizon=200, privacy=privacy), WORLD, n_seeds=1)
    assert result.regret.shape[0] == 1
    assert not privacy.noisy or result.guarantee.epsilon <= 1.0 + 1e-9


def test_sums_of_batches_are_added() -> None:
    rng = np.random.default_rng(0)
    rows, rewards, policy = rng.normal(size=(50, 2)) / 4, rng.random(50), ridge()
    parts = [
        bd.device.Estimate(total=policy._form_statistic(rows[part], rewards[part]).total(), count=25, variance=0.0)
        for part in (slice(0, 25), slice(25, 50))
    ]
    sums = learned(policy, *parts)
    assert (sums.users, sums.batches, sums.noise_std) == (50, 2, 0.0)
    np.testing.assert_allclose(sums.vector, rows.T @ rewards)
    np.testing.assert_allclose(sums.gram, rows.T @ rows)
    np.testing.assert_allclose(sums.ridge(0.5), np.linalg.solve(rows.T @ rows + 0.5 * np.eye(2), rows.T @ rewards))


def test_sums_of_a_stream_replace_each_other() -> None:
    policy = ridge(privacy=bd.central(**DP))
    assert policy._channel.stream is not None
    first, second = (bd.device.Estimate(total=np.full(5, value), count=25, variance=1.0) for value in (1.0, 3.0))
    np.testing.assert_array_equal(learned(policy, first, second).vector, [3.0, 3.0])


def test_the_noise_of_the_sums_is_stated() -> None:
    policy = ridge(privacy=bd.shuffle(**DP))
    releases = [bd.device.Estimate(total=np.zeros(5), count=25, variance=1.0)] * 3
    assert learned(policy, *releases).noise_std == policy._channel.prefix_std()[2]
    assert learned(policy).noise_std == 0.0


def test_an_indefinite_matrix_is_repaired() -> None:
    sums = bd.policies.LinearSums(vector=np.array([1.0, 0.0]), gram=np.diag([-50.0, 3.0]))
    assert np.linalg.norm(sums.ridge(2.0)) <= 0.5 + 1e-12


def test_argmax_breaks_ties_by_coins() -> None:
    sure = bd.policies.argmax(np.array([[0.0, 2.0, 1.0]]), NoRandomness())
    assert (sure.actions.tolist(), sure.probabilities.tolist()) == ([1], [1.0])
    rng = np.random.default_rng(0)
    tied = bd.policies.argmax(np.tile([1.0, 1.0, 0.0], (400, 1)), GeneratorRandomness(lambda _: rng))
    assert set(tied.probabilities.tolist()) == {0.5}
    assert 140 < np.count_nonzero(tied.actions == 0) < 260  # five standard errors are 50


def test_a_subclass_has_arguments_of_its_own() -> None:

    @dataclass(frozen=True, kw_only=True)
    class Weighted(bd.policies.LinearPolicy):
        weight: float = 2.0

        def publish(self, state: Any) -> Any:
            return self.weight * state.ridge(1.0)

        def act(self, snapshot: Any, contexts: Any, coins: Any) -> Any:
            return bd.policies.argmax(contexts @ snapshot, coins)

    policy = Weighted(dim=3, horizon=100, privacy=bd.none(), weight=3.0)
    assert bd.simulate(policy, WORLD, n_seeds=1).regret.shape[0] == 1
    with pytest.raises(InvalidArgument, match="weight"):
        Weighted(dim=3, horizon=100, privacy=bd.none(), wieght=3.0)  # type: ignore[call-arg]


@pytest.mark.parametrize("wrong", [{"dim": 0}, {"horizon": 0}, {"batch": 101}, {"batch": "paper"}, {"privacy": None}])
def test_wrong_arguments_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(wrong))):
        ridge(**wrong)


def test_a_policy_has_few_public_names() -> None:
    methods = [name for name in vars(bd.Policy) if not name.startswith("_") and name not in ("trusts", "execution")]
    assert len(methods) <= 11
    for kind in (bd.LinTS, bd.LinUCB):
        assert len([name for name in dir(kind) if not name.startswith("_")]) <= 26
