"""GLM-JDP as printed: criterion I, which reads a user's raw contexts, has theta_o fitted anew at once.

Whether the optimiser was called after a round is public - devices get another theta - and no noise covers it. In the
library refits are decided from released matrices only.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bandanna.audit.claims import Claim
from bandanna.audit.targets import Target
from bandanna.core.arrays import Floats
from bandanna.core.coins import NoCoins
from bandanna.core.estimate import Estimate
from bandanna.loop import Desk, close
from bandanna.mechanisms.sources import FastNoise
from bandanna.policies.base import Ask, Frozen, Played
from bandanna.policies.glm import GLMJDP, Constants
from bandanna.policies.glm.glm_jdp import JDPState
from bandanna.protocols.trust import central

_CONSTANTS = Constants(
    share=0.4,
    steps=2,
    calls_o=4,
    calls_tau=4,
    regulariser_v=30.0,
    regulariser_h=30.0,
    ridge=1.0,
    threshold=0.01,
    elimination=9.0,
    bonus=1.0,
)


@dataclass(frozen=True, kw_only=True)
class Printed(GLMJDP):
    """The server is told whether criterion I fired."""

    def act(self, snapshot: Any, contexts: Floats, coins: Any) -> Any:
        """As usual, and remembered."""
        choice = super().act(snapshot, contexts, coins)
        object.__setattr__(self, "fired", bool(choice.groups is not None and choice.groups[-1] == 0))
        return choice

    def settled(self, state: JDPState) -> Generator[Ask, Estimate, JDPState]:
        """A call of the optimiser where it did."""
        settled = yield from super().settled(state)
        if vars(self).get("fired") and settled.calls_o < self.used.calls_o:
            snapshot = self.matrices(settled.released)[0] / 3  # as if it had outgrown
            settled = yield from super().settled(replace(settled, v_o=snapshot))
        return settled


def rounds_asks(policy: GLMJDP, context: Floats, rng: np.random.Generator) -> int:
    """How many sums are asked for after the first round, of a person with this one arm."""
    state, desk, asked = policy.init(), Desk(), 0
    episode = policy.episode(state)
    assert isinstance(episode, Frozen)
    contexts = np.tile(context, (1, 2, 1))
    choice = policy.act(policy.publish(state), policy.seen(contexts), NoCoins())
    played = Played(rewards=np.ones(1), features=context[None], arms=choice.actions, groups=choice.groups)
    desk = desk.keep(policy.keeps, played)

    def answer(ask: Ask) -> Estimate:
        nonlocal desk, asked
        asked += 1
        statistic = policy.report(ask, desk.rows(ask, played), NoCoins())
        desk, estimate = desk.release(ask, statistic, FastNoise(rng), path="messages")
        return estimate

    close(policy.learn(state, episode), answer)
    return asked


def of_refits(kind: type[GLMJDP]) -> Target:
    """What the number of asks after the first round tells of the first user's contexts."""
    policy = kind(
        dim=2,
        horizon=20,
        parameter_bound=2.0,
        link="logistic",
        constants=_CONSTANTS,
        privacy=central(epsilon=1.0, delta=1e-3),
    )

    def draw(swapped: bool, runs: int, rng: np.random.Generator) -> Floats:
        context = np.array([0.05, 0.0]) if swapped else np.array([1.0, 0.0])
        return np.array([[float(rounds_asks(policy, context, rng))] for _ in range(runs)])

    stated = policy.guarantee
    return Target(name="", claim=Claim(epsilon=stated.epsilon, delta=stated.delta), draw=draw, chunk=256)


def printed_refits() -> Target:
    """The printed rule."""
    return of_refits(Printed)
