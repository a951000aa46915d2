"""A simulation with a seed, to compare a deployment with: its state, actions and regret."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import bandanna as bd
from bandanna.numeric.rng import Streams
from bandanna.policies.base import PlayedRounds, Policy
from bandanna.policies.registry import make_encoding
from bandanna.simulation.players.reference import ReferenceRun
from bandanna.simulation.result import Tally, checkpoints_for

from ..simulation.golden_runs import RUNS, made

SEED = 11
ROUNDS = {
    **{"DP-SE": 2000, "SDP-SE": 2000, "GOPE": 1500, "AdaC-GOPE": 1500, "AdaC-GOPE-early": 1500, "GLM-JDP": 30},
    **{"B-GLinUCB": 300, "LinUCB-LDP-batched": 300},
}
SEVERAL = 120  # rounds of the others: three releases at least
EVERY_ROUND = 60  # of policies that learn from every single user


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """One seed of `simulate(path="messages")`."""

    state: str
    actions: list[int]
    regret: float
    releases: int


def case(name: str) -> tuple[Policy[Any], Any, Any, int]:
    """Return a policy of the catalogue, its environment, its fixed arms, and a number of rounds."""
    _, envs = RUNS[name]
    env = envs[-1] if name.startswith("Lin") or "OFUL" in name else envs[0]
    policy = made(name)
    world = env.begin(Streams([SEED]))
    arms = world.arms[0] if isinstance(env, bd.environments.Population) else None
    if isinstance(policy, bd.policies.GOPE):
        arms = world.contexts(0, 1)[0, 0]
    return policy, env, arms, min(ROUNDS.get(name, SEVERAL), policy.horizon or SEVERAL)


def simulated(policy: Policy[Any], env: Any, rounds: int) -> Simulated:
    tally = Tally(checkpoints=checkpoints_for(rounds, min(rounds, 200)), n_seeds=1)
    seed = ReferenceRun(policy, env.begin(Streams([SEED])), tally, 0, "messages", False)
    actions: list[int] = []

    def noted(rows: PlayedRounds) -> PlayedRounds:
        actions.extend([] if rows.arms is None else rows.arms.tolist())
        return rows

    frozen, assigned = seed.frozen, seed.assigned
    seed.frozen = lambda users: noted(frozen(users))  # type: ignore[method-assign]
    seed.assigned = lambda episode, users: noted(assigned(episode, users))  # type: ignore[method-assign]
    seed.run(rounds)
    return Simulated(
        state=make_encoding().dumps(seed.state), actions=actions, regret=float(tally.total[0]), releases=seed.releases
    )
