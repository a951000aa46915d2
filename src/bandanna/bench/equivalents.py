"""Ours as a peer's nearest equivalent, without privacy: an agent, one user or a batch at a time; the simulator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bandanna import environments as worlds
from bandanna.agent import Agent
from bandanna.bench.clock import timed
from bandanna.core.arrays import Floats
from bandanna.environments import Environment
from bandanna.policies.base import Policy
from bandanna.policies.linear.lints import LinTS
from bandanna.policies.registry import make
from bandanna.protocols.trust import none
from bandanna.simulation.engine import simulate

ARMS, DIM, FEW = 100, 5, 10  # of contextual bandits; of finite ones
_POOL = 50


@dataclass(frozen=True, kw_only=True)
class Equivalent:
    """A policy for so many rounds that learns after every batch, the world it is simulated in, and what a user shows.

    batched  whether it can learn from batches
    """

    policy: Callable[[int, int], Policy[Any]]
    env: Environment
    shape: tuple[int, ...]
    batched: bool = True

    @property
    def sizes(self) -> dict[str, int]:
        """Arms, and features where there are any."""
        return {"arms": ARMS, "dim": DIM} if self.shape else {"arms": FEW}

    def streamed(self, rounds: int, batch: int) -> float:
        """CPU seconds for a round of an agent that answers and learns `batch` users at a time."""
        policy = self.policy(max(rounds, 2 * batch), batch)
        pool = self._users(batch if batch > 1 else _POOL)

        def one_by_one() -> None:
            agent = Agent(policy=policy, test=True, seed=0)
            for number in range(rounds):
                agent.observe(agent.act(None if pool is None else pool[number % _POOL]), float(number % 2))

        def at_once() -> None:
            agent = Agent(policy=policy, test=True, seed=0)
            for _ in range(0, rounds, batch):
                for number, decision in enumerate(agent.act_many(pool)):
                    agent.observe(decision, float(number % 2))

        return timed(one_by_one if batch == 1 else at_once, 2) / rounds

    def simulated(self, rounds: int, seeds: int, repeats: int) -> float:
        """CPU seconds for a round of a seed, many of them side by side."""
        policy = self.policy(rounds, 1)
        return timed(lambda: simulate(policy, self.env, n_seeds=seeds), repeats) / (rounds * seeds)

    def _users(self, count: int) -> Floats | None:
        """What they show: their arms, their features, or nothing."""
        if not self.shape:
            return None
        drawn = np.random.default_rng(0).normal(size=(count, *self.shape))
        return np.asarray(drawn / np.linalg.norm(drawn, axis=-1, keepdims=True) / 2)


EQUIVALENTS: dict[str, Equivalent] = {
    "LinUCB": Equivalent(
        policy=lambda rounds, batch: make("LinUCB", dim=DIM, horizon=rounds, batch=batch),
        env=worlds.LinearContextual(dim=DIM, n_arms=ARMS),
        shape=(ARMS, DIM),
    ),
    "LinTS, a model for each arm": Equivalent(
        policy=lambda rounds, batch: LinTS(n_arms=ARMS, features=DIM, horizon=rounds, batch=batch, privacy=none()),
        env=worlds.DisjointLinear(dim=DIM, n_arms=ARMS),
        shape=(DIM,),
    ),
    "UCB1": Equivalent(
        policy=lambda rounds, _: make("UCB1", n_arms=FEW, horizon=rounds),
        env=worlds.FiniteArms(means=(0.75, *(0.7,) * (FEW - 1))),
        shape=(),
        batched=False,
    ),
    "Thompson": Equivalent(
        policy=lambda rounds, _: make("Thompson", n_arms=FEW, horizon=rounds),
        env=worlds.FiniteArms(means=(0.75, *(0.7,) * (FEW - 1))),
        shape=(),
        batched=False,
    ),
}
