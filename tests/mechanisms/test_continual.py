"""The continual mechanism: its real matrices, its real noise and its real price, read from what it releases."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from bandanna.device.noise import FastNoise, SecureNoise
from bandanna.errors import InsecureSource, InvalidArgument, InvalidStatistic
from bandanna.mechanisms.continual import BLTState, ContinualGaussian, TreeState
from bandanna.privacy.factorisation import BLT, BinaryTree, Factorisation, factorise

STREAMS = [("tree", 0), ("blt", 1), ("blt", 2), ("blt", 4)]
HORIZONS = [1, 2, 3, 5, 8, 21, 64]


class Recorder(FastNoise):
    """Adds no noise, or a unit impulse to the k-th released number of replicate k; records what it was given."""

    def __init__(self, *, impulses: bool = False) -> None:
        super().__init__(np.random.default_rng(0))
        self.impulses = impulses
        self.given: list[np.ndarray] = []  # one (R, dim) for each released number, in order
        self.stds: set[float] = set()

    def gaussian(self, value: Any, *, std: float, grid: float) -> np.ndarray:
        """The value itself (plus impulses): one row for each released number."""
        self.stds.add(std)
        rows = value[:, None, :] if value.ndim == 2 else value  # (R, m, dim)
        noisy = rows.copy()
        for m in range(rows.shape[1]):
            if self.impulses and len(self.given) < len(noisy):
                noisy[len(self.given), m] += 1.0
            self.given.append(rows[:, m])
        return noisy.reshape(value.shape)


def run(mechanism: ContinualGaussian, streams: np.ndarray, source: FastNoise | SecureNoise) -> np.ndarray:
    """All prefixes of streams (R, T, dim), as (R, T, dim)."""
    state, prefixes = mechanism.begin((len(streams),)), []
    for t in range(streams.shape[1]):
        state, prefix = mechanism.step(state, streams[:, t], source)
        prefixes.append(prefix)
    return np.stack(prefixes, axis=1)


def matrices(factorisation: Factorisation) -> tuple[np.ndarray, np.ndarray]:
    """(C, B) as the mechanism really applies them: impulses as data, then impulses as noise."""
    mechanism = ContinualGaussian(factorisation=factorisation, std=1.0, sensitivity=1.0)
    horizon, recorder = factorisation.horizon, Recorder()
    run(mechanism, np.eye(horizon)[..., None], recorder)
    c = np.stack(recorder.given)[..., 0]  # (numbers, T)
    b = run(mechanism, np.zeros((len(c), horizon, 1)), Recorder(impulses=True))[..., 0].T  # (T, numbers)
    return c, b


@pytest.mark.parametrize("horizon", HORIZONS)
@pytest.mark.parametrize(("name", "buffers"), STREAMS)
def test_streams_apply_the_priced_matrices(name: str, buffers: int, horizon: int) -> None:
    factorisation = factorise(name, horizon=horizon, buffers=max(buffers, 1))
    c, b = matrices(factorisation)
    assert np.allclose(b @ c, np.tril(np.ones((horizon, horizon))), atol=1e-10)
    assert factorisation.sensitivity() == pytest.approx(np.linalg.norm(c, axis=0).max(), rel=1e-11)
    assert factorisation.prefix_std(np.arange(1, horizon + 1)) == pytest.approx(np.linalg.norm(b, axis=1), rel=1e-10)
    assert len(c) == factorisation.total_releases()  # each number is released once
    assert np.count_nonzero(c, axis=0).max() == factorisation.releases()


@pytest.mark.parametrize(("name", "buffers"), STREAMS)
def test_releases_cost_no_more_than_the_event_and_a_fifth_less_noise_does(name: str, buffers: int) -> None:
    horizon, dim, delta, std = 37, 3, 2.5, 7.0
    factorisation = factorise(name, horizon=horizon, buffers=max(buffers, 1))
    mechanism = ContinualGaussian(factorisation=factorisation, std=std, sensitivity=delta, dim=dim)
    rng = np.random.default_rng(1)
    base = rng.normal(size=(horizon, dim))
    change = rng.normal(size=dim)
    neighbours = np.stack([base] * (horizon + 1))  # the last one is unchanged
    neighbours[np.arange(horizon), np.arange(horizon)] += delta * change / np.linalg.norm(change)
    recorder = Recorder()
    run(mechanism, neighbours, recorder)
    released = np.stack(recorder.given)  # (numbers, T + 1, dim)
    distance = np.linalg.norm(released[:, :-1] - released[:, -1:], axis=(0, 2))  # (T,): of neighbour t
    (used,) = recorder.stds
    event = mechanism.event
    price = event.factorisation.sensitivity() * event.sensitivity / event.std
    assert distance.max() / used == pytest.approx(price, rel=1e-9)
    assert (distance / used <= price * (1 + 1e-9)).all()
    assert distance.max() / (0.8 * used) > price * (1 + 1e-9)


@pytest.mark.parametrize(("name", "buffers"), STREAMS)
def test_several_elements_move_no_more_than_priced(name: str, buffers: int) -> None:
    factorisation = factorise(name, horizon=11, buffers=max(buffers, 1))
    c, _ = matrices(factorisation)
    for participations in (2, 3):
        most, touched = factorisation.sensitivity(participations) * (1 + 1e-12), factorisation.releases(participations)
        signs = np.array(list(itertools.product((-1, 1), repeat=participations))).T
        for chosen in itertools.combinations(range(11), participations):
            rows = c[:, list(chosen)]
            assert np.linalg.norm(rows @ signs, axis=0).max() <= most
            assert np.count_nonzero(rows.any(axis=1)) <= touched


def test_the_event_has_every_parameter_of_the_price() -> None:
    tree = BinaryTree(horizon=9)
    event = ContinualGaussian(factorisation=tree, std=3.0, sensitivity=2.0, dim=4, participations=5).event
    assert (event.factorisation, event.std, event.sensitivity, event.dim, event.participations) == (
        tree,
        3.0,
        2.0,
        4,
        5,
    )
    assert 0 < event.grid <= 3.0 * 2**-20
    assert ContinualGaussian(factorisation=tree, std=3.0, sensitivity=2.0, grid=0.0).event.grid == 0.0
    assert ContinualGaussian(factorisation=tree, std=3.0, sensitivity=2.0, grid=0.25).event.grid == 0.25


def variance_is(sample: np.ndarray, variance: np.ndarray, alarm: float) -> bool:
    """Two-sided chi-squared test of the variances of columns with known mean 0, Bonferroni over the columns."""
    ratio = (sample**2).sum(axis=0) / variance
    level = alarm / sample.shape[1] / 2
    return bool(np.all((ratio > stats.chi2.ppf(level, len(sample))) & (ratio < stats.chi2.isf(level, len(sample)))))


@pytest.mark.parametrize(("name", "buffers"), STREAMS)
def test_streamed_noise_has_the_stated_variance(name: str, buffers: int) -> None:
    """False alarm 1e-6; 20 % less noise is seen."""
    horizon, copies = 40, 4000
    factorisation = factorise(name, horizon=horizon, buffers=max(buffers, 1))
    mechanism = ContinualGaussian(factorisation=factorisation, std=3.0, sensitivity=1.0, grid=0.0)
    streams = np.ones((copies, horizon, 1))
    noise = (run(mechanism, streams, FastNoise(np.random.default_rng(2))) - np.cumsum(streams, axis=1))[..., 0]
    stated = mechanism.prefix_variance(np.arange(1, horizon + 1))
    assert variance_is(noise, stated, 1e-6)
    assert not variance_is(0.8 * noise, stated, 1e-6)
    independent = noise[: copies // 2] - noise[copies // 2 :]  # replicates share no noise: variances add
    assert variance_is(independent, 2 * stated, 1e-6)


class RecordedSecure(SecureNoise):
    def __init__(self) -> None:
        super().__init__()
        self.released: list[np.ndarray] = []

    def gaussian(self, value: Any, *, std: float, grid: float) -> np.ndarray:
        self.released.append(super().gaussian(value, std=std, grid=grid))
        return self.released[-1]


@pytest.mark.parametrize("name", ["tree", "blt"])
def test_secure_releases_lie_on_the_grid_with_the_stated_variance(name: str) -> None:
    """False alarm 1e-9: a secure source has no seed."""
    mechanism = ContinualGaussian(factorisation=factorise(name, horizon=4), std=3.0, sensitivity=1.0)
    source, streams = RecordedSecure(), np.full((1500, 4, 1), 0.3)
    noise = (run(mechanism, streams, source) - np.cumsum(streams, axis=1))[..., 0]
    assert all((released / mechanism.spacing % 1 == 0).all() for released in source.released)
    assert variance_is(noise, mechanism.prefix_variance([1, 2, 3, 4]), 1e-9)
    assert not variance_is(0.8 * noise, mechanism.prefix_variance([1, 2, 3, 4]), 1e-9)
    ideal = ContinualGaussian(factorisation=factorise(name, horizon=4), std=3.0, sensitivity=1.0, grid=0.0)
    with pytest.raises(InsecureSource):
        ideal.step(ideal.begin(), [0.0], source)


@pytest.mark.parametrize(("name", "buffers"), STREAMS)
def test_estimates_without_noise_are_the_prefix_sums(name: str, buffers: int) -> None:
    rng = np.random.default_rng(3)
    streams = rng.normal(size=(2, 3, 50, 4))  # (*R, T, dim)
    factorisation = factorise(name, horizon=64, buffers=max(buffers, 1))
    mechanism = ContinualGaussian(factorisation=factorisation, std=1e-9, sensitivity=1.0, dim=4)
    state = mechanism.begin((2, 3))
    for t in range(50):
        state, prefix = mechanism.step(state, streams[:, :, t], FastNoise(rng))
        assert prefix.shape == (2, 3, 4)
        assert state.step == t + 1
        assert np.allclose(prefix, streams[:, :, : t + 1].sum(axis=2), atol=1e-6)


@pytest.mark.parametrize("horizon", [5000, 20_000])
@pytest.mark.often(when=lambda horizon: horizon == 5000)
def test_rounding_errors_do_not_add_up_over_the_horizon(horizon: int) -> None:
    blt = BLT.optimal(horizon=horizon)
    mechanism = ContinualGaussian(factorisation=blt, std=1.0, sensitivity=1.0)
    recorder, state = Recorder(), mechanism.begin((1,))
    for _ in range(horizon):
        state, _ = mechanism.step(state, [[0.3]], recorder)
    rate, before = 1 - np.asarray(blt.theta), np.arange(horizon)[:, None]
    exact = 0.3 * (1 + (-np.expm1(before * np.log1p(-rate)) / rate) @ blt.weights)  # geometric sums of a constant
    assert np.abs(np.stack(recorder.given)[:, 0, 0] - exact).max() < 3e-13  # plain recursion: 1.7e-12 and 1.5e-11


def arrays(state: Any) -> list[np.ndarray]:
    if isinstance(state, np.ndarray):
        return [state]
    if isinstance(state, tuple):
        return [array for item in state for array in arrays(item)]
    return [array for item in vars(state).values() for array in arrays(item)] if hasattr(state, "__dict__") else []


@pytest.mark.parametrize("name", ["tree", "blt"])
def test_steps_and_callers_do_not_change_earlier_states(name: str) -> None:
    mechanism = ContinualGaussian(factorisation=factorise(name, horizon=16), std=1.0, sensitivity=1.0, dim=2)
    rng, state = np.random.default_rng(4), mechanism.begin((3,))
    for t in range(15):
        before = [array.copy() for array in arrays(state)]
        value = rng.normal(size=(3, 2))
        following, prefix = mechanism.step(state, value, FastNoise(np.random.default_rng(t)))
        assert all(np.array_equal(one, two) for one, two in zip(before, arrays(state), strict=True))
        _, again = mechanism.step(state, value, FastNoise(np.random.default_rng(t)))
        assert np.array_equal(prefix, again)
        after = [array.copy() for array in arrays(following)]
        value += 100
        prefix += 100
        assert all(np.array_equal(one, two) for one, two in zip(after, arrays(following), strict=True))
        state = following


def test_memory_does_not_grow_with_the_steps_of_a_blt() -> None:
    sizes: dict[str, list[int]] = {"tree": [], "blt": []}
    for name, kept in sizes.items():
        mechanism = ContinualGaussian(factorisation=factorise(name, horizon=300), std=1.0, sensitivity=1.0, dim=2)
        state, source = mechanism.begin(), FastNoise(np.random.default_rng(5))
        for _ in range(300):
            state, _ = mechanism.step(state, [0.0, 1.0], source)
            kept.append(sum(array.size for array in arrays(state)))
    assert set(sizes["blt"]) == {2 * (3 * 4 + 1)}
    assert sizes["tree"] == [2 * (3 * t.bit_count() + 1) for t in range(1, 301)]


def make(**changes: Any) -> ContinualGaussian:
    arguments: dict[str, Any] = {"factorisation": BinaryTree(horizon=2), "std": 1.0, "sensitivity": 1.0} | changes
    return ContinualGaussian(**arguments)


def past_the_horizon() -> None:
    state = make().begin()
    for _ in range(3):
        state, _ = make().step(state, [0.0], Recorder())


@pytest.mark.parametrize(
    ("act", "error", "argument"),
    [
        (lambda: make(factorisation="blt"), InvalidArgument, "factorisation"),
        (lambda: make(std=0.0), InvalidArgument, "std"),
        (lambda: make(sensitivity=-1.0), InvalidArgument, "sensitivity"),
        (lambda: make(dim=0), InvalidArgument, "dim"),
        (lambda: make(participations=0), InvalidArgument, "participations"),
        (lambda: make(grid=-1.0), InvalidArgument, "grid"),
        (lambda: make(grid=2.0), InvalidArgument, "grid"),
        (lambda: make().prefix_variance(3), InvalidArgument, "steps"),
        (past_the_horizon, InvalidArgument, "step"),
        (lambda: make().step(make().begin(), [0.0], np.random.default_rng(0)), InvalidArgument, "source"),
        (lambda: make().step(make().begin(), [np.nan], Recorder()), InvalidStatistic, "value"),
        (lambda: make().step(make().begin(), [0.0, 1.0], Recorder()), InvalidStatistic, "value"),
        (lambda: make().step(make().begin((2,)), [0.0], Recorder()), InvalidStatistic, "value"),
        (
            lambda: make().step(make(factorisation=BLT.optimal(horizon=2)).begin(), [0.0], Recorder()),
            InvalidArgument,
            "state",
        ),
    ],
)
def test_malformed_streams_are_refused_by_name(
    act: Callable[[], object], error: type[InvalidArgument], argument: str
) -> None:
    with pytest.raises(error) as caught:
        act()
    assert caught.value.argument == argument


def test_a_state_of_another_factorisation_is_refused() -> None:
    assert isinstance(make().begin(), TreeState)
    assert isinstance(make(factorisation=BLT.optimal(horizon=2)).begin(), BLTState)


def mixed(factors: Factorisation, stream: list[Fraction]) -> list[Fraction]:
    """C x of one coordinate in fractions: blocks of a tree as they are completed, or a BLT's recursion."""
    if not isinstance(factors, BLT):
        ends = range(1, len(stream) + 1)
        return [sum(stream[t - 2**level : t], Fraction(0)) for t in ends for level in range((t & -t).bit_length())]
    weights, theta = ([Fraction(x) for x in column] for column in (factors.weights.tolist(), factors.theta))
    sums, out = [Fraction(0)] * len(theta), []
    for x in stream:
        out.append(x + sum(w * s for w, s in zip(weights, sums, strict=True)))
        sums = [decay * s + x for decay, s in zip(theta, sums, strict=True)]
    return out


@pytest.mark.parametrize("name", ["tree", "blt"])
def test_released_numbers_are_exact_before_they_are_rounded(name: str) -> None:
    mechanism = ContinualGaussian(factorisation=factorise(name, horizon=40), std=1.0, sensitivity=1.0)
    rng, kept, release = np.random.default_rng(8), list[Fraction](), ContinualGaussian._release
    high = rng.uniform(-1, 1, 40) * 10.0 ** rng.integers(-16, 1, 40)
    rest = high * rng.uniform(-1, 1, 40) * 2.0**-54

    def read(self: ContinualGaussian, source: Any, exact: Any) -> np.ndarray:
        pairs = zip(exact[0].ravel().tolist(), exact[1].ravel().tolist(), strict=True)
        kept.extend(Fraction(one) + Fraction(other) for one, other in pairs)
        return release(self, source, exact)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ContinualGaussian, "_release", read)
        state = mechanism.begin()
        for one, other in zip(high, rest, strict=True):
            state, _ = mechanism.step(state, [one], FastNoise(rng), rest=[other])
    exact = mixed(mechanism.factorisation, [Fraction(a) + Fraction(b) for a, b in zip(high, rest, strict=True)])
    assert max(abs(a - b) for a, b in zip(kept, exact, strict=True)) <= Fraction(2) ** -95
