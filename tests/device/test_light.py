"""A device is light: no other role, no accountant and no SciPy is loaded with it, whatever it sends."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from typing import Any

import pytest

from bandanna.device.domain import Ball
from bandanna.device.linear_report import LinearReport
from bandanna.privacy.calibration import BinomialNoise
from bandanna.protocols.base import Protocol
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
    """What a phone must carry for one message is more than NumPy, `bandanna.device`, `bandanna.numeric`
    and the names under which classes are sent.
    """
    protocol, (sent, actions, modules) = PROTOCOLS[name], phone()
    message, zero = sent[name]
    assert len(message[0]) == len(zero[0]) == protocol.mixer.length
    assert all(type(number) is int for number in message[0] + zero[0])
    assert actions[0] in range(4)
    ours = {module.split(".")[1] for module in modules if module.startswith("bandanna.")}
    assert ours == {"_lazy", "device", "errors", "numeric", "storage", "types", "validation"}
    assert {each for each in modules if "storage." in each} == {"bandanna.storage.encoding"}
    assert not {"scipy", "opendp", "dp_accounting"} & set(modules)
