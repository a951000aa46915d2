"""Exact privacy of the binomial vector sum, end to end: its law is read off the code and enumerated.

A scripted source makes the code's randomness an input. The threshold at which a uniform number changes the encoding is
found by bisection, and the coins that the randomizer asks for are recorded; that is the whole law of randomizer,
shuffler and analyzer's view. The hockey-stick divergence of neighbouring batches is then a finite sum, compared with
the claim in both directions. Every claim is also made about noise whose standard deviation is 20 % smaller, where it
must be false.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from bandanna.device.domain import Ball, Box, Domain
from bandanna.device.linear_report import LinearReport
from bandanna.device.noise import FastNoise
from bandanna.privacy import accountant
from bandanna.privacy.budgets import ApproxDP
from bandanna.privacy.calibration import BinomialNoise
from bandanna.protocols.shuffle_binomial import ShuffleBinomial

from . import unary_form

Array = NDArray[Any]
Pair = tuple[Array, Array]  # a law and its neighbour, on one support

SMALLEST = 2.0**-53  # step of the uniform numbers


class Scripted(FastNoise):
    """Uniforms and coins as told; what was asked for is kept. Permutations: all of them, one in each replicate."""

    def __init__(self, uniform: Any = 0.0, coins: Any = 0) -> None:
        super().__init__(np.random.default_rng(0))
        self.given_uniform, self.given_coins = uniform, coins
        self.asked: list[tuple[int, float, tuple[int, ...]]] = []

    def uniform(self, size: Any) -> Array:
        """As told."""
        return np.broadcast_to(np.asarray(self.given_uniform, dtype=float), size)

    def binomial(self, *, trials: int, probability: float, size: Any) -> Array:
        """As told, and recorded."""
        self.asked.append((trials, probability, size))
        return np.broadcast_to(np.asarray(self.given_coins, dtype=np.int64), size)

    def permutation(self, n: int, size: Any = ()) -> Array:
        """Every permutation of n once."""
        assert size == (math.factorial(n),)
        return np.array(list(itertools.permutations(range(n))))


def encodings(protocol: ShuffleBinomial, values: Array) -> tuple[Array, Array, Array]:
    """For every entry of `values` (n, dim): lower and upper encoding, and the probability of the upper one."""
    statistic = protocol.admit(values, clip=False)

    def encode(uniform: Any) -> Array:
        return protocol.device.message(statistic, Scripted(uniform))

    upper, lower = encode(0.0), encode(1 - SMALLEST)
    low, high = np.zeros(values.shape), np.ones(values.shape)  # encode(low) = upper, encode(high) = lower
    for _ in range(53):
        middle = (low + high) / 2
        above = encode(middle) == upper
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    assert np.all((upper - lower == 0) | (upper - lower == 1))
    return lower, upper, np.where(upper == lower, 0.0, high)


def coins(protocol: ShuffleBinomial, users: int) -> Array:
    """Law of all coins in one coordinate of the totals of so many users, as randomizers or mixer asked for them.

    Only the window of 12 standard deviations: mass below 1e-30 lies outside.
    """
    source, mixer = Scripted(), replace(protocol.mixer, least=1)
    sent = protocol.device.message(protocol.admit(np.tile(protocol.domain.lower, (users, 1))), source)
    mixer.close(mixer.drawn(mixer.add(mixer.empty(), sent), source))
    ((trials, probability, size),) = source.asked
    dim = protocol.domain.dim
    assert size == ((dim,) if protocol.coins == "mixer" else (users, dim))  # fresh ones for everybody, or for the batch
    every = trials if protocol.coins == "mixer" else users * trials
    mean, reach = every * probability, 12 * math.sqrt(every * probability * (1 - probability))
    window = np.arange(max(0, math.floor(mean - reach)), min(every, math.ceil(mean + reach)) + 1)
    return np.asarray(stats.binom.pmf(window, every, probability))


def view(protocol: ShuffleBinomial, batches: Array) -> list[Array]:
    """Laws of the totals of batches (n, users, dim): per coordinate, (n, support); coordinates are independent."""
    return _view(protocol, batches.tobytes(), batches.shape)


@lru_cache(maxsize=8)  # one law is looked at for several epsilons
def _view(protocol: ShuffleBinomial, values: bytes, shape: tuple[int, int, int]) -> list[Array]:
    batches, (n, users, dim) = np.frombuffer(values).reshape(shape), shape
    lower, upper, chance = (a.reshape(n, users, dim) for a in encodings(protocol, batches.reshape(-1, dim)))
    noise, room = coins(protocol, users), int(upper.sum(axis=1).max())
    laws = []
    for k in range(dim):
        law = np.zeros((n, len(noise) + room))
        law[:, : len(noise)] = noise
        for user in range(users):
            law = np.stack(
                [
                    (1 - p) * np.roll(row, below) + p * np.roll(row, above)
                    for row, below, above, p in zip(
                        law, lower[:, user, k], upper[:, user, k], chance[:, user, k], strict=True
                    )
                ]
            )
        laws.append(law[:, law.max(axis=0) > 1e-25])  # the rest has mass below 1e-20 in all
    return laws


def divergence(pairs: list[Pair], epsilon: float) -> float:
    """sum (p - e^epsilon q)+ for the product of one or two independent pairs, without forming the product.

    For two pairs: over x, p1(x) P2(S_x) - e^epsilon q1(x) Q2(S_x) with S_x = {y : loss2(y) > epsilon - loss1(x)}.
    """
    (p, q), *others = pairs
    if not others:
        return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())
    ((p2, q2),) = others
    with np.errstate(divide="ignore"):
        loss, loss2 = np.log(p) - np.log(q), np.log(p2) - np.log(q2)
    order = np.argsort(-loss2)
    first = np.searchsorted(-loss2[order], loss - epsilon, side="left")  # |S_x|
    inside = [np.append(0.0, np.cumsum(mass[order]))[first] for mass in (p2, q2)]
    return float(np.sum(p * inside[0] - math.exp(epsilon) * q * inside[1]))


def worst(protocol: ShuffleBinomial, epsilon: float, batches: Array, *, times: int = 1) -> float:
    """Largest divergence of any two of the batches, in both directions.

    times = 2: the same replacement in two batches of one coordinate, or made in one and undone in the other.
    """
    laws = view(protocol, batches)
    found = 0.0
    for i, j in itertools.permutations(range(len(batches)), 2):
        pairs = [(law[i], law[j]) for law in laws]
        if times == 1:
            found = max(found, divergence(pairs, epsilon))
        else:
            back = [(q, p) for p, q in pairs]
            found = max(found, divergence(pairs + pairs, epsilon), divergence(pairs + back, epsilon))
    return found


def neighbours(domain: Domain, scale: float, others: tuple[Array, ...]) -> Array:
    """Batches that differ in their first user: statistics on, between and half-way between lattice points."""
    low, high, step = domain.lower, domain.upper, 1 / scale
    if domain.dim == 1:
        inner = np.linspace(low[0], high[0], 13)
        mesh = np.unique(np.clip([low[0] + 0.5 * step, *inner, high[0] - 0.5 * step], low[0], high[0]))[:, None]
    elif isinstance(domain, LinearReport):
        x, y = np.meshgrid([-1.0, -0.83, 0.4, 1.0], [-1.0, 0.37, 1.0])
        mesh = domain.pack(x.reshape(-1, 1), y.ravel())
    elif isinstance(domain, Ball):
        angle = np.pi * np.array([0, 0.25, 0.31, 1, 1.25, 1.31])
        mesh = np.concatenate([np.stack([np.cos(angle), np.sin(angle)], -1), [[0.5 * step, 0.5 * step]]])
    else:
        ends = np.array([low[0], low[0] + 0.5 * step, 0.63 * high[0], high[0]])
        mesh = np.stack(np.meshgrid(ends, ends), -1).reshape(-1, 2)
    return np.stack([np.stack([value, *others]) for value in mesh])


def check(protocol: ShuffleBinomial, epsilon: float, others: list[tuple[Array, ...]]) -> float:
    """The worst divergence at epsilon over all neighbours beside each choice of the other users."""
    scale = protocol.noise.scale
    return max(worst(protocol, epsilon, neighbours(protocol.domain, scale, chosen)) for chosen in others)


def weaker(protocol: ShuffleBinomial) -> ShuffleBinomial:
    """The same with a standard deviation 20 % smaller: variance is linear in the coins."""
    return replace(protocol, noise=replace(protocol.noise, trials=round(0.64 * protocol.noise.trials)))


CASES = [
    (Box(dim=1), 1.0, 1e-2, 2),
    (Box(dim=1), 1.0, 1e-5, 3),
    (Box(dim=1, low=-1.0, high=0.47), 0.3, 1e-2, 2),  # its upper end is off the lattice
    (Box(dim=1), 4.0, 1e-3, 2),
    (Box(dim=2), 1.0, 1e-2, 2),
    (Ball(dim=2), 1.0, 1e-2, 2),
    (Ball(dim=2), 4.0, 1e-3, 3),
    (LinearReport(features=1), 1.0, 1e-2, 2),
    (LinearReport(features=1), 0.3, 1e-4, 3),
]
each = pytest.mark.parametrize(("domain", "epsilon", "delta", "batch"), CASES)


def often(domain: Domain, epsilon: float, delta: float, batch: int, drawn_by: str) -> bool:
    """Every other case drawn by devices, the rest by a mixer."""
    return (drawn_by == "device") == ((domain, epsilon, delta, batch) in CASES[::2])


@pytest.mark.parametrize(
    ("domain", "epsilon", "delta", "batch", "drawn_by"),
    [(*case, by) for by in ("device", "mixer") for case in CASES],
)
@pytest.mark.often(of=often)
def test_a_batch_is_as_private_as_promised(
    domain: Domain, epsilon: float, delta: float, batch: int, drawn_by: str
) -> None:
    budget = ApproxDP(epsilon=epsilon, delta=delta)
    protocol = ShuffleBinomial.calibrate(domain=domain, budget=budget, batch=batch, coins=drawn_by)
    off_lattice = domain.lower + 1.5 / protocol.noise.scale
    if isinstance(domain, LinearReport):
        off_lattice = domain.pack(np.array([0.37]), np.array(0.5))
    others = [(domain.admit([domain.upper]).values[0],) * (batch - 1)]
    others.append((domain.admit([off_lattice]).values[0],) * (batch - 1))
    stated = protocol.guarantee
    assert stated.delta == delta
    assert stated.epsilon <= epsilon
    assert check(protocol, epsilon, others) <= delta
    assert check(protocol, stated.epsilon, others) <= stated.delta
    assert check(weaker(protocol), epsilon, others) > delta
    assert check(weaker(protocol), stated.epsilon, others) > stated.delta


@pytest.mark.parametrize("domain", [Box(dim=1), Box(dim=1, low=0.0, high=0.7)])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-2), (1.0, 1e-5)])
@pytest.mark.often(of=lambda domain, delta: (domain.high == 1.0) == (delta == 1e-2))
def test_two_participations_are_as_private_as_promised(domain: Domain, epsilon: float, delta: float) -> None:
    budget = ApproxDP(epsilon=epsilon, delta=delta)
    protocol = ShuffleBinomial.calibrate(domain=domain, budget=budget, batch=2, participations=2)
    stated, step = protocol.guarantee, 1 / protocol.noise.scale
    assert (stated.unit, stated.participations, stated.delta) == ("user", 2, delta)
    low, high = domain.lower[0], domain.upper[0]
    mesh = np.array([low, low + 0.5 * step, low + 0.25 * step, (low + high) / 2, high - 0.25 * step, high])
    batches = np.stack([mesh, np.full(len(mesh), low + 1.5 * step)], axis=-1)[..., None]  # (n, users, 1)
    assert worst(protocol, stated.epsilon, batches, times=2) <= delta
    assert worst(protocol, epsilon, batches, times=2) <= delta
    assert worst(weaker(protocol), stated.epsilon, batches, times=2) > delta
    assert worst(weaker(protocol), epsilon, batches, times=2) > delta


def test_rounding_must_be_charged() -> None:
    """Statistics between lattice points cost more than their distance: a price without rounding would be false."""
    domain, epsilon = Ball(dim=2), 0.3
    noise = BinomialNoise(scale=2.5 / math.sqrt(2), trials=5000, users=2)  # opposite points differ by 2.5 steps twice
    protocol = ShuffleBinomial(domain=domain, noise=noise)
    diagonal = np.full(2, math.sqrt(0.5))
    others = np.zeros(2) + (np.ceil(noise.scale) / noise.scale - 1)  # on the lattice, so that it does not help
    truth = worst(protocol, epsilon, np.stack([[diagonal, others], [-diagonal, others]]))
    assert truth <= accountant.delta(protocol.event, epsilon)
    assert truth > accountant.delta(replace(protocol.event, rounded=False), epsilon)


@each
def test_the_simulators_path_has_the_same_law(domain: Domain, epsilon: float, delta: float, batch: int) -> None:
    noise = BinomialNoise(scale=5.0, trials=7, users=batch, probability=0.25)
    protocol = ShuffleBinomial(domain=domain, noise=noise)
    values = np.stack([neighbours(domain, noise.scale, ())[k, 0] for k in range(batch)])
    for uniform in (0.0, 0.3, 0.71, 1 - SMALLEST):
        devices, simulator = Scripted(uniform, coins=3), Scripted(uniform, coins=3 * batch)
        messages = protocol.device.message(protocol.admit(values), devices)
        view = protocol.mixer.close(protocol.mixer.add(protocol.mixer.empty(), messages))
        assert view.numbers.shape == (domain.dim,)  # nothing about single users is forwarded
        simulated = protocol.release(values, simulator, path="law")
        assert np.array_equal(protocol.analyzer.analyze(None, view, devices)[1].total, simulated.total)
        assert devices.asked == [(7, 0.25, (batch, domain.dim))]
        assert simulator.asked == [(7 * batch, 0.25, (domain.dim,))]  # sum of Bin(7, p) over the batch


@pytest.mark.parametrize(("users", "trials"), [(2, 2), (3, 1)])
def test_shuffled_bits_tell_exactly_the_totals(users: int, trials: int) -> None:
    noise, domain = BinomialNoise(scale=1.0, trials=trials, users=users), Box(dim=1)
    length = 1 + trials
    for counts in itertools.product(range(length + 1), repeat=users):
        seen: Counter[bytes] = Counter()
        for sent in unary_messages(np.array(counts)[:, None], noise, domain):
            orders = math.factorial(users * length)
            mixed = unary_form.shuffle_labelled_bits([np.broadcast_to(sent, (orders, users, length))], Scripted())
            assert np.all(unary_form.sum_shuffled_bits(mixed) == sum(counts))
            seen.update(row.tobytes() for row in mixed[0])
        assert len(seen) == math.comb(users * length, sum(counts))
        assert len(set(seen.values())) == 1


def unary_messages(counts: Array, noise: BinomialNoise, domain: Domain) -> list[Array]:
    """Every equally likely choice of the users' unary messages, (users, length) each."""
    own = []
    for count in counts:
        orders = math.factorial(int(noise.trials + 1))
        (bits,) = unary_form.expand_counts(np.broadcast_to(count[None], (orders, 1)), noise, domain, Scripted())
        assert np.all(bits.sum(axis=-1) == count)
        own.append(bits)  # (orders, length)
    return [np.stack(choice) for choice in itertools.product(*own)]


@pytest.mark.parametrize(("users", "trials", "probability"), [(2, 2, 0.5), (3, 1, 0.5), (2, 2, 0.25)])
def test_bits_are_as_private_as_totals(users: int, trials: int, probability: float) -> None:
    noise = BinomialNoise(scale=1.0, trials=trials, users=users, probability=probability)
    protocol = ShuffleBinomial(domain=Box(dim=1), noise=noise)
    length, every = users * (trials + 1), np.arange(users * (trials + 1) + 1)
    others = (np.array([0.4]),) * (users - 1)
    (totals,) = view(protocol, np.stack([np.stack([np.array([x]), *others]) for x in (0.0, 0.3, 0.5, 1.0)]))
    ways = np.array([math.comb(length, k) for k in every])
    strings = np.repeat(totals / ways, ways, axis=-1)  # one probability for each of the 2^length strings
    assert strings.shape[-1] == 2**length
    assert np.allclose(strings.sum(axis=-1), 1)
    for (i, j), epsilon in itertools.product(itertools.permutations(range(4), 2), (0.1, 0.7, 2.0)):
        as_totals = divergence([(totals[i], totals[j])], epsilon)
        assert divergence([(strings[i], strings[j])], epsilon) == pytest.approx(as_totals, abs=1e-14)
        assert as_totals <= accountant.delta(protocol.event, epsilon)


@pytest.mark.parametrize("domain", [Box(dim=1), Ball(dim=2)])
def test_what_is_left_against_the_shuffler_holds(domain: Domain) -> None:
    budget = ApproxDP(epsilon=1.0, delta=1e-2)
    protocol = ShuffleBinomial.calibrate(domain=domain, budget=budget, batch=2)
    left = protocol.guarantee.shuffler
    assert left is not None
    assert left.epsilon > protocol.guarantee.epsilon
    assert check(protocol, left.epsilon, [()]) <= left.delta  # nobody else: the law of one user's counts
    assert check(weaker(protocol), left.epsilon, [()]) > left.delta


def test_what_the_shuffler_surely_learns_is_stated() -> None:
    budget = ApproxDP(epsilon=1.0, delta=0.1)
    protocol = ShuffleBinomial.calibrate(domain=LinearReport(features=5), budget=budget, batch=200)
    stated = protocol.guarantee
    assert stated.shuffler is None
    widest = replace(protocol, domain=Box(dim=1, low=-1.0, high=1.0))
    at_the_ends = np.array([[[-1.0]], [[1.0]]])  # one user's counts of one coordinate
    assert worst(widest, 100.0, at_the_ends) == pytest.approx(stated.exposed, rel=1e-9)  # losses end at 103 log 2
    assert stated.exposed > 0.97  # proofs.md A.3c
    assert "no privacy is left" in str(stated)
