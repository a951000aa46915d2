"""Noisy reports as a deployment sends them: whole steps of the grid."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bandanna.device.domain import Ball
from bandanna.device.noise import FastNoise, divide_rounding_up
from bandanna.privacy.budgets import ApproxDP
from bandanna.protocols.gaussian import GaussianReports, LocalGaussian, ShuffleGaussian

BUDGET = ApproxDP(epsilon=1.0, delta=1e-6)
BALL = Ball(dim=4)


class Seeded(FastNoise):
    """Takes the integer path of a secure source with a generator's draws, so that a test repeats."""

    secure = True


@pytest.mark.parametrize(
    "protocol",
    [
        LocalGaussian.calibrate(domain=BALL, budget=BUDGET),
        ShuffleGaussian.calibrate(domain=BALL, budget=BUDGET, batch=1000),
    ],
    ids=lambda protocol: protocol.name,
)
def test_integer_reports_have_the_priced_noise(protocol: GaussianReports) -> None:
    """A device would draw less noise in steps of the grid than its event is priced for.

    The false-alarm rate over all seeds is below 1e-6; 20 % less noise is 40 standard errors away.
    """
    values = np.tile([0.5, -0.5, 0.25, 0.0], (10_000, 1))
    sent = protocol.device.message(BALL.admit(values), Seeded(np.random.default_rng(0)))
    assert sent.dtype == np.int64
    device = protocol.device
    noise = sent * device.grid - (values - BALL.origin)
    expected = divide_rounding_up("std", protocol.noise_std, device.grid) * device.grid
    assert abs(float(np.std(noise)) / expected - 1) < 5 / math.sqrt(2 * noise.size)
