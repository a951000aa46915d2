"""Properties of every protocol. Statements about secure draws raise a false alarm with probability below 1e-9 each."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import bandanna as bd
from bandanna.device.domain import Ball, RawRowDomain
from bandanna.device.noise import (
    GAUSSIAN_SECONDS,
    NUMBER_SECONDS,
    RELEASE_SECONDS,
    WORD_SECONDS,
    FastNoise,
    NoiseSource,
    ReleaseCost,
    SecureNoise,
)
from bandanna.device.samplers import PART, count_words
from bandanna.errors import InvalidStatistic
from bandanna.privacy import accountant
from bandanna.privacy.budgets import ZCDP, ApproxDP, Budget
from bandanna.privacy.calibration import BinomialNoise
from bandanna.privacy.events import ClearEvent, ContinualEvent, Event, RepetitionEvent
from bandanna.privacy.factorisation import factorise
from bandanna.privacy.guarantee import describe_view
from bandanna.protocols.base import BatchProtocol, Protocol, StreamProtocol
from bandanna.protocols.clear import Clear, ClearRows
from bandanna.protocols.comparison import PROTOCOL_NAMES
from bandanna.protocols.concurrent_shuffle import ConcurrentShuffle
from bandanna.protocols.continual import CentralContinual
from bandanna.protocols.gaussian import CentralGaussian, LocalGaussian, ShuffleGaussian
from bandanna.protocols.laplace import CentralLaplace
from bandanna.protocols.shuffle_binomial import ShuffleBinomial
from bandanna.protocols.shuffle_bits import ShuffleBits
from bandanna.protocols.spherical_cap import LocalUnit

DOMAIN, USERS = Ball(dim=3), 6
BATCH: list[BatchProtocol] = [
    Clear(domain=DOMAIN),
    CentralGaussian(domain=DOMAIN, noise_std=3.0),
    LocalGaussian(domain=DOMAIN, noise_std=3.0, participations=2),
    LocalUnit(domain=DOMAIN, cosine=0.25, chance=0.8, candidates=3),
    LocalUnit(domain=DOMAIN, cosine=0.25, chance=0.8, candidates=3, participations=2, delta=1e-6),
    ShuffleGaussian(domain=DOMAIN, noise_std=3.0, batch=USERS),
    ShuffleBinomial(domain=DOMAIN, noise=BinomialNoise(scale=4.0, trials=400, users=USERS)),
    ShuffleBinomial(
        domain=DOMAIN, noise=BinomialNoise(scale=4.0, trials=400, users=USERS, probability=0.25), participations=2
    ),
    ShuffleBinomial(domain=DOMAIN, noise=BinomialNoise(scale=4.0, trials=400, users=USERS), coins="checked"),
    ShuffleBinomial(domain=DOMAIN, noise=BinomialNoise(scale=4.0, trials=400, users=USERS), coins="mixer"),
]
CONTINUAL = [
    CentralContinual(domain=DOMAIN, factorisation=factorise(name, horizon=5), noise_std=3.0, participations=2)
    for name in ("tree", "blt")
]
ALL: list[Protocol] = [*BATCH, *CONTINUAL]
CALIBRATE: dict[str, Callable[..., Any]] = {
    "central_gaussian": CentralGaussian.calibrate,
    "central_continual": partial(CentralContinual.calibrate, horizon=9),
    "local_gaussian": LocalGaussian.calibrate,
    "local_unit": LocalUnit.calibrate,
    "shuffle_gaussian": partial(ShuffleGaussian.calibrate, batch=USERS),
    "shuffle_binomial": partial(ShuffleBinomial.calibrate, batch=USERS),
    "shuffle_binomial, checked": partial(ShuffleBinomial.calibrate, batch=USERS, coins="checked"),
    "shuffle_binomial, mixer": partial(ShuffleBinomial.calibrate, batch=USERS, coins="mixer"),
}
TRUST = {
    "clear": "none",
    "central_gaussian": "central",
    "central_continual": "central",
    "local_gaussian": "local",
    "local_unit": "local",
    "shuffle_gaussian": "shuffle",
    "shuffle_binomial": "shuffle",
}


def title(value: Any) -> str:
    return f"{value.name}-{value.factorisation.name}" if isinstance(value, CentralContinual) else str(value.name)


each = pytest.mark.parametrize("protocol", ALL, ids=title)
each_batch = pytest.mark.parametrize("protocol", BATCH, ids=title)
each_continual = pytest.mark.parametrize("protocol", CONTINUAL, ids=title)


def fast(seed: int = 1) -> FastNoise:
    return FastNoise(np.random.default_rng(seed))


def reports(*replicates: int) -> NDArray[np.float64]:
    drawn = np.random.default_rng(5).normal(size=(*replicates, USERS, DOMAIN.dim))
    return DOMAIN.project(drawn)


def whole(protocol: Protocol) -> Event:
    if isinstance(protocol.event, ContinualEvent):
        return protocol.event
    return RepetitionEvent(event=protocol.event, times=protocol.participations)


def test_names_are_those_of_the_comparison() -> None:
    assert {protocol.name for protocol in ALL} == set(PROTOCOL_NAMES) == set(TRUST)
    assert len(PROTOCOL_NAMES) == len(set(PROTOCOL_NAMES))


@each
def test_the_guarantee_is_what_the_accountant_computes(protocol: Protocol) -> None:
    stated = protocol.guarantee
    assert stated.trust == TRUST[protocol.name]
    assert stated.delta == protocol.delta
    assert stated.epsilon == accountant.epsilon(whole(protocol), protocol.delta)
    assert stated.rho == accountant.rho(whole(protocol))
    assert math.isinf(stated.epsilon) == isinstance(protocol.event, ClearEvent)
    assert stated.unit == ("event" if protocol.participations == 1 else "user")
    assert stated.participations == protocol.participations


@each
def test_the_guarantee_says_who_sees_what(protocol: Protocol) -> None:
    stated = protocol.guarantee
    sentences = re.findall(r"[.](?= |$)", str(stated))
    assert 3 <= len(sentences) <= 7
    assert stated.observers
    assert all(describe_view(who, what)[1:] in str(stated) for who, what in stated.observers)
    assert ("Against the shuffler itself, " in str(stated)) == (stated.trust == "shuffle")
    plain = json.loads(json.dumps(stated.to_dict(), allow_nan=False))
    if math.isinf(stated.epsilon):
        assert plain["epsilon"] is None
        assert "No privacy" in str(stated)
    else:
        assert plain["epsilon"] == stated.epsilon
        printed = re.search(r"epsilon = (\S+),", str(stated))
        assert printed is not None
        assert float(printed[1]) == pytest.approx(stated.epsilon, rel=1e-3)


BUDGETS = (ApproxDP(epsilon=1.0, delta=1e-5), ApproxDP(epsilon=0.3, delta=1e-2))
SETTINGS = list(itertools.product(BUDGETS, (1, 3)))


@pytest.mark.parametrize(("budget", "participations"), SETTINGS)
@pytest.mark.often(
    when=lambda name, budget, participations: (
        (budget, participations) in ((BUDGETS[0], 1), (BUDGETS[1], 3))[: 1 if name == "shuffle_gaussian" else 2]
    )
)
@pytest.mark.parametrize("name", CALIBRATE)
def test_calibrated_noise_is_the_least(name: str, budget: ApproxDP, participations: int) -> None:
    protocol = CALIBRATE[name](domain=DOMAIN, budget=budget, participations=participations)
    assert accountant.satisfies(whole(protocol), budget)
    assert 0.99 * budget.epsilon <= protocol.guarantee.epsilon <= budget.epsilon
    pure = isinstance(protocol, LocalUnit) and participations == 1
    assert protocol.guarantee.delta == (0.0 if pure else budget.delta)
    assert protocol.participations == participations
    if isinstance(protocol, ShuffleBinomial):
        noise = dataclasses.replace(protocol.noise, trials=round(0.64 * protocol.noise.trials))
        weaker: Protocol = dataclasses.replace(protocol, noise=noise)
    elif isinstance(protocol, LocalUnit):
        shared = {"domain": DOMAIN, "participations": participations, "delta": protocol.delta}
        weaker = LocalUnit.of_std(std=0.8 * protocol.std(1), **shared)
    else:
        weaker = dataclasses.replace(protocol, noise_std=0.8 * protocol.noise_std)
    assert not accountant.satisfies(whole(weaker), budget)
    assert weaker.guarantee.epsilon > budget.epsilon


@pytest.mark.parametrize("name", ["central_gaussian", "central_continual", "local_gaussian"])
def test_gaussian_noise_is_calibrated_for_concentrated_budgets(name: str) -> None:
    budget: Budget = ZCDP(rho=0.1)
    protocol = CALIBRATE[name](domain=DOMAIN, budget=budget, participations=2)
    assert protocol.guarantee.rho <= 0.1 * (1 + 1e-12)
    assert protocol.guarantee.rho == pytest.approx(0.1, rel=1e-4)
    printed = re.search(r"[(](\S+)-zCDP[)]", str(protocol.guarantee))
    assert printed is not None
    assert float(printed[1]) == pytest.approx(0.1, rel=1e-3)


@each_batch
def test_leading_axes_are_replicates(protocol: BatchProtocol) -> None:
    for path in ("messages", "law"):
        for replicates in ((), (1,), (3, 4), (0,)):
            estimate = protocol.release(reports(*replicates), fast(), path=path)
            assert estimate.total.shape == (*replicates, DOMAIN.dim)
            assert estimate.total.dtype == np.float64
            assert estimate.count == USERS
            assert estimate.variance == pytest.approx(protocol.std(USERS) ** 2, rel=1e-12)


@each_batch
def test_randomness_is_the_argument(protocol: BatchProtocol) -> None:
    values = np.broadcast_to(reports(), (2, USERS, DOMAIN.dim))
    before = values.copy()
    for path in ("messages", "law"):
        first, again, other = (protocol.release(values, fast(seed), path=path).total for seed in (1, 1, 2))
        assert np.array_equal(first, again)
        if protocol.std(USERS) > 0:
            assert not np.array_equal(first, other)
            assert not np.array_equal(first[0], first[1])
        assert np.array_equal(values, before)
        assert not np.shares_memory(first, values)


@each_batch
def test_statistics_are_clipped_once(protocol: BatchProtocol) -> None:
    outside = 3 * reports(2) + 1
    admitted = DOMAIN.admit(outside)
    assert np.all(admitted.clipped > 0)
    assert protocol.admit(outside).clipped.tolist() == admitted.clipped.tolist()
    direct, before = (protocol.release(given, fast()).total for given in (outside, admitted))
    assert np.array_equal(direct, before)
    with pytest.raises(InvalidStatistic, match="clipping is off"):
        protocol.release(outside, fast(), clip=False)


@each_batch
def test_batches_are_protected_by_the_secure_source(protocol: BatchProtocol) -> None:
    secure: NoiseSource = SecureNoise()
    first, second = (protocol.release(reports(2), secure) for _ in range(2))
    assert first.total.shape == (2, DOMAIN.dim)
    if not isinstance(protocol, Clear):
        assert not np.array_equal(first.total, second.total)
        assert np.all(np.abs(first.total - reports(2).sum(axis=-2)) < 8 * protocol.std(USERS) + 1)
    if not isinstance(protocol, Clear | LocalUnit):  # directions have no grid: what is sent is whole
        step = 1 / protocol.noise.scale if isinstance(protocol, ShuffleBinomial) else protocol.mechanism.step
        origin = USERS * DOMAIN.lower if isinstance(protocol, ShuffleBinomial) else 0.0
        steps = (first.total - origin) / step
        assert np.allclose(steps, np.rint(steps), rtol=0, atol=1e-3)


@each_continual
def test_streams_are_protected_by_the_secure_source(protocol: CentralContinual) -> None:
    runs = []
    for _ in range(2):
        state = protocol.begin()
        for _ in range(5):
            state, estimate = protocol.release(state, reports(), SecureNoise())
        runs.append(estimate.total)
    assert not np.array_equal(*runs)
    assert np.all(np.abs(runs[0] - 5 * reports().sum(axis=0)) < 8 * protocol.std())


@each
def test_messages_have_a_size(protocol: Protocol) -> None:
    """Bits per user are a whole number: 64 per coordinate for floats, what the largest count needs for integers."""
    assert isinstance(protocol.bits_per_user, int)
    if not isinstance(protocol, ShuffleBinomial | LocalUnit):
        assert protocol.bits_per_user == 64 * DOMAIN.dim
    else:
        assert 0 < protocol.bits_per_user < 64 * DOMAIN.dim


BUDGET = bd.privacy.ApproxDP(epsilon=1.0, delta=1e-5)
BOX: Any = {"domain": bd.device.Box(dim=3), "budget": BUDGET}
DRAWS_USERS = 20


class Counted(SecureNoise):
    """A secure source in name, whose requests are counted and answered by fast noise."""

    def __init__(self) -> None:
        self.fast = FastNoise(np.random.default_rng(0))
        self.gaussians = self.words = 0

    def discrete_gaussian(self, *, std: float, size: Any) -> NDArray[np.int64]:
        self.gaussians += math.prod(np.atleast_1d(size))
        return self.fast.discrete_gaussian(std=std, size=size)

    def discrete_laplace(self, *, scale: float, size: Any) -> NDArray[np.int64]:
        self.gaussians += math.prod(np.atleast_1d(size))
        return self.fast.discrete_laplace(scale=scale, size=size)

    def binomial(self, *, trials: int, probability: float, size: Any) -> NDArray[np.int64]:
        self.words += math.prod(np.atleast_1d(size)) * count_words(trials)
        return self.fast.binomial(trials=trials, probability=probability, size=size)


PROTOCOLS = {
    "clear": Clear(domain=bd.device.Box(dim=3)),
    "central gaussian": CentralGaussian.calibrate(**BOX),
    "central laplace": CentralLaplace.calibrate(domain=bd.device.Box(dim=3), budget=bd.privacy.PureDP(epsilon=1.0)),
    "local": LocalGaussian.calibrate(**BOX),
    "shuffled gaussian": ShuffleGaussian.calibrate(batch=DRAWS_USERS, **BOX),
    "binomial": ShuffleBinomial.calibrate(batch=DRAWS_USERS, **BOX),
    "many coins": ShuffleBinomial.calibrate(
        domain=bd.device.Box(dim=3), budget=bd.privacy.ApproxDP(epsilon=1e-3, delta=1e-9), batch=DRAWS_USERS
    ),
    "bits": ShuffleBits.calibrate(budget=BUDGET, batch=DRAWS_USERS),
    "binomial, mixer": ShuffleBinomial.calibrate(batch=DRAWS_USERS, coins="mixer", **BOX),
    "many coins, mixer": ShuffleBinomial.calibrate(
        domain=bd.device.Box(dim=3),
        budget=bd.privacy.ApproxDP(epsilon=1e-3, delta=1e-9),
        batch=DRAWS_USERS,
        coins="mixer",
    ),
    "bits, mixer": ShuffleBits.calibrate(budget=BUDGET, batch=DRAWS_USERS, coins="mixer"),
    "blt": CentralContinual.calibrate(horizon=8, **BOX),
    "tree": CentralContinual.calibrate(horizon=8, mechanism="tree", **BOX),
    "concurrent": ConcurrentShuffle.calibrate(horizon=8 * DRAWS_USERS, shufflers=2, degrees=(DRAWS_USERS, 4), **BOX),
    "concurrent, mixer": ConcurrentShuffle.calibrate(
        horizon=8 * DRAWS_USERS, shufflers=2, degrees=(DRAWS_USERS, 4), coins="mixer", **BOX
    ),
}


@pytest.mark.parametrize("name", PROTOCOLS)
def test_draws_are_what_a_release_takes(name: str) -> None:
    protocol, source = PROTOCOLS[name], Counted()
    values = np.zeros((DRAWS_USERS, protocol.domain.dim))
    taken = set()
    state = protocol.begin() if isinstance(protocol, StreamProtocol) else None
    for _ in range(8):
        before = source.gaussians, source.words
        if isinstance(protocol, StreamProtocol):
            state, _ = protocol.release(state, values, source)
        else:
            protocol.release(values, source)
        taken.add((source.gaussians - before[0], source.words - before[1]))
    said = protocol.draws(DRAWS_USERS)
    assert max(taken) == (said.gaussians, said.words)
    assert said.numbers % values.size == 0
    assert said.numbers > 0


def test_many_coins_take_several_words() -> None:
    noise = PROTOCOLS["many coins"].noise  # type: ignore[union-attr]
    assert noise.trials > PART
    assert (count_words(0), count_words(1), count_words(PART), count_words(PART + 1)) == (0, 1, 1, 2)


def test_seconds_add_up() -> None:
    draws = ReleaseCost(gaussians=3, words=5, numbers=7)
    assert draws.seconds(secure=True) == pytest.approx(
        RELEASE_SECONDS + 3 * GAUSSIAN_SECONDS + 5 * WORD_SECONDS + 7 * NUMBER_SECONDS
    )
    assert draws.seconds(secure=False) == pytest.approx(RELEASE_SECONDS + 7 * NUMBER_SECONDS)


ROWS_DOMAIN = RawRowDomain(size=3, reward_bound=2.0, groups=2)
SOURCE = FastNoise(np.random.default_rng(0))


def test_rows_arrive_as_they_are_and_nothing_is_promised() -> None:
    protocol, rng = ClearRows(domain=ROWS_DOMAIN), np.random.default_rng(1)
    x, r, g = rng.uniform(-0.5, 0.5, (2, 7, 3)), rng.random((2, 7)), rng.integers(0, 2, (2, 7))
    for path in ("law", "messages"):
        told = protocol.release(ROWS_DOMAIN.statistic(x, r, g), SOURCE, path=path).total
        for part, given in zip(ROWS_DOMAIN.parts(told), (x, r, g), strict=True):
            np.testing.assert_array_equal(part, given)
    assert isinstance(protocol.event, ClearEvent)
    assert math.isinf(protocol.guarantee.epsilon)


def test_rows_are_clipped_and_counted() -> None:
    statistic = ROWS_DOMAIN.statistic(np.array([[3.0, 0, 0], [0.3, 0, 0], [0, 2.0, 0]]), np.array([1.0, 5.0, -1.0]))
    np.testing.assert_allclose(statistic.values[:, :4], [[1, 0, 0, 1], [0.3, 0, 0, 2], [0, 1, 0, 0]])
    assert int(statistic.clipped) == 4
    wild = np.random.default_rng(2).normal(size=(500, 5)) * 10
    inside = ROWS_DOMAIN.project(wild)
    assert np.all((inside >= ROWS_DOMAIN.lower - 1e-12) & (inside <= ROWS_DOMAIN.upper + 1e-12))
    distances = np.linalg.norm(inside[:250] - inside[250:], axis=-1)
    assert np.max(distances) <= ROWS_DOMAIN.sensitivity
    np.testing.assert_array_equal(ROWS_DOMAIN.project(inside), inside)
