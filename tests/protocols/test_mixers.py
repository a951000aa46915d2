"""Mixers, statistics on their way to them, and mixers that draw the noise."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import bandanna as bd
from bandanna.device.domain import Ball, Statistic
from bandanna.device.linear_report import LinearReport
from bandanna.device.noise import FastNoise, SecureNoise
from bandanna.errors import BandannaError, InvalidArgument, InvalidBudget, InvalidStatistic
from bandanna.privacy import accountant
from bandanna.privacy.calibration import (
    REFUSAL_PROBABILITY,
    BinomialNoise,
    likely_coins,
    refusal_tail,
    subtract_refusals,
)
from bandanna.privacy.events import ClearEvent, RepetitionEvent
from bandanna.privacy.factorisation import factorise
from bandanna.protocols.base import BatchProtocol, Protocol
from bandanna.protocols.batch_tree import BatchTree
from bandanna.protocols.clear import Clear
from bandanna.protocols.concurrent_shuffle import ConcurrentShuffle
from bandanna.protocols.continual import CentralContinual
from bandanna.protocols.factory import PROTOCOLS, protocol_for
from bandanna.protocols.gaussian import CentralGaussian, LocalGaussian, ShuffleGaussian
from bandanna.protocols.mixers import MixerState
from bandanna.protocols.running_sum import find_mismatch, running_sum_protocol_for
from bandanna.protocols.shuffle_binomial import ShuffleBinomial, largest_counts
from bandanna.protocols.shuffle_bits import ShuffleBits
from bandanna.protocols.spherical_cap import LocalUnit
from bandanna.simulation.environments.linear import LinearContextual
from bandanna.storage.encoding import Encoding

REPORT, BUDGET = bd.device.LinearReport(features=5), bd.privacy.ApproxDP(epsilon=1.0, delta=1e-5)
SMALL = BinomialNoise(scale=2.0, trials=2, users=2)
CODE = Encoding(PROTOCOLS | {"LinearReport": bd.device.LinearReport})
BAND = math.sqrt(-math.log(1e-6 / 2) / 2)  # of sqrt(n) times a Kolmogorov distance


def fast(seed: int = 1) -> FastNoise:
    return FastNoise(np.random.default_rng(seed))


class Scripted(FastNoise):
    """Uniforms and coins as told; which coins were asked for is kept."""

    def __init__(self, uniform: Any, coins: Any) -> None:
        super().__init__(np.random.default_rng(0))
        self.told_uniform, self.told_coins = uniform, coins
        self.asked: list[tuple[int, float]] = []

    def uniform(self, size: Any) -> NDArray[np.float64]:
        return np.broadcast_to(np.asarray(self.told_uniform, dtype=float), size)

    def binomial(self, *, trials: int, probability: float, size: Any) -> NDArray[np.int64]:
        self.asked.append((trials, probability))
        return np.broadcast_to(np.asarray(self.told_coins, dtype=np.int64), size)


def view(protocol: BatchProtocol, values: Any, source: FastNoise) -> Any:
    mixer = protocol.mixer
    messages = mixer.check(protocol.device.message(protocol.admit(values), source))
    return mixer.close(mixer.drawn(mixer.add(mixer.empty(messages.shape[:-2]), messages), source))


def law_of_totals(protocol: ShuffleBinomial | ShuffleBits, values: NDArray[np.float64]) -> dict[int, float]:
    """Every outcome of rounding and coins, with its exact probability, through device and mixer."""
    users, noise = len(values), protocol.noise
    rests = [float(value) % 1.0 for value in noise.scale * values[:, 0]]
    drawn = protocol.coins == "mixer"
    outcomes = [range(users * noise.trials + 1)] if drawn else [range(noise.trials + 1)] * users
    law: Counter[int] = Counter()
    for ups in itertools.product([True, False], repeat=users):
        chance = math.prod(rest if up else 1 - rest for rest, up in zip(rests, ups, strict=True))
        uniform = np.array([[0.0 if up else 1 - 2.0**-53] for up in ups])
        for coins in itertools.product(*outcomes):
            source = Scripted(uniform, coins[0] if drawn else np.array(coins)[:, None])
            total = int(view(protocol, values, source).numbers[0])
            ((trials, probability),) = source.asked
            assert trials == (users if drawn else 1) * noise.trials
            law[total] += chance * math.prod(stats.binom.pmf(coin, trials, probability) for coin in coins)
    return {total: mass for total, mass in law.items() if mass > 0}


@pytest.mark.parametrize("users", [2, 3])
@pytest.mark.parametrize("probability", [0.5, 0.25])
def test_totals_have_the_law_of_device_coins(users: int, probability: float) -> None:
    protocol = ShuffleBinomial(domain=bd.device.Box(dim=1), noise=replace(SMALL, probability=probability))
    values = np.array([[0.0], [0.3], [0.85]])[:users]
    expected, found = (law_of_totals(replace(protocol, coins=coins), values) for coins in ("device", "mixer"))
    assert math.fsum(found.values()) == pytest.approx(1.0)
    assert found == pytest.approx(expected, abs=1e-14)
    less = law_of_totals(replace(protocol, noise=replace(protocol.noise, trials=1), coins="mixer"), values)
    assert less != pytest.approx(expected, abs=1e-3)


def test_bits_have_the_law_of_device_coins() -> None:
    protocol, values = ShuffleBits(noise=replace(SMALL, scale=3.0)), np.array([[1.0], [0.0], [1.0]])
    expected, found = (law_of_totals(replace(protocol, coins=coins), values) for coins in ("device", "mixer"))
    assert found == pytest.approx(expected, abs=1e-14)


def divergence(protocol: ShuffleBits, epsilon: float) -> float:
    """Of two batches that differ in one bit, exactly, with the coins that the roles ask for."""
    source = Scripted(0.5, 0)
    still, moved = (view(protocol, [[bit]] + [[0.0]] * (protocol.batch - 1), source) for bit in (0.0, 1.0))
    assert len(set(source.asked)) == 1
    coins, probability = source.asked[0]
    every = np.arange(coins + int(moved.numbers[0]) + 1)
    p, q = (stats.binom.pmf(every - each.numbers[0], coins, probability) for each in (still, moved))
    return max(float(np.maximum(a - math.exp(epsilon) * b, 0).sum()) for a, b in ((p, q), (q, p)))


def test_bits_are_as_private_as_promised() -> None:
    protocol = ShuffleBits.calibrate(budget=BUDGET, batch=20, coins="mixer")
    stated = protocol.guarantee
    assert stated.epsilon <= BUDGET.epsilon
    assert divergence(protocol, stated.epsilon) <= stated.delta
    for fraction in (0.64, 19 / 20):  # of the variance; one user's coins missing
        weaker = replace(protocol, noise=replace(protocol.noise, trials=math.floor(fraction * protocol.noise.trials)))
        assert divergence(weaker, stated.epsilon) > stated.delta


EVERY: dict[str, Any] = {
    "vectors": ShuffleBinomial.calibrate(domain=REPORT, budget=BUDGET, batch=200),
    "bits": ShuffleBits.calibrate(budget=BUDGET, batch=200),
    "concurrent": ConcurrentShuffle.calibrate(domain=REPORT, budget=BUDGET, horizon=20_000, shufflers=2),
}
every = pytest.mark.parametrize("protocol", EVERY.values(), ids=EVERY.keys())


@every
def test_the_analyzer_pays_the_same_and_the_shuffler_sees_all(protocol: Any) -> None:
    mixed = replace(protocol, coins="mixer")
    assert mixed.event == protocol.event
    assert mixed.bits_per_user < protocol.bits_per_user
    assert isinstance(mixed.local_event, ClearEvent)
    stated, before = mixed.guarantee, protocol.guarantee
    assert (stated.epsilon, stated.delta, stated.exposed, stated.shuffler) == (before.epsilon, before.delta, 1.0, None)
    (_, seen), others = stated.observers
    assert "without noise (it draws the noise of the batch itself)" in seen
    assert "noisy" not in seen
    assert others == before.observers[1]
    assert ", no privacy is left: some two reports can always be told apart" in str(stated)


def test_a_coarse_lattice_hides_what_it_rounds() -> None:
    noise = BinomialNoise(scale=0.25, trials=100, users=2)
    assert ShuffleBinomial(domain=bd.device.Box(dim=1), noise=noise, coins="mixer").exposed == 0.25


BATCHES: dict[str, Any] = {name: replace(EVERY[name], coins="mixer") for name in ("vectors", "bits")}
each_batch = pytest.mark.parametrize("protocol", BATCHES.values(), ids=BATCHES.keys())


@each_batch
def test_noise_is_drawn_once_or_nothing_leaves(protocol: Any) -> None:
    mixer = protocol.mixer
    messages = protocol.device.message(protocol.admit(np.zeros((200, protocol.domain.dim))), fast())
    held = mixer.add(mixer.empty(), messages)
    for unfinished in (held, MixerState(users=200, numbers=held.numbers)):  # as a sum over stored rows
        with pytest.raises(InvalidArgument, match="drawn"):
            mixer.close(unfinished)
    drawn = mixer.drawn(held, fast())
    assert mixer.close(drawn) is drawn
    assert not np.array_equal(drawn.numbers, held.numbers)
    with pytest.raises(InvalidArgument, match="once"):
        mixer.drawn(drawn, fast())
    with pytest.raises(InvalidArgument, match="next batch"):
        mixer.add(drawn, messages)
    with pytest.raises(InvalidArgument, match="at least 200 users"):
        mixer.drawn(mixer.add(mixer.empty(), messages[:199]), fast())
    written = CODE.loads(CODE.dumps(drawn))  # what a crash leaves
    assert np.array_equal(mixer.close(written).numbers, drawn.numbers)
    assert not mixer.forget(drawn).drawn


def test_a_mixer_of_device_coins_draws_nothing() -> None:
    for coins in ("device", "checked"):
        protocol = replace(EVERY["vectors"], coins=coins)
        held = protocol.mixer.empty()
        assert protocol.mixer.drawn(held, fast()) is held


def test_levels_owe_their_coins_until_they_are_full() -> None:
    tree = BatchTree(horizon=12, degrees=(2, 3))
    noises = tuple(BinomialNoise(scale=4.0, trials=400, users=size) for size in tree.sizes)
    protocol = ConcurrentShuffle(domain=bd.device.Box(dim=2), tree=tree, noises=noises, coins="mixer")
    mixer, held = protocol.mixer, protocol.mixer.empty()
    for users in range(1, 7):
        sent = protocol.device.message(protocol.admit([[0.5, 0.5]]), fast(users))
        held = mixer.add(held, mixer.check(sent))
        if full := mixer.full(users):
            with pytest.raises(InvalidArgument, match="coins"):
                mixer.close(held)
        before, held = held, mixer.drawn(held, fast(users))
        assert held.owed == (0,) * full + before.owed[full:]
        assert mixer.drawn(held, fast()) is held
        assert len(mixer.close(held).levels) == full
        held = mixer.forget(held)
    assert held.owed == (0, 0)
    device = replace(protocol, coins="device")
    rows = np.broadcast_to([[0.31, 0.9]], (20_000, 6, 2))
    laws = [each.release(each.begin((20_000,)), rows, fast(3))[1].total[:, 0] for each in (device, protocol)]
    laws.append(protocol.release(protocol.begin((20_000,)), rows, fast(4), path="law")[1].total[:, 0])
    laws.append(protocol.prefixes(rows, fast(5))[:, -1, 0])
    assert all(stats.ks_2samp(laws[0], law, method="asymp").statistic * math.sqrt(10_000) < BAND for law in laws[1:])
    assert (
        stats.ks_2samp(laws[0], 0.8 * laws[1] + 0.2 * laws[1].mean(), method="asymp").statistic * math.sqrt(10_000)
        > BAND
    )


def test_a_stream_may_change_its_path() -> None:
    tree = BatchTree(horizon=4, degrees=(4,))
    noise = BinomialNoise(scale=4.0, trials=400, users=4)
    protocol = ConcurrentShuffle(domain=bd.device.Box(dim=1), tree=tree, noises=(noise,), coins="mixer")
    source = Scripted(0.0, 0)
    state, _ = protocol.release(protocol.begin(), np.zeros((3, 1)), source, path="law")
    assert state.held.owed == (3,)
    protocol.release(state, np.zeros((1, 1)), source)
    assert source.asked == [(4 * 400, 0.5)]


# Ranges


def test_a_client_has_the_weight_of_its_statistic() -> None:
    spans = {}
    for coins in ("device", "checked", "mixer"):
        mixer = replace(EVERY["vectors"], coins=coins).mixer
        low, high = mixer.likely if coins == "checked" else (0, mixer.largest)
        spans[coins] = round(float(high[0] - low) / mixer.encoded[0], 2)
    assert spans == {"device": 8.05, "checked": 5.77, "mixer": 1.0}


@pytest.mark.parametrize("coins", ["device", "checked", "mixer"])
def test_counts_that_no_device_sends_are_refused(coins: str) -> None:
    mixer = replace(EVERY["vectors"], coins=coins).mixer
    low, high = mixer.likely if coins == "checked" else (0, mixer.largest)
    inside = np.stack([np.broadcast_to(low, 20), high])
    assert np.array_equal(mixer.check(inside), inside)
    for row, change in ((0, -1), (1, 1)):
        outside = inside.copy()
        outside[row, 7] += change
        with pytest.raises(InvalidStatistic, match=rf"\[{row}, 7\]"):
            mixer.check(outside)


def test_a_bit_is_sent_in_all_its_copies_or_none() -> None:
    mixer = BATCHES["bits"].mixer
    assert mixer.encoded[0] == 21
    mixer.check(np.array([[0], [21]]))
    for wrong in (1, 20, 22, -1):
        with pytest.raises(InvalidStatistic):
            mixer.check(np.array([[wrong]]))


@pytest.mark.parametrize("probability", [0.5, 0.25])
@pytest.mark.parametrize("trials", [1, 60, 62, 106, 155, 1545, 29435])
def test_honest_devices_are_hardly_ever_refused(trials: int, probability: float) -> None:
    law = stats.binom(trials, probability)
    low, high = likely_coins(BinomialNoise(scale=1.0, trials=trials, users=2, probability=probability))
    assert law.cdf(low - 1) + law.sf(high) <= REFUSAL_PROBABILITY
    assert law.cdf(low) > REFUSAL_PROBABILITY / 2 * (1 - 1e-5)
    assert high == trials or law.sf(high - 1) > REFUSAL_PROBABILITY / 2 * (1 - 1e-5)


def test_seven_standard_deviations_would_cost_more() -> None:
    b, wide = 155, 3.5 * math.sqrt(155)
    law = stats.binom(b, 0.5)
    outside = law.cdf(math.ceil(b / 2 - wide) - 1) + law.sf(math.floor(b / 2 + wide))
    assert outside == pytest.approx(3.3e-13, rel=0.02)
    assert (1 + math.e) * 200 * 20 * outside == pytest.approx(4.9e-9, rel=0.02)
    assert (1 + math.e) * refusal_tail(200, 20) == pytest.approx(1.3e-14, rel=0.02)


def test_unlikely_counts_are_found_by_user() -> None:
    for coins in ("device", "checked"):
        protocol = replace(EVERY["vectors"], coins=coins)
        sent = protocol.device.message(protocol.admit(np.zeros((3, 4, 20))), SecureNoise())
        sent[1, 2, 5] = protocol.mixer.largest[5]
        expected = np.zeros((3, 4), dtype=bool)
        expected[1, 2] = True
        assert np.array_equal(protocol.mixer.flag_unlikely(sent), expected)  # false alarm: 240 * 2^-60
        if coins == "device":
            protocol.mixer.check(sent)
    assert not BATCHES["vectors"].mixer.flag_unlikely(np.stack([np.zeros(20), BATCHES["vectors"].mixer.largest])).any()
    levels = EVERY["concurrent"].mixer
    middle = np.tile(
        np.concatenate([(low + high) // 2 for low, high in (each.likely for each in levels.levels)]), (2, 1)
    )
    middle[1, -1] = levels.levels[-1].largest[-1]
    assert levels.flag_unlikely(middle).tolist() == [False, True]


@every
def test_refusals_are_in_the_price(protocol: Any) -> None:
    checked = replace(protocol, coins="checked")
    sizes = protocol.tree.sizes if isinstance(protocol, ConcurrentShuffle) else (protocol.batch,)
    tail = sum(refusal_tail(size, protocol.domain.dim) for size in sizes)
    epsilon = 20.0  # where the coins cost next to nothing
    more = accountant.delta(checked.event, epsilon) - accountant.delta(protocol.event, epsilon)
    assert more == pytest.approx((1 + math.exp(epsilon)) * tail, rel=1e-3)
    assert checked.guarantee.epsilon >= protocol.guarantee.epsilon
    assert checked.guarantee.shuffler == protocol.guarantee.shuffler  # it sees the same


@pytest.mark.parametrize("participations", [1, 3])
def test_calibration_leaves_room_for_refusals(participations: int) -> None:
    budget = bd.privacy.ApproxDP(epsilon=1.0, delta=3e-14)
    given: dict[str, Any] = {"budget": budget, "batch": 50, "participations": participations, "coins": "checked"}
    for protocol in (ShuffleBits.calibrate(**given), ShuffleBinomial.calibrate(domain=bd.device.Box(dim=2), **given)):
        whole = RepetitionEvent(event=protocol.event, times=participations)
        assert accountant.satisfies(whole, budget)
        assert protocol.guarantee.epsilon <= 1.0
        left = subtract_refusals(budget, 50, protocol.domain.dim, participations)
        assert isinstance(left, bd.privacy.ApproxDP)
        assert left.delta < budget.delta * (1 - 1e-3)
    with pytest.raises(InvalidBudget, match="nothing is refused"):
        ShuffleBits.calibrate(budget=bd.privacy.ApproxDP(epsilon=1.0, delta=1e-15), batch=200, coins="checked")


# Whole runs


def test_privacy_says_who_draws() -> None:
    for noise in ("device", "checked", "mixer"):
        privacy = bd.shuffle(epsilon=1.0, delta=1e-5, noise=noise)
        for quick in (False, True):
            assert protocol_for(privacy, bd.device.Bits(), 50, quick=quick).coins == noise  # type: ignore[attr-defined]
            assert protocol_for(privacy, bd.device.Box(dim=2), 50, quick=quick).coins == noise  # type: ignore[attr-defined]
        several = bd.concurrent(epsilon=1.0, delta=1e-5, shufflers=2, noise=noise)
        for one, sizes in ((privacy, [50, 50, 100]), (several, [50] * 4)):
            channel = running_sum_protocol_for(one, domain=bd.device.Box(dim=2), sizes=sizes)
            for size, protocol in channel.protocols.items():
                assert protocol.coins == noise  # type: ignore[attr-defined]
                assert find_mismatch(one, protocol, size=size, steps=len(sizes)) is None
                other = replace(one, noise="mixer" if noise == "device" else "device")
                assert find_mismatch(other, protocol, size=size, steps=len(sizes)) == "noise that another party draws"
        counter = bd.agent.ContinualSum(horizon=200, privacy=privacy, values=bd.device.Bits())
        assert isinstance(counter.protocol, ConcurrentShuffle)
        assert counter.protocol.coins == noise
    for model, sums in (("shuffle", "gaussian"), ("central", "binomial"), ("local", "unit"), ("none", "binomial")):
        budget = None if model == "none" else BUDGET
        with pytest.raises(InvalidArgument, match="sums of counts"):
            bd.protocols.Privacy(model=model, budget=budget, protocol=sums, noise="mixer")
    with pytest.raises(InvalidArgument, match='protocol="binomial"'):
        bd.shuffle(epsilon=1.0, delta=1e-5, protocol="gaussian", noise="mixer")
    with pytest.raises(InvalidArgument, match="noise"):
        bd.shuffle(epsilon=1.0, delta=1e-5, noise="mixers")


@pytest.mark.parametrize("name", ["LinTS-SDP", "LinUCB-SDP-Vec", "LinTS-CSDP"])
@pytest.mark.often(when=lambda name: name != "LinTS-SDP")
def test_both_paths_of_the_simulator_have_one_law(name: str) -> None:
    made = {
        noise: bd.make(name, dim=3, horizon=400, epsilon=5.0, delta=1e-3, noise=noise, batch=50)
        for noise in ("mixer", "device")
    }
    runs = [("mixer", "law"), ("mixer", "messages"), ("device", "messages")]
    world = LinearContextual(dim=3, n_arms=4)
    regrets = [
        bd.simulate(made[noise], world, n_seeds=80, seed=100 * place, path=path).regret[:, -1]
        for place, (noise, path) in enumerate(runs)
    ]
    for one, other in itertools.combinations(regrets, 2):
        assert stats.ks_2samp(one, other, method="asymp").statistic * math.sqrt(40) < BAND
    assert made["mixer"].guarantee.epsilon == made["device"].guarantee.epsilon


def test_seeds_draw_the_same_in_any_company() -> None:
    policy = bd.make("LinTS-SDP", dim=3, horizon=400, epsilon=5.0, delta=1e-3, noise="mixer", batch=50)
    world = LinearContextual(dim=3, n_arms=4)
    alone, together = (bd.simulate(policy, world, n_seeds=n, seed=7, path="messages").regret for n in (1, 3))
    assert np.array_equal(alone[0], together[0])


@pytest.mark.parametrize("name", ["SDP-DPE", "GLM-SDP", "SDP-SE"])
def test_policies_say_what_the_shuffler_sees(name: str) -> None:
    given: dict[str, Any] = {"horizon": 10**4, "privacy": bd.shuffle(epsilon=1.0, delta=1e-5, noise="mixer")}
    given |= {"n_arms": 3} if name == "SDP-SE" else {"dim": 2}
    stated = bd.make(name, **given).guarantee
    assert "without noise (it draws the noise of the batch itself)" in str(stated)
    assert stated.exposed == 1.0
    assert stated.shuffler is None


def test_an_agent_draws_for_its_batches() -> None:
    policy = bd.make("LinTS-SDP", dim=2, horizon=60, epsilon=1.0, delta=1e-2, noise="mixer", batch=20)
    agent = bd.Agent(policy=policy)
    for number in range(50):
        decision = agent.act(np.eye(2))
        agent.observe(decision.id, float(number % 2))
    assert agent.releases == 2


DOMAIN, USERS = Ball(dim=3), 6
NOISE = BinomialNoise(scale=4.0, trials=400, users=USERS)
BATCH: list[BatchProtocol] = [
    Clear(domain=DOMAIN),
    CentralGaussian(domain=DOMAIN, noise_std=3.0, participations=2),
    LocalGaussian(domain=DOMAIN, noise_std=3.0, participations=2),
    LocalUnit(domain=DOMAIN, cosine=0.2, chance=0.8, candidates=3, participations=2),
    ShuffleGaussian(domain=DOMAIN, noise_std=3.0, batch=USERS, participations=2),
    ShuffleBinomial(domain=DOMAIN, noise=NOISE, participations=2),
]
CONTINUAL = CentralContinual(domain=DOMAIN, factorisation=factorise("tree", horizon=5), noise_std=3.0, participations=2)


def title(protocol: Protocol) -> str:
    return protocol.name


statistics_each_batch = pytest.mark.parametrize("protocol", BATCH, ids=title)


def extreme_rows(domain: LinearReport, rows: int) -> NDArray[np.float64]:
    """Numbers of every magnitude and either sign, a fifth of them zero."""
    rng = np.random.default_rng(3)
    values = rng.normal(size=(rows, domain.dim)) * 10.0 ** rng.uniform(-300, 300, size=(rows, domain.dim))
    return np.where(rng.uniform(size=values.shape) < 0.2, 0.0, values)


# Extreme statistics


@pytest.mark.parametrize("clip", [True, False])
def test_tiny_diagonals_are_no_reports_of_nothing(clip: bool) -> None:
    try:
        admitted = LinearReport(features=2).admit([[0, 0, 1e-300, 0, 1e200]], clip=clip)
    except BandannaError:
        assert not clip
        return
    assert np.all(np.isfinite(admitted.values))


def test_squares_do_not_overflow() -> None:
    np.testing.assert_allclose(np.linalg.norm(Ball(dim=2).admit([[1e200, 1e200]]).values), 1.0)
    report = LinearReport(features=2)
    vector, matrix = report.unpack(report.statistic([[1e200, 1e200]], [1.0]).values[0])
    np.testing.assert_allclose(vector, np.sqrt([0.5, 0.5]))
    np.testing.assert_allclose(matrix, np.full((2, 2), 0.5))
    assert np.all(np.isfinite(report.admit([[1.0, 1.0, 0.0, 2.2e-311, 1.0]]).values))


@pytest.mark.parametrize("features", [1, 2, 4])
@pytest.mark.parametrize("reward_bound", [0.3, 1.0, 5.0])
@pytest.mark.often(when=lambda features, reward_bound: reward_bound == (0.3, 5.0, 1.0)[features // 2])
def test_rows_of_every_magnitude_become_reports(features: int, reward_bound: float) -> None:
    domain = LinearReport(features=features, reward_bound=reward_bound)
    values = domain.admit(extreme_rows(domain, 3000)).values
    assert np.all(np.isfinite(values))
    assert np.all(values >= domain.lower - 1e-12)
    assert np.all(values <= domain.upper + 1e-12)
    vector, matrix = domain.unpack(values)
    trace = np.trace(matrix, axis1=-2, axis2=-1)  # |x|^2
    assert np.all(trace <= 1 + 1e-9)
    np.testing.assert_allclose(np.linalg.norm(matrix, axis=(-2, -1)), trace, atol=1e-9)  # of rank one
    assert np.all(np.linalg.norm(vector, axis=-1) <= reward_bound * np.sqrt(trace) + 1e-9)
    farthest = np.linalg.norm(values[:200, None] - values[None, 200:], axis=-1)
    assert np.max(farthest) <= domain.sensitivity * (1 + 1e-9)


@pytest.mark.parametrize("features", [1, 2, 4])
def test_counts_of_every_magnitude_stay_in_range(features: int) -> None:
    domain, users = LinearReport(features=features), 3000
    protocol = ShuffleBinomial(domain=domain, noise=BinomialNoise(scale=7.3, trials=5, users=users))
    counts = protocol.device.message(protocol.admit(extreme_rows(domain, users)), fast())
    assert np.all(counts >= 0)
    assert np.all(counts <= largest_counts(protocol.noise, domain))


# Statistics that no domain has made


def outside() -> NDArray[np.float64]:
    return np.random.default_rng(2).normal(size=(USERS, DOMAIN.dim)) * 1e4


def by_hand(values: NDArray[np.float64], counts: NDArray[np.int64] | None = None) -> Statistic:
    return Statistic(domain=DOMAIN, values=values, clipped=np.zeros((), dtype=np.int64), counts=counts)


@statistics_each_batch
@pytest.mark.parametrize("path", ["messages", "law"])
def test_statistics_made_by_hand_are_checked(protocol: BatchProtocol, path: str) -> None:
    for clip in (True, False):
        with pytest.raises(InvalidStatistic, match="a point of"):
            protocol.release(by_hand(outside()), fast(), path=path, clip=clip)
    with pytest.raises(InvalidStatistic, match="finite"):
        protocol.release(by_hand(np.full((USERS, DOMAIN.dim), np.nan)), fast(), path=path)
    inside = DOMAIN.project(outside())
    honest = protocol.release(by_hand(inside), fast(), path=path, clip=False).total
    assert np.array_equal(honest, protocol.release(inside, fast(), path=path).total)


@statistics_each_batch
def test_groups_made_by_hand_are_checked(protocol: BatchProtocol) -> None:
    rows, counts = outside()[:2], np.array([2, 4])
    protocol.release(by_hand(DOMAIN.project(rows), counts), fast(), path="law")
    with pytest.raises(InvalidStatistic, match="a point of"):
        protocol.release(by_hand(rows, counts), fast(), path="law")


def test_statistics_made_by_hand_are_checked_in_streams() -> None:
    with pytest.raises(InvalidStatistic, match="a point of"):
        CONTINUAL.release(CONTINUAL.begin(), by_hand(outside()), fast())


@statistics_each_batch
def test_groups_send_no_messages(protocol: BatchProtocol) -> None:
    counts = np.full(USERS, 1)
    grouped = protocol.admit(by_hand(DOMAIN.project(outside()), counts))
    with pytest.raises(InvalidStatistic, match="grouped"):
        protocol.device.message(grouped, fast())
    with pytest.raises(InvalidStatistic, match="grouped"):
        protocol.release(grouped, fast())
    protocol.release(grouped, fast(), path="law")


# Guarantees


@pytest.mark.parametrize("protocol", [*BATCH[1:], CONTINUAL], ids=title)
def test_guarantees_over_batches_say_so(protocol: Protocol) -> None:
    needed = protocol.name in ("central_gaussian", "shuffle_gaussian", "shuffle_binomial", "central_continual")
    assert ("(at most 2, each in another batch)" in str(protocol.guarantee)) == needed
    assert protocol.guarantee.to_dict()["batches"] == needed


@pytest.mark.parametrize("protocol", BATCH[1:], ids=title)
def test_one_participation_needs_no_condition(protocol: BatchProtocol) -> None:
    once = replace(protocol, participations=1)
    assert "another batch" not in str(once.guarantee)
    assert "in each participation" in str(once.guarantee)


@pytest.mark.parametrize("protocol", [*BATCH[1:], CONTINUAL], ids=title)
def test_printed_epsilons_hold(protocol: Protocol) -> None:
    stated = protocol.guarantee
    found = re.search(r"with epsilon = (\S+),", str(stated))
    assert found is not None
    assert stated.epsilon * (1 - 2e-9) <= float(found[1]) <= stated.epsilon * (1 + 1.001e-3)
    if stated.shuffler is not None:
        left = re.search(r"the guarantee is epsilon = (\S+), ", str(stated))
        assert left is not None
        assert stated.shuffler.epsilon * (1 - 2e-9) <= float(left[1])
