"""A user's own world: arrays and functions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.errors import BandannaError, InvalidArgument, InvalidStatistic
from bandanna.numeric.rng import Streams
from bandanna.policies.linear.linucb import LinUCB
from bandanna.protocols.privacy_model import none
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.base import Bernoulli, Bounded
from bandanna.simulation.environments.recorded import ArrayEnvironment, CallableEnvironment, Table

ARMS = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 0.5]])
SETS = np.stack([ARMS, ARMS[::-1], 0.5 * ARMS, ARMS])  # (4, 3, 2)
ROWS = np.arange(12).reshape(4, 3) / 12


def test_arrays_without_a_rounds_axis_are_fixed_arms() -> None:
    for fixed, env in [
        (True, ArrayEnvironment(arms=ARMS, theta=[0.5, 0.5])),
        (True, ArrayEnvironment(arms=ARMS.tolist(), means=[0, 1, 0.5])),
        (False, ArrayEnvironment(arms=SETS, theta=[0.5, 0.5])),
        (False, ArrayEnvironment(arms=SETS, means=[0.1, 0.2, 0.3])),
        (False, ArrayEnvironment(arms=ARMS, means=ROWS)),
    ]:
        assert (env.dim, env.n_arms) == (2, 3)
        assert env.rounds == (None if fixed else 4)
        assert env.begin(Streams([0])).fixed is fixed


def test_rounds_are_those_of_the_arrays() -> None:
    for env, means in [
        (ArrayEnvironment(arms=SETS, theta=[0.5, 0.25]), SETS @ [0.5, 0.25]),
        (ArrayEnvironment(arms=SETS, means=ROWS), ROWS),
        (ArrayEnvironment(arms=SETS, means=ROWS[1]), np.stack([ROWS[1]] * 4)),
    ]:
        world = env.begin(Streams([4, 9]))
        for start, count in [(0, 1), (1, 3)]:
            contexts = world.contexts(start, count)
            np.testing.assert_array_equal(contexts, np.stack([SETS[start : start + count]] * 2))
            np.testing.assert_allclose(world.means(contexts), np.stack([means[start : start + count]] * 2))


def test_regret_is_against_the_given_means() -> None:
    env = ArrayEnvironment(arms=[[1.0], [1.0]], means=[0.25, 0.75], reward=Bounded(width=0.0))
    result = simulate(LinUCB(dim=1, horizon=40, privacy=none()), env, n_seeds=2)
    played = result.final_regret / 0.5  # the worse arm, by random ties
    assert np.all((played > 5) & (played < 35))  # false alarms: 3e-6 in the law of the coins
    np.testing.assert_allclose(played, np.rint(played))
    np.testing.assert_allclose(result.rewards, 40 * 0.75 - 0.5 * played)


def test_a_run_beyond_the_arrays_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="round must be at most 4, the rounds of the given arrays, got 5"):
        simulate(LinUCB(dim=2, horizon=5, privacy=none()), ArrayEnvironment(arms=SETS, theta=[0.5, 0.5]))
    simulate(LinUCB(dim=2, horizon=4, privacy=none()), ArrayEnvironment(arms=SETS, theta=[0.5, 0.5]))


def test_the_arrays_are_copied() -> None:
    mine = ARMS.copy()
    env = ArrayEnvironment(arms=mine, theta=[0.5, 0.5])
    mine[:] = 0
    np.testing.assert_array_equal(env.arms, ARMS)
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(env.arms)[0, 0] = 2


def test_array_environments_are_equal_by_value() -> None:
    env = ArrayEnvironment(arms=ARMS, theta=[0.5, 0.5])
    assert env == ArrayEnvironment(arms=ARMS, means=ARMS @ [0.5, 0.5])
    assert env != ArrayEnvironment(arms=ARMS, theta=[0.5, 0.4])
    assert env != replace(env, reward=Bounded())
    assert env != "arms"


def test_rounding_errors_of_means_are_cut_off() -> None:
    assert ArrayEnvironment(arms=[[1.0]], means=[1 + 1e-12]).true_means == 1.0


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        ({"arms": [1.0, 2.0]}, "arms: shape"),
        ({"arms": np.zeros((0, 2))}, "arms: shape"),
        ({"arms": "arms"}, "arms"),
        ({"arms": [[1.0, 2.0], [1.0]]}, "arms"),
        ({"arms": [[1.0, 0.0], [0.0, np.nan]]}, r"arms\[1, 1\] must be a finite number, got a float that"),
        ({"theta": [0.5]}, "theta: shape"),
        ({"theta": [0.5, np.inf]}, r"theta\[1\]"),
        ({"theta": [1.5, 0.5]}, r"arms @ theta\[0\] must be a mean.*, got a float"),
        ({"theta": None}, "theta, means"),
        ({"means": [0.1, 0.2, 0.3]}, "theta, means"),
        ({"theta": None, "means": [0.1, 0.2]}, "means: shape"),
        ({"theta": None, "means": [0.1, 0.2, -0.3]}, r"means\[2\] must be a mean.*, got a float"),
        ({"arms": SETS, "theta": None, "means": ROWS[:3]}, r"means must be .* got \(3, 3\)"),
    ],
)
def test_bad_arrays_are_refused_with_the_entry(bad: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidArgument, match=named):
        ArrayEnvironment(**{"arms": ARMS, "theta": [0.5, 0.5], **bad})


def test_functions_see_the_round_and_their_own_generator() -> None:
    env = CallableEnvironment(
        dim=1, n_arms=2, contexts=lambda t, rng: [[t / 10], [rng.random()]], mean=lambda features: features[:, 0] ** 2
    )
    world = env.begin(Streams([3, 8]))
    contexts = world.contexts(0, 10)
    np.testing.assert_allclose(contexts[..., 0, 0], np.stack([np.arange(10) / 10] * 2))
    np.testing.assert_allclose(world.means(contexts), contexts[..., 0] ** 2)
    alone = env.begin(Streams([8])).contexts(0, 10)
    np.testing.assert_array_equal(contexts[1], alone[0])
    assert not np.any(contexts[0, :, 1] == contexts[1, :, 1])


@pytest.mark.parametrize(
    ("bad", "named"),
    [
        ({"contexts": lambda t, rng: [[0.5, 0.5]]}, r"contexts\(0, rng\): shape must be .* got \(1, 2\)"),
        (
            {"contexts": lambda t, rng: [[0.5, 0.5]] * 2 if t < 3 else [[0.5, np.inf]] * 2},
            r"contexts\(3, rng\)\[0, 1\]",
        ),
        ({"contexts": lambda t, rng: None}, r"contexts\(0, rng\)"),
        ({"mean": lambda features: 0.5}, r"mean\(features\): shape"),
        ({"mean": lambda features: [0.5, np.nan]}, r"mean\(features\)\[1\] must be a finite number, got a float that"),
        ({"mean": lambda features: [0.5, 1.2]}, r"mean\(features\)\[1\] must be a mean.*, got a float"),
    ],
)
def test_a_wrong_answer_of_a_function_is_refused_with_its_round(bad: dict[str, Any], named: str) -> None:
    good: dict[str, Any] = {"contexts": lambda t, rng: rng.random((2, 2)) / 2, "mean": lambda x: x.sum(axis=1)}
    env = CallableEnvironment(dim=2, n_arms=2, **{**good, **bad})
    with pytest.raises(InvalidStatistic, match=named):
        simulate(LinUCB(dim=2, horizon=10, privacy=none()), env)


def test_a_value_that_is_not_a_function_is_refused_by_name() -> None:
    with pytest.raises(InvalidArgument, match="mean"):
        CallableEnvironment(dim=1, n_arms=1, contexts=lambda t, rng: [[0.5]], mean=0.5)  # type: ignore[arg-type]


# Tables of people: who comes is drawn from the table, and earns what stands there


RNG = np.random.default_rng(0)
X, Y = RNG.uniform(-0.5, 0.5, (40, 2)), RNG.integers(0, 3, 40)


def test_the_right_label_earns_one() -> None:
    env = Table.from_labels(X, Y)
    world = env.begin(Streams([1, 2]))
    contexts = world.contexts(0, 100)
    means = world.means(contexts)
    assert contexts.shape == (2, 100, 3, 2)
    np.testing.assert_array_equal(world.rewards(means[..., 0]), means[..., 0])
    for context, mean in zip(contexts.reshape(-1, 3, 2), means.reshape(-1, 3), strict=True):
        person = int(np.flatnonzero((context[0] == X).all(axis=1))[0])
        assert (context == X[person]).all()
        assert mean.tolist() == np.eye(3)[Y[person]].tolist()


def test_everybody_comes_as_often_or_once() -> None:
    drawn = Table(X, np.eye(3)[Y]).begin(Streams([3]))
    drawn.contexts(0, 40_000)
    counts = np.bincount(drawn.now[0], minlength=40)
    assert np.all(np.abs(counts - 1000) <= 6 * np.sqrt(1000))
    once = Table(features=X, rewards=np.eye(3)[Y], resample=False)
    orders = []
    for seed in (0, 1):
        world = once.begin(Streams([seed]))
        seen = [world.contexts(start, 10) is not None and world.now[0].copy() for start in range(0, 40, 10)]
        orders.append(np.concatenate(seen).tolist())
    assert [sorted(order) for order in orders] == [list(range(40))] * 2
    assert orders[0] != orders[1]
    with pytest.raises(InvalidArgument, match="at most 40"):
        once.check_rounds(41)


def test_tables_are_equal_by_value() -> None:
    one = Table.from_labels(X, Y)
    assert one == Table.from_labels(X.copy(), Y.tolist())
    assert hash(one) == hash(Table.from_labels(X, Y))
    assert one != Table.from_labels(X, (Y + 1) % 3)
    assert one != replace(one, resample=False)
    assert one != replace(one, reward=Bernoulli())
    with pytest.raises(ValueError, match="read-only"):
        one.features[0] = 0  # type: ignore[index, call-overload]


def test_policies_learn_from_labels() -> None:
    """LinTS guesses labels of an easy table no better than always one label (0.7 against 0.5)."""
    x = RNG.choice([-0.7, 0.7], size=(500, 2))
    env = Table.from_labels(x, (x[:, 0] > 0).astype(int))
    result = bd.simulate(bd.LinTS(n_arms=2, features=2, horizon=1000, privacy=bd.none()), env, n_seeds=3)
    assert np.all(result.rewards > 700)
    np.testing.assert_allclose(result.rewards + result.final_regret, 1000)


@pytest.mark.parametrize(
    ("features", "rewards"),
    [
        (X, np.full((40, 3), 1.5)),
        (X, np.zeros((39, 3))),
        (np.zeros((40, 4, 2)), np.zeros((40, 3))),
        (np.zeros((40, 0)), np.zeros((40, 3))),
        (np.full((40, 2), np.nan), np.zeros((40, 3))),
    ],
)
def test_what_is_no_table_is_refused(features: object, rewards: object) -> None:
    with pytest.raises(BandannaError):
        Table(features=features, rewards=rewards)  # type: ignore[arg-type]
