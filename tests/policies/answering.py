"""Closes a policy's `learn` with exact sums that a test chooses, or with what is released of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bandanna.core.coins import GeneratorCoins
from bandanna.core.estimate import Estimate
from bandanna.loop import close
from bandanna.mechanisms.sources import NoiseSource
from bandanna.policies.base import Ask, Assigned, Episode, Policy
from bandanna.protocols.base import BatchProtocol


def answered(policy: Policy[Any], state: Any, episode: Assigned, *totals: ArrayLike, source: NoiseSource) -> Any:
    """The state after an episode whose asks have these exact sums, (*R, dim) each, and the noise of the source."""
    given = iter(totals)

    def answer(ask: Ask) -> Estimate:
        assert isinstance(ask.protocol, BatchProtocol)
        total = np.asarray(next(given), dtype=float)
        return ask.protocol.of_total(total, int(np.max(np.sum(episode.plays, axis=-1))), source)

    return close(policy.learn(state, episode), answer)


def told(policy: Policy[Any], state: Any, episode: Episode, *released: ArrayLike) -> Any:
    """The state after an episode whose asks are answered by these very numbers, (*R, dim) each."""
    given = iter(released)
    steps = policy.learn(state, episode)
    return close(steps, lambda ask: Estimate(total=np.asarray(next(given), dtype=float), count=1, variance=0.0))


def device_coins(seed: int = 0) -> GeneratorCoins:
    """Of a device, for every purpose from one generator."""
    rng = np.random.default_rng(seed)
    return GeneratorCoins(lambda name: rng)
