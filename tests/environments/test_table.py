"""Tables of people: who comes is drawn from the table, and earns what stands there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import bandanna as bd
from bandanna.errors import BandannaError, InvalidArgument
from bandanna.numeric.rng import Streams
from bandanna.simulation.environments.base import Bernoulli
from bandanna.simulation.environments.recorded import Table

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
