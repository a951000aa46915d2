"""Logged decisions: who came, what each was given with which probability, and what came of it.

    log = bd.Log.from_frame(frame, context=["age", "weight"], arm="arm", reward="recovered", propensity=0.25)

A log is raw data of the people in it, and belongs to whoever may hold that: nothing here is private. What is computed
from it is private where it says so: `bd.ope` with `privacy=`, and what a policy learns in `bd.replay`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from os import PathLike
from typing import Any

import numpy as np

from bandanna.core import require
from bandanna.core.arrays import Bools, Floats, Ints
from bandanna.core.calling import by_name
from bandanna.core.domain import numbers
from bandanna.errors import InvalidArgument, InvalidStatistic, Summary
from bandanna.logs.columns import Columns
from bandanna.logs.parts import (
    array_of,
    contexts_of,
    cut,
    eligible_of,
    known_as,
    listed,
    mask_of,
    names_of,
    propensities_of,
    range_of,
    rewards_of,
    within,
)
from bandanna.logs.reading import read

_ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Log:
    """n events, frozen: contexts, the arm that was given, its reward, and the probability with which it was given.

    contexts      features of users, (n, d), or of arms, (n, K, d)
    arms          which of `names` was given, 0 to K - 1, (n,)
    rewards       (n,), within `reward_range`, which is public
    propensities  in (0, 1], (n,)
    names         of the K arms; public
    eligible      which arms could have been given, (n, K); None: all of them
    floor         no arm that could be given has a smaller probability; public, by design, or None
    clipped       how many rewards were cut to the range. Not protected: do not publish
    found         the names were found in the rows: who is in the log decides about them, and nothing private is made
    """

    contexts: Floats
    arms: Ints
    rewards: Floats
    propensities: Floats
    names: tuple[Any, ...]
    eligible: Bools | None = None
    reward_range: tuple[float, float] = (0.0, 1.0)
    floor: float | None = None
    clipped: int = 0
    found: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        rewards = array_of("rewards", self.rewards, (1,))
        n, names = len(rewards), names_of((), self.names)
        if not n:
            raise InvalidStatistic("rewards", Summary("none"), "one event or more")
        contexts = array_of("contexts", self.contexts, (2, 3))
        shapes = {(n, contexts.shape[-1]), (n, len(names), contexts.shape[-1])}
        if contexts.shape not in shapes:
            raise InvalidStatistic(
                "shape of contexts", Summary(contexts.shape), " or ".join(map(str, sorted(shapes, key=len)))
            )
        arms = numbers("arms", self.arms, "whole numbers", kinds="iu")
        if arms.shape != (n,) or arms.min() < 0 or arms.max() >= len(names):
            raise InvalidStatistic("arms", arms, f"{n} whole numbers from 0 to {len(names) - 1}")
        chances = within(array_of("propensities", self.propensities, (1,)), self.floor, "propensities")
        low, high = range_of(self.reward_range)
        if rewards.min() < low - _ROUNDING or rewards.max() > high + _ROUNDING:
            raise InvalidStatistic(
                "rewards", Summary("some outside"), f"rewards in the reward_range [{low:g}, {high:g}]"
            )
        eligible = None if self.eligible is None else mask_of(self.eligible, n, len(names), arms)
        kept = {"contexts": contexts, "arms": arms.astype(np.int64), "rewards": rewards, "propensities": chances}
        for name, array in {**kept, "eligible": eligible}.items():
            if array is not None:
                array.setflags(write=False)
            object.__setattr__(self, name, array)
        if chances.shape != (n,):
            raise InvalidStatistic("shape of propensities", Summary(chances.shape), f"({n},), as many as rewards")
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "reward_range", (low, high))

    @classmethod
    @by_name("bd.Log.from_frame")
    def from_frame(
        cls,
        frame: Any,
        *,
        arm: Any,
        reward: Any,
        propensity: Any,
        context: Any = (),
        eligible: Any = None,
        arms: Sequence[Any] | None = None,
        reward_range: tuple[float, float] | None = None,
        floor: float | None = None,
        success: Any = None,
    ) -> Log:
        """A table with one row for each event: pandas, polars, Arrow, a dict of columns, a NumPy record array.

        arm, reward   columns
        propensity    a column; or, where it was decided by design, a number, which is 1/m where each of m arms was as
                      likely, or one for each arm: {"A": 0.5, ...}
        context       columns that are a user's features; {arm: columns}: features of each arm; or a function of the
                      table, such as a map of `bd.features`, to an array (n, d) or (n, arms, d)
        eligible      a column that lists the arms that could be given, or {arm: column of yes and no}
        arms          all arms, in order: public. By default those by which propensity, context or eligible are given,
                      else those that occur, sorted; then nothing private can be made of the log
        reward_range  public bounds; rewards outside are cut and counted. By default [0, 1], and others are refused
        floor         public: the least probability of any arm that could be given; known if `propensity` is by design
        success       what a column of words says of those whose reward is 1; it is 0 for others
        """
        table = Columns(frame)
        given = table.labels("arm", arm)
        given = given if arms is None else known_as(given, arms)
        by_arm = [each for each in (propensity, context, eligible) if isinstance(each, Mapping)]
        whole = [sorted(each, key=str) for each in by_arm if each is propensity or each.keys() >= set(given)]
        public = arms if arms is not None else next(iter(whole), None)
        names = names_of(given, public)
        places = {name: place for place, name in enumerate(names)}
        for row, name in enumerate(given):
            if name not in places:
                where = " (propensity= has a probability for these)" * (
                    arms is None and isinstance(propensity, Mapping)
                )
                allowed = f"one of {listed(names, found=False)}{where}"
                raise InvalidStatistic(f"column {arm!r}, row {row}", name, allowed)
        indices = np.array([places[name] for name in given], dtype=np.int64)
        inside, clipped = cut(rewards_of(table, reward, success), reward_range, f"column {reward!r}")
        chances, known = propensities_of(
            table, propensity, names, indices, floor, overlapping=eligible is not None, found=public is None
        )
        able = None if eligible is None else eligible_of(table, eligible, names, indices, found=public is None)
        return cls(
            contexts=contexts_of(table, context, names, found=public is None),
            arms=indices,
            rewards=inside,
            propensities=chances,
            names=names,
            eligible=able,
            reward_range=(0.0, 1.0) if reward_range is None else range_of(reward_range),
            floor=known,
            clipped=clipped,
            found=public is None,
        )

    @classmethod
    def read(cls, path: str | PathLike[str], **columns: Any) -> Log:
        """A Parquet (extra `results`) or CSV file; the other arguments are those of `from_frame`."""
        return cls.from_frame(read(path), **columns)

    @classmethod
    @by_name("bd.Log.from_decisions")
    def from_decisions(
        cls,
        decisions: Sequence[Any],
        *,
        rewards: Sequence[float],
        contexts: Any = None,
        arms: Sequence[Any] | None = None,
        reward_range: tuple[float, float] | None = None,
        floor: float | None = None,
    ) -> Log:
        """What an agent has decided, as its host has kept it: decisions, their rewards, and contexts as arrays.

        contexts  of users, (n, d), or of arms, (n, arms, d), in the order of `arms`; None: there are none
        floor     public; an agent whose policy has `explore=bd.uniform(then=p)` has p / K
        """
        made = require.several("decisions", decisions, "decisions of an agent, in any order")
        told = require.several("rewards", rewards, "a reward for each decision")
        if not made or not all(hasattr(each, "arm") and hasattr(each, "probability") for each in made):
            raise InvalidStatistic("decisions", decisions, "what agent.act has returned, one or more")
        if len(told) != len(made) or any(each is None for each in told):
            allowed = f"{len(made)} numbers, one for each decision: leave out decisions that have no reward"
            raise InvalidStatistic("rewards", Summary(f"{len(told)} of them"), allowed)
        frame = {"arm": [d.arm for d in made], "reward": told, "propensity": [float(d.probability) for d in made]}
        places = None if contexts is None else (lambda _: contexts)
        return cls.from_frame(frame, arm="arm", reward="reward", propensity="propensity", context=places or (),
                              arms=arms, reward_range=reward_range, floor=floor)  # fmt: skip

    def __len__(self) -> int:
        return len(self.rewards)

    @property
    def n_arms(self) -> int:
        """K."""
        return len(self.names)

    @property
    def dim(self) -> int:
        """Features of a user, or of an arm."""
        return int(self.contexts.shape[-1])

    @property
    def of_users(self) -> bool:
        """Whether features are those of users, the same for all arms."""
        return self.contexts.ndim == 2

    def check_private(self) -> None:
        """Refuse arms that were found in the rows, for what is to be private: that somebody was given one would show.

        It would show in K, in bounds and probabilities that follow from it, and in which targets there are.
        """
        if self.found:
            allowed = "the names of all arms (arms=[...], --arms A,B): those that occur would tell who was there"
            raise InvalidArgument("arms", None, allowed)

    def arm_contexts(self) -> Floats:
        """What policies are shown, (n, K, d): a user's features are those of every arm."""
        if not self.of_users:
            return self.contexts
        n, d = self.contexts.shape
        return np.broadcast_to(self.contexts[:, None, :], (n, self.n_arms, d))

    def scaled_rewards(self) -> Floats:
        """In [0, 1], the ends of the range."""
        low, high = self.reward_range
        return np.clip((self.rewards - low) / (high - low), 0.0, 1.0)

    def at(self, rows: Any) -> Log:
        """Some of the events: a mask, a slice or row numbers."""
        held = {each.name: getattr(self, each.name) for each in fields(self)}
        some = np.empty(0)
        with suppress(Exception):  # no index of rows; what is none may be a column of users' values
            some = np.arange(len(self))[rows]
        if np.ndim(some) != 1 or not len(some):
            allowed = f"a mask, a slice or numbers of {len(self)} rows, of at least one"
            raise InvalidStatistic("rows", rows, allowed)
        chosen = ("contexts", "arms", "rewards", "propensities", "eligible")
        parts = {name: None if held[name] is None else held[name][some] for name in chosen}
        return Log(**{**held, **parts, "clipped": 0})

    def ordered(self, arms: Sequence[Any]) -> Log:
        """The same events with the arms in this order, and numbered by it; arms that were found are named so, and may
        be more than occur.
        """
        names = names_of((), arms)
        more = len(names) - self.n_arms if self.found and self.of_users and self.eligible is None else 0
        if not set(names) >= set(self.names) or len(names) != self.n_arms + max(more, 0):
            odd = next((each for each in names if each not in self.names), Summary("without one of the log's arms"))
            known = listed(self.names, found=self.found)
            allowed = f"{known}, those of the log, in any order (arms= of the log adds some)"
            raise InvalidArgument("arms", odd, allowed)
        held = {each.name: getattr(self, each.name) for each in fields(self)}
        places = np.array([names.index(name) for name in self.names])
        order = np.argsort(places)  # used where there are as many names as arms
        contexts = self.contexts if self.of_users else self.contexts[:, order]
        eligible = None if self.eligible is None else self.eligible[:, order]
        changed = {"contexts": contexts, "eligible": eligible, "arms": places[self.arms], "names": names}
        return Log(**{**held, **changed, "found": False})

    @by_name("Log.split")
    def split(self, share: float = 0.5, *, seed: int = 0) -> tuple[Log, Log]:
        """Two logs of different people, drawn by a public seed: one to learn from, one to evaluate on."""
        share = require.chance("share", share)
        first = round(share * len(self))
        if not 0 < first < len(self):
            raise InvalidArgument("share", share, f"one that leaves people on both sides, of {len(self)}")
        drawn = np.random.default_rng(require.whole("seed", seed, least=0, most=require.SEEDS)).permutation(len(self))
        return self.at(np.sort(drawn[:first])), self.at(np.sort(drawn[first:]))

    def start(
        self,
        policy: Any,
        *,
        privacy: Any = None,
        arms: Sequence[Any] | None = None,
        seed: int | None = None,
        ledger: Any = None,
    ) -> Any:
        """The released sum of these people's reports, for `LinTS(..., start=)`: see `bandanna.logs.starting`."""
        from bandanna.logs.starting import start_of

        return start_of(self, policy, privacy=privacy, arms=arms, seed=seed, ledger=ledger)

    def to_columns(self) -> dict[str, Any]:
        """Plain columns, for a DataFrame or a file; `from_frame` reads them."""
        if self.of_users:
            features = {f"context {i}": self.contexts[:, i] for i in range(self.dim)}
        else:
            pairs = [(k, i) for k in range(self.n_arms) for i in range(self.dim)]
            features = {f"context {self.names[k]} {i}": self.contexts[:, k, i] for k, i in pairs}
        mask = self.eligible
        able = {} if mask is None else {f"eligible {name}": mask[:, k] for k, name in enumerate(self.names)}
        given = [self.names[k] for k in self.arms.tolist()]
        return {"arm": given, "reward": self.rewards, "propensity": self.propensities, **features, **able}

    def __eq__(self, other: object) -> bool:
        """Every field, array by array."""
        if not isinstance(other, Log):
            return NotImplemented
        pairs = ((getattr(self, each.name), getattr(other, each.name)) for each in fields(self) if each.compare)
        return all(np.array_equal(one, two) if isinstance(one, np.ndarray) else one is two or one == two
                   for one, two in pairs)  # fmt: skip

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Sizes; the arrays have names."""
        whose = "users" if self.of_users else "arms"
        return f"<Log of {len(self):,} events: {self.n_arms} arms, {self.dim} features of {whose}>"
