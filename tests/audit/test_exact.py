"""Exact laws of what is released: they are those of what runs, and tell as much as anybody could."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product as every

import numpy as np
import pytest
from scipy import special

import bandanna as bd
from bandanna.audit.exact import (
    LawPair,
    best_tests,
    cap_pair,
    compose_pairs,
    count_pairs,
    gaussian_pair,
    hockey_stick,
    message_pairs,
    pure_loss,
    shuffle_gaussian_pairs,
    two_caps_mass,
)
from bandanna.audit.mechanisms import PROTOCOLS, protocol_target, target_from_protocol
from bandanna.audit.releases import ReleasePair
from bandanna.audit.sampled_bounds import Claim
from bandanna.audit.targets import attacked
from bandanna.device.randomizers import normalize_messages
from bandanna.mechanisms.noise import PrivUnit
from bandanna.privacy import gdp, prices
from bandanna.privacy.calibration import best_cap
from bandanna.types import Floats

E, D = 4.0, 1e-3


def answer(epsilon: float) -> LawPair:
    q = float(special.expit(epsilon))
    return np.array([q, 1 - q]), np.array([1 - q, q])


def test_losses_of_independent_releases_add_up() -> None:
    rng = np.random.default_rng(0)
    laws = [tuple(rng.dirichlet(np.ones(6), size=2)) for _ in range(2)]
    whole, summed = (
        (np.outer(laws[0][0], laws[1][0]).ravel(), np.outer(laws[0][1], laws[1][1]).ravel()),
        compose_pairs(laws),
    )
    assert [law.sum() for law in summed] == pytest.approx([1.0, 1.0], abs=1e-12)
    for epsilon in (0.0, 0.5, 1.5):
        on_grid = hockey_stick(*summed, epsilon)
        assert hockey_stick(*whole, epsilon) - 1e-3 < on_grid <= hockey_stick(*whole, epsilon) + 1e-12
    assert pure_loss([answer(1.0), answer(2.0)]) == pytest.approx(3.0)
    assert pure_loss([(np.array([1.0, 0.0]), np.array([0.5, 0.5]))]) == math.inf


@pytest.mark.parametrize("parts", [1, 3, 12])
def test_gaussians_in_cells_are_as_far_apart_as_they_are(parts: int) -> None:
    mu = 1.3
    claim = Claim(epsilon=gdp.epsilon(D, mu), delta=D, mu=mu)
    found = claim.parameter_for_pairs([gaussian_pair(mu / math.sqrt(parts))] * parts)
    assert mu * (1 - 1e-3) < found <= mu * (1 + 1e-9)
    assert not claim.is_refuted_by(found)


def test_the_best_tests_are_most_powerful() -> None:
    p, q = (law / law.sum() for law in np.random.default_rng(3).random((2, 7)))
    power, level = best_tests(p, q)
    for chosen in every((False, True), repeat=7):
        mask = np.array(chosen)
        allowed = np.interp(q[mask].sum(), np.append(0.0, level), np.append(0.0, power))
        assert p[mask].sum() <= allowed + 1e-12


def drawn_totals(release: ReleasePair, swapped: bool, runs: int) -> Floats:
    protocol, source = release.protocol, bd.device.FastNoise(np.random.default_rng([int(swapped), 5]))
    values = np.broadcast_to((release.two if swapped else release.one)[0], (runs, *release.one[0].shape))
    sent = protocol.device.message(protocol.domain.admit(values), source)
    held = protocol.mixer.add(protocol.mixer.empty((runs,)), sent)
    return np.asarray(protocol.mixer.close(protocol.mixer.drawn(held, source)).numbers)


@pytest.mark.parametrize("coins", ["device", "mixer"])
def test_laws_of_counts_are_those_of_the_messages(coins: str) -> None:
    domain, runs = bd.device.Ball(dim=2), 20_000
    protocol = bd.protocols.ShuffleBinomial.calibrate(
        domain=domain, budget=bd.privacy.ApproxDP(epsilon=E, delta=D), batch=6, coins=coins
    )
    rng = np.random.default_rng(1)
    two = domain.admit(rng.normal(size=(6, 2)) / 3).values
    one = np.concatenate([domain.admit(np.array([[0.3, 0.8]])).values, two[1:]])
    release = ReleasePair(protocol=protocol, one=(one,), two=(two,))
    pairs = count_pairs(protocol, one, two)
    assert pairs is not None
    totals = [drawn_totals(release, swapped, runs) for swapped in (False, True)]
    for column, pair in enumerate(pairs):
        moments = []
        for law in pair:
            k = np.arange(law.size)
            assert law.sum() == pytest.approx(1, abs=1e-12)
            moments.append((float(law @ k), float(law @ k**2 - (law @ k) ** 2)))
        for (_, variance), seen in zip(moments, totals, strict=True):
            assert seen[:, column].var() == pytest.approx(variance, rel=5 * math.sqrt(2 / runs))
            assert abs(0.64 * variance - seen[:, column].var()) > 0.1 * variance  # 20 % less noise would be seen
        apart = totals[0][:, column].mean() - totals[1][:, column].mean()
        assert abs(apart - (moments[0][0] - moments[1][0])) < 5 * math.sqrt(2 * moments[0][1] / runs)


@pytest.mark.parametrize("name", ["shuffle_binomial", "concurrent_shuffle"])
def test_counts_with_a_fifth_less_noise_are_refuted_exactly(name: str) -> None:
    protocol = PROTOCOLS[name](E, D)
    stated = protocol.guarantee
    if isinstance(protocol, bd.protocols.ShuffleBinomial):
        less = replace(protocol, noise=replace(protocol.noise, trials=int(0.64 * protocol.noise.trials)))
    else:
        assert isinstance(protocol, bd.protocols.ConcurrentShuffle)
        few = tuple(replace(noise, trials=int(0.64 * noise.trials)) for noise in protocol.noises)
        less = replace(protocol, noises=few)
    target = target_from_protocol(less, epsilon=stated.epsilon, delta=stated.delta)
    honest = protocol_target(name, epsilon=E, delta=D)
    assert target.claim.is_refuted_by(target.claim.parameter_for_pairs(target.pairs))
    assert not honest.claim.is_refuted_by(honest.claim.parameter_for_pairs(honest.pairs))


def test_the_law_of_shuffled_reports_separates_like_their_likelihood_ratio() -> None:
    users, runs, rng = 8, 200_000, np.random.default_rng(11)
    protocol = PROTOCOLS["shuffle_gaussian"](E, D)
    assert isinstance(protocol, bd.protocols.ShuffleGaussian)
    one, two = np.zeros((users, 2)), np.zeros((users, 2))
    one[0], two[:] = (0.6, 0.8), (-0.6, -0.8)
    one[1:] = two[1:]
    pairs = shuffle_gaussian_pairs(protocol, one, two)
    assert pairs is not None
    mu = 2 / protocol.noise_std
    reports = rng.normal(size=(runs, users))  # of the second neighbour, in units of the noise
    ratio = np.mean(np.exp(mu * reports - mu * mu / 2), axis=-1)
    for epsilon in (0.3, 1.0, 2.0):
        gains = np.maximum(ratio - math.exp(epsilon), 0.0)
        error = 5 * float(gains.std()) / math.sqrt(runs)
        found = hockey_stick(*pairs[0], epsilon)
        assert 0.98 * gains.mean() - error < found < gains.mean() + error
    quieter = shuffle_gaussian_pairs(replace(protocol, noise_std=0.8 * protocol.noise_std), one, two)
    assert quieter is not None
    assert hockey_stick(*quieter[0], 1.0) > 1.2 * hockey_stick(*pairs[0], 1.0)  # 20 % less noise would be seen


@pytest.mark.parametrize("dim", [2, 3, 9])
@pytest.mark.parametrize("angle", [0.4, 1.2, 2.5])
def test_two_caps_overlap_as_much_as_directions_fall_into_both(dim: int, angle: float) -> None:
    """5 standard errors."""
    event = best_cap(dim=dim, epsilon=1.0)
    drawn = np.random.default_rng(7).normal(size=(100_000, dim))
    drawn /= np.linalg.norm(drawn, axis=-1, keepdims=True)
    other = math.cos(angle) * drawn[:, 0] + math.sin(angle) * drawn[:, 1]
    share = float(np.mean((drawn[:, 0] >= event.cosine) & (other >= event.cosine)))
    mass = two_caps_mass(event, angle)
    assert abs(share - mass) <= 5 * math.sqrt(max(mass, 1e-5) / 100_000)
    assert two_caps_mass(event, 0.0) == pytest.approx(prices.cap_moments(dim, event.cosine).mass)


@pytest.mark.parametrize("lengths", [(1.0, 1.0), (1.0, 0.3), (0.0, 0.6)])
def test_laws_of_directions_are_those_of_the_device(lengths: tuple[float, float]) -> None:
    mechanism, runs = PrivUnit.calibrate(dim=3, epsilon=2.0), 40_000
    points = np.array([[1.0, 0.0, 0.0], [math.cos(2.0), math.sin(2.0), 0.0]])
    one, two = points * np.array(lengths)[:, None]
    laws = cap_pair(mechanism.event, one, two)
    axes = [np.eye(3)[0] if length == 0 else point for point, length in zip(points, lengths, strict=True)]
    for law, value, seed in zip(laws, (one, two), (1, 2), strict=True):
        assert law.sum() == pytest.approx(1, abs=1e-9)
        device = mechanism.device(bd.device.Ball(dim=3))
        sent = normalize_messages(
            device.encode(np.broadcast_to(value, (runs, 1, 3)), bd.device.FastNoise(np.random.default_rng(seed)))
        )
        cases = [
            np.where(sent[:, 0] @ a >= device.cosine, 0, np.where(sent[:, 0] @ -a >= device.cosine, 1, 2)) for a in axes
        ]
        seen = np.bincount(3 * cases[0] + cases[1], minlength=9) / runs
        assert np.all(np.abs(seen - law) <= 5 * np.sqrt(law * (1 - law) / runs) + 1e-9)


def test_a_direction_tells_all_of_its_epsilon_on_the_sphere_and_less_inside() -> None:
    protocol = bd.protocols.LocalUnit.calibrate(domain=bd.device.Ball(dim=3), budget=bd.privacy.PureDP(epsilon=E))
    row = attacked(target_from_protocol(protocol), trials=512)
    assert row.attack == "exact"
    assert E * (1 - 1e-4) < row.lower_bound <= E
    one, two = np.array([[0.2, 0.0, 0.0]]), np.array([[0.0, 0.2, 0.0]])
    short = message_pairs(protocol, one, two)
    assert short is not None
    assert pure_loss(short) < 0.9 * E
    sharper = replace(protocol, candidates=2 * protocol.candidates, chance=1.0)
    found = target_from_protocol(sharper, epsilon=E, delta=0.0)
    assert found.claim.is_refuted_by(found.claim.parameter_for_pairs(found.pairs))


def test_other_devices_have_no_law_of_counts_or_messages() -> None:
    gaussian = bd.protocols.LocalGaussian.calibrate(
        domain=bd.device.Ball(dim=2), budget=bd.privacy.ApproxDP(epsilon=E, delta=D)
    )
    one, two = np.ones((1, 2)) / 2, -np.ones((1, 2)) / 2
    assert message_pairs(gaussian, one, two) is None
    assert count_pairs(gaussian, one, two) is None
