"""The binomial mechanism: law, moments and exact privacy of small cases by enumeration.

Laws: DKW bands, false alarm at most 1e-6 for the seeded fast source and 1e-9 for the secure one.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats

from bandanna.device.noise import FastNoise, SecureNoise
from bandanna.errors import InvalidArgument
from bandanna.mechanisms.noise import BinomialMechanism
from bandanna.privacy.events import BinomialEvent


def law(trials: int, probability: float, change: tuple[int, ...], reach: int) -> NDArray[np.float64]:
    """The joint law of change + Bin(trials, probability) per coordinate, on -reach..trials+reach."""
    support = np.arange(-reach, trials + reach + 1)
    joint = np.ones(())
    for shift in change:
        joint = np.multiply.outer(joint, stats.binom.pmf(support - shift, trials, probability))
    return joint


def hockey_stick(p: NDArray[np.float64], q: NDArray[np.float64], epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def claim(event: BinomialEvent, epsilon: float, zmax: float = 4.5) -> float:
    """Theorem A for integer shifts, on its own: delta_G(epsilon; mu_1 shift) + dim (1 + e^epsilon) tail."""
    z = special.ndtri(stats.binom.cdf(np.arange(event.trials), event.trials, event.probability))
    z = z[np.abs(z) <= zmax]  # a smaller zmax keeps fewer points: steps are smaller, the tail larger
    mu = np.diff(z).max() * event.shift
    tail = max(special.ndtr(z[0]), special.ndtr(-z[-1]))
    gaussian = special.ndtr(-epsilon / mu + mu / 2) - math.exp(epsilon) * special.ndtr(-epsilon / mu - mu / 2)
    return float(gaussian + event.dim * (1 + math.exp(epsilon)) * tail)


@pytest.mark.parametrize("probability", [0.5, 0.25])
@pytest.mark.parametrize(("trials", "change"), [(200, (6,)), (400, (3,)), (200, (4, -3)), (300, (0, 7))])
def test_binomial_noise_is_as_private_as_theorem_a_claims(
    trials: int, change: tuple[int, ...], probability: float
) -> None:
    shift = math.hypot(*change)
    mechanism = BinomialMechanism(
        trials=trials, shift=shift, reach=7, dim=len(change), probability=probability, rounded=False
    )
    weaker = dataclasses.replace(mechanism, trials=round(0.64 * trials))  # variance is linear in the trials
    still = (0,) * len(change)

    def truth(used: BinomialMechanism, epsilon: float) -> float:
        p, q = (law(used.trials, probability, moved, 7) for moved in (change, still))
        return max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))

    for epsilon in (0.1, 0.5, 1.0):
        assert truth(mechanism, epsilon) <= claim(mechanism.event, epsilon)
    if probability == 0.5:  # where the claim is tight
        assert truth(weaker, 0.5) > claim(mechanism.event, 0.5)


@pytest.mark.parametrize(("trials", "probability"), [(1, 0.5), (12, 0.25), (300, 0.625)])
def test_the_moments_of_binomial_noise_are_exact(trials: int, probability: float) -> None:
    mechanism = BinomialMechanism(trials=trials, shift=1.0, reach=1, probability=probability)
    mean, variance = stats.binom.stats(trials, probability)
    assert mechanism.mean == pytest.approx(float(mean), rel=1e-14)
    assert mechanism.variance == pytest.approx(float(variance), rel=1e-14)


@pytest.mark.parametrize("probability", [0.5, 0.25])
@pytest.mark.parametrize("kind", ["fast", "secure"])
def test_release_has_the_law_of_its_event(kind: str, probability: float) -> None:
    n, alarm = (200_000, 1e-6) if kind == "fast" else (100_000, 1e-9)
    source = FastNoise(np.random.default_rng(3)) if kind == "fast" else SecureNoise()
    mechanism = BinomialMechanism(trials=200, shift=1.0, reach=1, dim=2, probability=probability)
    value = np.tile([5, -3], (n // 2, 1))

    def gap(used: BinomialMechanism) -> float:
        noise = used.release(value, source) - value + round(mechanism.mean - used.mean)
        seen = np.searchsorted(np.sort(noise.ravel()), np.arange(-1, 201), side="right") / n
        return float(np.abs(seen - stats.binom.cdf(np.arange(-1, 201), 200, probability)).max())

    band = math.sqrt(math.log(2 / alarm) / (2 * n))
    assert gap(mechanism) <= band
    assert gap(dataclasses.replace(mechanism, trials=128)) > band


def test_binomial_events_repeat_the_parameters() -> None:
    stated = {"trials": 40, "shift": 2.5, "reach": 3, "dim": 4, "probability": 0.25, "rounded": False}
    assert BinomialMechanism(**stated).event == BinomialEvent(**stated)
    assert BinomialMechanism(trials=40, shift=2.5, reach=3).event == BinomialEvent(trials=40, shift=2.5, reach=3)


@pytest.mark.parametrize(
    ("argument", "changed"),
    [
        ("trials", {"trials": 0}),
        ("trials", {"trials": 2**53 + 1}),
        ("shift", {"shift": 0.0}),
        ("reach", {"reach": 0.5}),
        ("dim", {"dim": 0}),
        ("probability", {"probability": 1.0}),
    ],
)
def test_a_mechanism_without_a_sound_event_cannot_be_built(argument: str, changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        BinomialMechanism(**{"trials": 10, "shift": 1.0, "reach": 1, **changed})
    assert caught.value.argument == argument
