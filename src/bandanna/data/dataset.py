"""A data set in memory: `Card` describes it, `DataSet` holds its rows."""

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


@dataclass(frozen=True, kw_only=True)
class Card:
    """Description of a data set.

    `kind` is "log" (the reward of the given arm is known) or "table" (the rewards of all arms are known), `rows` the
    number of events or users, `public` what the feature map takes as public, and its source, `package` the package with
    the file, and `get` how to get the data where they are not installed.
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
        """Return plain values for JSON."""
        plain = asdict(self)
        return {**plain, "arms": list(self.arms) if isinstance(self.arms, tuple) else self.arms}


_CONTEXT_KINDS = ("users", "arms")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DataSet:
    """Rows of a data set, as `bd.datasets.load` returns them.

    Parameters
    ----------
    records
        Columns by name, as in the file: raw data.
    features
        The public feature map; None if users have no features.
    arms
        Names of the arms.
    rewards
        In [0, 1]: (n,) of the given arms, or (n, K) of all arms.
    given, propensities
        The given arms, (n,), and their probabilities; None if the rewards of all arms are known.
    floor
        Public least probability of any arm, by design; None if unknown.
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
        return 0 if self.features is None else self.features.dim

    @cached_property
    def contexts(self) -> Floats:
        return np.zeros((len(self), 0)) if self.features is None else self.features.mapped(self.records).values

    @property
    def means(self) -> Floats:
        """Mean reward of every arm, (K,), weighted by inverse probabilities. Not private."""
        if self.given is None:
            return np.asarray(self.rewards.mean(axis=0))
        assert self.propensities is not None
        weights = 1 / self.propensities
        totals = np.bincount(self.given, weights=weights * self.rewards, minlength=len(self.arms))
        return np.asarray(totals / np.bincount(self.given, weights=weights, minlength=len(self.arms)))

    def shown(self, contexts: str = "users") -> Floats:
        """Return features of users, (n, d), or with "arms" those of arms without features and a constant, (n, K, K).

        "users" is for `LinTS(n_arms=K, features=d)`, "arms" for `LinTS(dim=K, intercept=True)`, which learns one arm
        for all users.
        """
        if validation.one_of("contexts", contexts, _CONTEXT_KINDS) == "users":
            return self.contexts
        rows = np.column_stack([corners(len(self.arms)), np.ones(len(self.arms))])
        return np.broadcast_to(rows, (len(self), *rows.shape))

    def log(self, *, contexts: str = "users", seed: int = 0) -> Log:
        """Return logged events; for a table, decisions are uniform by a public seed."""
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
        """Return an environment of these users, if the rewards of all arms are known."""
        if self.given is not None:
            hint = "Use bd.replay(policy, data.log()) for this one."
            raise InvalidArgument("data set", self.card.name, "a data set with the rewards of all arms", hint)
        return Table(features=self.shown(contexts), rewards=self.rewards, resample=resample)
