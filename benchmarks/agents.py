"""Every algorithm in an agent: one stream, one decision at a time, `act` and `observe`; noise is seeded."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bandanna.agent.agent import Agent
from bandanna.numeric.rng import Streams
from bandanna.policies.base import Policy
from bandanna.simulation.environments.population import PopulationWorld
from bandanna.types import Floats
from benchmarks.clock import Effort, exponent, peak
from benchmarks.problems import ARGMAX, Problem, argmax, problems_of
from benchmarks.report import Row

DECISIONS, FEWEST, REPEATS = 200, 12, 2
SECONDS = 0.05  # of a run: slow policies make fewer decisions
HORIZONS = (1000, 100_000)
_POOL = 50  # users' arms, drawn before anything is timed


@dataclass(frozen=True, kw_only=True)
class Stream:
    """A policy, and the arms of those who come; a run makes a new agent."""

    policy: Policy[Any]
    arms: Floats | None  # (K, d): those that stay
    pool: Floats | None  # (users, K, d): those that do not
    rewards: Floats

    def run(self, decisions: int, *, named: bool = False) -> list[float]:
        """CPU seconds so far, after every decision; `named`: every user has an id."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # most reports may be clipped here
            agent = Agent(policy=self.policy, arms=self.arms, test=True, seed=0)
            clients = self._clients(agent)
            begin, marks = time.process_time(), []
            for number in range(decisions):
                user = f"user {number}" if named else None
                decision = agent.act(None if self.pool is None else self.pool[number % len(self.pool)], user)
                reward = float(self.rewards[number % len(self.rewards)])
                agent.observe(decision, reward, client=None if clients is None else self._client(agent, clients))
                marks.append(time.process_time() - begin)
            return marks

    def _clients(self, agent: Agent) -> list[str] | None:
        return [] if agent.clients_wanted else None

    def _client(self, agent: Agent, clients: list[str]) -> str:
        """One client of the running phase answers for all of it."""
        if agent.clients_wanted:
            clients.append(str(agent.recruit()))
        return clients[-1]


def stream_of(problem: Problem) -> Stream:
    """Arms as the problem's world draws them; rewards that do not matter to the clock."""
    world = problem.env.begin(Streams([0]))
    arms = pool = None
    if isinstance(world, PopulationWorld):
        arms = world.arms[0]
    elif not world.fixed:
        pool = world.contexts(0, _POOL)[0]
    elif problem.world != "finite":
        arms = world.contexts(0, 1)[0, 0]
    rewards = np.random.default_rng(0).integers(0, 2, _POOL).astype(float)
    return Stream(policy=problem.policy, arms=arms, pool=pool, rewards=rewards)


def problem_of(name: str, effort: Effort) -> Problem:
    """One world for every algorithm: fresh arms where it can have them."""
    problem = problems_of(name)[-1]
    return problem.small() if effort.small else replace(problem, rounds=HORIZONS[0])


def measure(name: str, effort: Effort) -> Row:
    """Its first decisions, calibration and the agent's beginning apart."""
    problem = problem_of(name, effort)
    stream = stream_of(problem)
    one = stream.run(FEWEST)[-1] / FEWEST
    decisions = min(problem.rounds, DECISIONS, max(FEWEST, int(SECONDS / one)))
    seconds = min(stream.run(decisions)[-1] for _ in range(min(REPEATS, effort.repeats)))
    dim = 0 if problem.world == "finite" else problem.dim
    return Row(
        part="agent",
        name=name,
        world=problem.world,
        unit="decision",
        sizes={**problem.sizes, "seeds": 1},
        cpu_seconds=max(seconds, 1e-9) / decisions,
        memory=peak(lambda: stream.run(decisions)),
        growth=growth(problem, decisions, effort) if effort.growth else {},
        floor=(ARGMAX, argmax(seeds=1, arms=problem.arms, dim=dim, repeats=effort.repeats)),
    )


def growth(problem: Problem, decisions: int, effort: Effort) -> dict[str, float]:
    """Exponents: in the horizon, the arms and the features for as many decisions; in users, for more of them."""
    through = {
        "rounds": problem.through["rounds"] if effort.small else HORIZONS,
        **{name: problem.through[name] for name in ("arms", "dim") if name in problem.through},
    }
    found = {}
    for name, sizes in through.items():
        ends = (sizes[0], sizes[-1])
        streams = (stream_of(problem.at(name, size)) for size in ends)
        found["horizon" if name == "rounds" else name] = exponent(ends, [each.run(decisions)[-1] for each in streams])
    if problem.world != "people":  # there, nobody comes by name
        counts = [decisions // 4, decisions // 2, decisions]
        marks = stream_of(problem).run(decisions, named=True)
        found["users"] = exponent(counts, [marks[count - 1] for count in counts])
    return found
