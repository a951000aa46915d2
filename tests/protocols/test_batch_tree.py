"""The tree of concurrent shufflers: schedule, and the privacy of all levels together."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import dp_accounting.pld.privacy_loss_distribution as pld
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from bandanna.device.domain import Bits, Box, Domain
from bandanna.device.noise import FastNoise
from bandanna.errors import InvalidArgument
from bandanna.privacy import accountant, gdp
from bandanna.privacy.budgets import ApproxDP
from bandanna.privacy.calibration import BinomialNoise
from bandanna.privacy.events import BinomialEvent, CompositionEvent
from bandanna.protocols import batch_tree, concurrent_shuffle
from bandanna.protocols.batch_tree import (
    BatchTree,
    best_tree,
    most_shufflers,
    optimal_shares,
    paper_tree,
    unit_std,
    worst_variance,
)
from bandanna.protocols.concurrent_shuffle import ConcurrentShuffle
from bandanna.protocols.mixers import FullBatches, LevelMixerState

from ..drawn import examples

NOISE = 1 / gdp.mu(1.0, 1e-5)

trees_ = st.builds(
    lambda degrees, extra: BatchTree(horizon=math.prod(degrees) + extra, degrees=tuple(degrees)),
    st.lists(st.integers(2, 5), min_size=1, max_size=4),
    st.integers(0, 400),
)


@examples(30, full=100)
@given(trees_)
def test_covering_batches_are_the_maximal_full_ones(tree: BatchTree) -> None:
    full: dict[int, list[tuple[int, int]]] = {level: [] for level in range(1, tree.levels + 1)}
    spans = list(tree.spans())
    assert [t for *_, t in spans] == sorted(t for *_, t in spans)
    for level, first, last in spans:
        full[level].append((first, last))
    assert tuple(len(batches) for batches in full.values()) == tree.batches
    for t in range(tree.horizon + 1):
        expected, reached = [0] * tree.levels, 0
        for level in range(tree.levels, 0, -1):
            for first, last in full[level]:
                if first == reached + 1 and last <= t:
                    expected[level - 1] += 1
                    reached = last
        assert tree.covering(t).tolist() == expected
        assert t - reached <= tree.delay


@given(trees_, st.lists(st.floats(0.01, 10.0), min_size=4, max_size=4))
def test_the_worst_prefix_is_among_the_candidates(tree: BatchTree, variances: list[float]) -> None:
    v = np.asarray(variances[: tree.levels])
    every = tree.covering(np.arange(1, tree.horizon + 1)) @ v
    assert np.max(tree.covering(tree.worst_steps) @ v) == pytest.approx(np.max(every), rel=1e-12)
    assert np.all(tree.worst_steps <= tree.horizon)


@pytest.mark.parametrize("horizon", [*range(2, 70), 1000, 65_535, 65_536, 1_000_000])
@pytest.mark.often(when=lambda horizon: horizon < 10 or horizon in (15, 16, 17, 26, 27, 28, 63, 64, 65, 1000, 65_536))
def test_there_is_a_tree_for_every_horizon(horizon: int) -> None:
    for k in range(1, most_shufflers(horizon) + 1):
        for tree in (best_tree(horizon, k, noise=NOISE, bound=1.0), paper_tree(horizon, k)):
            assert tree.levels == k
            assert tree.sizes[-1] <= horizon
            assert len(optimal_shares(tree, True)) == k
            assert min(optimal_shares(tree, True)) > 0
    with pytest.raises(InvalidArgument, match="shufflers"):
        best_tree(horizon, most_shufflers(horizon) + 1, noise=NOISE, bound=1.0)
    with pytest.raises(InvalidArgument, match="shufflers"):
        paper_tree(horizon, most_shufflers(horizon) + 1)


def all_degrees(horizon: int, k: int) -> Iterator[tuple[int, ...]]:
    """Of k levels, the lowest batches of which fit into the horizon."""
    if k == 0:
        yield ()
    for degree in range(2, horizon + 1) if k else ():
        yield from ((degree, *rest) for rest in all_degrees(horizon // degree, k - 1))


@pytest.mark.parametrize("averaging", [False, True])
@pytest.mark.parametrize(("horizon", "k"), [(30, 1), (30, 2), (64, 2), (64, 3), (100, 3), (60, 4)])
def test_best_degrees_are_the_best(horizon: int, k: int, averaging: bool) -> None:

    def error(tree: BatchTree) -> float:
        return NOISE * unit_std(tree, averaging) + tree.delay

    chosen = error(best_tree(horizon, k, noise=NOISE, bound=1.0, averaging=averaging))
    every = (BatchTree(horizon=horizon, degrees=degrees) for degrees in all_degrees(horizon, k))
    assert chosen <= 1.02 * min(error(tree) for tree in every)


def test_the_best_number_of_shufflers_has_the_least_error() -> None:
    for horizon in (10, 1000, 20_000):

        def error(tree: BatchTree) -> float:
            return NOISE * unit_std(tree, True) + tree.delay

        chosen = best_tree(horizon, "best", noise=NOISE, bound=1.0)
        single = [best_tree(horizon, k, noise=NOISE, bound=1.0) for k in range(1, most_shufflers(horizon) + 1)]
        assert error(chosen) == min(map(error, single))


def test_a_fixed_lowest_batch_is_kept() -> None:
    for shufflers in (1, 2, 4, "best"):
        assert best_tree(10_000, shufflers, noise=NOISE, bound=1.0, lowest=37).sizes[0] == 37
    assert paper_tree(10_000, 3, 37).sizes[0] == 37
    with pytest.raises(InvalidArgument):
        best_tree(100, 3, noise=NOISE, bound=1.0, lowest=40)


@pytest.mark.parametrize("power", range(2, 16))
def test_many_shufflers_are_algorithm_2(power: int) -> None:
    tree = paper_tree(2**power, power - 1)
    assert tree.degrees == (2,) * (power - 1)
    assert tree.batches[-1] == 2


def test_the_papers_degrees_are_their_roots() -> None:
    """The paper's degrees are not n^{1/(2k+1)} and n^{2/(2k+1)}, rounded."""
    assert paper_tree(2**15, 1).degrees == (32,)
    assert paper_tree(10**5, 2).degrees == (10, 100)
    assert paper_tree(3**7, 3).degrees == (3, 9, 9)
    assert paper_tree(3**7, 3).batches[-1] == 9


@given(trees_.filter(lambda tree: tree.levels > 1), st.integers(0, 2**31), st.booleans())
def test_the_split_of_the_price_has_the_least_variance(tree: BatchTree, seed: int, averaging: bool) -> None:
    nodes = np.array([*(d - 1 for d in tree.degrees[1:]), tree.batches[-1]], dtype=float)

    def variance(split: np.ndarray) -> float:
        precision = [split[0]]
        for own, degree in zip(split[1:], tree.degrees[1:], strict=True):
            precision.append(own + averaging * precision[-1] / degree)
        return float(np.sum(nodes / np.asarray(precision)))

    from bandanna.protocols.batch_tree import _optimal_shares_for

    best = np.asarray(_optimal_shares_for(tree, tree.batches[-1], averaging))
    assert np.sum(best) == pytest.approx(1.0)
    rng = np.random.default_rng(seed)
    for spread in (0.01, 0.1, 1.0):
        other = best * np.exp(spread * rng.normal(size=len(best)))
        assert variance(best) <= variance(other / np.sum(other)) * (1 + 1e-12)
    split = optimal_shares(tree, averaging)
    assert worst_variance(tree, [1 / s for s in split], averaging) <= variance(best) * (1 + 1e-9)


def test_the_split_of_the_price_follows_its_formula() -> None:
    """Without averaging, mu_j^2 is not proportional to sqrt(m_j): m = (255, 15, 1) gives 20.84 instead of 28.51."""
    tree = BatchTree(horizon=2 * 256 * 16, degrees=(2, 256, 16))  # one batch on top
    assert tree.batches[-1] == 1
    split = optimal_shares(tree, averaging=False)
    roots = np.sqrt([255.0, 15.0, 1.0])
    assert np.allclose(split, roots / roots.sum())
    assert float(np.sum(roots)) == pytest.approx(20.8417, abs=1e-4)


@pytest.mark.parametrize("degrees", [(), (1,), (2, 1), (2, 2.5), (4, 4)])
def test_bad_degrees_are_refused(degrees: tuple[float, ...]) -> None:
    with pytest.raises(InvalidArgument, match="degrees"):
        BatchTree(horizon=15, degrees=degrees)  # type: ignore[arg-type]


def test_bad_numbers_of_shufflers_are_refused() -> None:
    for wrong in (0, 1.5, "most"):
        with pytest.raises(InvalidArgument, match="shufflers"):
            best_tree(100, wrong, noise=NOISE, bound=1.0)  # type: ignore[arg-type]


Array = NDArray[Any]
Pair = tuple[Array, Array]
TIGHT = ApproxDP(epsilon=1.0, delta=1e-3)


class Silent(FastNoise):
    """No coins and a given uniform number; the trials that were asked for are kept."""

    def __init__(self, uniform: float) -> None:
        super().__init__(np.random.default_rng(0))
        self.given, self.asked = uniform, []  # type: tuple[float, list[int]]

    def uniform(self, size: Any) -> Array:
        return np.full(size, self.given)

    def binomial(self, *, trials: int, probability: float, size: Any) -> Array:
        assert probability == 0.5
        self.asked.append(trials)
        return np.zeros(size, dtype=np.int64)


def view(
    protocol: ConcurrentShuffle, stream: Array, uniform: float, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[int], list[int]]:
    """What the shufflers forward, in order: totals without coins, and how many coins each of them has."""
    forwarded: list[int] = []

    def close(mixer: concurrent_shuffle.LevelMixer, held: LevelMixerState) -> FullBatches:
        seen = closed(mixer, held)
        forwarded.extend(int(level.numbers[0]) for level in seen.levels)
        return seen

    closed = concurrent_shuffle.LevelMixer.close
    monkeypatch.setattr(concurrent_shuffle.LevelMixer, "close", close)
    state, source, coins = protocol.begin(), Silent(uniform), []
    k, waiting = protocol.shufflers, [0] * protocol.shufflers
    for t, value in enumerate(stream, start=1):
        state, _ = protocol.release(state, [[value]], source, clip=False)
        assert len(source.asked) == k * t  # one message for each shuffler
        for level, size in enumerate(protocol.tree.sizes):
            waiting[level] += source.asked[k * (t - 1) + level]
            if t % size == 0:
                coins.append(waiting[level])
                waiting[level] = 0
    return forwarded, coins


def laws(offsets: list[list[int]], chances: list[float], coins: int) -> Array:
    """Laws of totals: a mixture of offsets plus Bin(coins, 1/2), each over one window: (streams, support)."""
    reach = 9 * math.sqrt(coins) / 2
    most = max(map(max, offsets))
    window = np.arange(math.floor(coins / 2 - reach), math.ceil(coins / 2 + reach) + most + 1)
    return np.stack(
        [
            (1 - chance) * stats.binom.pmf(window - low, coins, 0.5)
            + chance * stats.binom.pmf(window - high, coins, 0.5)
            for (low, high), chance in zip(offsets, chances, strict=True)
        ]
    )


def divergence(pairs: list[Pair], epsilon: float) -> float:
    """sum (p - e^epsilon q)+ of a product: all but the last pair multiplied out, the last one by its tails."""
    if not pairs:
        return 0.0  # a user who is in no full batch
    *others, (p, q) = pairs
    head = (np.ones(1), np.ones(1))
    for a, b in others:
        head = (np.outer(head[0], a).ravel(), np.outer(head[1], b).ravel())
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(p > 0, np.log(p) - np.log(q), -np.inf)
        needed = epsilon - (np.log(head[0]) - np.log(head[1]))
    order = np.argsort(ratio)
    above_p = np.append(np.cumsum(p[order][::-1])[::-1], 0.0)
    above_q = np.append(np.cumsum(q[order][::-1])[::-1], 0.0)
    first = np.searchsorted(ratio[order], needed, side="right")
    return float(np.sum(head[0] * above_p[first] - math.exp(epsilon) * head[1] * above_q[first]))


def worst_delta(
    protocol: ConcurrentShuffle, epsilon: float, changes: list[Pair], monkeypatch: pytest.MonkeyPatch
) -> float:
    """Largest divergence over neighbouring streams, both ways, of the joint view of all shufflers."""
    worst = 0.0
    for one, other in changes:
        seen = [[view(protocol, x, u, monkeypatch) for u in (1 - 2.0**-53, 0.0)] for x in (one, other)]
        pairs = []
        for batch, coins in enumerate(seen[0][0][1]):
            assert all(bounds[1] == seen[0][0][1] for both in seen for bounds in both)  # coins do not depend on data
            offsets = [[low[0][batch], high[0][batch]] for low, high in seen]
            if offsets[0] == offsets[1] and offsets[0][0] == offsets[0][1]:
                continue  # the same law for both
            chances = [chance(protocol, x, batch, *bounds) for x, bounds in zip((one, other), offsets, strict=True)]
            law = laws(offsets, chances, coins)
            pairs.append((law[0], law[1]))
        worst = max(worst, divergence(pairs, epsilon), divergence([(q, p) for p, q in pairs], epsilon))
    return worst


def chance(protocol: ConcurrentShuffle, stream: Array, batch: int, low: int, high: int) -> float:
    """Probability of the upper of two encodings, one user being between lattice points: the fraction of s x."""
    if low == high:
        return 0.0
    level, first, last = list(protocol.tree.spans())[batch]
    scaled = protocol.noises[level - 1].scale * stream[first - 1 : last]
    fractions = scaled - np.floor(scaled)
    assert np.count_nonzero(fractions) == 1
    return float(np.max(fractions))


def less(protocol: ConcurrentShuffle) -> ConcurrentShuffle:
    """20 % less noise on every level."""
    return replace(protocol, noises=tuple(replace(n, trials=math.floor(0.64 * n.trials)) for n in protocol.noises))


TREES = [((3,), 6, True), ((2, 2), 7, True), ((2, 3), 12, True), ((2, 2, 2), 8, True)]
PLAIN = [(degrees, horizon, False) for degrees, horizon, _ in TREES]


@pytest.mark.parametrize(("degrees", "horizon", "averaging"), TREES + PLAIN)
@pytest.mark.often(
    when=lambda domain, degrees, averaging: averaging == (degrees != (2, 2)) and (len(degrees) < 3 or domain == Bits())
)
@pytest.mark.parametrize("domain", [Bits(), Box(dim=1)], ids=["bits", "numbers"])
def test_joint_view_is_private_and_tight(
    domain: Domain, degrees: tuple[int, ...], horizon: int, averaging: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    protocol = ConcurrentShuffle.calibrate(
        domain=domain, budget=TIGHT, horizon=horizon, shufflers=len(degrees), degrees=degrees, averaging=averaging
    )
    assert protocol.guarantee.epsilon <= 1.0
    changes = []
    for user in (0, horizon // 2, protocol.tree.sizes[-1] - 1, horizon - 1):
        one = np.resize([1.0, 0.0, 0.0], horizon)
        other = one.copy()
        other[user] = 1 - other[user]
        changes.append((one, other))
        if not isinstance(domain, Bits):  # a change that ends between two lattice points
            between = one.copy()
            between[user] = 0.3
            changes.append((one, between))
    assert 0.8e-3 < worst_delta(protocol, protocol.guarantee.epsilon, changes, monkeypatch) <= 1e-3  # nearly tight
    assert worst_delta(less(protocol), 1.0, changes, monkeypatch) > 1e-3


@pytest.mark.parametrize(("dim", "width"), [(1, 1.0), (2, 0.993), (3, 1.37)])
def test_a_box_of_several_coordinates_is_private(dim: int, width: float) -> None:
    """Corners of a box differ in every coordinate: their totals, enumerated, tell more than one level states.

    A width that is no whole number of lattice steps is rounded up, nearly surely where it is just below one.
    """
    domain, trials, delta = Box(dim=dim, low=0.0, high=width), 400, 1e-3
    noise = BinomialNoise(scale=round(6 / width - 0.05, 2), trials=trials, users=1)
    steps = noise.scale * width
    stated = accountant.epsilon(batch_tree.all_levels_event(domain, [noise]), delta)
    offsets, chances = [[0, 0], [math.floor(steps), math.ceil(steps)]], [0.0, steps % 1.0]
    still, moved = laws(offsets, chances, trials)
    pairs = [(moved, still)] * dim
    assert divergence(pairs, stated) <= delta
    assert divergence(pairs, 0.9 * stated) > delta  # not far from tight: 20 % less noise would show


def test_paper_mode_states_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    protocol = ConcurrentShuffle.calibrate(
        domain=Bits(), budget=TIGHT, horizon=8, shufflers=2, degrees=(2, 2), calibration="paper"
    )
    one, other = np.zeros(8), np.eye(8)[0]
    stated = protocol.guarantee.epsilon
    exact = worst_delta(protocol, stated, [(one, other)], monkeypatch)
    assert 0.8e-3 < exact <= 1e-3
    assert stated < 0.8


def test_a_user_is_in_one_batch_of_each_level(monkeypatch: pytest.MonkeyPatch) -> None:
    protocol = ConcurrentShuffle.calibrate(domain=Bits(), budget=TIGHT, horizon=26, shufflers=3, degrees=(2, 3, 2))
    spans = list(protocol.tree.spans())
    base, _ = view(protocol, np.zeros(26), 0.0, monkeypatch)
    for user in range(26):
        changed, _ = view(protocol, np.eye(26)[user], 0.0, monkeypatch)
        moved = [spans[i] for i in range(len(spans)) if base[i] != changed[i]]
        assert moved == [span for span in spans if span[1] <= user + 1 <= span[2]]
        assert len({level for level, *_ in moved}) == len(moved) <= 3


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("domain", [Bits(), Box(dim=1)], ids=["bits", "numbers"])
@pytest.mark.often(when=lambda domain, k: (k == 4) == isinstance(domain, Bits))
def test_composition_agrees_with_loss_distributions(domain: Domain, k: int) -> None:
    budget = ApproxDP(epsilon=1.0, delta=1e-4)
    protocol = ConcurrentShuffle.calibrate(domain=domain, budget=budget, horizon=400, shufflers=k)
    event = protocol.event
    assert isinstance(event, CompositionEvent)
    assert all(isinstance(level, BinomialEvent) and not level.rounded for level in event.events)
    truth = truth_of(protocol)
    for epsilon in (0.5, 1.0, 1.3):
        exact, stated = truth.get_delta_for_epsilon(epsilon), accountant.delta(event, epsilon)
        assert 0.999 * exact <= stated <= 1.08 * exact
    weaker = truth_of(less(protocol))
    assert weaker.get_delta_for_epsilon(1.0) > 1e-4


def truth_of(protocol: ConcurrentShuffle) -> pld.PrivacyLossDistribution:
    event = protocol.event
    parts = [loss(level.trials, math.ceil(level.shift)) for level in event.events if isinstance(level, BinomialEvent)]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.compose(part)
    return whole


def loss(trials: int, shift: int) -> pld.PrivacyLossDistribution:
    """Loss distribution of Bin(trials, 1/2) against its shift; the profile of fair coins is the same both ways."""
    reach = 9 * math.sqrt(trials) / 2
    window = np.arange(max(0, math.floor(trials / 2 - reach)), math.ceil(trials / 2 + reach) + 1)
    mass = stats.binom.logpmf(window, trials, 0.5)
    still = {int(j): float(m) for j, m in zip(window, mass, strict=True)}
    moved = {int(j) + shift: float(m) for j, m in zip(window, mass, strict=True)}
    return pld.from_two_probability_mass_functions(still, moved, value_discretization_interval=1e-4)


def test_guarantee_covers_all_shufflers() -> None:
    stated = ConcurrentShuffle.calibrate(domain=Bits(), budget=TIGHT, horizon=12, shufflers=2, degrees=(2, 2)).guarantee
    assert stated.trust == "concurrent shuffle"
    assert dict(stated.observers).keys() == {"each of the 2 shufflers", "the analyzer and the public"}
    assert stated.shuffler is not None
    assert stated.shuffler.epsilon > stated.epsilon
    large = ConcurrentShuffle.calibrate(domain=Bits(), budget=TIGHT, horizon=10**5, shufflers=2).guarantee
    assert large.shuffler is None or large.shuffler.epsilon > 5
