"""Closes a policy's `learn` with exact sums that a test chooses, or with what is released of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bandanna.device.domain import Estimate
from bandanna.device.noise import FastNoise, NoiseSource
from bandanna.numeric.rng import GeneratorRandomness
from bandanna.policies.base import (
    AssignedArms,
    Episode,
    PlayedRounds,
    Policy,
    StoppedByPublicData,
    SumQuery,
    drive_learning,
)
from bandanna.protocols.base import BatchProtocol
from bandanna.simulation.players.reference import QueryAnswerer


def answered(policy: Policy[Any], state: Any, episode: AssignedArms, *totals: ArrayLike, source: NoiseSource) -> Any:
    """The state after an episode whose asks have these exact sums, (*R, dim) each, and the noise of the source."""
    given = iter(totals)

    def answer(ask: SumQuery) -> Estimate:
        assert isinstance(ask.protocol, BatchProtocol)
        total = np.asarray(next(given), dtype=float)
        return ask.protocol.release_total(total, int(np.max(np.sum(episode.plays, axis=-1))), source)

    return drive_learning(policy.learn(state, episode), answer)


def told(policy: Policy[Any], state: Any, episode: Episode, *released: ArrayLike) -> Any:
    """The state after an episode whose asks are answered by these very numbers, (*R, dim) each."""
    given = iter(released)
    steps = policy.learn(state, episode)
    return drive_learning(
        steps, lambda ask: Estimate(total=np.asarray(next(given), dtype=float), count=1, variance=0.0)
    )


def device_coins(seed: int = 0) -> GeneratorRandomness:
    """Of a device, for every purpose from one generator."""
    rng = np.random.default_rng(seed)
    return GeneratorRandomness(lambda name: rng)


COINS = device_coins()


class Teacher:
    """One run, episode after episode, in which rows are learned from as a simulation would."""

    def __init__(self, policy: Policy[Any], source: NoiseSource | None = None) -> None:
        self.policy, self.state = policy, policy.init()
        noise = FastNoise(np.random.default_rng(0)) if source is None else source
        self.answers = QueryAnswerer(policy, noise, COINS, "law")

    def learn(self, features: Any, rewards: Any, groups: Any = None) -> Any:
        """One episode of users (n, d), (n,), over after them; the new state."""
        rows = PlayedRounds(features=np.atleast_2d(features), rewards=np.atleast_1d(rewards), groups=groups)
        episode = self.policy.episode(self.state)
        assert episode is not None
        if isinstance(episode, StoppedByPublicData):
            assert rows.features is not None
            self.state = self.policy.advance_public(self.state, rows.features)
        self.state = self.answers.learn(self.state, episode, rows)
        return self.state
