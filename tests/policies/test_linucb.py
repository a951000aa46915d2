"""LinUCB: the policy itself."""

from __future__ import annotations

import numpy as np
import pytest

from bandanna.device.noise import FastNoise
from bandanna.errors import InvalidArgument
from bandanna.numeric.rng import NoRandomness, SecureRandomness
from bandanna.policies.base import PlayedRounds
from bandanna.policies.linear.base import FixedBatches, geometric
from bandanna.policies.linear.linucb import LinUCB, OptimisticSnapshot, score_contexts
from bandanna.policies.registry import make
from bandanna.protocols.privacy_model import central, concurrent, local, none, shuffle
from bandanna.simulation.players.reference import QueryAnswerer


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
