"""Contexts drawn by the kernel are those of NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bandanna.core.domain import clip_norm
from bandanna.core.streams import Streams
from bandanna.environments import GeneralisedLinear, LinearContextual, linear
from bandanna.environments.base import Environment
from bandanna.kernels import SWITCH, compiled, ready
from bandanna.kernels.pointing import pointing, pointing_columns
from bandanna.kernels.ziggurat import normals

WORLDS = {"linear": LinearContextual, "glm": GeneralisedLinear}


def drawn(env: Environment, parts: list[int], kernel: bool) -> list[np.ndarray]:
    """Contexts of two seeds in so many parts, and the numbers that come next."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv(SWITCH, "on" if kernel else "off")
        monkeypatch.setattr(linear, "_TOGETHER", 40)
        streams = Streams([3, 4])
        world, found, start = env.begin(streams), [], 0
        for rounds in parts:
            found.append(world.contexts(start, rounds))
            start += rounds
        return [np.concatenate(found, axis=1), streams.normal("contexts", (5,))]


@settings(max_examples=30, deadline=None)
@given(
    kind=st.sampled_from(sorted(WORLDS)),
    dim=st.integers(1, 10),
    n_arms=st.integers(1, 9),
    parts=st.lists(st.integers(1, 60), min_size=1, max_size=4),
)
def test_the_numbers_are_the_same_bit_for_bit(kind: str, dim: int, n_arms: int, parts: list[int]) -> None:
    """A world is another one where Numba is loaded, or after parts that NumPy drew."""
    assert compiled("pointing") is not None
    assert ready("pointing") is not None
    env = WORLDS[kind](dim=dim, n_arms=n_arms)
    for one, two in zip(drawn(env, parts, True), drawn(env, parts, False), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("kind", sorted(WORLDS))
def test_unit_vectors_need_no_clipping(kind: str) -> None:
    """A world says that its features are no longer than 1, and a device would clip one of them."""
    for dim in (1, 2, 5, 8, 9, 40):
        world = WORLDS[kind](dim=dim, n_arms=50).begin(Streams([0, 1]))
        contexts = world.contexts(0, 200)
        assert world.unit
        assert clip_norm(contexts, 1.0) is contexts


def test_normal_numbers_are_those_of_numpy() -> None:
    """A number beside its layer, or beyond the last one, is another one; or the generator goes on elsewhere."""
    for seed in range(5):
        streams, count = Streams([seed]), 300_000
        words, rng = streams.words("contexts"), Streams([seed]).generators("contexts")[0]
        assert words is not None
        out = np.empty(count)
        normals(words[0], 1, out[:, None])
        np.testing.assert_array_equal(out, rng.standard_normal(count))
        assert np.abs(out).max() > 3.7  # the tail begins at 3.65
        streams.go_on("contexts", words)
        np.testing.assert_array_equal(streams.normal("contexts", (7,))[0], rng.standard_normal(7))


def test_numbers_that_were_drawn_ahead_are_not_skipped() -> None:
    """A kernel draws from the generator while the stream still holds numbers that come first."""
    streams = Streams([0])
    streams.normal("contexts", (3,))
    assert streams.words("contexts") is None
    assert LinearContextual(dim=3, n_arms=2).begin(streams).rule() is None


@pytest.mark.parametrize(("dim", "last"), [(1, 0.5), (4, 0.25), (7, 0.0)])
def test_arms_side_by_side_are_those_of_one_after_the_other(dim: int, last: float) -> None:
    """The arms that LinUCB's kernel draws are not those of the world, or its generator goes on elsewhere."""
    n, words = 131, Streams([5]).words("contexts")
    assert words is not None
    one, two = words[0].copy(), words[0].copy()
    rows, columns = np.empty((n, dim + 1)), np.zeros((dim + 1, 144))
    pointing(one, 0.7, dim, last, rows)
    pointing_columns(two, n, 0.7, dim, last, np.empty(144), columns)
    np.testing.assert_array_equal(columns[:, :n].T, rows)
    np.testing.assert_array_equal(columns[:dim, n:], 0.0)
    np.testing.assert_array_equal(one, two)
