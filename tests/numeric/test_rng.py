"""Named random streams."""

from __future__ import annotations

import numpy as np
import pytest

from bandanna.errors import InvalidArgument
from bandanna.numeric.rng import Streams


def test_a_seed_draws_the_same_alone_and_in_company() -> None:
    among, alone = Streams(range(5)), Streams([3])
    pieces = np.concatenate([among.normal("noise", (7, 2)) for _ in range(900)], axis=1)
    np.testing.assert_array_equal(pieces[3], alone.normal("noise", (6300, 2))[0])
    other = np.concatenate([Streams([4, 3]).uniform("rewards", (n,))[1] for n in (5,)])
    np.testing.assert_array_equal(other, alone.uniform("rewards", (5,))[0])


def test_names_and_seeds_are_independent_streams() -> None:
    streams = Streams([0, 1])
    first, second = streams.normal("a", (1000,)), streams.normal("b", (1000,))
    drawn = np.concatenate([first, second])  # (4, 1000)
    correlations = np.corrcoef(drawn)[np.triu_indices(4, 1)]
    assert np.all(np.abs(correlations) < 5 / np.sqrt(1000))  # five standard errors each: false alarm below 4e-6


def test_binomial_counts_have_their_law() -> None:
    counts = Streams(range(200)).binomial("coins", 1000, np.full((200, 50), 0.3))
    assert counts.shape == (200, 50)
    assert abs(np.mean(counts) - 300) < 6 * np.sqrt(210 / 10000)  # six standard errors: false alarm 2e-9


def test_missing_and_negative_seeds_are_refused_by_name() -> None:
    with pytest.raises(InvalidArgument, match="seeds"):
        Streams([])
    with pytest.raises(InvalidArgument, match="seed"):
        Streams([-1])
