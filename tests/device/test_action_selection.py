"""Selection of arms on a device."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from bandanna.device.action_selection import (
    SHARED_DRAW,
    OptimisticSelector,
    ThompsonSelector,
    make_score_columns,
    score_by_columns,
    score_single_device,
)
from bandanna.device.linear_report import InterceptReport, LinearReport
from bandanna.errors import InvalidStatistic
from bandanna.numeric.rng import GeneratorRandomness, NumberedRandomness, SecureRandomness
from bandanna.policies.linear.linucb import OptimisticSnapshot

Floats = NDArray[np.float64]
DIM = 5


def snapshot_of(rng: np.random.Generator, dim: int = DIM) -> OptimisticSnapshot:
    rows = rng.normal(size=(20, dim))
    return OptimisticSnapshot(theta=rng.normal(size=dim), inverse=np.linalg.inv(rows.T @ rows), radius=2.0)


def arms_of(rng: np.random.Generator, users: int, arms: int, dim: int = DIM) -> Floats:
    """Features in the unit ball, (users, arms, dim); a few arms are there twice."""
    drawn = rng.normal(size=(users, arms, dim))
    drawn /= 1.1 * np.linalg.norm(drawn, axis=-1, keepdims=True)
    drawn[:, -1] = drawn[:, 0]
    return drawn


@pytest.mark.parametrize("dim", [1, 2, 5, 17, 40])
@pytest.mark.parametrize("arms", [1, 2, 9, 100])
def test_one_device_has_the_bits_of_many(dim: int, arms: int) -> None:
    rng = np.random.default_rng(1000 * dim + arms)
    snapshot, contexts = snapshot_of(rng, dim), arms_of(rng, 6, arms, dim)
    columns = make_score_columns(snapshot.theta, snapshot.inverse, snapshot.radius)
    index = score_by_columns(columns, contexts)
    drawn = SHARED_DRAW.scores(snapshot.theta, snapshot.inverse, contexts, NumberedRandomness(3, 0))
    for user, own in enumerate(contexts):
        assert score_single_device(columns, own).tobytes() == index[user].tobytes()
        alone = SHARED_DRAW.scores(snapshot.theta, snapshot.inverse, own[None], NumberedRandomness(3, user))
        assert alone.tobytes() == drawn[user : user + 1].tobytes()


def test_a_snapshot_is_not_taken_for_the_one_before() -> None:
    rng = np.random.default_rng(0)
    chooser, snapshots = OptimisticSelector(domain=LinearReport(features=DIM)), [snapshot_of(rng) for _ in range(3)]
    snapshots.append(replace(snapshots[0]))  # equal, and another one
    for number in range(60):
        snapshot, contexts = snapshots[number % 4], arms_of(rng, 1, 2 + number % 7)
        kept = chooser.act(snapshot, contexts, NumberedRandomness(0, number))
        fresh = OptimisticSelector(domain=LinearReport(features=DIM)).act(
            snapshot, contexts, NumberedRandomness(0, number)
        )
        assert kept.actions.tolist() == fresh.actions.tolist()
        assert kept.probabilities.tolist() == fresh.probabilities.tolist()


def test_threads_choose_by_their_own_snapshots() -> None:
    rng = np.random.default_rng(1)
    chooser, contexts = OptimisticSelector(domain=LinearReport(features=DIM)), arms_of(rng, 200, 20)
    snapshots = [snapshot_of(rng) for _ in range(4)]
    expected = [
        [int(chooser.act(each, own[None], NumberedRandomness(0, 0)).actions[0]) for own in contexts]
        for each in snapshots
    ]
    found: dict[int, list[int]] = {}

    def choose(place: int) -> None:
        coins = NumberedRandomness(0, 0)
        found[place] = [int(chooser.act(snapshots[place], own[None], coins).actions[0]) for own in contexts]

    threads = [threading.Thread(target=choose, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[place] for place in range(4)] == expected


def test_few_normal_numbers_are_those_of_many() -> None:

    class Seeded(SecureRandomness):
        def uniform(self, shape: tuple[int, ...], name: str) -> Floats:
            return GeneratorRandomness(lambda _: np.random.default_rng(7)).uniform(shape, name)

    for shape in ((1, 5), (16,), (2, 8), (1, 1), (1, 0)):
        one, two = Seeded().uniform((2, *shape), "draw")
        expected = np.sqrt(-2 * np.log1p(-one)) * np.cos(2 * np.pi * two)  # Box and Muller 1958
        drawn = Seeded().normal(shape, "draw")
        assert drawn.shape == shape
        np.testing.assert_allclose(drawn, expected, rtol=1e-12, atol=1e-14)
    assert Seeded().normal((4, 5), "draw").shape == (4, 5)


def test_clipped_features_are_left_unchanged() -> None:
    rng = np.random.default_rng(2)
    domain = InterceptReport(features=DIM)
    chooser = ThompsonSelector(domain=domain)
    raw = rng.normal(size=(50, 9, DIM))
    raw[..., -1] = rng.choice([0.5, 1.0, 3.0], size=(50, 1))
    seen = domain.clip_features(raw)
    assert chooser.clip_features(seen).tobytes() == domain.clip_features(seen).tobytes() == seen.tobytes()
    assert chooser.clip_features(raw).tobytes() == seen.tobytes()
    for user in raw:
        assert chooser.clip_features(user[None]).tobytes() == domain.clip_features(user[None]).tobytes()
        assert chooser.clip_features(np.asfortranarray(user[None])).flags.c_contiguous
    long = np.array([[[2.0, 0.0, 0.0, 0.0, 1.0]]])
    np.testing.assert_array_equal(chooser.clip_features(long), [[[1.0, 0.0, 0.0, 0.0, 1.0]]])
    for odd in (np.nan, np.inf):
        with pytest.raises(InvalidStatistic):
            chooser.clip_features(np.array([[[odd, 0.0, 0.0, 0.0, 1.0]]]))
    with pytest.raises(InvalidStatistic, match="the last feature must be one constant"):
        chooser.clip_features(np.array([[[0.1, 0.0, 0.0, 0.0, 1.0], [0.1, 0.0, 0.0, 0.0, 0.5]]]))
