"""Answers for `policy.learn` in tests: given totals, or those of a runner without noise."""

from __future__ import annotations

from typing import Any

import numpy as np

from bandanna.core.coins import GeneratorCoins
from bandanna.core.estimate import Estimate
from bandanna.mechanisms.sources import FastNoise
from bandanna.policies.base import Ask, Episode, Played
from bandanna.simulation.players.answers import Answers

COINS = GeneratorCoins(np.random.default_rng(0))


def answered(policy: Any, state: Any, episode: Episode, *totals: Any) -> Any:
    """The state after answers with these totals; there must be as many asks."""
    asks, learned = told(policy, state, episode, totals)
    assert len(asks) == len(totals)
    return learned


def told(policy: Any, state: Any, episode: Episode, totals: Any) -> tuple[list[Ask], Any]:
    """All asks of an episode and the state after it, answered with the first totals that are left."""
    steps, asks, left = policy.learn(state, episode), [], iter(totals)
    try:
        asks.append(next(steps))
        while True:
            asks.append(steps.send(Estimate(total=np.asarray(next(left)), count=0, variance=0.0)))
    except StopIteration as learned:
        return asks, learned.value


class Teacher:
    """One run, round by round, in which rows are learned from as a simulation would."""

    def __init__(self, policy: Any) -> None:
        self.policy, self.state = policy, policy.init()
        self.answers = Answers(policy, FastNoise(np.random.default_rng(0)), COINS, "law")

    def learn(self, features: Any, rewards: Any, groups: Any = None) -> Any:
        """One episode of users (n, d), (n,); the new state."""
        rows = Played(features=np.atleast_2d(features), rewards=np.atleast_1d(rewards), groups=groups)
        self.state = self.answers.learn(self.state, self.policy.episode(self.state), rows)
        return self.state
