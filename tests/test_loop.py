"""The desk, where every release of simulator and agent passes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bandanna.device.domain import Ball
from bandanna.device.noise import FastNoise
from bandanna.policies.base import RunnerState, SumQuery
from bandanna.privacy.budgets import ApproxDP, PureDP
from bandanna.protocols.base import BatchProtocol, Protocol
from bandanna.protocols.continual import CentralContinual
from bandanna.protocols.gaussian import CentralGaussian, LocalGaussian
from bandanna.protocols.laplace import CentralLaplace

BUDGET = ApproxDP(epsilon=1.0, delta=1e-6)
BALL = Ball(dim=2)
RUNS = 10_000


@pytest.mark.parametrize("path", ["law", "messages"])
@pytest.mark.parametrize(
    "protocol",
    [
        CentralGaussian.calibrate(domain=BALL, budget=BUDGET),
        CentralLaplace.calibrate(domain=BALL, budget=PureDP(epsilon=1.0)),
        CentralContinual.calibrate(domain=BALL, budget=BUDGET, horizon=4),
        LocalGaussian.calibrate(domain=BALL, budget=BUDGET),
    ],
    ids=lambda protocol: protocol.name,
)
def test_a_release_of_the_desk_has_the_noise_of_its_protocol(protocol: Protocol, path: str) -> None:
    """A runner's releases would have less noise than the query's protocol is priced for.

    The standard error of a standard deviation is at most sqrt 5 / 2 of it (Laplace) over the root of the numbers: five
    of them are a false alarm in less than 1e-6 of all seeds, and 20 % less noise is 25 of them away.
    """
    values = np.tile([0.6, -0.8], (RUNS, 3, 1))  # three users of every run
    query, source = SumQuery(protocol=protocol), FastNoise(np.random.default_rng(0))
    desk, estimate = RunnerState().release(query, BALL.admit(values), source, path=path)
    assert (0 in desk.streams) == (not isinstance(protocol, BatchProtocol))
    noise = estimate.total - values.sum(axis=-2)
    expected = protocol.std(3) if isinstance(protocol, BatchProtocol) else float(protocol.prefix_std()[0])
    assert abs(float(np.std(noise)) / expected - 1) < 5 * math.sqrt(5 / 4 / noise.size)


def test_how_many_are_in_a_group_is_not_told() -> None:
    protocol, source = CentralGaussian.calibrate(domain=BALL, budget=BUDGET), FastNoise(np.random.default_rng(0))
    statistic = BALL.admit(np.tile([0.3, 0.4], (5, 1)))
    _, of_group = RunnerState().release(SumQuery(protocol=protocol, group="some"), statistic, source, path="messages")
    _, of_batch = RunnerState().release(SumQuery(protocol=protocol), statistic, source, path="messages")
    assert (of_group.count, of_batch.count) == (0, 5)
