"""Other libraries beside our nearest equivalent, in this run: where they are installed (extra `bench`).

Peers choose for some users, then learn from them; rewards are drawn beforehand. Their contextual bandits have a model
for every arm and see the features of users. Ours run without privacy: an agent, one user or a batch at a time; the
simulator.

one round at a time   choose, learn, and so on, one stream; ours is an `Agent`
batches of 200      choose for so many users, then learn from them
many seeds            whole runs: theirs one after another, ours side by side in the simulator
"""

from __future__ import annotations

import importlib
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bandanna import environments as worlds
from bandanna.agent.agent import Agent
from bandanna.errors import MissingExtra
from bandanna.experiments.study import PEERS, PeerPolicy, quiet
from bandanna.policies.base import Policy
from bandanna.policies.linear.lints import LinTS
from bandanna.policies.registry import make
from bandanna.protocols.privacy_model import none
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.base import Environment
from bandanna.types import Floats, Ints
from benchmarks.clock import Effort, timed
from benchmarks.problems import ARGMAX, argmax
from benchmarks.report import Absent, Row

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


EXTRA = "bench"


class RiverLinUCB(PeerPolicy):
    """river's LinUCB, a model for every arm."""

    package = "river"

    def __init__(self, n_arms: int, seed: int) -> None:
        super().__init__(n_arms, seed)
        self.policy = importlib.import_module("river.bandit").LinUCBDisjoint(seed=seed)
        self.arms = list(range(n_arms))

    def _act(self, contexts: Floats) -> tuple[Ints, Floats]:
        arms = [self.policy.pull(self.arms, context=dict(enumerate(one.tolist()))) for one in contexts]
        return np.asarray(arms, dtype=np.int64), np.ones(len(arms))

    def _learn(self, contexts: Floats, arms: Ints, rewards: Floats, chances: Floats) -> None:
        for one, arm, reward in zip(contexts, arms.tolist(), rewards.tolist(), strict=True):
            self.policy.update(arm, dict(enumerate(one.tolist())), reward)


class _RiverArms(PeerPolicy):
    package = "river"

    def __init__(self, n_arms: int, seed: int) -> None:
        super().__init__(n_arms, seed)
        self.arms, self.policy = list(range(n_arms)), self._made(seed)

    @abstractmethod
    def _made(self, seed: int) -> Any: ...

    def _act(self, contexts: Floats) -> tuple[Ints, Floats]:
        arms = [self.policy.pull(self.arms) for _ in contexts]
        return np.asarray(arms, dtype=np.int64), np.ones(len(arms))

    def _learn(self, contexts: Floats, arms: Ints, rewards: Floats, chances: Floats) -> None:
        for arm, reward in zip(arms.tolist(), rewards.tolist(), strict=True):
            self.policy.update(arm, reward)


class RiverUCB(_RiverArms):
    """river's UCB."""

    def _made(self, seed: int) -> Any:
        return importlib.import_module("river.bandit").UCB(delta=1.0, seed=seed)


class RiverThompson(_RiverArms):
    """river's Thompson sampling of chances."""

    def _made(self, seed: int) -> Any:
        beta = importlib.import_module("river.proba").Beta()
        return importlib.import_module("river.bandit").ThompsonSampling(reward_obj=beta, seed=seed)


class _MabwiserArms(PeerPolicy):
    package = "mabwiser"
    policy: str

    def __init__(self, n_arms: int, seed: int) -> None:
        super().__init__(n_arms, seed)
        with quiet():
            mab = importlib.import_module("mabwiser.mab")
            self.mab = mab.MAB(list(range(n_arms)), getattr(mab.LearningPolicy, self.policy)(), seed=seed)

    def _act(self, contexts: Floats) -> tuple[Ints, Floats]:
        with quiet():
            arms = [self.mab.predict() for _ in contexts]
        return np.asarray(arms, dtype=np.int64), np.ones(len(arms))

    def _learn(self, contexts: Floats, arms: Ints, rewards: Floats, chances: Floats) -> None:
        with quiet():
            self.mab.partial_fit(arms, rewards)


class MabwiserUCB(_MabwiserArms):
    """mabwiser's UCB1."""

    policy = "UCB1"


class MabwiserThompson(_MabwiserArms):
    """mabwiser's Thompson sampling of chances."""

    policy = "ThompsonSampling"


@dataclass(frozen=True, kw_only=True)
class Contender:
    """A peer, and the name of our nearest equivalent; `rounds`: of each of its seeds."""

    kind: type[PeerPolicy]
    ours: str
    rounds: int

    @property
    def installed(self) -> bool:
        """Whether its library can be imported."""
        try:
            importlib.import_module(self.kind.package)
        except Exception:  # whatever a library does when it is imported is not ours
            return False
        return True

    def begin(self, n_arms: int, seed: int) -> PeerPolicy:
        """A new run."""
        if not self.installed:
            raise MissingExtra(EXTRA, self.kind.package)
        return self.kind(n_arms, seed)


def _contextual(name: str, ours: str, rounds: int) -> Contender:
    return Contender(kind=PEERS[name], ours=ours, rounds=rounds)


CONTENDERS: dict[str, Contender] = {
    "mabwiser LinUCB": _contextual("mabwiser LinUCB", "LinUCB", 25),
    "mabwiser LinTS": _contextual("mabwiser LinTS", "LinTS, a model for each arm", 25),
    "contextualbandits LinUCB": _contextual("contextualbandits LinUCB", "LinUCB", 50),
    "vowpalwabbit SquareCB": _contextual("vowpalwabbit SquareCB", "LinUCB", 100),
    "river LinUCB": Contender(kind=RiverLinUCB, ours="LinUCB", rounds=50),
    "mabwiser UCB1": Contender(kind=MabwiserUCB, ours="UCB1", rounds=500),
    "river UCB": Contender(kind=RiverUCB, ours="UCB1", rounds=2000),
    "mabwiser Thompson": Contender(kind=MabwiserThompson, ours="Thompson", rounds=500),
    "river Thompson": Contender(kind=RiverThompson, ours="Thompson", rounds=2000),
}


ONE, BATCHES, SEEDS = "one round at a time", "batches of 200", "many seeds"
SIDE_BY_SIDE, RUNS = 50, 4  # seeds of ours, of theirs
_USERS = 2000


class People:
    """Users' features, and what every arm would have earned."""

    def __init__(self, n_arms: int) -> None:
        rng = np.random.default_rng(0)
        self.n_arms = n_arms
        self.contexts = rng.normal(size=(_USERS, DIM)) / (2 * DIM**0.5)
        self.rewards = (rng.random((_USERS, n_arms)) < 0.5).astype(float)

    def meet(self, peer: PeerPolicy, start: int, count: int) -> None:
        """So many of them at once."""
        rows = (start + np.arange(count)) % _USERS
        arms, chances = peer.act(self.contexts[rows])
        peer.learn(self.contexts[rows], arms, self.rewards[rows, arms], chances)


def spent(step: Callable[[int], None], size: int, seconds: float) -> float:
    """CPU seconds for a round: steps of `size` rounds until they took so long, after two that are not counted."""
    step(0)
    step(size)
    begin, done = time.process_time(), 0
    while (passed := time.process_time() - begin) < seconds or not done:
        done += size
        step(done)
    return passed / done


def theirs(contender: Contender, mode: str, people: People, effort: Effort) -> float:
    """CPU seconds for a round."""
    size = _batch(effort) if mode == BATCHES else 1
    with quiet():
        if mode != SEEDS:
            peer = contender.begin(people.n_arms, 0)
            return spent(lambda start: people.meet(peer, start, size), size, effort.seconds)
        rounds = 2 if effort.small else contender.rounds
        begin = time.process_time()
        for seed in range(RUNS):
            peer = contender.begin(people.n_arms, seed)
            for number in range(rounds):
                people.meet(peer, number, 1)
        return (time.process_time() - begin) / (RUNS * rounds)


def ours(equivalent: Equivalent, mode: str, effort: Effort) -> float:
    """CPU seconds for a round."""
    if mode == SEEDS:
        rounds, seeds = (10, 2) if effort.small else (200, SIDE_BY_SIDE)
        return equivalent.simulated(rounds, seeds, min(2, effort.repeats))
    batch = _batch(effort) if mode == BATCHES else 1
    return equivalent.streamed(2 * batch if batch > 1 else 10 if effort.small else 300, batch)


def _batch(effort: Effort) -> int:
    return 20 if effort.small else 200


def pairs(names: Iterable[str]) -> list[tuple[str, str, list[str]]]:
    """Ours, a mode, and the peers of which it is the nearest equivalent."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(CONTENDERS[name].ours, []).append(name)
    return [
        (known, mode, theirs)
        for known, theirs in found.items()
        for mode in ((ONE, BATCHES, SEEDS) if EQUIVALENTS[known].batched else (ONE, SEEDS))
    ]


def measure(known: str, mode: str, names: Iterable[str], effort: Effort) -> tuple[list[Row], list[Absent]]:
    """Those of these peers that are installed, and ours beside them."""
    equivalent = EQUIVALENTS[known]
    sizes = equivalent.sizes
    people = People(sizes["arms"])
    floor = (ARGMAX, argmax(seeds=1, arms=sizes["arms"], dim=sizes.get("dim", 0), repeats=effort.repeats))
    mine = ours(equivalent, mode, effort)
    found, absent = {f"bandanna {known}": mine}, []
    for name in names:
        if CONTENDERS[name].installed:
            found[name] = theirs(CONTENDERS[name], mode, people, effort)
        else:
            absent.append(Absent(name=CONTENDERS[name].kind.package, extra=EXTRA))
    rows = [
        Row(
            part="peer",
            name=name,
            world=mode,
            unit="round",
            sizes=sizes,
            cpu_seconds=max(seconds, 1e-9),
            floor=floor,
            ours=(known, mine),
        )
        for name, seconds in found.items()
    ]
    return rows, absent
