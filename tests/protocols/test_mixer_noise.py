"""Coins that the mixer draws for a batch, and counts that it refuses: the same law, the same price, other observers.

Laws are enumerated through the roles themselves: a scripted source makes their randomness an input. Statistical
comparisons raise a false alarm with probability below 1e-6 each.
"""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import bandanna as bd
from bandanna.device.noise import FastNoise, SecureNoise
from bandanna.errors import InvalidArgument, InvalidBudget, InvalidStatistic
from bandanna.privacy import accountant
from bandanna.privacy.calibration import (
    REFUSAL_PROBABILITY,
    BinomialNoise,
    likely_coins,
    refusal_tail,
    subtract_refusals,
)
from bandanna.privacy.events import ClearEvent, RepetitionEvent
from bandanna.protocols.base import BatchProtocol
from bandanna.protocols.batch_tree import BatchTree
from bandanna.protocols.concurrent_shuffle import ConcurrentShuffle
from bandanna.protocols.factory import PROTOCOLS, protocol_for
from bandanna.protocols.mixers import MixerState
from bandanna.protocols.running_sum import find_mismatch, running_sum_protocol_for
from bandanna.protocols.shuffle_binomial import ShuffleBinomial
from bandanna.protocols.shuffle_bits import ShuffleBits
from bandanna.simulation.environments.linear import LinearContextual
from bandanna.storage.encoding import Encoding

REPORT, BUDGET = bd.device.LinearReport(features=5), bd.privacy.ApproxDP(epsilon=1.0, delta=1e-5)
SMALL = BinomialNoise(scale=2.0, trials=2, users=2)
CODE = Encoding(PROTOCOLS | {"LinearReport": bd.device.LinearReport})
BAND = math.sqrt(-math.log(1e-6 / 2) / 2)  # of sqrt(n) times a Kolmogorov distance


def fast(seed: int = 1) -> FastNoise:
    """A seeded source."""
    return FastNoise(np.random.default_rng(seed))


class Scripted(FastNoise):
    """Uniforms and coins as told; which coins were asked for is kept."""

    def __init__(self, uniform: Any, coins: Any) -> None:
        super().__init__(np.random.default_rng(0))
        self.told_uniform, self.told_coins = uniform, coins
        self.asked: list[tuple[int, float]] = []

    def uniform(self, size: Any) -> NDArray[np.float64]:
        """As told."""
        return np.broadcast_to(np.asarray(self.told_uniform, dtype=float), size)

    def binomial(self, *, trials: int, probability: float, size: Any) -> NDArray[np.int64]:
        """As told, and recorded."""
        self.asked.append((trials, probability))
        return np.broadcast_to(np.asarray(self.told_coins, dtype=np.int64), size)


def view(protocol: BatchProtocol, values: Any, source: FastNoise) -> Any:
    """What the analyzer sees of a batch."""
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
    """The shuffler is said to be sure of two reports that may be rounded to the same point."""
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
    """A calibrated protocol that refuses exceeds its budget, where refusals cost a share of delta that can be seen."""
    budget = bd.privacy.ApproxDP(epsilon=1.0, delta=3e-14)
    given: dict[str, Any] = {"budget": budget, "batch": 50, "participations": participations, "coins": "checked"}
    for protocol in (ShuffleBits.calibrate(**given), ShuffleBinomial.calibrate(domain=bd.device.Box(dim=2), **given)):
        whole = RepetitionEvent(event=protocol.event, times=participations)
        assert accountant.satisfies(whole, budget)
        assert protocol.guarantee.epsilon <= 1.0
        left = subtract_refusals(budget, 50, protocol.domain.dim, participations)
        assert isinstance(left, bd.privacy.ApproxDP)
        assert left.delta < budget.delta * (1 - 1e-3)
    with pytest.raises(InvalidBudget, match="drawn by the mixer"):
        ShuffleBits.calibrate(budget=bd.privacy.ApproxDP(epsilon=1.0, delta=1e-15), batch=200, coins="checked")


# Whole runs


def test_privacy_says_who_draws() -> None:
    """`noise` is lost between `bd.shuffle` and the protocol, or accepted where nobody draws coins."""
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
                assert find_mismatch(other, protocol, size=size, steps=len(sizes)) == "noise that somebody else draws"
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
@pytest.mark.often(of=lambda name: name != "LinTS-SDP")
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
    """A seed's mixer draws other coins beside other seeds, or those of the devices' streams."""
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


def test_files_of_before_still_load() -> None:
    """A protocol, a privacy, an event or a held batch of a file without the new fields is refused, or is another."""
    protocol = EVERY["vectors"]
    held = MixerState(users=3, numbers=np.arange(20))
    for value, new in (
        (protocol, "coins"),
        (EVERY["concurrent"], "coins"),
        (bd.shuffle(epsilon=1.0, delta=1e-5), "noise"),
        (protocol.event, "tail"),
        (held, "drawn"),
    ):
        written = json.loads(CODE.dumps(value))
        del written["fields"][new]
        assert CODE.dumps(CODE.loads(json.dumps(written))) == CODE.dumps(value)
