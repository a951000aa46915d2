"""Worlds made of a table of people: what every arm would earn from each of them is known.

Labelled data become such a table: an arm for each label, and a reward of 1 for the right one.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bandanna.core import require
from bandanna.core.arrays import Floats, Ints
from bandanna.core.domain import all_finite, reals
from bandanna.core.streams import Streams
from bandanna.environments.base import Environment, World
from bandanna.environments.rewards import Certain, RewardLaw
from bandanna.errors import InvalidArgument, InvalidStatistic, Summary

_ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class Table(Environment):
    """n people with `features`, (n, d) or (n, K, d), and the `rewards`, (n, K), that each arm would earn.

    resample  True: every round is a person drawn anew, for as many rounds as one likes; False: every seed has an order
              of its own, in which nobody comes twice, of at most n rounds
    reward    the law of rewards around those of the table; they themselves by default

    Rewards lie in [0, 1]. Features of users, (n, d), are shown for every arm alike: policies such as
    LinTS(n_arms=, features=) have a model for each arm.

    >>> env = Table.from_labels([[0.5, 0.1], [0.2, 0.8], [0.4, 0.4]], ["tea", "coffee", "tea"])
    >>> env
    Table(dim=2, n_arms=2, reward=Certain(), resample=True, people=3)
    >>> np.asarray(env.rewards).tolist()
    [[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    """

    dim: int = field(init=False)
    n_arms: int = field(init=False)
    reward: RewardLaw = Certain()
    features: ArrayLike = field(repr=False, kw_only=False)
    rewards: ArrayLike = field(repr=False, kw_only=False)
    resample: bool = True
    people: int = field(init=False)  # n

    def __post_init__(self) -> None:
        rewards = _array("rewards", self.rewards, (2,), "(n, K)")
        if rewards.min() < -_ROUNDING or rewards.max() > 1 + _ROUNDING:
            raise InvalidStatistic("rewards", Summary("some outside"), "rewards in [0, 1]: scale them first")
        features = _array("features", self.features, (2, 3), "(n, d) or (n, K, d)")
        n, arms = rewards.shape
        if features.shape[:-1] not in ((n,), (n, arms)):
            raise InvalidStatistic(
                "shape of features", Summary(features.shape), f"({n}, d) or ({n}, {arms}, d), as rewards say"
            )
        require.store(self, require.flag, "resample")
        kept = {"features": features, "rewards": np.clip(rewards, 0.0, 1.0), "dim": features.shape[-1]}
        for name, value in {**kept, "n_arms": arms, "people": n}.items():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
            object.__setattr__(self, name, value)
        super().__post_init__()

    @classmethod
    def from_labels(cls, x: ArrayLike, y: Any, *, resample: bool = True) -> Table:
        """Features (n, d) and the right arm of each; arms are the labels that occur, sorted."""
        labels = np.empty(0)
        with suppress(Exception):  # a foreign object may raise anything, and show what it holds
            labels = np.asarray(y)
        if labels.ndim != 1 or not len(labels) or labels.dtype.kind not in "biuUSO":
            raise InvalidStatistic("y", y, "a label for each row of x, whole numbers or texts")
        rewards = None
        with suppress(TypeError):
            known, place = np.unique(labels, return_inverse=True)
            rewards = np.eye(len(known))[place.ravel()]
        if rewards is None:
            raise InvalidStatistic("y", Summary("labels of several kinds"), "whole numbers, or texts")
        return cls(features=x, rewards=rewards, resample=resample)

    def _key(self) -> tuple[Any, ...]:
        tables = np.asarray(self.features), np.asarray(self.rewards)
        return *(part for table in tables for part in (table.shape, table.tobytes())), self.resample, self.reward

    def __eq__(self, other: object) -> bool:
        """Equal features, rewards and law."""
        return isinstance(other, Table) and self._key() == other._key()

    def __hash__(self) -> int:
        """By value."""
        return hash(self._key())

    def lasting(self, rounds: int) -> int:
        """As long as one likes, or until everybody has come."""
        if not self.resample and rounds > self.people:
            allowed = f"at most {self.people:,} rounds, the people of the table, or resample=True"
            raise InvalidArgument("horizon", rounds, allowed)
        return rounds

    def begin(self, streams: Streams) -> TableWorld:
        """Who comes is drawn from the stream "people", one for each round, or "order"."""
        return TableWorld(environment=self, streams=streams)


class TableWorld(World):
    """Worlds of `Table`."""

    def __init__(self, *, environment: Table, streams: Streams) -> None:
        super().__init__(environment=environment, streams=streams)
        self.features: Floats = np.asarray(environment.features)
        self.table: Floats = np.asarray(environment.rewards)
        self.order: list[Ints] | None = None
        if not environment.resample:
            self.order = [rng.permutation(environment.people) for rng in streams.generators("order")]
        self.now: Ints = np.zeros((len(streams.seeds), 0), dtype=np.int64)  # who comes in the rounds read last

    def contexts(self, start: int, rounds: int) -> Floats:
        """Of the people who come, (S, rounds, K, d)."""
        if self.order is None:
            n = len(self.table)
            drawn = (self.streams.uniform("people", (rounds,)) * n).astype(np.int64)
            self.now = np.minimum(drawn, n - 1)
        else:
            self.now = np.stack([order[start : start + rounds] for order in self.order])
        shown = self.features[self.now]
        return shown if shown.ndim == 4 else np.repeat(shown[:, :, None, :], self.n_arms, axis=2)

    def means(self, contexts: Floats) -> Floats:
        """Their rows of the table."""
        return self.table[self.now]


def _array(name: str, given: Any, ndims: tuple[int, ...], shape: str) -> Floats:
    array = np.array(reals(name, given), dtype=float)
    if array.ndim not in ndims or 0 in array.shape:
        raise InvalidStatistic(f"shape of {name}", Summary(array.shape), f"{shape}, each at least 1")
    all_finite(name, array)
    return array
