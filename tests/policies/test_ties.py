"""The tie rule, and the coins that decide between tied arms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from bandanna.device.action_selection import pick_tied_arms
from bandanna.errors import InvalidArgument
from bandanna.numeric.linalg import find_best_arms
from bandanna.numeric.rng import (
    DeviceRandomness,
    NoRandomness,
    NumberedRandomness,
    SecureRandomness,
    StreamRandomness,
    Streams,
)
from bandanna.policies.linear.linucb import LinUCB, OptimisticSnapshot
from bandanna.protocols.privacy_model import none

from ..drawn import examples


class Counted(NoRandomness):
    """Coins that remember for how many rows they were flipped."""

    def __init__(self) -> None:
        self.flips = 0

    def below(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The last of the tied arms."""
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
