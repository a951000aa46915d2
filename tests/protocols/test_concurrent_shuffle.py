"""Concurrent shufflers: running sums over a tree of batches."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from bandanna.device.domain import Ball, Bits, Box, Domain
from bandanna.device.linear_report import LinearReport
from bandanna.device.noise import FastNoise, ReplicatedNoise, SecureNoise
from bandanna.errors import InsecureSource, InvalidArgument, InvalidBudget, InvalidStatistic
from bandanna.numeric.rng import Streams
from bandanna.privacy import accountant, gdp
from bandanna.privacy.budgets import ZCDP, ApproxDP, Budget
from bandanna.privacy.calibration import BinomialNoise
from bandanna.privacy.events import BinomialEvent, CompositionEvent, Event
from bandanna.protocols import batch_tree
from bandanna.protocols.batch_tree import BatchTree, _shortlist
from bandanna.protocols.concurrent_shuffle import ConcurrentShuffle, ConcurrentState
from bandanna.protocols.privacy_model import concurrent
from bandanna.protocols.running_sum import lowest_batch_size, running_sum_protocol_for
from bandanna.protocols.shuffle_binomial import ShuffleBinomial
from bandanna.protocols.shuffle_bits import ShuffleBits

Floats = NDArray[np.float64]

BUDGET = ApproxDP(epsilon=1.0, delta=1e-5)
TREE = BatchTree(horizon=21, degrees=(2, 2, 3))  # batches of 2, 4, 12; the last user never fills one
NOISES = tuple(BinomialNoise(scale=s, trials=12, users=n) for s, n in ((4.0, 2), (3.0, 4), (5.0, 12)))
SMALL = {
    "numbers": ConcurrentShuffle(domain=Box(dim=1), tree=TREE, noises=NOISES),
    "bits": ConcurrentShuffle(domain=Bits(), tree=TREE, noises=NOISES),
    "vectors": ConcurrentShuffle(domain=Ball(dim=2), tree=TREE, noises=NOISES, averaging=False),
}
each = pytest.mark.parametrize("protocol", SMALL.values(), ids=SMALL.keys())
DRAWS = 12_000
BAND = math.sqrt(-math.log(1e-6 / 2) / 2)


def fast(seed: int) -> FastNoise:
    return FastNoise(np.random.default_rng(seed))


def stream(domain: Domain, users: int = 21) -> Floats:
    drawn = np.random.default_rng(3).uniform(-0.6, 1.0, size=(users, domain.dim))
    values = domain.project(drawn)
    if not isinstance(domain, Bits):
        values[::3] = 0.125
    return values


def weaker(protocol: ConcurrentShuffle) -> ConcurrentShuffle:
    """The same with 20 % less noise."""
    return replace(
        protocol, noises=tuple(replace(noise, trials=round(0.64 * noise.trials)) for noise in protocol.noises)
    )


def one_by_one(protocol: ConcurrentShuffle, values: Floats, seed: int, path: str, draws: int = DRAWS) -> Floats:
    """Estimates after every user, released one after the other: (draws, users, dim)."""
    state, source, found = protocol.begin((draws,)), fast(seed), []
    for value in values:
        state, estimate = protocol.release(state, np.broadcast_to(value, (draws, 1, len(value))), source, path=path)
        found.append(estimate.total)
    return np.stack(found, axis=1)


def at_once(protocol: ConcurrentShuffle, values: Floats, seed: int, path: str, draws: int = DRAWS) -> Floats:
    return protocol.prefixes(np.broadcast_to(values, (draws, *values.shape)), fast(seed), path=path)


def gap(first: Floats, second: Floats) -> float:
    """Two-sample Kolmogorov distance in units of its standard scale."""
    scale = math.sqrt(len(first) * len(second) / (len(first) + len(second)))
    return scale * float(stats.ks_2samp(first, second, method="asymp").statistic)


@each
def test_all_paths_have_one_law(protocol: ConcurrentShuffle) -> None:
    values = stream(protocol.domain)
    runs = [
        one_by_one(protocol, values, 1, "messages"),
        one_by_one(protocol, values, 2, "law"),
        at_once(protocol, values, 3, "messages"),
        at_once(protocol, values, 4, "law"),
    ]
    less = at_once(weaker(protocol), values, 5, "law")
    tilt = np.linspace(1.0, 2.0, protocol.domain.dim)
    for t in (1, 3, 5, 11, 13, 20):  # users 2, 4, 6, 12, 14, 21
        for other in runs[1:]:
            assert gap(runs[0][:, t] @ tilt, other[:, t] @ tilt) < BAND
        assert gap(runs[0][:, t] @ tilt, less[:, t] @ tilt) > BAND
    for a, b in ((3, 5), (5, 11), (11, 20)):
        for other in runs[1:]:
            assert gap((runs[0][:, b] - runs[0][:, a]) @ tilt, (other[:, b] - other[:, a]) @ tilt) < BAND


@each
def test_estimates_are_unbiased_with_the_stated_variance(protocol: ConcurrentShuffle) -> None:
    values = stream(protocol.domain)
    found = at_once(protocol, values, 6, "law")
    for t in range(1, 22):
        full = t // 2 * 2
        truth, variance = values[:full].sum(axis=0), float(protocol.prefix_variance(t))
        errors = found[:, t - 1] - truth
        assert np.all(np.abs(errors.mean(axis=0)) <= 5 * math.sqrt(variance / DRAWS))
        # rounding is bounded by 1/4 per user, and is less for values near the lattice: up to 3 % here
        assert np.all(errors.var(axis=0) <= variance * (1 + 6 * math.sqrt(2 / DRAWS)))
        if full:
            assert np.all(errors.var(axis=0) >= 0.9 * variance * (1 - 6 * math.sqrt(2 / DRAWS)))
    worst = max(float(protocol.prefix_variance(t)) for t in range(22))
    assert protocol.std() == pytest.approx(math.sqrt(worst))
    assert np.allclose(protocol.prefix_std() ** 2, [protocol.prefix_variance(t) for t in range(2, 22, 2)])


def test_averaging_lowers_the_variance() -> None:
    averaged = SMALL["numbers"]
    plain = replace(averaged, averaging=False)
    with_parts, without = averaged.prefix_variance(np.arange(22)), plain.prefix_variance(np.arange(22))
    assert np.all(with_parts <= without)
    assert with_parts[12] < without[12]
    one, two = averaged.level_stds()[0] ** 2, averaged.level_stds()[1] ** 2
    assert averaged.weights.variances[1] == pytest.approx(1 / (1 / two + 1 / (2 * one)))
    assert averaged.weights.own[1] == pytest.approx(averaged.weights.variances[1] / two)


@each
def test_nothing_unfinished_is_released(protocol: ConcurrentShuffle) -> None:
    values = stream(protocol.domain)
    other = values.copy()
    other[20] = protocol.domain.upper / math.sqrt(protocol.domain.dim)
    first, second = (one_by_one(protocol, v, 7, "messages", draws=3) for v in (values, other))
    assert np.array_equal(first, second)  # the last user of 21 fills no batch
    assert np.all(first[:, 0] == 0)
    assert np.array_equal(first[:, 1], first[:, 2])
    state, source = protocol.begin(), fast(1)
    for t in range(1, 22):
        state, estimate = protocol.release(state, values[t - 1 : t], source)
        assert (state.held.users, estimate.count) == (t, t // 2 * 2)
        assert estimate.variance == pytest.approx(float(protocol.prefix_variance(t)))
        for held, size in zip(state.held.totals, protocol.tree.sizes, strict=True):
            assert held.shape == (protocol.domain.dim,)
            if t % size == 0:
                assert np.all(held == 0)  # a full shuffler is emptied and used again


@each
def test_user_by_user_and_at_once_are_the_same_numbers(protocol: ConcurrentShuffle) -> None:
    values = np.stack([stream(protocol.domain)] * 3)  # (seeds, users, dim)

    def run(*cuts: int) -> ConcurrentState:
        state, source = protocol.begin((3,)), ReplicatedNoise(Streams([4, 5, 6]))
        for start, stop in pairwise((0, *cuts, 21)):
            state, _ = protocol.release(state, values[:, start:stop], source)
        return state

    at_once, single, some = run(), run(*range(1, 21)), run(3, 4, 12, 17)
    for other in (single, some):
        for one, two in zip((*at_once.held.totals, *at_once.sums), (*other.held.totals, *other.sums), strict=True):
            assert np.array_equal(one, two)
    whole = protocol.prefixes(values, ReplicatedNoise(Streams([4, 5, 6])))[:, -1]
    assert np.allclose(whole, np.sum(at_once.sums, axis=0), rtol=0, atol=1e-9)
    assert not np.array_equal(at_once.held.totals[0], at_once.held.totals[1])


@each
def test_users_may_arrive_in_any_portions(protocol: ConcurrentShuffle) -> None:
    values, draws = stream(protocol.domain), DRAWS
    state, source = protocol.begin((draws,)), fast(8)
    for start, stop in ((0, 1), (1, 8), (8, 9), (9, 21)):
        part = np.broadcast_to(values[start:stop], (draws, stop - start, protocol.domain.dim))
        state, estimate = protocol.release(state, part, source, path="law")
    reference = at_once(protocol, values, 9, "law", draws)[:, -1]
    assert gap(estimate.total[:, 0], reference[:, 0]) < BAND


@each
def test_paths_may_alternate_within_a_batch(protocol: ConcurrentShuffle) -> None:
    values, draws = stream(protocol.domain), DRAWS
    state, source = protocol.begin((draws,)), fast(10)
    for t, value in enumerate(values[:12]):
        path = "law" if t % 3 == 0 else "messages"
        state, estimate = protocol.release(state, np.broadcast_to(value, (draws, 1, len(value))), source, path=path)
    assert not any(state.held.owed[: 1 + protocol.tree.sizes.index(12)])
    reference = at_once(protocol, values[:12], 11, "messages", draws)[:, -1]
    less = at_once(weaker(protocol), values[:12], 12, "messages", draws)[:, -1]
    assert gap(estimate.total[:, 0], reference[:, 0]) < BAND
    assert gap(estimate.total[:, 0], less[:, 0]) > BAND


def test_memory_does_not_grow_with_the_stream() -> None:
    protocol = ConcurrentShuffle.calibrate(domain=Box(dim=1), budget=BUDGET, horizon=10**6, shufflers=6)
    state, _ = protocol.release(protocol.begin(), np.full((4000, 1), 0.5), fast(1), path="law")
    numbers = sum(array.size for array in (*state.held.totals, *state.sums))
    assert numbers == 2 * 6


def test_one_shuffler_is_the_sequential_model() -> None:
    for domain, single in ((Ball(dim=2), ShuffleBinomial), (Bits(), ShuffleBits)):
        protocol = ConcurrentShuffle.calibrate(domain=domain, budget=BUDGET, horizon=1000, shufflers=1)
        size = protocol.tree.sizes[0]
        given: dict[str, Any] = {} if single is ShuffleBits else {"domain": domain}
        alone = single.calibrate(budget=BUDGET, batch=size, **given)
        assert protocol.noises == (alone.noise,)
        assert protocol.std() == pytest.approx(math.sqrt(1000 // size) * alone.std(size))
        assert protocol.guarantee.epsilon == alone.guarantee.epsilon


@pytest.mark.parametrize("domain", [Bits(), Box(dim=1), Box(dim=3), Ball(dim=2), LinearReport(features=2)], ids=str)
@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.often(when=lambda domain, k: k == 2 or (k == 1) == isinstance(domain, Bits))
def test_noise_is_near_the_gaussian(domain: Domain, k: int) -> None:
    from bandanna.protocols.batch_tree import unit_std

    protocol = ConcurrentShuffle.calibrate(domain=domain, budget=BUDGET, horizon=5000, shufflers=k)
    ideal = domain.sensitivity / BUDGET.mu() * unit_std(protocol.tree, True)
    assert 0.995 * ideal < protocol.std() < 1.025 * ideal
    assert 0.97 < protocol.guarantee.epsilon <= 1.0
    assert protocol.guarantee.delta == 1e-5


def test_paper_mode_gives_each_level_its_share() -> None:
    paper = ConcurrentShuffle.calibrate(
        domain=Bits(), budget=BUDGET, horizon=4096, shufflers=3, degrees="paper", calibration="paper"
    )
    share = ApproxDP(epsilon=1 / 3, delta=1e-5 / 3)
    assert paper.tree.degrees == (3, 11, 11)
    assert not paper.averaging
    assert paper.noises == tuple(ShuffleBits.calibrate(budget=share, batch=size).noise for size in paper.tree.sizes)
    tight = ConcurrentShuffle.calibrate(domain=Bits(), budget=BUDGET, horizon=4096, shufflers=3, degrees="paper")
    assert tight.tree == paper.tree
    assert tight.std() < 0.7 * paper.std()
    assert paper.guarantee.epsilon < 0.7  # simple composition overstates


def test_any_horizon_and_number_of_shufflers_have_a_tree() -> None:
    """Some horizon between 2 and a million cannot be served."""
    for horizon, k in ((2, 1), (3, 1), (5, 2), (7, 2), (97, 6), (1000, 9), (123_457, 4), (999_983, 3), (10**6, 12)):
        protocol = ConcurrentShuffle.calibrate(domain=Bits(), budget=BUDGET, horizon=horizon, shufflers=k)
        assert protocol.shufflers == k
        assert protocol.guarantee.epsilon <= 1.0
    protocol = ConcurrentShuffle.calibrate(domain=Bits(), budget=BUDGET, horizon=3, shufflers=1)
    assert protocol.prefixes(np.ones((3, 1)), fast(1)).shape == (3, 1)
    assert np.all(protocol.prefixes(np.ones((1, 1)), fast(1)) == 0)


def test_a_secure_source_runs_messages() -> None:
    protocol = SMALL["bits"]
    for run in (
        protocol.prefixes,
        lambda values, source, **path: protocol.release(protocol.begin(), values, source, **path),
    ):
        with pytest.raises(InsecureSource):
            run(np.ones((4, 1)), SecureNoise(), path="law")
    estimates = protocol.prefixes(np.ones((12, 1)), SecureNoise())
    assert abs(estimates[-1, 0] - 12) < 40 * protocol.std()


@pytest.mark.parametrize("users", [2, 5, 12, 20, 21])
def test_counts_of_batches_determine_streams_of_bits(users: int) -> None:
    protocol = SMALL["bits"]
    bits = np.random.default_rng(users).integers(0, 2, (3, 4, users)).astype(float)
    ones = bits[..., : users // 2 * 2].reshape(3, 4, -1, 2).sum(axis=-1).astype(int)
    whole = protocol.prefixes(bits[..., None], fast(7), path="law")
    assert np.array_equal(protocol.estimate_bit_prefixes(ones, fast(7)), whole[..., 1::2, 0])
    for wrong in (ones + 3, -1 - ones, np.zeros((3, 11), dtype=int), np.zeros((3, 0), dtype=int), np.int64(1)):
        with pytest.raises(InvalidArgument, match="ones"):
            protocol.estimate_bit_prefixes(wrong, fast(7))
    with pytest.raises(InvalidArgument, match="domain"):
        SMALL["numbers"].estimate_bit_prefixes(ones, fast(7))
    with pytest.raises(InsecureSource):
        protocol.estimate_bit_prefixes(ones, SecureNoise())


def test_bad_input_changes_nothing() -> None:
    protocol = SMALL["numbers"]
    state, _ = protocol.release(protocol.begin(), np.full((20, 1), 0.5), fast(1))
    with pytest.raises(InvalidArgument, match="horizon"):
        protocol.release(state, np.full((2, 1), 0.5), fast(1))
    with pytest.raises(InvalidArgument, match="horizon"):
        protocol.prefixes(np.full((22, 1), 0.5), fast(1))
    with pytest.raises(InvalidStatistic):
        protocol.release(state, [[1.5]], fast(1), clip=False)
    assert state.held.users == 20
    with pytest.raises(InvalidArgument, match="noises"):
        replace(protocol, noises=protocol.noises[:2])
    with pytest.raises(InvalidArgument, match="participations"):
        replace(protocol, participations=2)
    given: dict[str, Any] = {"domain": Box(dim=1), "horizon": 100}
    with pytest.raises(InvalidArgument, match="shufflers"):
        ConcurrentShuffle.calibrate(budget=BUDGET, shufflers=7, **given)
    with pytest.raises(InvalidArgument, match="shufflers"):
        ConcurrentShuffle.calibrate(budget=BUDGET, shufflers=3, degrees=(5, 5), **given)
    with pytest.raises(InvalidArgument, match="degrees"):
        ConcurrentShuffle.calibrate(budget=BUDGET, degrees="fair", **given)
    with pytest.raises(InvalidBudget):
        ConcurrentShuffle.calibrate(budget=ZCDP(rho=0.1), **given)


def test_a_running_sum_may_use_concurrent_shufflers() -> None:
    domain, horizon = LinearReport(features=2), 3000
    privacy = concurrent(epsilon=1.0, delta=1e-5, shufflers=3)
    size = lowest_batch_size(privacy, domain=domain, horizon=horizon)
    channel = running_sum_protocol_for(privacy, domain=domain, sizes=(size,) * (horizon // size))
    protocol = channel.stream
    assert isinstance(protocol, ConcurrentShuffle)
    assert protocol.tree.sizes[0] == size
    assert channel.continual is None
    assert len(channel.prefix_std()) == horizon // size
    assert channel.guarantee.epsilon <= 1.0
    state = protocol.begin((4,))
    statistic = domain.statistic(np.full((4, size, 2), 0.5), np.ones((4, size)))
    for batch in range(1, 5):
        state, estimate = protocol.release(state, statistic, fast(batch), path="law")
        assert estimate.count == batch * size
        assert math.sqrt(estimate.variance) == pytest.approx(channel.prefix_std()[batch - 1])
    for degrees in ("paper", (5, 5, 5)):
        chosen = concurrent(epsilon=1.0, delta=1e-5, shufflers="best" if degrees == "paper" else 3, degrees=degrees)
        size = lowest_batch_size(chosen, domain=domain, horizon=horizon)
        opened = running_sum_protocol_for(chosen, domain=domain, sizes=(size,) * (horizon // size))
        assert opened.stream is not None
        assert len(opened.prefix_std()) == horizon // size
    with pytest.raises(InvalidArgument, match="batch"):
        running_sum_protocol_for(privacy, domain=domain, sizes=(20, 30))
    with pytest.raises(InvalidArgument, match="degrees"):
        running_sum_protocol_for(replace(privacy, degrees=(5, 5, 5)), domain=domain, sizes=(10,) * 20)


@pytest.mark.parametrize("noise", [{"scale": 1.0, "probability": 0.001}, {"scale": 2.7}], ids=["unfair", "copies"])
def test_bits_are_priced_as_they_are_hidden(noise: dict[str, float]) -> None:
    tree = BatchTree(horizon=4, degrees=(2, 2))
    with pytest.raises(InvalidArgument, match=r"probability|copies"):
        ConcurrentShuffle(
            domain=Bits(), tree=tree, noises=tuple(BinomialNoise(trials=1000, users=m, **noise) for m in tree.sizes)
        )


def test_channel_refuses_returning_users() -> None:
    returning = replace(concurrent(epsilon=1.0, delta=1e-5, shufflers=2), participations=3)
    with pytest.raises(InvalidArgument, match="participations"):
        running_sum_protocol_for(returning, domain=Box(dim=1), sizes=(5,) * 8)


FACTORS_BUDGET = ApproxDP(epsilon=1.0, delta=1e-3)
FACTORS_TREE = BatchTree(horizon=16, degrees=(4, 4))  # three batches of level 1 and one of level 2 at most
SHARES = (math.sqrt(3) / (1 + math.sqrt(3)), 1 / (1 + math.sqrt(3)))  # sqrt(m_j), m = (3, 1)


@pytest.mark.parametrize("domain", [Bits(), Ball(dim=3), Box(dim=2, low=0.0, high=0.5)])
def test_the_first_noise_that_is_tried_is_that_of_gaussians(domain: Domain, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Event] = []

    def satisfies(event: Event, budget: Budget) -> bool:
        tried.append(event)
        return True  # whatever it is

    monkeypatch.setattr(accountant, "satisfies", satisfies)
    noises = batch_tree.calibrate_levels(domain, FACTORS_BUDGET, FACTORS_TREE, averaging=False, calibration="tight")
    assert len(tried) == 1
    for noise, share in zip(noises, SHARES, strict=True):
        ideal = domain.sensitivity / (gdp.mu(1.0, 1e-3) * math.sqrt(share))
        assert noise.std() == pytest.approx(ideal, rel=0.01)


def test_a_step_of_the_search_is_what_is_missing() -> None:
    noises = batch_tree.calibrate_levels(
        Ball(dim=3), FACTORS_BUDGET, FACTORS_TREE, averaging=False, calibration="tight"
    )
    composed = batch_tree.all_levels_event(Ball(dim=3), noises)
    assert accountant.satisfies(composed, FACTORS_BUDGET)
    less = [
        BinomialEvent(trials=math.floor(each.trials * 0.995), shift=each.shift, reach=each.reach, dim=each.dim)
        for each in composed.events
        if isinstance(each, BinomialEvent)
    ]
    assert len(less) == 2
    assert not accountant.satisfies(CompositionEvent(events=tuple(less)), FACTORS_BUDGET)


def test_the_lattice_of_a_level_is_the_first_of_theorem_a4() -> None:
    box = Box(dim=400, low=0.0, high=0.5)  # Delta = 10
    assert (
        batch_tree._level_noise_for_std(box, 50.0, 4).scale == 10.0
    )  # 5 sqrt(400) / 10; 5 sqrt(4) / 50 and sqrt(375) / 50 are less
    ball = Ball(dim=2, bound=4.0)  # Delta = 8
    assert batch_tree._level_noise_for_std(ball, 50.0, 4).scale == 30.0
    wide = Ball(dim=10_000, bound=0.5)  # Delta = 1
    assert batch_tree._level_noise_for_std(wide, 50.0, 4).scale == 500.0


def test_trees_are_tried_in_the_order_of_their_bounds() -> None:
    found = list(_shortlist(10**6, 2, 1.0, 0.0, averaging=False, lowest=10))
    assert len(found) > 5
    bounds = [math.sqrt(tree.degrees[1] - 1) + math.sqrt(tree.batches[1]) for tree in found]
    assert bounds == sorted(bounds)
    assert bounds[0] == pytest.approx(min(math.sqrt(d - 1) + math.sqrt(10**5 // d) for d in range(2, 2000)), rel=1e-3)


def test_trees_are_compared_by_their_noise_and_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    assert batch_tree._error(FACTORS_TREE, 2.0, 0.5, averaging=False) == pytest.approx(
        2.0 * math.sqrt(3 / SHARES[0]) + 3 * 0.5
    )
    asked: dict[str, float] = {}

    def best_tree(horizon: int, shufflers: int | str, **given: float) -> BatchTree:
        asked.update(given)
        return FACTORS_TREE

    monkeypatch.setattr(batch_tree, "best_tree", best_tree)
    assert batch_tree.plan_tree(Ball(dim=3), FACTORS_BUDGET, 16, shufflers=2) == FACTORS_TREE
    assert asked["noise"] == pytest.approx(2.0 / gdp.mu(1.0, 1e-3))
