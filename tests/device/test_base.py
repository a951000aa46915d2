"""Devices: messages, parameters, and imports with NumPy alone."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from functools import cache
from typing import Any

import numpy as np
import pytest

from bandanna.device.domain import Ball
from bandanna.device.linear_report import LinearReport
from bandanna.device.noise import FastNoise, divide_rounding_up
from bandanna.privacy.budgets import ApproxDP
from bandanna.privacy.calibration import BinomialNoise
from bandanna.protocols.base import Protocol
from bandanna.protocols.gaussian import GaussianReports, LocalGaussian, ShuffleGaussian
from bandanna.protocols.randomized_response import LocalBits, LocalSigns
from bandanna.protocols.shuffle_binomial import ShuffleBinomial
from bandanna.protocols.shuffle_bits import ShuffleBits
from bandanna.protocols.spherical_cap import LocalUnit

PROTOCOLS: dict[str, Protocol] = {
    "shuffled counts": ShuffleBinomial(
        domain=LinearReport(features=3), noise=BinomialNoise(scale=4.0, trials=400, users=20)
    ),
    "shuffled bits": ShuffleBits(noise=BinomialNoise(scale=3.0, trials=40, users=20)),
    "rounded counts": ShuffleBinomial(
        domain=LinearReport(features=3), noise=BinomialNoise(scale=4.0, trials=400, users=20), coins="mixer"
    ),
    "local bits": LocalBits(epsilon=1.0),
    "local signs": LocalSigns(domain=Ball(dim=3), epsilon=1.0),
    "local unit": LocalUnit(domain=LinearReport(features=3), cosine=0.1, chance=0.8, candidates=3),
}
PROGRAM = """
import json, sys
import numpy as np
from bandanna.device.noise import SecureNoise; from bandanna.device.randomizers import device_from_parameters
from bandanna.device.action_selection import pick_tied_arms, compute_optimistic_scores
from bandanna.numeric.rng import SecureRandomness
from bandanna.numeric.linalg import find_best_arms

index = compute_optimistic_scores(np.ones(3), np.eye(3), 0.5, np.random.default_rng(0).normal(size=(1, 4, 3)))
choice = pick_tied_arms(*find_best_arms(index), SecureRandomness())
sent = {}
for name, parameters in json.loads(sys.argv[1]).items():
    device = device_from_parameters(parameters)
    message = device.message(device.domain.admit(np.ones((1, device.domain.dim))), SecureNoise())
    sent[name] = message.tolist(), device.zero(SecureNoise()).tolist()
print(json.dumps([sent, choice.actions.tolist(), sorted(sys.modules)]))
"""


@cache
def phone() -> Any:
    """What one process sends that has every kind of device: messages, actions, and the modules that it has loaded."""
    parameters = {name: protocol.device.parameters for name, protocol in PROTOCOLS.items()}
    command = [sys.executable, "-c", PROGRAM, json.dumps(parameters)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_message_needs_numpy_and_the_device(name: str) -> None:
    protocol, (sent, actions, modules) = PROTOCOLS[name], phone()
    message, zero = sent[name]
    assert len(message[0]) == len(zero[0]) == protocol.mixer.length
    assert all(type(number) is int for number in message[0] + zero[0])
    assert actions[0] in range(4)
    ours = {module.split(".")[1] for module in modules if module.startswith("bandanna.")}
    assert ours == {"_lazy", "device", "errors", "numeric", "storage", "types", "validation"}
    assert {each for each in modules if "storage." in each} == {"bandanna.storage.encoding"}
    assert not {"scipy", "opendp", "dp_accounting"} & set(modules)


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
