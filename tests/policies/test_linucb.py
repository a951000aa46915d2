"""LinUCB: estimates, batches, ties and exploration."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

import bandanna as bd
from bandanna.device.action_selection import Choice, explore_choice, pick_tied_arms
from bandanna.device.noise import FastNoise
from bandanna.errors import InvalidArgument
from bandanna.numeric.linalg import find_best_arms
from bandanna.numeric.rng import (
    DeviceRandomness,
    GeneratorRandomness,
    NoRandomness,
    NumberedRandomness,
    SecureRandomness,
    StreamRandomness,
    Streams,
)
from bandanna.policies.base import PlayedRounds
from bandanna.policies.linear.base import FixedBatches, compute_concurrent_batch_size, geometric
from bandanna.policies.linear.linucb import LinUCB, OptimisticSnapshot, score_contexts
from bandanna.policies.registry import make
from bandanna.privacy import accountant
from bandanna.privacy.events import RepetitionEvent
from bandanna.privacy.factorisation import BLT
from bandanna.protocols.privacy_model import Privacy, central, concurrent, local, none, shuffle
from bandanna.protocols.running_sum import lowest_batch_size
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.linear import LinearContextual
from bandanna.simulation.players.fixed_batches import _users_at_once
from bandanna.simulation.players.reference import QueryAnswerer

from ..drawn import examples
from .conformance.driving import one_law
from .conformance.test_simulation import plainly


def test_index_is_mean_plus_width_times_norm() -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=(2, 3, 3))
    v = a @ np.swapaxes(a, 1, 2) + np.eye(3)
    theta, contexts = rng.normal(size=(2, 3)), rng.normal(size=(2, 5, 4, 3))
    snapshot = OptimisticSnapshot(theta=theta, inverse=np.linalg.inv(v), radius=0.7)
    got = score_contexts(snapshot, contexts)
    norms = np.sqrt(np.einsum("snkd,sde,snke->snk", contexts, np.linalg.inv(v), contexts))
    np.testing.assert_allclose(got, np.einsum("snkd,sd->snk", contexts, theta) + 0.7 * norms, rtol=1e-10)
    policy = LinUCB(dim=3, horizon=5, privacy=none())
    tabulated, tied = policy._favoured_arms(snapshot, policy._tabulate_arms(contexts[:, 0]))
    assert tied is None
    np.testing.assert_array_equal(tabulated, policy.act(snapshot, contexts, NoRandomness()).actions[:, 0])


def test_without_noise_theta_is_the_ridge_estimate_of_all_users() -> None:
    policy = LinUCB(dim=3, horizon=40, batch=20, ridge=2.0, confidence="lemma", privacy=none())
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(1, 20, 3)) / 4, rng.random((1, 20))
    state = policy.init(replicates=(1,))
    rows = PlayedRounds(features=x, rewards=y)
    snapshot = policy.publish(
        QueryAnswerer(policy, _no_noise(), NoRandomness(), "law").learn(state, policy.episode(state), rows)
    )
    gram = x[0].T @ x[0] + 2.0 * np.eye(3)
    np.testing.assert_allclose(snapshot.theta[0], np.linalg.solve(gram, x[0].T @ y[0]), rtol=1e-10)
    np.testing.assert_allclose(snapshot.inverse[0], np.linalg.inv(gram), rtol=1e-10)


def _no_noise() -> FastNoise:
    return FastNoise(np.random.default_rng(0))


def test_ties_go_to_the_first_arm() -> None:
    snapshot = OptimisticSnapshot(theta=np.zeros((1, 2)), inverse=np.eye(2)[None], radius=1.0)
    arms = np.ones((1, 1, 5, 2))
    choice = LinUCB(dim=2, horizon=5, ties="first", privacy=none()).act(snapshot, arms, SecureRandomness())
    assert (choice.actions[0, 0], choice.probabilities[0, 0]) == (0, 1.0)


def test_batches_fit_into_the_horizon_and_growing_ones_grow() -> None:
    assert tuple(FixedBatches(size=30).sizes(100)) == (30, 30, 30)
    sizes = tuple(geometric(first=10, ratio=2.0).sizes(100))
    assert sum(sizes) <= 100
    assert sizes[:3] == (10, 20, 70)
    assert LinUCB(dim=2, horizon=1000, privacy=shuffle(epsilon=1.0, delta=1e-5))._schedule == FixedBatches(size=63)


def test_guarantees_meet_their_budgets() -> None:
    for privacy in (
        central(epsilon=1.0, delta=1e-5),
        local(epsilon=1.0, delta=1e-5, participations=3),
        shuffle(epsilon=1.0, delta=1e-5),
    ):
        stated = LinUCB(dim=3, horizon=300, privacy=privacy).guarantee
        assert stated.trust == privacy.model
        assert 0.97 < stated.epsilon <= 1.0
        assert stated.participations == privacy.participations


@pytest.mark.parametrize(
    "changes",
    [
        {"batch": "often"},
        {"batch": 101},
        {"privacy": 1.0},
        {"privacy": "shuffle"},
        {"failure": 0.0},
        {"width": -1.0},
        {"ridge": 0.0},
        {"dim": 0},
        {"horizon": 0},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_bad_configuration_is_refused_by_the_name_of_its_argument(changes: dict) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(changes))):
        LinUCB(**{"dim": 3, "horizon": 100, "privacy": none(), **changes})


def test_clipped_features_and_rewards_are_counted() -> None:
    policy = LinUCB(dim=2, horizon=10, privacy=none())
    features = np.array([[[3.0, 0.0], [0.1, 0.0], [0.1, 0.0]]])
    report = policy._form_statistic(features, np.array([[0.5, -0.2, 1.7]]))
    np.testing.assert_array_equal(report.clipped, [3])
    vector, _ = policy._domain.unpack(report.total())
    np.testing.assert_allclose(vector[0], [0.6, 0.0])  # 1 * 0.5 + 0.1 * 0 + 0.1 * 1


def test_concurrent_shufflers_learn_at_every_lowest_batch() -> None:
    policy = make("LinUCB-CSDP", dim=2, horizon=500, epsilon=1.0, delta=1e-5, shufflers=2)
    tree = policy._channel.stream.tree
    assert tuple(policy._channel.sizes) == (tree.sizes[0],) * (500 // tree.sizes[0])
    assert len(tree.degrees) == 2
    assert policy.guarantee.epsilon <= 1.0
    other = LinUCB(dim=2, horizon=500, privacy=concurrent(epsilon=1.0, delta=1e-5, shufflers=2), batch=20)
    assert other._channel.sizes[0] == 20


class Counted(NoRandomness):
    """Coins that remember for how many rows they were flipped."""

    def __init__(self) -> None:
        self.flips = 0

    def below(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        self.flips += int(np.count_nonzero(counts > 1))
        return counts - 1


def test_arms_are_tied_to_seven_digits() -> None:
    index = np.array([[1.0, 1 + 1e-9, 0.5, 1 - 1e-9], [1.0, 1 + 1e-6, 0.5, 0.0], [1e300, 1e300, -np.inf, 1.0]])
    first, tied = find_best_arms(index)
    np.testing.assert_array_equal(first, [0, 1, 0])
    np.testing.assert_array_equal(tied, [[1, 1, 0, 1], [0, 1, 0, 0], [1, 1, 0, 0]])
    assert find_best_arms(index[1:2])[1] is None


@examples(25, full=100)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 5))
def test_one_of_the_tied_arms_is_picked(seed: int, rows: int, arms: int) -> None:
    index = np.random.default_rng(seed).integers(0, 3, size=(rows, arms)).astype(float)
    best = index == np.max(index, axis=1, keepdims=True)
    coins, counts = Counted(), np.sum(best, axis=1)
    for flipped in (coins, NoRandomness(), SecureRandomness(), NumberedRandomness(seed, 3)):
        choice = pick_tied_arms(*find_best_arms(index), flipped)
        assert np.all(best[np.arange(rows), choice.actions])
        np.testing.assert_allclose(choice.probabilities, 1 / counts)
    assert coins.flips == np.count_nonzero(counts > 1)
    last = arms - 1 - np.argmax(best[:, ::-1], axis=1)
    np.testing.assert_array_equal(pick_tied_arms(*find_best_arms(index), coins).actions, last)


@pytest.mark.parametrize(
    "coins",
    [SecureRandomness(), NumberedRandomness(3, 0), StreamRandomness(Streams([0]))],
    ids=lambda coins: type(coins).__name__,
)
@pytest.mark.parametrize("count", [2, 3, 7])
def test_coins_are_fair(coins: DeviceRandomness, count: int) -> None:
    """False alarms: below 1e-9 for secure coins, none for the others."""
    drawn = coins.below(np.full((1, 4000) if isinstance(coins, StreamRandomness) else 4000, count))
    assert stats.chisquare(np.bincount(drawn.ravel(), minlength=count)).pvalue > 1e-10


def test_a_seed_flips_its_own_coins_in_order() -> None:
    counts = np.array([[2, 1, 3, 3, 1, 2], [1, 1, 1, 1, 1, 1], [4, 4, 4, 4, 4, 1]])
    together = StreamRandomness(Streams([5, 6, 7])).below(counts)
    for place, seed in enumerate((5, 6, 7)):
        coins = StreamRandomness(Streams([seed]))
        parts = [coins.below(counts[place : place + 1, part]) for part in (slice(0, 3), slice(3, 4), slice(4, 6))]
        np.testing.assert_array_equal(np.concatenate(parts, axis=1)[0], together[place])
    few = StreamRandomness(Streams([5])).below(counts[:1, counts[0] > 1])[0]
    np.testing.assert_array_equal(few, together[0, counts[0] > 1])
    assert np.all(together < counts)


def test_numbered_coins_belong_to_decisions() -> None:
    counts = np.array([2, 5, 1, 3, 3, 9, 2])
    together = NumberedRandomness(4, 100).below(counts)
    alone = [NumberedRandomness(4, 100 + i).below(counts[i : i + 1])[0] for i in range(len(counts))]
    np.testing.assert_array_equal(together, alone)


def test_an_unknown_rule_for_ties_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="ties"):
        LinUCB(dim=2, horizon=5, ties="last", privacy=none())


def test_the_first_arm_is_not_preferred() -> None:
    snapshot = OptimisticSnapshot(theta=np.zeros((1, 3)), inverse=np.eye(3)[None], radius=1.0)
    contexts = np.broadcast_to(np.eye(3), (1, 300, 3, 3))
    choice = LinUCB(dim=3, horizon=5, privacy=none()).act(snapshot, contexts, StreamRandomness(Streams([0])))
    assert np.min(np.bincount(choice.actions[0])) > 60
    np.testing.assert_array_equal(choice.probabilities, 1 / 3)


BUDGET: dict[str, Any] = {"epsilon": 5.0, "delta": 1e-3}
WORLDS = [bd.environments.LinearContextual(dim=3, n_arms=4, fixed=fixed) for fixed in (True, False)]
RULES: list[dict[str, Any]] = [
    {"explore": bd.policies.uniform(first=90, then=0.2)},
    {"reward_centre": 0.5},
    {"explore": bd.policies.uniform(then=1.0), "reward_centre": 1.0},
]


def coins(seed: int = 0) -> GeneratorRandomness:
    rng = np.random.default_rng(seed)
    return GeneratorRandomness(lambda _: rng)


def test_probabilities_are_those_of_the_mixture() -> None:
    snapshot = OptimisticSnapshot(theta=np.array([1.0, 0.0]), inverse=np.zeros((2, 2)), radius=0.0, explore=0.3)
    arms = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [-1.0, 0.0]])  # the first and the third are tied
    users = 100_000
    choice = LinUCB(dim=2, horizon=5, privacy=bd.none()).act(snapshot, np.broadcast_to(arms, (users, 4, 2)), coins())
    for arm, chance in enumerate((0.425, 0.075, 0.425, 0.075)):
        took = choice.actions == arm
        assert abs(np.mean(took) - chance) < 5 * np.sqrt(chance / users)
        np.testing.assert_allclose(choice.probabilities[took], chance)


def test_a_certain_choice_is_mixed_without_help() -> None:
    choice = Choice(actions=np.zeros(1000, dtype=np.int64), probabilities=np.ones(1000))
    mixed = explore_choice(choice, 0.5, 4, coins())
    np.testing.assert_allclose(mixed.probabilities, np.where(mixed.actions == 0, 0.625, 0.125))
    assert set(mixed.actions) == {0, 1, 2, 3}
    assert explore_choice(choice, 0.0, 4, NoRandomness()) is choice
    np.testing.assert_array_equal(explore_choice(choice, 1.0, 4, SecureRandomness()).probabilities, 0.25)


def test_the_share_of_exploring_users_follows_the_public_rule() -> None:
    policy = LinUCB(dim=2, horizon=100, batch=20, explore=bd.policies.uniform(first=30, then=0.1), privacy=bd.none())
    shares = [policy._estimate(np.zeros(policy._domain.dim), batches)[0].explore for batches in range(5)]
    assert shares == [1.0, 1.0, 0.1, 0.1, 0.1]
    assert policy.regret_bound > LinUCB(dim=2, horizon=100, batch=20, privacy=bd.none()).regret_bound
    everywhere = policy.publish(policy.init())
    assert policy.best(everywhere, np.array([[[1.0, 0.0], [0.0, 1.0]]])).shape == (1,)
    with pytest.raises(InvalidArgument, match="explore"):
        LinUCB(dim=2, horizon=100, explore=0.1, privacy=bd.none())  # type: ignore[arg-type]
    for bad in ({"first": -1}, {"then": 1.5}, {"then": float("nan")}):
        with pytest.raises(InvalidArgument, match=next(iter(bad))):
            bd.policies.uniform(**bad)  # type: ignore[arg-type]
    for centre in (-0.1, 1.1):
        with pytest.raises(InvalidArgument, match="reward_centre"):
            LinUCB(dim=2, horizon=100, reward_centre=centre, privacy=bd.none())


@pytest.mark.parametrize("rule", RULES, ids=["explore", "centre", "both"])
@pytest.mark.parametrize("env", WORLDS, ids=["fixed", "fresh"])
def test_the_player_is_the_plain_loop(rule: dict[str, Any], env: Any) -> None:
    """Users who explore, or whose rewards are centred, are played by a shortcut that is not theirs.

    Of arms that stay users are counted by their arm, so that only the laws are alike (false alarms 1e-5).
    """
    policy = LinUCB(dim=3, horizon=150, batch=30, width=0.2, privacy=bd.central(**BUDGET), **rule)
    seeds = 25 if env.fixed else 2
    own, plain = (bd.simulate(each, env, n_seeds=seeds, seed=4).regret for each in (policy, plainly(policy)))
    if env.fixed:
        assert one_law(own[:, -1], plain[:, -1])
    else:
        np.testing.assert_allclose(own, plain, atol=1e-9)


@pytest.mark.parametrize("rule", RULES, ids=["explore", "centre", "both"])
def test_aggregates_have_the_law_of_messages(rule: dict[str, Any]) -> None:
    policy = LinUCB(dim=3, horizon=300, batch=50, width=0.2, privacy=bd.shuffle(**BUDGET), **rule)
    law, messages = (
        bd.simulate(policy, WORLDS[0], n_seeds=25, seed=9, path=path).regret[:, -1] for path in ("law", "messages")
    )
    assert one_law(law, messages)


def test_a_run_does_not_depend_on_the_seeds_beside_it() -> None:
    policy = LinUCB(
        dim=3, horizon=300, batch=30, privacy=bd.local(**BUDGET), explore=bd.policies.uniform(first=50, then=0.3)
    )
    few, many = (bd.simulate(policy, WORLDS[0], n_seeds=n, seed=1).regret for n in (1, 4))
    np.testing.assert_allclose(few[0], many[0], atol=1e-9)


def test_with_then_1_the_regret_is_that_of_random_play() -> None:
    """5 s.e., false alarm 1e-6."""
    env = bd.environments.FiniteArms(means=(0.9, 0.1))
    policy = LinUCB(dim=2, horizon=4000, batch=100, explore=bd.policies.uniform(then=1.0), privacy=bd.none())
    regret = bd.simulate(policy, env, n_seeds=5).regret[:, -1]
    assert abs(np.mean(regret) - 1600) < 5 * 0.4 * np.sqrt(4000 / 5)


def test_centred_rewards_need_less_noise() -> None:
    plain, centred = (LinUCB(dim=2, horizon=10, reward_centre=centre, privacy=bd.none()) for centre in (0.0, 0.5))
    assert centred._domain.sensitivity == pytest.approx(0.75 * plain._domain.sensitivity)
    report = centred._form_statistic(np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]), np.array([1.0, 0.25, 7.0]))
    vector, _ = centred._domain.unpack(report.total())
    np.testing.assert_allclose(vector, [0.75, 0.0])  # 0.5 - 0.25 + 0.5
    assert report.clipped == 1


def test_anytime_policies_explore_in_every_phase() -> None:
    policy = bd.policies.Anytime(
        first=LinUCB(dim=3, horizon=40, batch=10, explore=bd.policies.uniform(first=10), privacy=bd.none())
    )
    assert not policy._devices_agree
    assert policy.phase(1).explore == bd.policies.uniform(first=10)
    assert bd.simulate(policy, WORLDS[0], horizon=200, n_seeds=2).regret.shape[0] == 2


def test_long_reports_are_held_in_smaller_parts() -> None:
    assert _users_at_once(LinUCB(dim=5, horizon=10, privacy=bd.none())) == 4096
    assert (
        8
        * _users_at_once(LinUCB(dim=640, horizon=10, privacy=bd.none()))
        * LinUCB(dim=640, horizon=10, privacy=bd.none())._domain.dim
        <= 256 << 20
    )


BUDGET_CONCURRENT = {"epsilon": 1.0, "delta": 1e-5}


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_the_batch_has_the_least_regret(k: int) -> None:
    horizon = 10**8

    def bound(size: float) -> float:
        return size + 4 * k * horizon ** (0.5 + 1 / (4 * k)) * size ** (-1 / (4 * k))  # 4k: the derivatives balance

    size = compute_concurrent_batch_size(horizon, k)
    assert size == pytest.approx(horizon ** ((2 * k + 1) / (4 * k + 1)), rel=1e-3)
    assert bound(size) < min(bound(size / 2), bound(2 * size))


def test_every_level_can_fill() -> None:
    for horizon in (2, 3, 10, 500, 2**16):
        for k in range(1, int(math.log2(horizon)) + 1):
            assert 2 <= compute_concurrent_batch_size(horizon, k) <= horizon // 2 ** (k - 1)
        assert 2 <= compute_concurrent_batch_size(horizon, "best") <= horizon
    with pytest.raises(InvalidArgument, match="shufflers"):
        _ = make("LinUCB-CSDP", dim=2, horizon=100, shufflers=7, **BUDGET_CONCURRENT)._channel


def test_each_kind_of_batches_keeps_its_own_lowest_size() -> None:
    given = {"dim": 2, "horizon": 2000, **BUDGET_CONCURRENT}
    assert make("LinUCB-CSDP", shufflers=2, **given)._channel.sizes[0] == compute_concurrent_batch_size(2000, 2)
    papers = make("LinUCB-CSDP", shufflers=2, batch="paper", **given)
    assert papers._channel.sizes[0] == lowest_batch_size(
        concurrent(**BUDGET_CONCURRENT, shufflers=2), domain=papers._domain, horizon=2000
    )
    assert make("LinUCB-CSDP", degrees=(7, 5), **given)._channel.stream.tree.degrees == (7, 5)
    rounded = round(2000**0.2)
    assert make("LinUCB-CSDP", degrees="paper", shufflers=2, **given)._channel.sizes[0] == rounded


def test_one_shuffler_is_the_sequential_model_for_linucb() -> None:
    given = {"dim": 2, "horizon": 2000, **BUDGET_CONCURRENT}
    one, sequential = make("LinUCB-CSDP", shufflers=1, **given), make("LinUCB-SDP-Vec", **given)
    assert one._channel.sizes == sequential._channel.sizes
    assert one._channel.independent
    np.testing.assert_allclose(one._channel.prefix_std(), sequential._channel.prefix_std())
    np.testing.assert_allclose(one.radii.radius, sequential.radii.radius)
    np.testing.assert_allclose(one.radii.matrix, sequential.radii.matrix)
    assert not make("LinUCB-CSDP", shufflers=2, **given)._channel.independent


def test_users_of_an_unfinished_batch_enter_no_sum_and_no_radius() -> None:
    given = {"dim": 2, "shufflers": 2, "batch": 100, **BUDGET_CONCURRENT}
    cut, whole = make("LinUCB-CSDP", horizon=1090, **given), make("LinUCB-CSDP", horizon=1000, **given)
    env = LinearContextual(dim=2, n_arms=3, fixed=True)
    result = simulate(cut, env, n_seeds=2, seed=0, checkpoints=1)
    assert (result.users, result.releases) == (1000, 10)
    np.testing.assert_array_equal(cut._channel.prefix_std(), whole._channel.prefix_std())
    np.testing.assert_array_equal(cut.radii.matrix, whole.radii.matrix)
    np.testing.assert_array_equal(cut.radii.radius, whole.radii.radius)


BUDGET_RETURNING = {"epsilon": 1.0, "delta": 1e-5}


@pytest.mark.parametrize(
    "privacy",
    [
        central(**BUDGET_RETURNING, participations=4),
        central(**BUDGET_RETURNING, participations=4, mechanism="tree"),
        local(**BUDGET_RETURNING, participations=4),
        shuffle(**BUDGET_RETURNING, participations=4),
        shuffle(**BUDGET_RETURNING, participations=4, protocol="gaussian"),
    ],
)
def test_all_participations_together_keep_the_budget(privacy: Privacy) -> None:
    policy = LinUCB(dim=3, horizon=2000, privacy=privacy, batch=200)
    event = policy._channel.protocols[200].event
    whole = event if privacy.model == "central" else RepetitionEvent(event=event, times=4)
    spent = accountant.delta_near(whole, 1.0, 1e-5)
    assert 0.97e-5 <= spent <= 1e-5
    assert policy.guarantee.participations == 4
    assert policy.guarantee.epsilon <= 1.0


def released_by_ones(horizon: int) -> np.ndarray:
    """C of the stream's factorisation, column by column, from what it says of one element: (C x)_t."""
    factors = BLT.optimal(horizon=horizon)
    theta, weights = np.asarray(factors.theta), factors.weights
    column = [1.0, *(float(weights @ theta**k) for k in range(horizon - 1))]
    return np.array([[column[t - j] if t >= j else 0.0 for j in range(horizon)] for t in range(horizon)])


def test_user_level_noise_is_that_of_m0_participations() -> None:
    once, four = (
        (central(**BUDGET_RETURNING, participations=m), local(**BUDGET_RETURNING, participations=m)) for m in (1, 4)
    )
    stds = [
        [LinUCB(dim=3, horizon=2000, privacy=privacy, batch=200)._channel.prefix_std()[-1] for privacy in both]
        for both in (once, four)
    ]
    columns = np.linalg.norm(released_by_ones(10)[:, :4].sum(axis=1)), np.linalg.norm(released_by_ones(10)[:, 0])
    assert stds[1][0] / stds[0][0] == pytest.approx(columns[0] / columns[1], rel=1e-3)
    assert 3.0 < columns[0] / columns[1] < 4.0  # [000, E.7] has 4
    assert stds[1][1] / stds[0][1] == pytest.approx(2.0, rel=1e-3)


def test_the_dearest_batches_of_a_growing_schedule_are_priced() -> None:
    growing = geometric(first=200, ratio=1.5)
    policy = LinUCB(dim=3, horizon=2000, privacy=shuffle(**BUDGET_RETURNING, participations=3), batch=growing)
    batches = Counter(policy._channel.protocols[size].event for size in policy._channel.sizes)
    assert len(batches) > 1
    assert accountant.compute_spent({"task": batches}, 3, 1e-5) <= policy.guarantee.epsilon <= 1.0
    with pytest.raises(InvalidArgument, match="one size"):
        _ = LinUCB(
            dim=3,
            horizon=2000,
            privacy=shuffle(**BUDGET_RETURNING, participations=3, protocol="gaussian"),
            batch=growing,
        )._channel
