"""A data set: its card and its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bandanna import validation
from bandanna.data.features.map import Map, corners
from bandanna.data.logs import Log
from bandanna.errors import InvalidArgument
from bandanna.simulation.environments.recorded import Table
from bandanna.types import Floats, Ints

# What somebody should know of a data set before using it.


@dataclass(frozen=True, kw_only=True)
class Card:
    """A data set on a page; nothing here needs the data.

    kind          "log": one arm of each event was given, and its reward is known; "table": the rewards of all arms are
    rows          events or people, as loaded
    public        what the map of features takes for public, and where it comes from
    package       what brings the file, and under which licence; data: what is said of the data themselves
    get           how to get it, where it is not installed
    """

    name: str
    title: str
    kind: str
    rows: int
    arms: tuple[str, ...] | str
    reward: str
    propensities: str
    features: str
    public: str
    source: str
    package: str
    package_licence: str
    data_licence: str
    get: str
    people: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        plain = asdict(self)
        return {**plain, "arms": list(self.arms) if isinstance(self.arms, tuple) else self.arms}


# A data set in memory: records, a public map to features, arms and rewards; as a log, or as a table of people.


_CONTEXT_KINDS = ("users", "arms")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DataSet:
    """What `bd.datasets.load` gives.

    records       columns by name, as in the file: raw data of the people in it
    features      the public map; `load(..., features=)` takes another one. None: users have no features
    arms          their names
    rewards       in [0, 1]: (n,) of the arms that were given, or (n, K) of all
    given         which arm was given, (n,), and its probability; None where the rewards of all arms are known
    floor         public: the least probability of any arm, by design; None where it is not known
    """

    card: Card
    records: Mapping[str, Any]
    features: Map | None
    arms: tuple[str, ...]
    rewards: Floats
    given: Ints | None = None
    propensities: Floats | None = None
    floor: float | None = None

    def __len__(self) -> int:
        return len(self.rewards)

    def __repr__(self) -> str:
        kind = "events" if self.given is not None else "people"
        return f"<{self.card.name}: {len(self):,} {kind}, {len(self.arms)} arms, {self.dim} features>"

    @property
    def dim(self) -> int:
        """How many features users have."""
        return 0 if self.features is None else self.features.dim

    @cached_property
    def contexts(self) -> Floats:
        """The features of users, (n, d)."""
        return np.zeros((len(self), 0)) if self.features is None else self.features.mapped(self.records).values

    @property
    def means(self) -> Floats:
        """Mean reward of every arm, (K,), by the probabilities with which it was given. Not protected."""
        if self.given is None:
            return np.asarray(self.rewards.mean(axis=0))
        assert self.propensities is not None
        weights = 1 / self.propensities
        totals = np.bincount(self.given, weights=weights * self.rewards, minlength=len(self.arms))
        return np.asarray(totals / np.bincount(self.given, weights=weights, minlength=len(self.arms)))

    def shown(self, contexts: str = "users") -> Floats:
        """Features of users, (n, d); or "arms": those of arms that have none, and a constant, (n, K, K).

        For `LinTS(n_arms=K, features=d)`, and for `LinTS(dim=K, intercept=True)`, which asks which arm is best for
        all: with few people, or much noise, that is all that can be learned (docs/study.md).
        """
        if validation.one_of("contexts", contexts, _CONTEXT_KINDS) == "users":
            return self.contexts
        rows = np.column_stack([corners(len(self.arms)), np.ones(len(self.arms))])
        return np.broadcast_to(rows, (len(self), *rows.shape))

    def log(self, *, contexts: str = "users", seed: int = 0) -> Log:
        """Logged events; of a table, decisions that are uniformly random by a public seed."""
        given, rewards, chances, floor = self.given, self.rewards, self.propensities, self.floor
        if given is None:
            rng = np.random.default_rng(validation.integer("seed", seed, least=0, most=validation.SEED_LIMIT))
            given = rng.integers(len(self.arms), size=len(self))
            rewards = np.take_along_axis(self.rewards, given[:, None], axis=1)[:, 0]
            floor = 1 / len(self.arms)
            chances = np.full(len(self), floor)
        assert chances is not None
        return Log(
            contexts=self.shown(contexts),
            arms=given,
            rewards=rewards,
            propensities=chances,
            names=self.arms,
            floor=floor,
        )

    def table(self, *, contexts: str = "users", resample: bool = True) -> Table:
        """A world of these people, where the rewards of all arms are known."""
        if self.given is not None:
            allowed = "one of which all rewards are known; replay this one: bd.replay(policy, data.log())"
            raise InvalidArgument("data set", self.card.name, allowed)
        return Table(features=self.shown(contexts), rewards=self.rewards, resample=resample)
