"""Other libraries' bandits as this benchmark drives them: choose for some users, then learn from them.

Their contextual bandits have a model for every arm and see the features of users. Rewards are drawn beforehand.
"""

from __future__ import annotations

import importlib
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from bandanna.core.arrays import Floats, Ints
from bandanna.errors import MissingExtra
from bandanna.experiments import peers
from bandanna.experiments.peers import Peer

EXTRA = "bench"


class RiverLinUCB(Peer):
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


class _RiverArms(Peer):
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


class _MabwiserArms(Peer):
    package = "mabwiser"
    policy: str

    def __init__(self, n_arms: int, seed: int) -> None:
        super().__init__(n_arms, seed)
        with peers.quiet():
            mab = importlib.import_module("mabwiser.mab")
            self.mab = mab.MAB(list(range(n_arms)), getattr(mab.LearningPolicy, self.policy)(), seed=seed)

    def _act(self, contexts: Floats) -> tuple[Ints, Floats]:
        with peers.quiet():
            arms = [self.mab.predict() for _ in contexts]
        return np.asarray(arms, dtype=np.int64), np.ones(len(arms))

    def _learn(self, contexts: Floats, arms: Ints, rewards: Floats, chances: Floats) -> None:
        with peers.quiet():
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

    kind: type[Peer]
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

    def begin(self, n_arms: int, seed: int) -> Peer:
        """A new run."""
        if not self.installed:
            raise MissingExtra(EXTRA, self.kind.package)
        return self.kind(n_arms, seed)


def _contextual(name: str, ours: str, rounds: int) -> Contender:
    return Contender(kind=peers.PEERS[name], ours=ours, rounds=rounds)


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
