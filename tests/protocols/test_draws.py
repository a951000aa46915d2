"""How many random numbers a release takes is said before it: counted here along the messages of every protocol."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import bandanna as bd
from bandanna.device.noise import (
    GAUSSIAN_SECONDS,
    NUMBER_SECONDS,
    RELEASE_SECONDS,
    WORD_SECONDS,
    FastNoise,
    ReleaseCost,
    SecureNoise,
)
from bandanna.device.samplers import PART, count_words
from bandanna.protocols.base import StreamProtocol
from bandanna.protocols.clear import Clear
from bandanna.protocols.concurrent_shuffle import ConcurrentShuffle
from bandanna.protocols.continual import CentralContinual
from bandanna.protocols.gaussian import CentralGaussian, LocalGaussian, ShuffleGaussian
from bandanna.protocols.laplace import CentralLaplace
from bandanna.protocols.shuffle_binomial import ShuffleBinomial
from bandanna.protocols.shuffle_bits import ShuffleBits

BUDGET = bd.privacy.ApproxDP(epsilon=1.0, delta=1e-5)
BOX: Any = {"domain": bd.device.Box(dim=3), "budget": BUDGET}
USERS = 20


class Counted(SecureNoise):
    """A secure source in name, whose requests are counted and answered by fast noise."""

    def __init__(self) -> None:
        self.fast = FastNoise(np.random.default_rng(0))
        self.gaussians = self.words = 0

    def discrete_gaussian(self, *, std: float, size: Any) -> NDArray[np.int64]:
        """Counted."""
        self.gaussians += math.prod(np.atleast_1d(size))
        return self.fast.discrete_gaussian(std=std, size=size)

    def discrete_laplace(self, *, scale: float, size: Any) -> NDArray[np.int64]:
        """Counted."""
        self.gaussians += math.prod(np.atleast_1d(size))
        return self.fast.discrete_laplace(scale=scale, size=size)

    def binomial(self, *, trials: int, probability: float, size: Any) -> NDArray[np.int64]:
        """Counted: one word for each part of the trials."""
        self.words += math.prod(np.atleast_1d(size)) * count_words(trials)
        return self.fast.binomial(trials=trials, probability=probability, size=size)


PROTOCOLS = {
    "clear": Clear(domain=bd.device.Box(dim=3)),
    "central gaussian": CentralGaussian.calibrate(**BOX),
    "central laplace": CentralLaplace.calibrate(domain=bd.device.Box(dim=3), budget=bd.privacy.PureDP(epsilon=1.0)),
    "local": LocalGaussian.calibrate(**BOX),
    "shuffled gaussian": ShuffleGaussian.calibrate(batch=USERS, **BOX),
    "binomial": ShuffleBinomial.calibrate(batch=USERS, **BOX),
    "many coins": ShuffleBinomial.calibrate(
        domain=bd.device.Box(dim=3), budget=bd.privacy.ApproxDP(epsilon=1e-3, delta=1e-9), batch=USERS
    ),
    "bits": ShuffleBits.calibrate(budget=BUDGET, batch=USERS),
    "binomial, mixer": ShuffleBinomial.calibrate(batch=USERS, coins="mixer", **BOX),
    "many coins, mixer": ShuffleBinomial.calibrate(
        domain=bd.device.Box(dim=3), budget=bd.privacy.ApproxDP(epsilon=1e-3, delta=1e-9), batch=USERS, coins="mixer"
    ),
    "bits, mixer": ShuffleBits.calibrate(budget=BUDGET, batch=USERS, coins="mixer"),
    "blt": CentralContinual.calibrate(horizon=8, **BOX),
    "tree": CentralContinual.calibrate(horizon=8, mechanism="tree", **BOX),
    "concurrent": ConcurrentShuffle.calibrate(horizon=8 * USERS, shufflers=2, degrees=(USERS, 4), **BOX),
    "concurrent, mixer": ConcurrentShuffle.calibrate(
        horizon=8 * USERS, shufflers=2, degrees=(USERS, 4), coins="mixer", **BOX
    ),
}


@pytest.mark.parametrize("name", PROTOCOLS)
def test_draws_are_what_a_release_takes(name: str) -> None:
    protocol, source = PROTOCOLS[name], Counted()
    values = np.zeros((USERS, protocol.domain.dim))
    taken = set()
    state = protocol.begin() if isinstance(protocol, StreamProtocol) else None
    for _ in range(8):
        before = source.gaussians, source.words
        if isinstance(protocol, StreamProtocol):
            state, _ = protocol.release(state, values, source)
        else:
            protocol.release(values, source)
        taken.add((source.gaussians - before[0], source.words - before[1]))
    said = protocol.draws(USERS)
    assert max(taken) == (said.gaussians, said.words)
    assert said.numbers % values.size == 0
    assert said.numbers > 0


def test_many_coins_take_several_words() -> None:
    noise = PROTOCOLS["many coins"].noise  # type: ignore[union-attr]
    assert noise.trials > PART
    assert (count_words(0), count_words(1), count_words(PART), count_words(PART + 1)) == (0, 1, 1, 2)


def test_seconds_add_up() -> None:
    """An estimate is not the sum of its parts, or counts noise that is seeded."""
    draws = ReleaseCost(gaussians=3, words=5, numbers=7)
    assert draws.seconds(secure=True) == pytest.approx(
        RELEASE_SECONDS + 3 * GAUSSIAN_SECONDS + 5 * WORD_SECONDS + 7 * NUMBER_SECONDS
    )
    assert draws.seconds(secure=False) == pytest.approx(RELEASE_SECONDS + 7 * NUMBER_SECONDS)
