"""Other libraries' bandits, which `study` and the benchmarks run beside the library's own."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from bandanna.errors import MissingExtra
from bandanna.types import Floats, Ints


class PeerPolicy(ABC):
    """One run of another library's policy."""

    package: str  # that it needs
    online: bool = False  # learns from one person after the other, instead of from batches

    def __init__(self, n_arms: int, seed: int) -> None:
        self.n_arms, self.rng = n_arms, np.random.default_rng([seed, 7])
        self.begun = False

    def act(self, contexts: Floats) -> tuple[Ints, Floats]:
        """Return the arms of a batch, (n,), and their probabilities where they are stated."""
        if not self.begun:
            chances = np.full(len(contexts), 1 / self.n_arms)
            return self.rng.integers(self.n_arms, size=len(contexts)), chances
        return self._act(contexts)

    def learn(self, contexts: Floats, arms: Ints, rewards: Floats, chances: Floats) -> None:
        """Learn from the users whose rewards are known."""
        if len(arms):
            self._learn(np.ascontiguousarray(contexts), arms, rewards, chances)
            self.begun = True

    @abstractmethod
    def _act(self, contexts: Floats) -> tuple[Ints, Floats]: ...

    @abstractmethod
    def _learn(self, contexts: Floats, arms: Ints, rewards: Floats, chances: Floats) -> None: ...


class _Mabwiser(PeerPolicy):
    package = "mabwiser"
    policy: str
    alpha: float

    def __init__(self, n_arms: int, seed: int) -> None:
        super().__init__(n_arms, seed)
        with quiet():
            mab = importlib.import_module("mabwiser.mab")
            policy = getattr(mab.LearningPolicy, self.policy)(alpha=self.alpha, l2_lambda=1.0)
            self.mab = mab.MAB(list(range(n_arms)), policy, seed=seed)

    def _act(self, contexts: Floats) -> tuple[Ints, Floats]:
        with quiet():
            arms = np.atleast_1d(np.asarray(self.mab.predict(contexts), dtype=np.int64))
        return arms, np.ones(len(arms))

    def _learn(self, contexts: Floats, arms: Ints, rewards: Floats, chances: Floats) -> None:
        with quiet():
            self.mab.partial_fit(arms, rewards, contexts)


class MabwiserLinUCB(_Mabwiser):
    """mabwiser's LinUCB."""

    policy, alpha = "LinUCB", 0.5


class MabwiserLinTS(_Mabwiser):
    """mabwiser's LinTS."""

    policy, alpha = "LinTS", 0.3


class ContextualBandits(PeerPolicy):
    """contextualbandits' LinUCB."""

    package = "contextualbandits"

    def __init__(self, n_arms: int, seed: int) -> None:
        super().__init__(n_arms, seed)
        with quiet():
            online = importlib.import_module("contextualbandits.online")
            self.model = online.LinUCB(nchoices=n_arms, alpha=0.7, random_state=seed + 1)

    def _act(self, contexts: Floats) -> tuple[Ints, Floats]:
        with quiet():
            arms = np.asarray(self.model.predict(contexts), dtype=np.int64)
        return arms, np.ones(len(arms))

    def _learn(self, contexts: Floats, arms: Ints, rewards: Floats, chances: Floats) -> None:
        with quiet():
            self.model.partial_fit(contexts, arms, rewards)


class VowpalWabbit(PeerPolicy):
    """Vowpal Wabbit's SquareCB, with interactions of users' features and arms."""

    package = "vowpalwabbit"
    online = True

    def __init__(self, n_arms: int, seed: int) -> None:
        super().__init__(n_arms, seed)
        workspace = importlib.import_module("vowpalwabbit").Workspace
        self.vw = workspace(f"--cb_explore_adf -q ua --squarecb --gamma_scale 20 --quiet --random_seed {seed}")

    def _example(self, context: Floats, label: tuple[int, str] | None = None) -> str:
        shared = "shared |u " + " ".join(f"f{i}:{value:.8g}" for i, value in enumerate(context))
        lines = [f"|a arm{k}" for k in range(self.n_arms)]
        if label is not None:
            lines[label[0]] = f"{label[1]} {lines[label[0]]}"
        return "\n".join([shared, *lines])

    def _act(self, contexts: Floats) -> tuple[Ints, Floats]:
        found, chances = np.empty(len(contexts), dtype=np.int64), np.empty(len(contexts))
        for row, context in enumerate(contexts):
            law = np.asarray(self.vw.predict(self._example(context)), dtype=float)
            found[row] = self.rng.choice(self.n_arms, p=law / law.sum())
            chances[row] = law[found[row]] / law.sum()
        return found, chances

    def _learn(self, contexts: Floats, arms: Ints, rewards: Floats, chances: Floats) -> None:
        for context, arm, reward, chance in zip(contexts, arms.tolist(), rewards, chances, strict=True):
            self.vw.learn(self._example(context, (arm, f"0:{1 - reward:.8g}:{chance:.8g}")))


PEERS: dict[str, type[PeerPolicy]] = {
    "mabwiser LinUCB": MabwiserLinUCB,
    "mabwiser LinTS": MabwiserLinTS,
    "contextualbandits LinUCB": ContextualBandits,
    "vowpalwabbit SquareCB": VowpalWabbit,
}


def installed(name: str) -> bool:
    """Return whether the library of this peer is installed."""
    return importlib.util.find_spec(PEERS[name].package) is not None


def begin(name: str, n_arms: int, seed: int) -> PeerPolicy:
    """Start a new run of a peer."""
    if not installed(name):
        raise MissingExtra("bench", name)
    try:
        return PEERS[name](n_arms, seed)
    except ImportError:
        raise MissingExtra("bench", name) from None


@contextmanager
def quiet() -> Iterator[Any]:
    """Silence the other libraries' warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
