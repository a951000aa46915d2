"""Schedules of batches: the search for the best size."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from bandanna.errors import InvalidArgument
from bandanna.policies.linear.base import find_best_batch_size, geometric
from bandanna.policies.linear.linucb import LinUCB
from bandanna.protocols.privacy_model import Privacy, central, concurrent, local, none, shuffle


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
