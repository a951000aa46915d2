"""The interface of policies: episodes, queries, played rounds, and the learning driver."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from typing import Any, ClassVar, Generic, Self, TypeVar, get_origin, get_type_hints

import numpy as np

from bandanna.device.action_selection import Choice
from bandanna.device.domain import Ball, Estimate, Statistic
from bandanna.device.linear_report import RegressionReport
from bandanna.device.noise import NoiseSource
from bandanna.errors import InvalidArgument, InvalidStatistic, UnknownArgument, ValueSummary, did_you_mean
from bandanna.numeric.compiled import OptimismTables
from bandanna.numeric.exact_sums import assigned_arms
from bandanna.numeric.rng import DeviceRandomness, NumberedRandomness
from bandanna.policies.regret_bounds import BoundCalls, RunSetting
from bandanna.privacy.events import Event, RecordEvent
from bandanna.privacy.guarantee import Guarantee
from bandanna.protocols.base import FLOAT_BITS, BatchProtocol, Protocol, StreamProtocol
from bandanna.protocols.privacy_model import Privacy
from bandanna.protocols.running_sum import RunningSumProtocol
from bandanna.storage.encoding import dataclasses_in, index_by_stored_name
from bandanna.types import Bools, Floats, Ints


@dataclass(frozen=True, kw_only=True)
class Episode:
    """Users who act on one snapshot; public and fixed before it begins.

    `released` is whether the policy learns from it.
    """

    number: int
    released: bool = True


@dataclass(frozen=True, kw_only=True)
class FixedLength(Episode):
    """An episode of `users` users. The policy learns when it ends.

    Attributes
    ----------
    number
        Index of the episode, from 0.
    released
        Whether the policy queries its sums and learns; otherwise nothing is released.
    users
        Number of users, public.
    """

    users: int

    @classmethod
    def batch(cls, number: int, *, size: int, horizon: int) -> FixedLength | None:
        """Return batch `number`, or None after the horizon; a shorter last one is not released."""
        left = horizon - number * size
        return cls(number=number, users=min(size, left), released=left >= size) if left > 0 else None


@dataclass(frozen=True, kw_only=True)
class StoppedByPublicData(Episode):
    """An episode that ends when `stopping_round` of public features says so, at most after `users` users.

    Attributes
    ----------
    number
        Index of the episode.
    released
        Whether the policy learns from it.
    users
        Largest number of users. The end depends on public features alone, so it costs no privacy.
    """

    users: int


@dataclass(frozen=True, kw_only=True)
class AssignedArms(Episode):
    """An episode in which the server assigns the arms.

    Attributes
    ----------
    arms, plays
        The arms, and how many times each is played.
    in_turn
        Whether arms take turns. Otherwise an arm gets all of its plays before the next one.
    clients
        Number of clients, each with averages over all plays. None: every play is another user.
    """

    arms: Ints  # (*R, k)
    plays: Ints  # (*R, k)
    in_turn: bool = False
    clients: int | None = None

    @property
    def users(self) -> int:
        return int(self.plays.sum())

    def arms_at(self, places: Ints) -> Ints:
        """Return the arms of the given rounds of one run, (n,) -> (n,)."""
        return assigned_arms(places, arms=self.arms, plays=self.plays, in_turn=self.in_turn)


@dataclass(frozen=True, kw_only=True)
class SumQuery:
    """A policy's request for one private sum. `Policy.learn` yields it and receives the `Estimate`.

    Parameters
    ----------
    protocol
        A calibrated protocol. Its event is the price.
    at
        Public point at which devices evaluate their report: a theta for gradients, an arm.
    group
        The users to sum over: "episode", or a name of `Execution.retained_groups`.
    arm
        Restricts the sum to users of the episode with this assigned arm.
    last
        Whether the runner deletes the group's rows after the answer.
    step
        Number of the query in its episode. (episode, step) is its id in the ledger.
    stream
        A new number begins a new stream of a stream protocol.
    begun
        Number of streams with this price so far, this one included.
    part
        Part of a user's record, where several queries are about the same one (`events.RecordEvent`).
    """

    protocol: Protocol
    at: Any = None
    group: str = "episode"
    arm: int | None = None
    last: bool = False
    step: int = 0
    stream: int = 0
    begun: int = 1
    part: str | None = None

    def event(self, task: str = "") -> Event:
        own = self.protocol.event
        return own if self.part is None else RecordEvent(event=own, part=self.part, record=task)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class PlayedRounds:
    """Raw rows of users, which only the runner holds.

    A user without an answer has a reward and features of 0, and reports like any other.

    Attributes
    ----------
    rewards
        Rewards, or averages of clients who answer for all arms of an episode.
    features, arms
        Features and index of the played arm.
    groups
        Index into `Execution.retained_groups`. It is private: a device decides it from its own context.
    counts
        Number of simulated users who share a row. None: one each.
    answered
        Which users answered, where features and rewards do not show it. None: all.
    """

    rewards: Floats  # (*R, n) or (*R, n, k)
    features: Floats | None = None  # (*R, n, d)
    arms: Ints | None = None  # (*R, n)
    groups: Ints | None = None  # (*R, n)
    counts: Ints | None = None  # (*R, n)
    answered: Bools | None = None  # (*R, n)

    def of_arm(self, arm: int) -> PlayedRounds:
        assert self.arms is not None
        return self.at(self.arms == arm)

    def at(self, place: Any) -> PlayedRounds:
        """Return the rows at a place of the first axis."""
        chosen: dict[str, Any] = {name: None if rows is None else rows[place] for name, rows in vars(self).items()}
        return PlayedRounds(**chosen)

    @staticmethod
    def joined(parts: Sequence[PlayedRounds]) -> PlayedRounds:
        """Join the rows of one run."""
        columns = {name: [vars(part)[name] for part in parts] for name in vars(parts[0])}
        whole: dict[str, Any] = {n: None if held[0] is None else np.concatenate(held) for n, held in columns.items()}
        return PlayedRounds(**whole)


State = TypeVar("State")

_DRAWS = 16  # in which an arm of probability 1/2 is missed once in 65,000 times


@dataclass(frozen=True, kw_only=True)
class Execution:
    """How runners run the policies of a class.

    Parameters
    ----------
    retained_groups
        Groups of rows that later queries may sum over.
    has_several_queries
        Whether an episode may have several queries, so that the runner keeps its rows until the last.
    learns_every_round
        Whether every episode is one user who acts on the snapshot. An agent may then begin rounds before earlier ones
        are learned.
    side_by_side
        Whether states may have replicate axes, for many seeds at once.
    noise_stream, stream_noise
        Seed streams of simulated noise where seeds run one by one; the second is for stream protocols.
    player
        The simulator's exact acceleration, which subclasses do not inherit.
    """

    retained_groups: tuple[str, ...] = ()
    has_several_queries: bool = False
    learns_every_round: bool = False
    side_by_side: bool = False
    noise_stream: str = "noise"
    stream_noise: str | None = None
    player: str = "plain"


def require_arm_count(n_arms: int | None) -> int:
    """Return the number of arms; raise an error where it is unknown."""
    if n_arms is None:
        hint = "Give the policy to bd.Agent(policy, arms=[...]) or bd.simulate(policy, env), or pass n_arms"
        raise InvalidArgument("n_arms", None, "known for this", hint)
    return n_arms


class Policy(ABC, Generic[State]):
    """A frozen configuration with pure functions of states. Arrays may have leading replicate axes.

    Every runner (simulator, agent, deployment) runs this loop and differs only in how it answers queries::

        state = policy.init(arms)
        while (episode := policy.episode(state)) is not None:            # public
            snapshot = policy.publish(state)                             # public
            choice = policy.act(snapshot, contexts, coins)               # on the device
            ...      policy.report(query, played, coins)                 # on the device: the statistic to sum
            state = drive_learning(policy.learn(state, episode), answer)  # queries sums, receives estimates

    A state holds released and public numbers only, so it may be saved and published, and the policy's price is that of
    its queries. Methods with an underscore have defaults.

    Attributes
    ----------
    trusts
        The supported privacy models.
    execution
        How runners run the policy.
    """

    trusts: ClassVar[tuple[str, ...]] = ("none",)
    execution: ClassVar[Execution] = Execution()
    _misplaced_arguments: ClassVar[tuple[tuple[str, str], ...]] = ()  # names, and what to write instead
    _private_siblings: ClassVar[str] = ""  # what an error about privacy suggests where only bd.none() is allowed

    horizon: int | None
    privacy: Privacy

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """The guarantee, computed from the events of all queries."""

    @abstractmethod
    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> State:
        """Return the state before any release; `arms`: features of a fixed set, (*R, K, d), for policies that plan."""

    @abstractmethod
    def episode(self, state: State) -> Episode | None:
        """Return the next episode; None when the horizon is reached."""

    def next_episode(self, episode: Any) -> Episode | None:
        """Return the episode after this one if it does not depend on what is learned, so that it may begin early; else
        None.
        """
        return None

    def publish(self, state: State) -> Any:
        """Return all that a device needs; by default the state."""
        return state

    @property
    def _lacks_arms(self) -> bool:
        return False

    def with_arms(self, n_arms: int) -> Self:
        """Return this policy for `n_arms` arms if it was made without a number, else the policy itself."""
        return replace(self, n_arms=n_arms) if self._lacks_arms else self  # type: ignore[type-var]

    def clip_features(self, contexts: Floats) -> Floats:
        """Device: clip features to the policy's bounds, for `act`."""
        return contexts

    def act(self, snapshot: Any, contexts: Floats, coins: DeviceRandomness) -> Choice:
        """Device: choose arms for clipped features, (*R, n, K, d); not called in assigned episodes."""
        raise TypeError(f"{type(self).__name__} says what is played: devices do not choose")

    def best(self, snapshot: Any, contexts: Floats) -> Ints:
        """Return the arms that look best, (n, K, d) -> (n,), without exploration or coins; for recommendations.

        By default these have the largest probability in a few fixed draws.
        """
        clipped = self.clip_features(contexts)
        draws = [self.act(snapshot, clipped, NumberedRandomness(draw, 0)) for draw in range(_DRAWS)]
        likeliest = np.argmax([choice.probabilities for choice in draws], axis=0)  # (n,)
        actions: Ints = np.stack([choice.actions for choice in draws])
        return np.asarray(actions[likeliest, np.arange(actions.shape[1])])

    @abstractmethod
    def report(self, query: SumQuery, played: PlayedRounds, coins: DeviceRandomness) -> Statistic:
        """Device: form statistics of the query's domain from rows, clipped and counted."""

    @abstractmethod
    def learn(self, state: State, episode: Any) -> Generator[SumQuery, Estimate, State]:
        """Server: query sums, receive their estimates, return the next state."""

    def __new__(cls, *arguments: Any, **named: Any) -> Self:
        """Refuse arguments that the dataclass does not have, and suggest the nearest."""
        if is_dataclass(cls):
            known = [each.name for each in fields(cls) if each.init]
            for name in named:
                if name not in known and name in dict(cls._misplaced_arguments):
                    raise InvalidArgument(name, named[name], "left out", dict(cls._misplaced_arguments)[name])
                if name not in known:
                    hint = did_you_mean(name, [each for each in known if each not in named])
                    takes = ", ".join(each for each in known if not each.startswith("_"))
                    raise UnknownArgument(name, named[name], cls.__name__, takes, hint)
            required = any(each.name == "privacy" and each.default is MISSING for each in fields(cls) if each.init)
            if named and "privacy" not in named and required:  # a copy is made without arguments
                raise InvalidArgument(
                    "privacy", None, _format_privacy_models(cls.trusts), f"{cls.__name__} requires it"
                )
        return super().__new__(cls)

    def __post_init__(self) -> None:
        self._check_privacy_model()

    def _check_privacy_model(self) -> None:
        """Refuse a privacy model not in `trusts`; warn of a delta above 1/horizon."""
        if not isinstance(self.privacy, Privacy) or self.privacy.model not in self.trusts:
            shown = self.privacy.model if isinstance(self.privacy, Privacy) else self.privacy
            name, allowed = type(self).__name__, _format_privacy_models(self.trusts)
            if self.trusts == ("none",):
                raise InvalidArgument(
                    "privacy", shown, allowed, f"{name} has no private version{self._private_siblings}"
                )
            raise InvalidArgument("privacy", shown, allowed, f"{name} has no other privacy model")
        horizon = getattr(self, "horizon", None)
        if isinstance(horizon, int | np.integer) and not isinstance(horizon, np.timedelta64):
            self.privacy.warn_if_delta_exceeds(int(horizon))

    def _theta(self, snapshot: Any) -> Floats | None:
        return getattr(snapshot, "theta", None)

    @property
    def _batch_privacy(self) -> Privacy:
        return self.privacy

    @property
    def _bits_per_user(self) -> int:
        """The length of a user's longest message."""
        return FLOAT_BITS

    def _run_counts(self, state: State) -> dict[str, Ints]:
        """Return the counts of a run for results, (*R) each."""
        return {}

    def _result_facts(self) -> dict[str, Any]:
        """Return numbers that a result stores for regret bounds."""
        return {}

    @classmethod
    def _regret_bounds(cls, setting: RunSetting) -> BoundCalls:
        """Iterate over regret bounds and their arguments for this setting; none by default."""
        return iter(())

    @classmethod
    def _stored_classes(cls) -> dict[str, type]:
        """Return the dataclasses of the policy, its states and its snapshots, by their stored names."""
        # Types of fields, and those that `init` and `publish` say they return.
        held = (hint for hint in get_type_hints(cls).values() if get_origin(hint) is not ClassVar)
        returned = (get_type_hints(method).get("return") for method in (cls.init, cls.publish))
        return index_by_stored_name(cls) | dataclasses_in(*held, *returned)

    def _prepare(self) -> None:
        """Compute cached values, such as calibrations, before copies go to other processes."""
        _ = self.guarantee


class PublicStoppingPolicy(Policy[State]):
    """A policy whose `StoppedByPublicData` episodes end by public features."""

    @abstractmethod
    def stopping_round(self, state: State, features: Floats) -> int | None:
        """Return after how many of these rounds, (n, d), the episode ends; None: later."""

    @abstractmethod
    def advance_public(self, state: State, features: Floats) -> State:
        """Return the state after these rounds, (n, d); the last of them may end the episode."""


class RunningSumPolicy(Policy[State]):
    """A policy on reports (x y, x x^T) that queries one sum in each episode of a public schedule.

    Its player has exact shortcuts for fixed arms and for noise that does not depend on the data.
    """

    dim: int

    @property
    @abstractmethod
    def _domain(self) -> RegressionReport:
        """The domain of the reports."""

    @abstractmethod
    def _iterate_phases(self) -> Iterator[Any]:
        """Iterate over the policies of all phases, each with `_channel` and `_estimate(total, m)`."""

    @abstractmethod
    def _query(self, episode: FixedLength) -> SumQuery:
        """Return the query of an episode, whatever the state."""

    @property
    def _planned_rounds(self) -> int:
        raise TypeError(f"{type(self).__name__} has phases")

    @abstractmethod
    def _calibrated_channels(self) -> dict[int, RunningSumProtocol]:
        """Return the channels of phases calibrated so far."""

    @abstractmethod
    def _use_channel(self, phase: int, channel: RunningSumProtocol) -> None:
        """Set the channel of a phase without one."""

    @abstractmethod
    def _form_statistic(self, features: Floats, rewards: Floats, arms: Ints | None = None) -> Statistic:
        """Form reports from (*R, n, d), (*R, n) and (*R, n)."""

    @abstractmethod
    def _centre_rewards(self, rewards: Floats) -> tuple[Floats, Bools]:
        """Return rewards as reported, and which were clipped."""

    @property
    def _devices_agree(self) -> bool:
        """Whether devices of one episode that see the same arms choose the same arm."""
        return True

    def _optimism_tables(self, first: int, count: int) -> OptimismTables | None:
        """Return tables for a kernel of `count` one-user rounds after `first`, or None."""
        return None

    @abstractmethod
    def _tabulate_arms(self, features: Floats) -> Any:
        """Tabulate fixed arms, (*R, K, d), for `_favoured_arms` and `_draw_arms`."""

    def _favoured_arms(self, snapshot: Any, arms: Any) -> tuple[Ints, Bools | None]:
        """Return the arms between which coins choose if `_devices_agree` (`find_best_arms`)."""
        raise TypeError(f"devices of {type(self).__name__} draw their arms")

    def _draw_arms(self, snapshot: Any, arms: Any, users: int, coins: DeviceRandomness) -> Ints:
        """Return the arms that devices choose if they do not agree, (*R, users)."""
        raise TypeError(f"devices of {type(self).__name__} all choose the same")


def _format_privacy_models(trusts: tuple[str, ...]) -> str:
    calls = [f"bd.{each}(...)" for each in trusts if each != "none"]
    if "none" in trusts:
        calls.append("bd.none() for no protection" if calls else "bd.none()")
    return " or ".join([", ".join(calls[:-1])] * (len(calls) > 1) + calls[-1:])


def select_states(state: State, place: Any) -> State:
    """Return the states of some of the seeds side by side."""
    return type(state)(**{each.name: getattr(state, each.name)[place] for each in fields(state)})  # type: ignore[arg-type]


def replace_states(state: State, place: Any, new: State) -> State:
    """Return the states with a new one at a place."""
    held = {each.name: getattr(state, each.name).copy() for each in fields(state)}  # type: ignore[arg-type]
    for name, array in held.items():
        array[place] = getattr(new, name)
    return type(state)(**held)


def merge_states(renewed: Bools, new: State, old: State) -> State:
    """Return the new states of some seeds (S,), the old ones of others."""
    if renewed.all():
        return new
    if not renewed.any():
        return old
    chosen = {}
    for each in fields(new):  # type: ignore[arg-type]
        one, two = getattr(new, each.name), getattr(old, each.name)
        chosen[each.name] = np.where(renewed.reshape(-1, *(1,) * (np.ndim(one) - 1)), one, two)
    return type(new)(**chosen)


def drive_learning(steps: Generator[SumQuery, Estimate, State], answer: Callable[[SumQuery], Estimate]) -> State:
    """Answer the queries of `policy.learn(state, episode)` in order, and return the next state.

    After a crash it runs again from the stored state, and the ledger replays releases.
    """
    try:
        query = next(steps)
        while True:
            query = steps.send(answer(query))
    except StopIteration as learned:
        return learned.value  # type: ignore[no-any-return]


def ledger_key(query: SumQuery, *, task: str, batch: str) -> tuple[str, str, str | None]:
    """Return task, batch and alternative of a query in a ledger, which composes tasks.

    A user is in one batch of each task. All queries about a batch's users are one entry, at the composed price; users
    of different arms are different. Retained rows are queried once if they are deleted after the answer, else every
    time; each user is in one group, so groups are alternatives.
    """
    if query.group == "episode":
        return task, batch if query.arm is None else f"{batch}.{query.step}", None
    if query.last:
        return f"{task}, {query.group}", batch, None
    return f"{task}, kept", f"{batch}.{query.step}", query.group


def check_batch_size(episode: Episode, played: PlayedRounds) -> None:
    """Refuse a batch of another size than planned: sizes are public, and users who did not answer have rows."""
    if isinstance(episode, FixedLength) and (rows := played.rewards.shape[-1]) != episode.users:
        raise InvalidArgument("rows", rows, f"{episode.users}, one for each user of the episode")


def form_reports(policy: Policy[Any], query: SumQuery, rows: PlayedRounds, coins: DeviceRandomness) -> Statistic:
    """Return one report for each row: the number of reports is public, so none may be left out."""
    statistic = policy.report(query, rows, coins)
    users = rows.counts is None and statistic.counts is None and rows.rewards.shape[statistic.values.ndim - 2]
    if users is not False and statistic.users != users:
        raise InvalidStatistic(
            "reports",
            ValueSummary(statistic.users),
            f"{users}, one for each user",
            "A user without a reward reports zeros",
        )
    return statistic


def check_group(protocol: Protocol) -> None:
    """Refuse sums over a group that would reveal who is in it, or how many are.

    A user who changes groups moves both sums by a report: |x| <= Delta_2 / sqrt 2 makes that no dearer than a
    replacement (`privacy.accountant`). An untrusted server, and noise calibrated for a number of users, would reveal
    the group's size.
    """
    domain = protocol.domain
    if protocol.trust == "none":
        return
    extremes = np.maximum(np.abs(domain.lower), np.abs(domain.upper))
    longest = domain.bound if isinstance(domain, Ball) else float(np.linalg.norm(extremes))
    if not protocol.hides_group_size or longest * math.sqrt(2) > domain.sensitivity * (1 + 1e-9):
        allowed = "CentralGaussian on reports in a ball around 0"
        raise InvalidArgument("query.protocol", protocol, allowed, "Who is in a group is private, and so is its size")


@dataclass(frozen=True, kw_only=True)
class RunnerState:
    """The private part of a runner between queries: states of streams, and rows for later queries."""

    streams: Mapping[int, Any] = field(default_factory=dict)
    kept: Mapping[str, tuple[PlayedRounds, ...]] = field(default_factory=dict)

    def keep(self, names: tuple[str, ...], played: PlayedRounds) -> RunnerState:
        """Add the rows of an episode, in the groups that devices chose."""
        if not names:
            return self
        if played.rewards.ndim != 1:
            raise InvalidArgument("rows", played.rewards.shape, "of shape (n,), the rows of one run")
        kept = dict(self.kept)
        for number, name in enumerate(names):
            mine = played if played.groups is None else played.at(played.groups == number)
            if (played.groups is not None or number == 0) and mine.rewards.shape[-1]:
                kept[name] = (*kept.get(name, ()), mine)
        return replace(self, kept=kept)

    def rows(self, query: SumQuery, played: PlayedRounds) -> PlayedRounds:
        """Return the rows of a query's sum; an empty group counts as one user without an answer."""
        if query.group == "episode":
            return played if query.arm is None else played.of_arm(query.arm)
        if held := self.kept.get(query.group, ()):
            return PlayedRounds.joined(held)
        features = None if played.features is None else np.zeros_like(played.features[..., :1, :])
        return PlayedRounds(rewards=np.zeros(1), features=features)

    def release(
        self, query: SumQuery, statistic: Statistic, source: NoiseSource, *, path: str
    ) -> tuple[RunnerState, Estimate]:
        if query.group != "episode":
            check_group(query.protocol)
        kept = {name: rows for name, rows in self.kept.items() if not (query.last and name == query.group)}
        if isinstance(query.protocol, StreamProtocol):
            replicates = np.shape(statistic.clipped)  # a batch that arrives in parts is read once
            before = self.streams.get(query.stream)
            begun = query.protocol.begin(replicates) if before is None else before
            following, estimate = query.protocol.release(begun, statistic, source, path=path)
            return RunnerState(streams={**self.streams, query.stream: following}, kept=kept), estimate
        if not isinstance(query.protocol, BatchProtocol):
            raise InvalidArgument("query.protocol", query.protocol, "a BatchProtocol or a StreamProtocol")
        estimate = query.protocol.release(statistic, source, path=path)
        if query.group != "episode":  # how many are in a group is as private as who is
            estimate = replace(estimate, count=0)
        return replace(self, kept=kept), estimate
