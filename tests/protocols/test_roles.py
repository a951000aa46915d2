"""Devices, mixers and analyzers of every protocol: register one below and it is held to all of this.

The secure source cannot be seeded; statements about its draws are certain, or say how seldom they fail.
"""

from __future__ import annotations

import copy
import importlib
import json
import pickle
import pkgutil
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import bandanna.protocols
from bandanna.device.domain import Ball, Bits, Box
from bandanna.device.linear_report import LinearReport
from bandanna.device.noise import FastNoise, SecureNoise
from bandanna.device.randomizers import PlainVector, device_from_parameters
from bandanna.errors import InsecureSource, InvalidArgument, InvalidStatistic
from bandanna.privacy.calibration import BinomialNoise
from bandanna.privacy.factorisation import factorise
from bandanna.protocols.base import BatchProtocol, Protocol, StreamProtocol
from bandanna.protocols.batch_tree import BatchTree
from bandanna.protocols.clear import Clear, ClearRows, PublicSum
from bandanna.protocols.concurrent_shuffle import ConcurrentShuffle
from bandanna.protocols.continual import CentralContinual
from bandanna.protocols.factory import PROTOCOLS
from bandanna.protocols.gaussian import CentralGaussian, LocalGaussian, ShuffleGaussian
from bandanna.protocols.laplace import CentralLaplace
from bandanna.protocols.mixers import SummingMixer
from bandanna.protocols.randomized_response import LocalBits, LocalSigns
from bandanna.protocols.shuffle_binomial import ShuffleBinomial
from bandanna.protocols.shuffle_bits import ShuffleBits
from bandanna.protocols.spherical_cap import LocalUnit
from bandanna.storage.encoding import Encoding

USERS = 6
REPORT, FAR = LinearReport(features=2), Box(dim=2, low=3.0, high=5.0)  # 0 is not in the second
NOISE = BinomialNoise(scale=4.0, trials=400, users=USERS)
TREE = BatchTree(horizon=2 * USERS, degrees=(2, 3))
BATCH: dict[str, BatchProtocol] = {
    "clear": Clear(domain=REPORT),
    "central gaussian": CentralGaussian(domain=REPORT, noise_std=3.0),
    "central gaussian, far": CentralGaussian(domain=FAR, noise_std=3.0),
    "central laplace": CentralLaplace(domain=FAR, scale=9.0),
    "local gaussian": LocalGaussian(domain=FAR, noise_std=3.0),
    "local bits": LocalBits(epsilon=0.5),
    "local unit": LocalUnit(domain=REPORT, cosine=0.1, chance=0.8, candidates=3),
    "local unit, far": LocalUnit(domain=FAR, cosine=0.3, chance=0.75, candidates=4),
    "shuffled gaussian": ShuffleGaussian(domain=Ball(dim=3), noise_std=3.0, batch=USERS),
    "shuffled counts": ShuffleBinomial(domain=REPORT, noise=NOISE),
    "shuffled counts, far": ShuffleBinomial(domain=FAR, noise=replace(NOISE, probability=0.25)),
    "shuffled bits": ShuffleBits(noise=replace(NOISE, scale=3.0)),
    "shuffled counts, checked": ShuffleBinomial(domain=REPORT, noise=NOISE, coins="checked"),
    "shuffled counts, mixer": ShuffleBinomial(domain=REPORT, noise=NOISE, coins="mixer"),
    "shuffled counts, far, mixer": ShuffleBinomial(domain=FAR, noise=replace(NOISE, probability=0.25), coins="mixer"),
    "shuffled bits, mixer": ShuffleBits(noise=replace(NOISE, scale=3.0), coins="mixer"),
}
STREAMS: dict[str, StreamProtocol] = {
    "continual": CentralContinual(domain=REPORT, factorisation=factorise("blt", horizon=5), noise_std=3.0),
    "continual, tree": CentralContinual(domain=FAR, factorisation=factorise("tree", horizon=5), noise_std=3.0),
    "concurrent": ConcurrentShuffle(
        domain=REPORT, tree=TREE, noises=tuple(replace(NOISE, users=size) for size in TREE.sizes)
    ),
    "concurrent bits": ConcurrentShuffle(
        domain=Bits(), tree=TREE, noises=tuple(replace(NOISE, users=size) for size in TREE.sizes)
    ),
}
STREAMS |= {f"{name}, mixer": replace(STREAMS[name], coins="mixer") for name in ("concurrent", "concurrent bits")}
ALL: dict[str, Any] = {**BATCH, **STREAMS}
each = pytest.mark.parametrize("protocol", ALL.values(), ids=ALL.keys())
each_batch = pytest.mark.parametrize("protocol", BATCH.values(), ids=BATCH.keys())
each_stream = pytest.mark.parametrize("protocol", STREAMS.values(), ids=STREAMS.keys())
CODE = Encoding(PROTOCOLS)


def fast(seed: int = 1) -> FastNoise:
    return FastNoise(np.random.default_rng(seed))


def values(protocol: Protocol, *replicates: int, users: int = USERS) -> NDArray[np.float64]:
    domain = protocol.domain
    drawn = np.random.default_rng(5).uniform(domain.lower, domain.upper, (*replicates, users, domain.dim))
    return domain.admit(drawn).values


def draws_itself(protocol: Any) -> bool:
    return getattr(protocol, "coins", "device") == "mixer"


def again(state: Any) -> Any:
    return CODE.loads(CODE.dumps(state))


def same(one: Any, two: Any) -> bool:
    return CODE.dumps(one) == CODE.dumps(two)


def test_every_protocol_is_registered() -> None:
    for module in pkgutil.walk_packages(bandanna.protocols.__path__, "bandanna.protocols."):
        importlib.import_module(module.name)

    def below(kind: type) -> set[type]:
        return {kind, *(leaf for child in kind.__subclasses__() for leaf in below(child))}

    ours = {
        kind for kind in below(Protocol) if kind.__module__.startswith("bandanna.protocols") and "name" in vars(kind)
    }
    apart = {ClearRows, PublicSum, LocalSigns}  # no sum, nothing private, zero without a sign: test_conformance.py, ...
    assert ours == {type(protocol) for protocol in ALL.values()} | apart


@each
def test_a_protocol_is_a_frozen_value(protocol: Any) -> None:
    fresh = replace(protocol)  # which has not stated its event
    copies = [copy.copy(protocol), fresh, pickle.loads(pickle.dumps(fresh)), pickle.loads(pickle.dumps(protocol))]
    for one in copies:
        assert (one, one.event) == (protocol, protocol.event)
        assert hash(one) == hash(protocol)
    assert protocol.event == protocol.event
    assert all(field.kw_only for field in fields(protocol))
    with pytest.raises(FrozenInstanceError):
        protocol.delta = 0.5


@each
def test_a_release_refuses_other_sources_and_paths(protocol: Any) -> None:
    def release(source: Any, path: Any = "messages") -> Any:
        state = () if isinstance(protocol, BatchProtocol) else (protocol.begin(),)
        return protocol.release(*state, values(protocol), source, path=path)

    for path in ("messages", "law"):
        for bad in (None, 0, np.random.default_rng(0)):
            with pytest.raises(InvalidArgument, match="NoiseSource"):
                release(bad, path)
    with pytest.raises(InsecureSource, match="law"):
        release(SecureNoise(), "law")
    for word in ("wire", "", None, "LAW"):
        with pytest.raises(InvalidArgument, match=r"path must be one of 'messages', 'law', got") as caught:
            release(fast(), word)
        assert (caught.value.argument, caught.value.value) == ("path", word)


@each_batch
def test_roles_one_by_one_are_the_release(protocol: BatchProtocol) -> None:
    rows = values(protocol, 3)
    source = fast()
    messages = protocol.device.message(protocol.admit(rows), source)
    held = protocol.mixer.empty((3,))
    for message in np.split(messages, USERS, axis=-2):
        held = again(protocol.mixer.add(held, protocol.mixer.check(message)))
    held = again(protocol.mixer.drawn(held, source))
    state, estimate = protocol.analyzer.analyze(
        protocol.analyzer.begin((3,)), again(protocol.mixer.close(held)), source
    )
    expected = protocol.release(rows, fast())
    assert state is None
    assert np.array_equal(estimate.total, expected.total)
    assert (estimate.count, estimate.variance) == (expected.count, expected.variance)


@each_stream
def test_a_stream_in_roles_is_its_release(protocol: StreamProtocol) -> None:
    rows = values(protocol, 3, users=4)
    one, two = fast(), fast()
    whole = protocol.begin((3,))
    held, analyzed = protocol.parted(again(whole))
    for _ in range(2):
        whole, expected = protocol.release(whole, rows, one)
        for part in protocol.mixer.split_portions(held, protocol.device.message(protocol.admit(rows), two)):
            held = protocol.mixer.drawn(protocol.mixer.add(held, protocol.mixer.check(part)), two)
            analyzed, estimate = protocol.analyzer.analyze(analyzed, protocol.mixer.close(held), two)
            held = protocol.mixer.forget(held)
        assert np.array_equal(estimate.total, expected.total)
        assert (estimate.count, estimate.variance) == (expected.count, expected.variance)
        assert same(protocol.joined(held, analyzed), whole)
        held, analyzed = protocol.parted(again(protocol.joined(held, analyzed)))
        whole = again(whole)


@each
def test_devices_send_integers_with_secure_noise(protocol: Any) -> None:
    """With a secure source something else than 64-bit integers leaves a device, or fresh messages are alike."""
    statistic, secure = protocol.admit(values(protocol, users=50)), SecureNoise()
    first, second = (protocol.device.message(statistic, secure) for _ in range(2))
    assert first.dtype == np.int64
    assert first.shape == (50, protocol.mixer.length)
    protocol.mixer.check(first)
    if not draws_itself(protocol):  # then chance is in the rounding alone, and bits are sent as they are
        assert np.array_equal(first, second) == isinstance(
            protocol.device, PlainVector
        )  # 2^-50 for answers, else far less


@each_batch
def test_integers_are_added_exactly_in_any_order(protocol: BatchProtocol) -> None:
    messages = protocol.device.message(protocol.admit(values(protocol)), SecureNoise())
    totals = [
        protocol.release_messages(messages[order], fast(3)).total for order in (slice(None), slice(None, None, -1))
    ]
    assert np.array_equal(*totals)
    if isinstance(protocol.device, PlainVector):  # the same numbers as reals: an exact sum, and the same noise
        assert np.allclose(totals[0], protocol.release(values(protocol), fast(3)).total, rtol=1e-14, atol=1e-14)


@each
def test_a_user_who_did_not_answer_is_noised_in_full(protocol: Any) -> None:
    device, nothing = protocol.device, protocol.domain.nothing
    assert np.array_equal(protocol.domain.check(nothing.values), nothing.values)
    assert np.array_equal(device.zero(fast()), device.message(nothing, fast()))
    protocol.mixer.check(device.zero(SecureNoise()))
    if isinstance(device, PlainVector) or draws_itself(protocol):
        return
    draws = 4000
    some = [
        np.std(device.encode(np.broadcast_to(row, (draws, *row.shape)), fast(2)), axis=(0, 1))
        for row in (nothing.values, values(protocol, users=1))
    ]
    assert np.all(some[0] > 0)
    assert np.allclose(*some, rtol=0.1)  # rounding aside, whatever was answered


@each
def test_messages_from_outside_are_checked(protocol: Any) -> None:
    check, length = protocol.mixer.check, protocol.mixer.length
    good = protocol.device.message(protocol.admit(values(protocol)), SecureNoise())
    assert np.array_equal(check(good), good)
    for bad in (good[..., :-1], good[0], good.astype(np.int32), good.astype(bool), "message"):
        with pytest.raises(InvalidStatistic, match="messages") as caught:
            check(bad)
        assert f"{length})" in str(caught.value) or "integers" in str(caught.value)
    counts = isinstance(protocol.mixer, SummingMixer) or isinstance(protocol, ConcurrentShuffle)
    for wrong in (-1, 10**6) if counts else (2**62 + 2**60, -(2**62), np.iinfo(np.int64).min):
        changed = good.copy()
        changed[3, -1] = wrong
        with pytest.raises(InvalidStatistic) as caught:
            check(changed)
        if counts:
            assert caught.value.argument.startswith("messages[3, ")
            assert str(wrong) not in str(caught.value)
            assert "counts from 0 to" in str(caught.value)
    if counts:
        with pytest.raises(InvalidStatistic, match="integers"):
            check(good.astype(float))
    with pytest.raises(InvalidStatistic):
        check(np.full(good.shape, np.nan))


@each
def test_a_device_is_made_of_plain_public_values(protocol: Any) -> None:
    device = protocol.device
    document = json.loads(json.dumps(device.parameters))
    made = device_from_parameters(document)
    assert made == device
    statistic = protocol.admit(values(protocol))
    assert np.array_equal(made.message(statistic, fast(8)), device.message(statistic, fast(8)))
    for broken in (
        document | {"kind": "Nobody"},
        document | {"more": 1},
        {name: part for name, part in document.items() if name != "domain"},
        document["domain"],
    ):
        with pytest.raises(InvalidArgument):
            device_from_parameters(broken)


@pytest.mark.parametrize("name", [name for name in BATCH if name.startswith("shuffled")])
def test_a_batch_may_be_larger_and_never_smaller(name: str) -> None:
    protocol = BATCH[name]
    for users in (USERS, USERS + 1, 2 * USERS):
        rows = np.broadcast_to(values(protocol, users=users), (3000, users, protocol.domain.dim))
        for path in ("messages", "law"):
            estimate = protocol.release(rows, fast(9), path=path)
            assert estimate.count == users
            assert estimate.variance == pytest.approx(protocol.std(users) ** 2)
            error = estimate.total - rows[0].sum(axis=0)
            assert np.all(np.abs(error.mean(axis=0)) < 6 * protocol.std(users) / np.sqrt(3000))
            assert np.allclose(error.std(axis=0), protocol.std(users), rtol=0.1)
    fewer = protocol.device.message(protocol.admit(values(protocol, users=USERS - 1)), fast())
    with pytest.raises(InvalidArgument, match=f"at least {USERS} users"):
        protocol.mixer.close(protocol.mixer.drawn(protocol.mixer.add(protocol.mixer.empty(), fewer), fast()))
    for path in ("messages", "law"):
        for users in (1, USERS - 1):
            with pytest.raises(InvalidArgument, match=f"at least {USERS} users") as caught:
                protocol.release(values(protocol, users=users), fast(), path=path)
            assert (caught.value.argument, caught.value.value) == ("batch", users)
    with pytest.raises(InvalidArgument, match=f"at least {USERS} users"):
        protocol.std(USERS - 1)


def test_portions_of_other_makes_are_refused() -> None:
    for protocol in (BATCH["clear"], BATCH["shuffled counts"], STREAMS["concurrent"]):
        statistic = protocol.admit(values(protocol))
        held = protocol.mixer.add(protocol.mixer.empty(), protocol.device.message(statistic, SecureNoise()))
        with pytest.raises(InvalidStatistic, match="replicates"):
            protocol.mixer.add(held, protocol.device.message(protocol.admit(values(protocol, 2)), SecureNoise()))
    mixer, real = BATCH["clear"].mixer, BATCH["clear"].device.message(REPORT.nothing, fast())
    with pytest.raises(InvalidStatistic, match="float64, as before"):
        mixer.add(mixer.add(mixer.empty(), real), BATCH["clear"].device.zero(SecureNoise()))


def test_a_batch_without_its_coins_has_no_way_out() -> None:
    for protocol in (STREAMS["concurrent"], STREAMS["concurrent, mixer"]):
        sent = protocol.device.message(protocol.admit(values(protocol)), fast())
        held = protocol.mixer.drawn(protocol.mixer.add(protocol.mixer.empty(), sent), fast())
        assert protocol.mixer.close(held).users == USERS
    with pytest.raises(InvalidArgument, match="coins"):
        protocol.mixer.close(replace(held, owed=(USERS, 0)))
