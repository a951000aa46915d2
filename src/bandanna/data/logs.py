"""`Log`: logged decisions with contexts, arms, propensities and rewards, and the budget of its users.

A log is raw data. Estimates of `bd.ope` with `privacy=` and `Log.start` are private releases from it.
"""

from __future__ import annotations

import hashlib
import secrets
import warnings
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from os import PathLike
from typing import Any

import numpy as np

from bandanna import validation
from bandanna.data.tables import ColumnTable, read_table
from bandanna.device.domain import Estimate, Statistic, check_all_finite, read_numeric_array, read_real_array
from bandanna.device.noise import NoiseSource
from bandanna.errors import BandannaError, ClippingWarning, InvalidArgument, InvalidStatistic, ValueSummary
from bandanna.privacy.budgets import Budget
from bandanna.privacy.ledger import BudgetBalance, Ledger
from bandanna.protocols.base import BatchProtocol
from bandanna.protocols.privacy_model import Privacy
from bandanna.types import Bools, Floats, Ints
from bandanna.validation import call_with_user_data, checked_keywords

_ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Log:
    """n logged events: contexts, the given arm, its reward, and its probability.

        log = bd.Log.from_frame(frame, context=["age", "weight"], arm="arm", reward="recovered", propensity=0.25)

    Parameters
    ----------
    contexts
        Features of users, (n, d), or of arms, (n, K, d).
    arms
        Indices into `names`, (n,).
    rewards
        (n,), within the public `reward_range`.
    propensities
        In (0, 1], (n,).
    names
        Public names of the K arms.
    eligible
        Which arms could be given, (n, K); None means all.
    floor
        Public lower bound, by design, of the probability of every arm that could be given; or None.
    clipped
        Number of rewards that were clipped to the range. Not private.
    found
        The names were found in the rows. Private releases are refused.
    repeated
        Some users have several rows. Private releases are refused.
    ledger
        Records the private releases from this log, and refuses those beyond its budget.
    privacy
        Default privacy model of releases; None: no privacy.
    identity
        Public text that is equal for the same rows of the same table.
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
    repeated: bool = field(default=False, compare=False)
    ledger: Ledger | None = field(default=None, compare=False)
    privacy: Privacy | None = field(default=None, compare=False)
    identity: str = field(init=False, compare=False, default_factory=secrets.token_hex)

    def __post_init__(self) -> None:
        rewards = checked_array("rewards", self.rewards, (1,))
        n, names = len(rewards), resolve_arm_names((), self.names)
        if not n:
            raise InvalidStatistic("rewards", ValueSummary("none"), "a list of at least one number")
        contexts = checked_array("contexts", self.contexts, (2, 3))
        shapes = {(n, contexts.shape[-1]), (n, len(names), contexts.shape[-1])}
        if contexts.shape not in shapes:
            raise InvalidStatistic(
                "shape of contexts", ValueSummary(contexts.shape), " or ".join(map(str, sorted(shapes, key=len)))
            )
        arms = read_numeric_array("arms", self.arms, "whole numbers", kinds="iu")
        if arms.shape != (n,) or arms.min() < 0 or arms.max() >= len(names):
            raise InvalidStatistic("arms", arms, f"{n} whole numbers from 0 to {len(names) - 1}, one for each event")
        chances = check_propensities(checked_array("propensities", self.propensities, (1,)), self.floor, "propensities")
        low, high = check_reward_range(self.reward_range)
        if rewards.min() < low - _ROUNDING or rewards.max() > high + _ROUNDING:
            raise InvalidStatistic(
                "rewards", ValueSummary("some outside"), f"rewards in the reward_range [{low:g}, {high:g}]"
            )
        eligible = None if self.eligible is None else eligible_mask(self.eligible, n, len(names), arms)
        arrays = {"contexts": contexts, "arms": arms.astype(np.int64), "rewards": rewards, "propensities": chances}
        for name, array in {**arrays, "eligible": eligible}.items():
            if array is not None:
                array.setflags(write=False)
            object.__setattr__(self, name, array)
        if chances.shape != (n,):
            raise InvalidStatistic("shape of propensities", ValueSummary(chances.shape), f"({n},), as many as rewards")
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "reward_range", (low, high))

    @classmethod
    @checked_keywords("bd.Log.from_frame")
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
        user: Any = None,
        budget: Privacy | Budget | Ledger | None = None,
    ) -> Log:
        """Make a log of a table with one row for each event.

        Parameters
        ----------
        frame
            A pandas or polars frame, an Arrow table, a dict of columns or a NumPy record array.
        arm, reward
            Columns.
        propensity
            A column; or, by design, a number (1/m where each of m arms was equally likely) or {arm: number}.
        context
            Columns with a user's features; {arm: columns} with features of each arm; or a function of the table, such
            as a map of `bd.features`, to an array (n, d) or (n, arms, d).
        eligible
            A column that lists the arms that could be given, or {arm: column of yes and no}.
        arms
            All arms, in order; public. By default those that propensity, context or eligible name, else those that
            occur, sorted. Private releases need the first or the second.
        reward_range
            Public bounds; rewards outside are clipped and counted. By default [0, 1], and rewards outside are refused.
        floor
            Public lower bound of the probability of every arm that could be given; known if `propensity` is by design.
        success
            The value of the reward column that means 1; all others mean 0.
        user
            A column of user ids, which are not stored. Private releases are refused if a user has several rows.
        budget
            The budget of each user for all releases from this log, such as `bd.central(1.0, 1e-5)`, or a `Ledger` to
            share or store it. Estimators take the whole budget unless `privacy=` gives them a part. By default releases
            are neither limited nor private.

        Returns
        -------
        Log
            The events.
        """
        table = ColumnTable(frame)
        given = table.labels("arm", arm)
        if arms is not None:  # a 1 in a file becomes "1" if the arm is called "1"
            listed = resolve_arm_names((), arms)
            by_text = {str(name): name for name in listed} if len(set(map(str, listed))) == len(listed) else {}
            given = [name if name in listed else by_text.get(str(name), name) for name in given]
        by_arm = [each for each in (propensity, context, eligible) if isinstance(each, Mapping)]
        whole = [sorted(each, key=str) for each in by_arm if each is propensity or each.keys() >= set(given)]
        public = arms if arms is not None else next(iter(whole), None)
        names = resolve_arm_names(given, public)
        places = {name: place for place, name in enumerate(names)}
        for row, name in enumerate(given):
            if name not in places:
                by_design = arms is None and isinstance(propensity, Mapping)
                hint = "propensity= has probabilities for these arms only." * by_design
                allowed = f"one of {list_arms(names, found=False)}"
                raise InvalidStatistic(f"column {arm!r}, row {row}", name, allowed, hint)
        indices = np.array([places[name] for name in given], dtype=np.int64)
        inside, clipped = clip_logged_rewards(read_rewards(table, reward, success), reward_range, f"column {reward!r}")
        chances, known = read_propensities(
            table, propensity, names, indices, floor, overlapping=eligible is not None, found=public is None
        )
        able = None if eligible is None else read_eligible(table, eligible, names, found=public is None)
        log = cls(
            contexts=read_contexts(table, context, names, found=public is None),
            arms=indices,
            rewards=inside,
            propensities=chances,
            names=names,
            eligible=able,
            reward_range=(0.0, 1.0) if reward_range is None else check_reward_range(reward_range),
            floor=known,
            clipped=clipped,
            found=public is None,
            repeated=user is not None and len(set(table.labels("user", user))) < table.rows,
            ledger=open_ledger(budget),
            privacy=default_privacy(budget),
        )
        reading = (arm, reward, propensity, context, eligible, arms, reward_range, floor, success)
        return log._with_identity(describe_query(reading) or log.identity)

    def _with_identity(self, identity: str) -> Log:
        object.__setattr__(self, "identity", identity)
        return self

    @classmethod
    def read(cls, path: str | PathLike[str], **columns: Any) -> Log:
        """Read a Parquet (extra `results`) or CSV file; other arguments as for `from_frame`."""
        return cls.from_frame(read_table(path), **columns)

    def __copy__(self) -> Log:
        return self  # immutable, but for the ledger, which must stay one

    def __deepcopy__(self, memo: Any) -> Log:
        return self

    def __reduce__(self) -> Any:
        if self.ledger is not None:
            raise BandannaError("a log with a budget is not pickled, because both copies would spend its budget")
        return super().__reduce__()

    @classmethod
    @checked_keywords("bd.Log.from_decisions")
    def from_decisions(
        cls,
        decisions: Sequence[Any],
        *,
        rewards: Sequence[float],
        contexts: Any = None,
        arms: Sequence[Any] | None = None,
        reward_range: tuple[float, float] | None = None,
        floor: float | None = None,
        users: Sequence[Any] | None = None,
        budget: Privacy | Budget | Ledger | None = None,
    ) -> Log:
        """Make a log of an agent's decisions.

        Parameters
        ----------
        decisions, rewards
            Decisions and their rewards.
        contexts
            Features of users, (n, d), or of arms, (n, arms, d), in the order of `arms`; None without features.
        arms, reward_range, budget
            As for `from_frame`.
        users
            The user of each decision, as `user` of `from_frame`.
        floor
            Public; p / K for an agent whose policy has `explore=bd.policies.uniform(then=p)`.

        Returns
        -------
        Log
            The events.
        """
        made = validation.list_entries("decisions", decisions, "decisions of an agent, in any order")
        given = validation.list_entries("rewards", rewards, "a reward for each decision")
        if not made or not all(hasattr(each, "arm") and hasattr(each, "probability") for each in made):
            raise InvalidStatistic("decisions", decisions, "a list of decisions that agent.act has returned")
        if len(given) != len(made) or any(each is None for each in given):
            allowed = f"{len(made)} numbers, one for each decision"
            hint = "Leave out decisions that have no reward."
            raise InvalidStatistic("rewards", ValueSummary(f"{len(given)} entries"), allowed, hint)
        frame = {"arm": [d.arm for d in made], "reward": given, "propensity": [float(d.probability) for d in made]}
        places = None if contexts is None else (lambda _: contexts)
        if users is not None:
            frame["user"] = validation.list_entries("users", users, "a user id for each decision")
        return cls.from_frame(frame, arm="arm", reward="reward", propensity="propensity", context=places or (),
                              arms=arms, reward_range=reward_range, floor=floor,
                              user=None if users is None else "user", budget=budget)  # fmt: skip

    def __len__(self) -> int:
        return len(self.rewards)

    @property
    def n_arms(self) -> int:
        return len(self.names)

    @property
    def dim(self) -> int:
        return int(self.contexts.shape[-1])

    @property
    def of_users(self) -> bool:
        return self.contexts.ndim == 2

    @property
    def budget(self) -> BudgetBalance | None:
        """The users' `spent`, `remaining` and `total` epsilon; None without a budget."""
        return None if self.ledger is None else self.ledger.view().balance()

    def release(
        self,
        protocol: BatchProtocol,
        statistic: Statistic,
        source: NoiseSource,
        *,
        task: str,
        query: str | None = None,
        path: str = "messages",
    ) -> Estimate:
        """Release a sum over the users in the log, and charge it to the ledger if the log has one.

        Parameters
        ----------
        query
            Public description of the statistic. The ledger returns the stored release of the same query with the same
            noise level, and spends nothing. None: each release is charged. Equal sums of two queries are two releases,
            because a shared release would show that they are equal.

        Raises
        ------
        BudgetExceeded
            Nothing was spent or released.
        """

        def draw() -> Estimate:
            return protocol.release(statistic, source, path=path)

        ledger = self.ledger
        if ledger is None:
            return draw()

        described = secrets.token_hex() if query is None else repr((self.identity, query, statistic.values.shape))
        counts = b"" if statistic.counts is None else np.asarray(statistic.counts).tobytes()
        data = described.encode() + b"|" + np.asarray(statistic.values).tobytes() + counts

        def charge() -> Estimate:
            named = ledger.find_task(protocol.event, data, f"{task} ") or f"{task} {len(ledger.store.entries()) + 1}"
            released: Estimate = ledger.release(protocol.event, task=named, batch=0, data=data, draw=draw)
            return released

        return ledger.store.alone(charge)

    def check_private(self) -> None:
        """Refuse private releases if the arms' names were found in the rows, or if a user has several rows.

        A rare arm of one user would show in the number of arms and in bounds that follow from it.
        """
        if self.repeated:
            hint = "Keep one row for each user, or combine a user's rows into one."
            raise InvalidArgument(
                "log", ValueSummary("several rows of one user"), "a log with a row for each user", hint
            )
        if self.found:
            hint = 'Pass arms=["A", "B"] (--arms A,B). Names that are found in the data are not private.'
            raise InvalidArgument("arms", None, "the names of all arms", hint)

    def arm_contexts(self) -> Floats:
        """Return contexts as policies see them, (n, K, d)."""
        if not self.of_users:
            return self.contexts
        n, d = self.contexts.shape
        return np.broadcast_to(self.contexts[:, None, :], (n, self.n_arms, d))

    def scaled_rewards(self) -> Floats:
        """Rewards, scaled so that the range is [0, 1]."""
        low, high = self.reward_range
        return np.clip((self.rewards - low) / (high - low), 0.0, 1.0)

    def at(self, rows: Any) -> Log:
        """Return some of the events; a part that has a row twice makes no private releases."""
        held = {each.name: getattr(self, each.name) for each in fields(self) if each.init}
        some = np.empty(0)
        with suppress(Exception):  # no index of rows; what is none may be a column of users' values
            some = np.arange(len(self))[rows]
        if np.ndim(some) != 1 or not len(some):
            allowed = f"a mask, a slice or row numbers below {len(self)}, with at least one row"
            raise InvalidStatistic("rows", rows, allowed)
        chosen = ("contexts", "arms", "rewards", "propensities", "eligible")
        parts = {name: None if held[name] is None else held[name][some] for name in chosen}
        repeated = self.repeated or len(np.unique(some)) < len(some)
        part = Log(**{**held, **parts, "clipped": 0, "repeated": repeated})
        return part._with_identity(f"{self.identity} rows {hashlib.sha256(some.tobytes()).hexdigest()}")

    def ordered(self, arms: Sequence[Any]) -> Log:
        """Return the same events with the arms in this order; found names are replaced by these."""
        names = resolve_arm_names((), arms)
        more = len(names) - self.n_arms if self.found and self.of_users and self.eligible is None else 0
        if not set(names) >= set(self.names) or len(names) != self.n_arms + max(more, 0):
            odd = next(
                (each for each in names if each not in self.names), ValueSummary("without one of the log's arms")
            )
            hint = "To add arms, pass arms= when you make the log."
            raise InvalidArgument("arms", odd, f"{list_arms(self.names, found=self.found)} in any order", hint)
        held = {each.name: getattr(self, each.name) for each in fields(self) if each.init}
        places = np.array([names.index(name) for name in self.names])
        order = np.argsort(places)  # used where there are as many names as arms
        contexts = self.contexts if self.of_users else self.contexts[:, order]
        eligible = None if self.eligible is None else self.eligible[:, order]
        changed = {"contexts": contexts, "eligible": eligible, "arms": places[self.arms], "names": names}
        return Log(**{**held, **changed, "found": False})._with_identity(f"{self.identity} arms {names!r}")

    @checked_keywords("Log.split")
    def split(self, share: float = 0.5, *, seed: int = 0) -> tuple[Log, Log]:
        """Split by a public seed into two logs: one to learn from, one to evaluate on."""
        share = validation.open_probability("share", share)
        first = round(share * len(self))
        if not 0 < first < len(self):
            raise InvalidArgument("share", share, f"a share that leaves events on both sides, of {len(self)}")
        drawn = np.random.default_rng(
            validation.integer("seed", seed, least=0, most=validation.SEED_LIMIT)
        ).permutation(len(self))
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
        """Release the sum of these users' reports for `LinTS(..., start=)`."""
        from bandanna.data.replay import sum_for_warm_start

        return sum_for_warm_start(self, policy, privacy=privacy, arms=arms, seed=seed, ledger=ledger)

    def to_columns(self) -> dict[str, Any]:
        """Return plain columns that `from_frame` reads."""
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
        if not isinstance(other, Log):
            return NotImplemented
        pairs = ((getattr(self, each.name), getattr(other, each.name)) for each in fields(self) if each.compare)
        return all(np.array_equal(one, two) if isinstance(one, np.ndarray) else one is two or one == two
                   for one, two in pairs)  # fmt: skip

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        owners = "users" if self.of_users else "arms"
        return f"<Log of {len(self):,} events: {self.n_arms} arms, {self.dim} features of {owners}>"


# Parts of a log: budget, names of arms, propensities, contexts, eligible arms, rewards


def open_ledger(budget: Privacy | Budget | Ledger | None) -> Ledger | None:
    """Return a new ledger for a budget, or the given ledger."""
    given = budget.budget if isinstance(budget, Privacy) else budget
    if isinstance(given, Budget):
        return Ledger(budget=given)
    if given is not None and not isinstance(given, Ledger):
        raise InvalidArgument("budget", budget, "a privacy model such as bd.central(1.0, 1e-5), a Budget or a Ledger")
    return given


def default_privacy(budget: Privacy | Budget | Ledger | None) -> Privacy | None:
    """Return the privacy model with the whole budget of a log; by default central."""
    if budget is None or isinstance(budget, Privacy):
        return budget
    return Privacy(model="central", budget=budget.budget if isinstance(budget, Ledger) else budget)


def describe_query(parts: Any) -> str | None:
    """Return a text that is equal for equal public values; None if a part is a function or raw data."""
    if hasattr(parts, "to_json"):  # a feature map
        return str(parts.to_json())
    if isinstance(parts, Mapping):
        parts = tuple(parts.items())
    if not isinstance(parts, list | tuple):
        return repr(parts) if parts is None or isinstance(parts, str | int | float | np.generic) else None
    texts = [describe_query(each) for each in parts]
    return None if None in texts else repr(texts)


_MOST_ARMS = 100_000
_SUM = 1e-2  # what rounded probabilities may add up to beyond 1
_ROUNDED = 0.02  # of a probability such as 1/3, in proportion
_OTHERS = 'give a column, or one for each arm (propensity={"A": 0.5, ...}, --propensity A=0.5,...)'
_FEATURE = "A feature map, context=bd.features.Map(...), takes texts and missing values too."
_REWARD = "Leave out rows without a reward. For words, name the one that means 1 (success=..., --success)."


def resolve_arm_names(given: Sequence[Any], arms: Any) -> tuple[Any, ...]:
    """Return the names of all arms: the given ones, or those that occur."""
    if arms is not None:
        names = validation.list_entries("arms", arms, "the names of all arms, in order")
        for place, name in enumerate(names):
            if not isinstance(name, str | int):
                raise InvalidArgument(f"arms[{place}]", name, "a text or a whole number")
    else:
        names = list(dict.fromkeys(given))
        if len({isinstance(name, str) for name in names}) == 1:
            names = sorted(names)
    if not 1 <= len(names) <= _MOST_ARMS or len(set(names)) != len(names):
        raise InvalidArgument("arms", f"{len(names)} names", f"1 to {_MOST_ARMS:,} names, none of them twice")
    return tuple(names)


def list_arms(names: Sequence[Any], *, found: bool) -> str:
    """Describe the arms for an error: by name, or by number if names were found in rows."""
    return f"the {len(names)} arms that occur" if found else f"the arms {', '.join(map(str, names))}"


def _find_unknown_key(given: Mapping[Any, Any], names: Sequence[Any]) -> Any:
    return next((name for name in given if name not in names), ValueSummary("without one of the arms"))


def read_propensities(
    table: ColumnTable,
    given: Any,
    names: Sequence[Any],
    arms: Ints,
    floor: Any,
    *,
    overlapping: bool = False,
    found: bool = False,
) -> tuple[Floats, float | None]:
    """Return the probability of each event's arm, and the least probability of any arm if it is known by design.

    `overlapping` allows probabilities that add up to more than 1; `found` allows more arms than names.
    """
    where = "propensity"
    if isinstance(given, Mapping):
        by_arm = np.array([_check_probability(f"propensity[{name!r}]", given.get(name)) for name in names])
        if extra := [name for name in given if name not in names]:
            raise InvalidArgument("propensity", extra[0], f"one of the arms {', '.join(map(str, names))}")
        if by_arm.sum() > 1 + _SUM and not overlapping:
            hint = "If not every arm could be given to everybody, pass eligible= or a column."
            total = ValueSummary(f"a sum of {by_arm.sum():g}")
            raise InvalidArgument("propensity", total, "probabilities that add up to at most 1", hint)
        chances, known = by_arm[arms], float(by_arm.min())
    elif isinstance(given, str) or (isinstance(given, tuple) and table.has(given)):
        chances, known, where = table.numbers("propensity", given), None, f"column {given!r}"
    elif given is None:
        hint = "Pass a number if arms were drawn with fixed probabilities, else the column that holds them."
        raise InvalidArgument("propensity", None, "a column, a number or a mapping from arms to numbers", hint)
    else:
        known = _uniform_probability(_check_probability("propensity", given), None if found else len(names))
        chances = np.full(len(arms), known)
    least = known if floor is None else _check_probability("floor", floor)
    return check_propensities(chances, least, where), least


def _uniform_probability(chance: float, most: int | None) -> float:
    m = max(round(min(1 / chance, float(most or _MOST_ARMS))), 1)
    if abs(chance * m - 1) > _ROUNDED + _ROUNDING:
        counts = "a whole number" if most is None else f"from 1 to {most}, the number of arms"
        hint = f"One number means that all arms were equally likely. Otherwise {_OTHERS}."
        raise InvalidArgument("propensity", chance, f"1/m with m {counts}", hint)
    return chance


def check_propensities(chances: Floats, floor: Any, where: str) -> Floats:
    """Return probabilities in (0, 1], none below the floor."""
    least = 0.0 if floor is None else _check_probability("floor", floor)
    fine = (chances > 0) & (chances <= 1 + _ROUNDING) & (chances >= least * (1 - _ROUNDING))
    if not fine.all():
        row = int(np.argmin(fine))
        bounds = f"[{least:g}, 1], where {least:g} is the floor" if least else "(0, 1]"
        raise InvalidStatistic(f"{where}, row {row}", float(chances[row]), f"a probability in {bounds}")
    return np.minimum(chances, 1.0)


def _check_probability(argument: str, value: Any) -> float:
    number = validation.real(argument, value, "a probability in (0, 1]")
    if not 0 < number <= 1:
        raise InvalidArgument(argument, value, "a probability in (0, 1]")
    return number


def read_contexts(table: ColumnTable, given: Any, names: Sequence[Any], *, found: bool) -> Floats:
    """Return features of users, (n, d), or of arms, (n, K, d), from columns or from a function of the table."""
    if callable(given):
        made = call_with_user_data("context", given, table.frame, "a function of the table to an array")
        array = read_real_array("context(table)", made)
        if array.ndim not in (2, 3) or len(array) != table.rows or (array.ndim == 3 and array.shape[1] != len(names)):
            allowed = f"({table.rows}, d) or ({table.rows}, {len(names)}, d)"
            raise InvalidStatistic("shape of context(table)", ValueSummary(array.shape), allowed)
        check_all_finite("context(table)", array)
        return array
    if isinstance(given, Mapping):
        if set(given) != set(names):
            allowed = f"columns for each of {list_arms(names, found=found)}"
            raise InvalidArgument("context", _find_unknown_key(given, names), allowed)
        lists = [validation.list_entries(f"context[{name!r}]", given[name], "columns, in a list") for name in names]
        if len({len(each) for each in lists}) != 1 or not lists[0]:
            raise InvalidArgument("context", [len(each) for each in lists], "the same number of columns for every arm")
        arms = [np.stack([table.numbers("context", name) for name in each], axis=-1) for each in lists]
        return np.stack(arms, axis=1)
    columns = [given] if isinstance(given, str) else validation.list_entries("context", given, "columns, in a list")
    if not columns:
        return np.zeros((table.rows, 0))
    return np.stack([table.numbers("context", name, _FEATURE) for name in columns], axis=-1)


def read_eligible(table: ColumnTable, given: Any, names: Sequence[Any], *, found: bool) -> Bools:
    """Return which arms could be given, (n, K), from a column of lists of arms or from a column for each arm."""
    mask, known = np.zeros((table.rows, len(names)), dtype=bool), list_arms(names, found=found)
    if isinstance(given, Mapping):
        if set(given) != set(names):
            raise InvalidArgument("eligible", _find_unknown_key(given, names), f"a column for each of {known}")
        for place, name in enumerate(names):
            mask[:, place] = table.flags("eligible", given[name])
        return mask
    places = {name: place for place, name in enumerate(names)}
    for row, entry in enumerate(table.of("eligible", given).tolist()):
        where = f"column {given!r}, row {row}"
        for name in validation.list_entries(where, entry, f"a list of arms, of {known}"):
            if not isinstance(name, Hashable) or name not in places:
                raise InvalidStatistic(where, name, f"one of {known}")
            mask[row, places[name]] = True
    return mask


def read_rewards(table: ColumnTable, column: Any, success: Any) -> Floats:
    """Return a column of numbers, or 1 where the column equals `success` and 0 elsewhere."""
    if success is None:
        return table.numbers("reward", column, _REWARD)
    entries = table.labels("reward", column)
    if success not in entries:
        raise InvalidArgument("success", success, f"a value of column {column!r}", "No row has this value.")
    return np.array([float(each == success) for each in entries])


def check_reward_range(given: Any) -> tuple[float, float]:
    """Return the public bounds of rewards."""
    ends = validation.list_entries("reward_range", given, "(low, high)")
    if len(ends) != 2:
        raise InvalidArgument("reward_range", given, "(low, high)")
    low, high = (validation.finite("reward_range", end, "two finite numbers (low, high)") for end in ends)
    if not (1e-12 <= high - low <= 1e12 and max(-low, high) <= 1e12):
        raise InvalidArgument(
            "reward_range", given, "two numbers (low, high) in [-1e12, 1e12], the first below the second"
        )
    return low, high


def clip_logged_rewards(rewards: Floats, reward_range: Any, where: str) -> tuple[Floats, int]:
    """Return rewards in the range, and how many were clipped; without a range, rewards outside are refused."""
    low, high = (0.0, 1.0) if reward_range is None else check_reward_range(reward_range)
    outside = (rewards < low - _ROUNDING) | (rewards > high + _ROUNDING)
    if reward_range is None and outside.any():
        row = int(np.argmax(outside))
        hint = "Or pass public bounds, reward_range=(low, high) (--range); rewards are clipped to them."
        raise InvalidStatistic(f"{where}, row {row}", float(rewards[row]), "a reward in [0, 1]", hint)
    clipped = int(np.count_nonzero(outside))
    if 2 * clipped > len(rewards):
        message = (
            f"{clipped:,} of {len(rewards):,} rewards lie outside of the range (reward_range=({low:g}, {high:g}), "
            f"--range {low:g},{high:g}), and were clipped"
        )
        warnings.warn(ClippingWarning(message), stacklevel=4)
    return np.clip(rewards, low, high), clipped


def checked_array(argument: str, values: Any, ndims: tuple[int, ...]) -> Floats:
    """Return a copy as finite floats with so many axes."""
    array = np.array(read_real_array(argument, values), dtype=float)
    if array.ndim not in ndims:
        raise InvalidStatistic(argument, array, f"an array with {' or '.join(map(str, ndims))} axes")
    check_all_finite(argument, array)
    return array


def eligible_mask(eligible: Any, n: int, n_arms: int, arms: Ints) -> Bools:
    """Return which arms could be given, (n, K); the given ones must be among them."""
    allowed = f"True or False for each event and arm, ({n}, {n_arms})"
    mask: Bools = np.array(read_numeric_array("eligible", eligible, allowed, kinds="b"))
    if mask.shape != (n, n_arms):
        raise InvalidStatistic("eligible", mask, allowed)
    if not (own := mask[np.arange(n), arms]).all():
        row = int(np.argmin(own))
        raise InvalidStatistic(
            f"eligible[{row}]", ValueSummary("arms without it"), "arms that include the one that was given"
        )
    return mask
