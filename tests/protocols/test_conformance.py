"""What every protocol must do: add one to the lists below and it is held to it.

The secure source cannot be seeded; statements about its draws raise a false alarm with probability below 1e-9 each.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import json
import math
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bandanna.device.domain import Ball
from bandanna.device.noise import FastNoise, NoiseSource, SecureNoise
from bandanna.errors import InsecureSource, InvalidArgument, InvalidStatistic
from bandanna.privacy import accountant
from bandanna.privacy.budgets import ZCDP, ApproxDP, Budget
from bandanna.privacy.calibration import BinomialNoise
from bandanna.privacy.events import ClearEvent, ContinualEvent, Event, RepetitionEvent
from bandanna.privacy.factorisation import factorise
from bandanna.privacy.guarantee import describe_view
from bandanna.protocols.base import BatchProtocol, Protocol
from bandanna.protocols.clear import Clear
from bandanna.protocols.comparison import PROTOCOL_NAMES
from bandanna.protocols.continual import CentralContinual
from bandanna.protocols.gaussian import CentralGaussian, LocalGaussian, ShuffleGaussian
from bandanna.protocols.shuffle_binomial import ShuffleBinomial
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
        domain=DOMAIN,
        noise=BinomialNoise(scale=4.0, trials=400, users=USERS, probability=0.25),
        participations=2,
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
    "central_continual": lambda **given: CentralContinual.calibrate(horizon=9, **given),
    "local_gaussian": LocalGaussian.calibrate,
    "local_unit": LocalUnit.calibrate,
    "shuffle_gaussian": lambda **given: ShuffleGaussian.calibrate(batch=USERS, **given),
    "shuffle_binomial": lambda **given: ShuffleBinomial.calibrate(batch=USERS, **given),
    "shuffle_binomial, checked": lambda **given: ShuffleBinomial.calibrate(batch=USERS, coins="checked", **given),
    "shuffle_binomial, mixer": lambda **given: ShuffleBinomial.calibrate(batch=USERS, coins="mixer", **given),
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
    """The protocol's name, with its factorisation."""
    return f"{value.name}-{value.factorisation.name}" if isinstance(value, CentralContinual) else str(value.name)


each = pytest.mark.parametrize("protocol", ALL, ids=title)
each_batch = pytest.mark.parametrize("protocol", BATCH, ids=title)
each_continual = pytest.mark.parametrize("protocol", CONTINUAL, ids=title)


def fast(seed: int = 1) -> FastNoise:
    """A seeded source."""
    return FastNoise(np.random.default_rng(seed))


def reports(*replicates: int) -> NDArray[np.float64]:
    """Statistics inside the domain."""
    drawn = np.random.default_rng(5).normal(size=(*replicates, USERS, DOMAIN.dim))
    return DOMAIN.project(drawn)


def whole(protocol: Protocol) -> Event:
    """All that a person is in."""
    if isinstance(protocol.event, ContinualEvent):
        return protocol.event
    return RepetitionEvent(event=protocol.event, times=protocol.participations)


@each
def test_it_is_one_frozen_value(protocol: Protocol) -> None:
    fresh = dataclasses.replace(protocol)  # which has not stated its event
    assert protocol == copy.copy(protocol) == pickle.loads(pickle.dumps(fresh)) == pickle.loads(pickle.dumps(protocol))
    assert hash(protocol) == hash(copy.copy(protocol)) == hash(fresh)
    assert protocol.event == protocol.event == fresh.event == pickle.loads(pickle.dumps(protocol)).event
    assert protocol == fresh == pickle.loads(pickle.dumps(protocol))
    assert all(field.kw_only for field in dataclasses.fields(protocol))
    with pytest.raises(dataclasses.FrozenInstanceError):
        protocol.delta = 0.5


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
    of=lambda name, budget, participations: (
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
    """Batches side by side give estimates side by side, by both paths; the estimate says what it is made of."""
    for path in ("messages", "law"):
        for replicates in ((), (1,), (3, 4), (0,)):
            estimate = protocol.release(reports(*replicates), fast(), path=path)
            assert estimate.total.shape == (*replicates, DOMAIN.dim)
            assert estimate.total.dtype == np.float64
            assert estimate.count == USERS
            assert estimate.variance == pytest.approx(protocol.std(USERS) ** 2, rel=1e-12)


@each_batch
def test_randomness_is_the_argument(protocol: BatchProtocol) -> None:
    """Equal seeds give equal estimates, other seeds and other replicates other noise; inputs are left alone."""
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
    """Values outside are clipped into the domain and counted; what was admitted before is used as it is."""
    outside = 3 * reports(2) + 1
    admitted = DOMAIN.admit(outside)
    assert np.all(admitted.clipped > 0)
    assert protocol.admit(outside).clipped.tolist() == admitted.clipped.tolist()
    direct, before = (protocol.release(given, fast()).total for given in (outside, admitted))
    assert np.array_equal(direct, before)
    with pytest.raises(InvalidStatistic, match="clipping is off"):
        protocol.release(outside, fast(), clip=False)


@each_batch
@pytest.mark.parametrize("bad", [None, 0, np.random.default_rng(0)])
def test_only_noise_sources_are_sources(protocol: BatchProtocol, bad: Any) -> None:
    for path in ("messages", "law"):
        with pytest.raises(InvalidArgument, match="NoiseSource"):
            protocol.release(reports(), bad, path=path)


@each_batch
def test_users_are_interchangeable(protocol: BatchProtocol) -> None:
    """Messages in another order give the same estimate: exactly for integers, to rounding errors for floats."""
    messages = protocol.device.message(protocol.admit(reports(4)), fast())  # (4, users, ...)
    order = np.random.default_rng(3).permutation(USERS)
    kept, moved = (protocol.release_messages(sent, fast(8)).total for sent in (messages, messages[:, order]))
    if messages.dtype.kind == "i":
        assert np.array_equal(kept, moved)
    else:
        assert np.allclose(kept, moved, rtol=0, atol=1e-12)


@each_batch
def test_people_are_protected_by_the_secure_source(protocol: BatchProtocol) -> None:
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
    with pytest.raises(InsecureSource, match="law"):
        protocol.release(reports(2), secure, path="law")


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
