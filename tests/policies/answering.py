"""Drive a policy's `learn` with sums that a test chooses, and noise sources that release what a test chooses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

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


def learn_with_noise(
    policy: Policy[Any], state: Any, episode: AssignedArms, *totals: ArrayLike, source: NoiseSource
) -> Any:
    """Return the state after an episode whose queries have these exact sums, (*R, dim) each, plus noise."""
    given = iter(totals)

    def answer(query: SumQuery) -> Estimate:
        assert isinstance(query.protocol, BatchProtocol)
        total = np.asarray(next(given), dtype=float)
        return query.protocol.release_total(total, int(np.max(np.sum(episode.plays, axis=-1))), source)

    return drive_learning(policy.learn(state, episode), answer)


def learn_from(policy: Policy[Any], state: Any, episode: Episode, *released: ArrayLike) -> Any:
    """Return the state after an episode whose queries are answered by these numbers, (*R, dim) each."""
    given = iter(released)
    steps = policy.learn(state, episode)
    return drive_learning(
        steps, lambda query: Estimate(total=np.asarray(next(given), dtype=float), count=1, variance=0.0)
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


class Scripted(FastNoise):
    """Releases the given outputs in turn, then the exact values, and records the exact values and their density."""

    def __init__(self, outputs: Iterable[Any] = ()) -> None:
        super().__init__(np.random.default_rng(0))
        self.outputs, self.log_density, self.releases = iter(outputs), 0.0, list[tuple[NDArray[np.float64], float]]()

    def gaussian(self, value: ArrayLike, *, std: float, grid: float) -> NDArray[np.float64]:
        """The next output, in the shape of the value."""
        exact = np.asarray(value, dtype=float)
        shown = np.asarray(next(self.outputs, exact), dtype=float).reshape(exact.shape)
        self.releases.append((exact, std))
        self.log_density = self.log_density - np.sum((shown - exact) ** 2, axis=-1) / (2 * std**2)
        return shown

    def laplace(self, value: ArrayLike, *, scale: float, grid: float) -> NDArray[np.float64]:
        exact = np.asarray(value, dtype=float)
        shown = np.asarray(next(self.outputs, exact), dtype=float).reshape(exact.shape)
        self.releases.append((exact, scale))
        self.log_density = self.log_density - np.sum(np.abs(shown - exact), axis=-1) / scale
        return shown


class ChosenNoise(FastNoise):
    """Adds the given noise in turn, then none, and records the standard deviations."""

    def __init__(self, noise: Iterable[float] = ()) -> None:
        super().__init__(np.random.default_rng(0))
        self.noise, self.stds = iter(noise), list[float]()

    def gaussian(self, value: ArrayLike, *, std: float, grid: float) -> NDArray[np.float64]:
        self.stds.append(std)
        return np.asarray(value, dtype=float) + next(self.noise, 0.0)

    def discrete_laplace(self, *, scale: float, size: Any) -> NDArray[np.int64]:
        self.stds.append(scale)
        return np.full(size, round(next(self.noise, 0.0)), dtype=np.int64)
