from __future__ import annotations

import math

import numpy as np

from bandanna.device.domain import RawRowDomain
from bandanna.device.noise import FastNoise
from bandanna.privacy.events import ClearEvent
from bandanna.protocols.clear import ClearRows

DOMAIN = RawRowDomain(size=3, reward_bound=2.0, groups=2)
SOURCE = FastNoise(np.random.default_rng(0))


def test_rows_arrive_as_they_are_and_nothing_is_promised() -> None:
    protocol, rng = ClearRows(domain=DOMAIN), np.random.default_rng(1)
    x, r, g = rng.uniform(-0.5, 0.5, (2, 7, 3)), rng.random((2, 7)), rng.integers(0, 2, (2, 7))
    for path in ("law", "messages"):
        told = protocol.release(DOMAIN.statistic(x, r, g), SOURCE, path=path).total
        for part, given in zip(DOMAIN.parts(told), (x, r, g), strict=True):
            np.testing.assert_array_equal(part, given)
    assert isinstance(protocol.event, ClearEvent)
    assert math.isinf(protocol.guarantee.epsilon)


def test_rows_are_clipped_and_counted() -> None:
    statistic = DOMAIN.statistic(np.array([[3.0, 0, 0], [0.3, 0, 0], [0, 2.0, 0]]), np.array([1.0, 5.0, -1.0]))
    np.testing.assert_allclose(statistic.values[:, :4], [[1, 0, 0, 1], [0.3, 0, 0, 2], [0, 1, 0, 0]])
    assert int(statistic.clipped) == 4
    wild = np.random.default_rng(2).normal(size=(500, 5)) * 10
    inside = DOMAIN.project(wild)
    assert np.all((inside >= DOMAIN.lower - 1e-12) & (inside <= DOMAIN.upper + 1e-12))
    distances = np.linalg.norm(inside[:250] - inside[250:], axis=-1)
    assert np.max(distances) <= DOMAIN.sensitivity
    np.testing.assert_array_equal(DOMAIN.project(inside), inside)
