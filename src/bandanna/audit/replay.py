"""Record and replay: play a policy with one person's row, then once more with the neighbour's and the same answers.

Everything that a policy publishes must follow from the answers to its asks. So a run is recorded with a canary in it,
and repeated with the canary's contexts and reward replaced, every answer being what it was: now only the statistics
that are summed may differ, and by how much is what the noise has to hide (`audit.releases`). If asks or states differ,
the raw data have reached them on another way, which no noise covers: the pair (answers, state) is then possible in one
world only. If that happens in so many of n replays that its probability is above delta, no epsilon holds at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bandanna.accounting import accountant
from bandanna.accounting.events import CompositionEvent, Event, NothingEvent
from bandanna.audit.lower import at_least
from bandanna.audit.neighbours import rows_apart
from bandanna.audit.releases import Release, Script, arrays
from bandanna.core.arrays import Floats, Ints
from bandanna.core.estimate import Estimate
from bandanna.core.streams import Streams
from bandanna.environments.base import Environment
from bandanna.errors import BandannaError
from bandanna.loop import close, reported
from bandanna.policies.base import Ask, Assigned, Episode, Played, Policy
from bandanna.protocols.base import BatchProtocol, StreamProtocol
from bandanna.simulation.players.answers import Answers
from bandanna.simulation.players.plain import Seed
from bandanna.simulation.tally import Tally

_TOLD = ("whether the run goes on", "what is asked", "where it is asked", "the state")
_MORE = 1.01  # times the epsilon of the first batch: of about equals, that one is told from fewest answers
_REPLAYS = 8  # seeds, before we say that nothing but the answers counts


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One ask, the statistics that it sums (users, dim), and its answer."""

    ask: Ask
    values: Floats
    answer: Estimate


@dataclass
class Seen:
    """Of one run: the rows of its episodes, asks, and the state after each episode."""

    episodes: list[tuple[Episode, Played]] = field(default_factory=list)
    asks: list[Asked] = field(default_factory=list)
    places: list[int] = field(default_factory=list)  # the episode of each ask
    states: list[Any] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)  # rounds that are over after each episode
    failed: Exception | None = None  # how the run ended, if it could not go on


class _Recorder(Answers):
    """The simulator's answers, written down; or those of an earlier run."""

    def __init__(self, usual: Answers, seen: Seen, forced: list[Asked], done: Callable[[], int]) -> None:
        super().__init__(usual.policy, usual.source, usual.coins, usual.path, stream=usual.stream)
        self.seen, self.forced, self.done = seen, forced, done

    def learn(self, state: Any, episode: Episode, played: Played) -> Any:
        """The state after an episode."""
        self.seen.episodes.append((episode, played))
        self.seen.ends.append(self.done())
        self.desk = self.desk.keep(self.policy.keeps, played)
        learned = close(self.policy.learn(state, episode), lambda ask: self._answer(ask, played))
        self.seen.states.append(learned)
        return learned

    def _answer(self, ask: Ask, played: Played) -> Estimate:
        statistic = reported(self.policy, ask, self.desk.rows(ask, played), self.coins)
        source = self.stream if isinstance(ask.protocol, StreamProtocol) else self.source
        self.desk, estimate = self.desk.release(ask, statistic, source, path="messages")
        place = len(self.seen.asks)
        if place < len(self.forced) and np.shape(self.forced[place].answer.total) == np.shape(estimate.total):
            estimate = self.forced[place].answer
        self.seen.asks.append(Asked(ask=ask, values=np.array(statistic.rows()), answer=estimate))
        self.seen.places.append(len(self.seen.episodes) - 1)
        return estimate


@dataclass(frozen=True, kw_only=True)
class Canary:
    """Somebody's contexts and reward: of the first user, or the last, of the episode that begins in a round.

    private  whether contexts are; public ones are the same in both worlds
    whose    0, or -1
    """

    row: Played
    private: bool
    begin: int = 0
    whose: int = 0


class _Player(Seed):
    """One seed of the simulator, with a canary in it."""

    canary: Canary | None = None

    def _here(self) -> Canary | None:
        """The canary, if the episode begins that it is in."""
        return self.canary if self.canary is not None and self.done == self.canary.begin else None

    def _look(self, users: int) -> tuple[Floats, Floats]:
        contexts, means = super()._look(users)
        if (mine := self._here()) and mine.private and mine.row.features is not None:
            contexts = np.array(contexts)
            contexts[mine.whose] = mine.row.features[0]  # all of this person's arms
        return contexts, means

    def _earn(self, means: Floats, arms: Ints) -> Floats:
        mine, rewards = self._here(), np.array(super()._earn(means, arms))
        if mine:
            rewards[mine.whose] = mine.row.rewards[0]
        return rewards

    def frozen(self, users: int) -> Played:
        """Devices choose; public features are those of the canary in both worlds."""
        mine, played = self._here(), super().frozen(users)
        return _placed(mine, played) if mine else played

    def assigned(self, episode: Assigned, users: int) -> Played:
        """The server says what is played; a client's averages are the canary's."""
        mine, played = self._here(), super().assigned(episode, users)
        if not mine or not len(played.rewards):
            return played
        if played.rewards.ndim == 2:
            rewards = np.array(played.rewards)
            rewards[mine.whose] = mine.row.rewards[0]
            return Played(rewards=rewards)
        return _placed(mine, played)


def _placed(mine: Canary, played: Played) -> Played:
    """Rows with the canary's features, where they are public."""
    if mine.private or mine.row.features is None or played.features is None:
        return played
    features = np.array(played.features)
    features[mine.whose] = mine.row.features[0]
    return Played(rewards=played.rewards, features=features, arms=played.arms, groups=played.groups)


def play(
    policy: Policy[Any],
    env: Environment,
    *,
    rounds: int,
    seed: int = 0,
    canary: Canary | None = None,
    forced: list[Asked] | None = None,
) -> Seen:
    """One run along every message, with or without a canary; with `forced`, answered as an earlier one was."""
    seen = Seen()
    tally = Tally(checkpoints=np.array([rounds]), n_seeds=1)
    run = _Player(policy, env.begin(Streams([seed])), tally, 0, "messages", False)
    run.canary = canary
    run.answers = _Recorder(run.answers, seen, forced or [], lambda: run.done)
    try:
        run.run(rounds)
    except Exception as failed:
        if forced is None:
            raise
        seen.failed = failed  # answered as a run that did not fail: everybody sees that this one does
    return seen


def protects_features(policy: Policy[Any]) -> bool:
    """Whether contexts are private too, by what the guarantee says that it protects."""
    return any(word in policy.guarantee.protects for word in ("features", "contexts"))


@dataclass(frozen=True, kw_only=True, eq=False)
class Recording:
    """A policy played twice: what holds the canary, as a script; and what else told the worlds apart, if anything."""

    script: Script
    difference: str | None
    first: Seen = field(repr=False)
    canaries: tuple[Canary, Canary] = field(repr=False)


def recorded(policy: Policy[Any], env: Environment, *, rounds: int, seed: int = 0, whose: int = 0) -> Recording:
    """The canary is the first user (whose = -1: the last) of the batch that pays most, in every release of a stream."""
    private = protects_features(policy)
    probe = play(policy, env, rounds=rounds, seed=seed)
    if not probe.asks:
        raise BandannaError(f"{type(policy).__name__} asks nothing in {rounds} rounds: there is nothing to audit")
    dearest = _dearest(probe, policy.guarantee.delta)
    asks = [each.ask for each, place in zip(probe.asks, probe.places, strict=True) if place == dearest]
    priced = [each for each in asks if not isinstance(each.protocol.event, NothingEvent)]
    people = probe.episodes[dearest][1]
    row = people.at(slice(-1, None) if whose else slice(0, 1))
    rows = rows_apart(policy, priced, row, private=private)
    begin = 0 if dearest == 0 else probe.ends[dearest - 1]
    first, second = (Canary(row=each, private=private, begin=begin, whose=whose) for each in rows)
    one = play(policy, env, rounds=rounds, seed=seed, canary=first)
    two = play(policy, env, rounds=rounds, seed=seed, canary=second, forced=one.asks)
    told = zip(_TOLD, _told(one), _told(two), strict=True)
    difference = next((what for what, mine, other in told if mine != other), None)
    return Recording(script=_script(one, two), difference=difference, first=one, canaries=(first, second))


def _dearest(seen: Seen, delta: float) -> int:
    """The episode whose users pay most for what they alone are asked: the first, if none pays more."""
    paid: dict[int, list[Event]] = {place: [] for place in range(len(seen.episodes))}
    for each, place in zip(seen.asks, seen.places, strict=True):
        if each.ask.of == "episode" and each.ask.arm is None and isinstance(each.ask.protocol, BatchProtocol):
            paid[place].append(each.ask.protocol.event)
    if len({tuple(events) for events in paid.values()}) == 1:
        return 0
    costs = {place: accountant.epsilon(CompositionEvent(events=tuple(events)), delta) for place, events in paid.items()}
    return next((place for place, cost in costs.items() if cost > costs[0] * _MORE and cost == max(costs.values())), 0)


def leaking(
    policy: Policy[Any], env: Environment, *, rounds: int, delta: float, confidence: float, whose: int = 0
) -> bool:
    """Whether so many of some replays differ that the probability of that is above delta, with confidence."""
    replays = (recorded(policy, env, rounds=rounds, seed=seed, whose=whose) for seed in range(1, _REPLAYS + 1))
    differ = sum(each.difference is not None for each in replays)
    return bool(at_least(differ, _REPLAYS, 1 - confidence) > delta)


def _script(one: Seen, two: Seen) -> Script:
    """The releases in which the two runs differ: batches, and whole streams of which some step does."""
    batches: list[Release] = []
    streams: dict[int, list[tuple[Asked, Asked]]] = {}
    for mine, other in zip(one.asks, two.asks, strict=False):
        if isinstance(mine.ask.protocol, StreamProtocol):
            streams.setdefault(mine.ask.stream, []).append((mine, other))
        elif isinstance(mine.ask.protocol, BatchProtocol) and _moved(mine, other):
            batches.append(Release(protocol=mine.ask.protocol, one=(mine.values,), two=(other.values,)))
    for steps in streams.values():
        if any(_moved(mine, other) for mine, other in steps):
            protocol = steps[0][0].ask.protocol
            ones, twos = (tuple(each[place].values for each in steps) for place in (0, 1))
            batches.append(Release(protocol=protocol, one=ones, two=twos))
    return Script(releases=tuple(batches))


def _moved(mine: Asked, other: Asked) -> bool:
    """Whether the same people are in it, and one of them has another statistic."""
    return mine.values.shape == other.values.shape and not np.array_equal(mine.values, other.values)


def _told(seen: Seen) -> list[Any]:
    """How the run ended, when was asked, for what and where, and all states, to the last bit: as `_TOLD` says."""
    asks = [
        (place, each.ask.of, each.ask.arm, each.ask.last, each.ask.step, each.ask.stream, repr(each.ask.protocol))
        for each, place in zip(seen.asks, seen.places, strict=True)
    ]
    where = [[array.tobytes() for array in arrays(each.ask.at)] for each in seen.asks]
    states = [[array.tobytes() for array in arrays(state)] for state in seen.states]
    return [repr(seen.failed), asks, where, states]
