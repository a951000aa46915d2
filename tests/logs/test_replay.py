"""Replay: what is accepted has the law of a run, and one replaced person changes one batch at most."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.data.replay import SlotRandomness, _ReplayRun
from bandanna.device.domain import Estimate, Statistic
from bandanna.errors import InvalidArgument
from bandanna.numeric.rng import DeviceRandomness
from bandanna.policies.base import PlayedRounds, SumQuery
from bandanna.policies.linear.base import LinearState

EVENTS, BATCH = 12, 3
HEARD: list[Any] = []  # the reports of every batch, in order


def script(batch: int, dim: int) -> Any:
    return np.random.default_rng(batch).uniform(-1, 1, dim)


@dataclass(frozen=True, kw_only=True)
class DeafLinTS(bd.LinTS):
    """Learns what a script says: so that batches can be compared for the same answers."""

    def report(self, query: SumQuery, played: PlayedRounds, coins: DeviceRandomness) -> Statistic:
        statistic = super().report(query, played, coins)
        HEARD.append(statistic.values.copy())
        return statistic

    def _update(self, state: LinearState, released: Estimate) -> LinearState:
        return super()._update(state, replace(released, total=script(state.batches, len(released.total))))


@dataclass(frozen=True, kw_only=True)
class DeafLinUCB(bd.LinUCB):
    def report(self, query: SumQuery, played: PlayedRounds, coins: DeviceRandomness) -> Statistic:
        statistic = super().report(query, played, coins)
        HEARD.append(statistic.values.copy())
        return statistic

    def _update(self, state: Any, released: Estimate) -> Any:
        return super()._update(state, replace(released, total=script(state.batches, len(released.total))))


def lints() -> bd.Policy[Any]:
    return DeafLinTS(n_arms=2, features=1, horizon=EVENTS, batch=BATCH, privacy=bd.central(epsilon=1.0, delta=1e-5))


def linucb() -> bd.Policy[Any]:
    return DeafLinUCB(dim=1, horizon=EVENTS, batch=BATCH, privacy=bd.shuffle(epsilon=1.0, delta=1e-5))


def small(of_arms: bool) -> bd.Log:
    rng = np.random.default_rng(2)
    shape = (EVENTS, 2, 1) if of_arms else (EVENTS, 1)
    return bd.Log(
        contexts=rng.choice([-0.5, 0.5], size=shape), arms=rng.integers(0, 2, EVENTS), names=("a", "b"), floor=0.5,
        rewards=rng.integers(0, 2, EVENTS).astype(float), propensities=np.full(EVENTS, 0.5),
    )  # fmt: skip


def replaced(log: bd.Log, person: int, feature: float, arm: int, reward: float, chance: float) -> bd.Log:
    parts = {name: np.array(getattr(log, name)) for name in ("contexts", "arms", "rewards", "propensities")}
    parts["contexts"][person], parts["arms"][person], parts["rewards"][person] = feature, arm, reward
    parts["propensities"][person] = chance
    return bd.Log(**parts, names=log.names, floor=log.floor)


def heard(policy: bd.Policy[Any], log: bd.Log, **options: Any) -> list[Any]:
    HEARD.clear()
    bd.replay(policy, log, **options)
    return list(HEARD)


def changes(make: Callable[[], bd.Policy[Any]], method: str, *, half: bool = False) -> Iterator[tuple[int, int]]:
    """For the same answers: how many batches, and how many reports, any replacement of any person changes.

    Of `half` of the replacements: every three of the four data in all combinations, and the fourth by their parity.
    """
    policy, log = make(), small(of_arms=make is linucb)
    before = heard(policy, log, method=method)
    for person, *data in itertools.product(range(EVENTS), (-0.5, 0.3), (0, 1), (0.0, 1.0), (0.5, 1.0)):
        if half and (data[0] > 0) ^ (data[1] > 0) ^ (data[2] > 0) ^ (data[3] > 0.5):
            continue
        after = heard(policy, replaced(log, person, *data), method=method)
        rows = [int(np.any(one != two, axis=-1).sum()) for one, two in zip(before, after, strict=False)]
        rows += [BATCH] * abs(len(before) - len(after))  # batches that only one of the two has
        yield sum(count > 0 for count in rows), sum(rows)


@pytest.mark.parametrize(
    ("make", "method", "half"),
    [
        (lints, "rejection", True),
        (linucb, "weighted", True),
        *(
            pytest.param(make, method, False, marks=pytest.mark.full)
            for make in (lints, linucb)
            for method in ("rejection", "weighted")
        ),
    ],
)
def test_one_replaced_person_changes_one_batch_at_most(
    make: Callable[[], bd.Policy[Any]], method: str, half: bool
) -> None:
    found = list(changes(make, method, half=half))
    assert len(found) == EVENTS * (8 if half else 16)
    assert max(found) == (1, 1)  # one report in one batch, and nobody else's


def lints_of_arms() -> bd.Policy[Any]:
    return DeafLinTS(dim=1, horizon=EVENTS, batch=BATCH, privacy=bd.central(epsilon=1.0, delta=1e-5))


@pytest.mark.parametrize("make", [lints_of_arms, linucb])
@pytest.mark.parametrize("method", ["rejection", "weighted"])
def test_other_eligible_arms_of_one_user_change_no_other_user(make: Callable[[], bd.Policy[Any]], method: str) -> None:
    policy, log = make(), small(of_arms=True)
    rng = np.random.default_rng(8)
    mask = np.where(rng.random((EVENTS, 1)) < 0.5, True, np.arange(2) == log.arms[:, None])  # both arms, or their own
    parts = {name: getattr(log, name) for name in ("contexts", "arms", "rewards", "propensities", "names", "floor")}
    before = heard(policy, bd.Log(**parts, eligible=mask), method=method)
    for person in range(EVENTS):
        other = mask.copy()
        other[person] = (np.arange(2) == log.arms[person]) | ~mask[person]
        after = heard(policy, bd.Log(**parts, eligible=other), method=method)
        rows = [int(np.any(one != two, axis=-1).sum()) for one, two in zip(before, after, strict=True)]
        assert sum(rows) <= 1


@pytest.mark.parametrize("make", [lints, linucb])
def test_batches_of_accepted_events_would_be_seen(
    make: Callable[[], bd.Policy[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_ReplayRun, "_slots", _ReplayRun._play_accepted)
    assert any(batches > 1 for batches, _ in changes(make, "rejection"))


def test_coins_of_a_slot_do_not_depend_on_others() -> None:
    everybody = SlotRandomness(3, 5).among(np.ones(6, dtype=bool), "ties")
    some = SlotRandomness(3, 5).among(np.array([True, False, True, False, False, True]), "ties")
    np.testing.assert_array_equal(some, everybody * [1, 0, 1, 0, 0, 1])
    assert not np.array_equal(SlotRandomness(3, 6).uniform((6,), "ties"), SlotRandomness(3, 5).uniform((6,), "ties"))


def skewed(n: int) -> bd.Log:
    """Three arms, given with probabilities 0.6, 0.3 and 0.1."""
    rng = np.random.default_rng(4)
    arms = rng.choice(3, size=n, p=[0.6, 0.3, 0.1])
    rewards = (rng.random(n) < np.array([0.2, 0.5, 0.9])[arms]).astype(float)
    return bd.Log(
        contexts=rng.uniform(-0.5, 0.5, (n, 1)), arms=arms, rewards=rewards,
        propensities=np.array([0.6, 0.3, 0.1])[arms], names=(0, 1, 2), floor=0.1,
    )  # fmt: skip


def test_accepted_events_have_the_distribution_of_a_run() -> None:
    """Arms that were given often count more than others, or weights are others than pi/p (false alarm 6e-7).

    Unweighted, the mean would be 0.36 instead of 0.53; five standard errors of ten runs are 0.07.
    """
    log = skewed(1500)
    policy = bd.LinTS(
        n_arms=3, features=1, horizon=1500, batch=1500, privacy=bd.none()
    )  # learns after the last event: uniform until then
    weights = (1 / 3) / log.propensities
    expected = float(weights @ log.rewards / weights.sum())
    run = bd.replay(policy, log, n_seeds=10)
    assert abs(run.mean_reward - expected) <= 5 * run.stderr
    assert abs(np.mean(run.weight) - 0.1 * 1500) <= 5 * np.sqrt(0.1 * 1500 / 10)
    weighted = bd.replay(policy, log, n_seeds=2, method="weighted")
    np.testing.assert_allclose(weighted.means, expected, rtol=1e-9)
    assert expected == pytest.approx(1.6 / 3, abs=0.05)


def clinic(n: int, seed: int = 0) -> bd.Log:
    rng = np.random.default_rng(seed)
    x, arms = rng.choice([-1.0, 1.0], size=(n, 1)), rng.integers(0, 2, n)
    right = arms == (x[:, 0] > 0)
    return bd.Log(
        contexts=x, arms=arms, rewards=(rng.random(n) < np.where(right, 0.9, 0.1)).astype(float),
        propensities=np.full(n, 0.5), names=("a", "b"), floor=0.5,
    )  # fmt: skip


@pytest.mark.parametrize("method", ["rejection", "weighted"])
@pytest.mark.parametrize("trust", ["none", "central", "shuffle"])
def test_policies_learn_from_a_log(method: str, trust: str) -> None:
    budget = {} if trust == "none" else {"epsilon": 2.0, "delta": 1e-5}
    policy = bd.LinTS(n_arms=2, features=1, horizon=2000, privacy=getattr(bd, trust)(**budget))
    run = bd.replay(policy, clinic(2000), n_seeds=2, method=method)
    assert run.mean_reward > 0.7
    assert run.releases >= 3
    assert run.guarantee == policy.guarantee


def test_seeds_are_runs_of_their_own() -> None:
    policy = bd.LinTS(n_arms=2, features=1, horizon=300, privacy=bd.central(epsilon=1.0, delta=1e-5))
    log = clinic(300)
    together = bd.replay(policy, log, n_seeds=3, seed=4)
    alone = [bd.replay(policy, log, seed=seed) for seed in (4, 5, 6)]
    np.testing.assert_array_equal(together.means, [float(run.means[0]) for run in alone])
    assert len(set(together.means.tolist())) > 1
    told = together.to_dict()
    assert (told["n_seeds"], told["events"], told["mean_reward"]) == (3, 300, together.mean_reward)
    assert alone[0].to_dict()["stderr"] is None
    assert "computed from raw rows, and promise nothing" in str(together)


@pytest.mark.parametrize("name", ["UCB1", "AdaC-UCB", "Thompson"])
def test_policies_on_arms_without_features(name: str) -> None:
    known = {"rho": 1.0} if name == "AdaC-UCB" else {}
    rng = np.random.default_rng(0)
    arms = rng.integers(0, 2, 400)
    log = bd.Log.from_frame(
        {"arm": arms, "reward": (rng.random(400) < np.array([0.1, 0.9])[arms]).astype(float)},
        arm="arm", reward="reward", propensity=0.5,
    )  # fmt: skip
    run = bd.replay(bd.make(name, n_arms=2, horizon=400, **known), log, n_seeds=2)
    assert run.mean_reward > 0.6
    assert np.all(np.abs(run.weight - 200) < 6 * np.sqrt(100))


def test_episodes_may_end_by_public_numbers() -> None:
    rng = np.random.default_rng(0)
    n = 300
    contexts = rng.normal(size=(n, 3, 2))
    contexts /= np.linalg.norm(contexts, axis=-1, keepdims=True)
    arms = rng.integers(0, 3, n)
    means = 0.5 + contexts[np.arange(n), arms, 0] / 2
    log = bd.Log(contexts=contexts, arms=arms, rewards=(rng.random(n) < means).astype(float),
                 propensities=np.full(n, 1 / 3), names=(0, 1, 2), floor=1 / 3)  # fmt: skip
    run = bd.replay(bd.make("AdaC-OFUL", dim=2, horizon=n, rho=1.0, reward_range=(0.0, 1.0)), log, n_seeds=2)
    assert run.releases > 1
    assert 0.3 < run.mean_reward < 1


def test_only_eligible_arms_are_chosen() -> None:
    rng = np.random.default_rng(0)
    n = 200
    mask = rng.random((n, 3)) < 0.6
    arms = rng.integers(0, 3, n)
    mask[np.arange(n), arms] = True
    log = bd.Log(contexts=rng.uniform(-0.5, 0.5, (n, 3, 2)), arms=arms, rewards=rng.random(n), eligible=mask,
                 propensities=1 / mask.sum(axis=1), names=("a", "b", "c"), floor=1 / 3)  # fmt: skip
    policy = bd.LinTS(dim=2, horizon=n, batch=n, privacy=bd.none())
    run = bd.replay(policy, log, n_seeds=3)
    assert np.all(run.weight > 20)
    value = bd.ope.snips(log, (policy, policy.publish(policy.init())))
    assert value.details["largest_weight"] <= 3.0
    with pytest.raises(InvalidArgument, match="all arms are eligible"):
        bd.replay(bd.LinTS(n_arms=3, features=2, horizon=n, privacy=bd.none()), log)


@pytest.mark.parametrize(
    ("policy", "options", "words"),
    [
        (lambda: bd.LinTS(n_arms=3, features=1, horizon=100, privacy=bd.none()), {}, "2 arms"),
        (lambda: bd.LinTS(n_arms=2, features=2, horizon=100, privacy=bd.none()), {}, "1 features"),
        (lambda: bd.LinTS(dim=1, horizon=100, privacy=bd.none()), {}, "features of users"),
        (
            lambda: bd.LinTS(n_arms=2, features=1, horizon=101, privacy=bd.none()),
            {},
            "at most 100, the number of events",
        ),
        (
            lambda: bd.LinTS(n_arms=2, features=1, horizon=50, privacy=bd.none()),
            {"horizon": 60},
            "at most the policy's horizon, 50",
        ),
        (
            lambda: bd.LinTS(n_arms=2, features=1, horizon=50, privacy=bd.none()),
            {"method": "rejecton"},
            "Did you mean 'rejection'",
        ),
        (lambda: bd.LinTS(n_arms=2, features=1, horizon=50, privacy=bd.none()), {"paht": "law"}, "Did you mean 'path'"),
        (lambda: bd.make("UCB1", n_arms=2, horizon=100), {"method": "weighted"}, "for method='weighted'"),
        (lambda: 3, {}, "a Policy"),
    ],
)
def test_policies_that_do_not_fit_are_refused(policy: Callable[[], Any], options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        bd.replay(policy(), clinic(100), **options)
    assert words in str(caught.value)


def test_a_floor_that_is_not_public_is_not_used_for_people() -> None:
    log = replace(skewed(200), floor=None)
    policy = bd.LinTS(n_arms=3, features=1, horizon=200, privacy=bd.none())
    bd.replay(policy, log)
    with pytest.raises(InvalidArgument, match=r"log\.floor"):
        bd.replay(replace(policy, privacy=bd.central(epsilon=1.0, delta=1e-5)), log)
    with pytest.raises(InvalidArgument, match=r"a bd\.Log"):
        bd.replay(policy, {"arm": [1]})  # type: ignore[arg-type]


def test_counted_events_protect_rewards_alone() -> None:
    log = small(of_arms=False)
    finite = bd.make("LDP-UCB", n_arms=2, horizon=EVENTS, epsilon=1.0)
    counted, slots = bd.replay(finite, log).guarantee, bd.replay(lints(), log).guarantee
    assert (counted.adjacency, slots.adjacency) == (
        "replacement of one user's reward",
        "replacement of one user's data",
    )
    assert "every logged arm and its probability" in str(counted)
    assert slots == lints().guarantee
