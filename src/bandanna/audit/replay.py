"""Record and replay: play a policy with one person's row, then once more with the neighbour's and the same answers.

Everything that a policy publishes must follow from the answers to its asks. So a run is recorded with a canary in it,
and repeated with the canary's contexts and reward replaced, every answer being what it was: now only the statistics
that are summed may differ, and by how much is what the noise has to hide (`audit.releases`). If asks, states, snapshots
or episodes differ, or one of both runs fails, the raw data have reached them on another way, which no noise covers: the
pair (answers, state) is then possible in one world only. If that happens in so many of n replays that its probability
is above delta, no epsilon holds at all. Who the canary is, and with which rows, is searched for in `audit.crowds`.
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
from bandanna.audit.releases import Release, Script, beside_total
from bandanna.audit.spy import Scales
from bandanna.audit.substitution import Player, Substitution
from bandanna.audit.values import OPAQUE, Leaf, leaves
from bandanna.audit.worst import MORE
from bandanna.core.arrays import Floats, Ints
from bandanna.core.coins import NumberedCoins
from bandanna.core.estimate import Estimate
from bandanna.core.streams import Streams
from bandanna.environments.base import Environment, read
from bandanna.errors import BandannaError
from bandanna.loop import close, reported
from bandanna.mechanisms.sources import FastNoise
from bandanna.policies.base import Ask, Assigned, Episode, Played, Policy
from bandanna.protocols.base import BatchProtocol, Protocol, StreamProtocol
from bandanna.simulation.players.answers import Answers
from bandanna.simulation.players.clients import arms_that_stay
from bandanna.simulation.tally import Tally

_TOLD = (
    "whether the run goes on",
    "what is asked",
    "the state",
    "the snapshot",
    "the next episode",
    "what others are given",
)
_OTHERS = 8  # people who act on a snapshot
_REPLAYS = 8  # seeds, before we say that nothing but the answers counts


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One ask in one run.

    values  the statistics that it sums, (users, dim)
    fields  of the estimate that this run has drawn, all but the total; and the scales of the noise that it has drawn
    """

    ask: Ask
    values: Floats
    answer: Estimate
    fields: list[Leaf]


@dataclass
class Seen:
    """Of one run: the rows of its episodes, asks, the state after each episode, and what is shown of all that."""

    episodes: list[tuple[Episode, Played]] = field(default_factory=list)
    asks: list[Asked] = field(default_factory=list)
    places: list[int] = field(default_factory=list)  # the episode of each ask
    begins: list[int] = field(default_factory=list)  # the round in which each episode begins
    told: dict[str, list[list[Leaf]]] = field(default_factory=lambda: {name: [] for name in _TOLD})
    replaced: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # rounds of those with other rows
    failed: Exception | None = None  # how the run ended, if it could not go on

    def tell(self, name: str, value: Any) -> None:
        """Take apart what is shown, as it is now."""
        self.told[name].append(list(leaves(value)))

    def difference(self, other: Seen) -> str | None:
        """What differs from another run with the same answers, if anything."""
        return next((name for name in _TOLD if self.told[name] != other.told[name]), None)

    @property
    def fields(self) -> list[list[Leaf]]:
        """Of every estimate that was drawn, all but the total; and the scales of its noise."""
        return [each.fields for each in self.asks]

    @property
    def opaque(self) -> set[str]:
        """Where in what is shown a value was compared by its type alone."""
        found = (leaf for shown in self.told.values() for each in shown for leaf in each)
        return {path for path, token in found if token == OPAQUE}


class _Recorder(Answers):
    """The simulator's answers, written down; or those of an earlier run."""

    def __init__(
        self, usual: Answers, seen: Seen, forced: list[Asked], done: Callable[[], int], contexts: Floats
    ) -> None:
        assert isinstance(usual.source, FastNoise)
        assert isinstance(usual.stream, FastNoise)
        source, stream = Scales(usual.source), Scales(usual.stream)
        super().__init__(usual.policy, source, usual.coins, usual.path, stream=stream)
        self.seen, self.forced, self.done, self.contexts = seen, forced, done, contexts
        self.scales = source.scales, stream.scales
        self._protocols: dict[int, tuple[Protocol, list[Leaf]]] = {}  # frozen values, taken apart once

    def learn(self, state: Any, episode: Episode, played: Played) -> Any:
        """The state after an episode."""
        rounds = len(played.rewards)
        if isinstance(episode, Assigned) and episode.clients is not None:
            rounds = episode.users
        self.seen.begins.append(self.done() - rounds)
        self.seen.episodes.append((episode, played))
        self.desk = self.desk.keep(self.policy.keeps, played)
        learned = close(self.policy.learn(state, episode), lambda ask: self._answer(ask, played))
        self.seen.tell("the state", learned)
        snapshot, following = self.policy.publish(learned), self.policy.episode(learned)
        self.seen.tell("the snapshot", snapshot)
        self.seen.tell("the next episode", following)
        if following is not None and not isinstance(following, Assigned):
            self.seen.tell("what others are given", self._given(snapshot, played))
        return learned

    def _given(self, snapshot: Any, played: Played) -> list[Any]:
        """What people get who were in no batch, each with coins of its own, beside the last person of this one."""
        last = played.features if played.features is not None and len(self.contexts) > _OTHERS else None
        contexts = np.array(self.contexts)
        if last is not None:
            contexts[-1] = last[-1]
        choice = self.policy.act(snapshot, self.policy.seen(contexts), NumberedCoins(0, 0))
        parts = (choice.actions, np.broadcast_to(choice.probabilities, choice.actions.shape))
        return [np.array(each[:_OTHERS]) for each in parts]

    def _answer(self, ask: Ask, played: Played) -> Estimate:
        if id(ask.protocol) not in self._protocols:
            self._protocols[id(ask.protocol)] = ask.protocol, list(leaves(ask.protocol))
        rest = [(name, part) for name, part in vars(ask).items() if name != "protocol"]
        self.seen.tell("what is asked", (len(self.seen.episodes), rest))
        self.seen.told["what is asked"].append(self._protocols[id(ask.protocol)][1])
        statistic = reported(self.policy, ask, self.desk.rows(ask, played), self.coins)
        source = self.stream if isinstance(ask.protocol, StreamProtocol) else self.source
        self.desk, estimate = self.desk.release(ask, statistic, source, path="messages")
        place, fields = len(self.seen.asks), beside_total([estimate])
        for scales in self.scales:
            fields += leaves(list(scales), "scales of noise")
            scales.clear()
        if place < len(self.forced) and np.shape(self.forced[place].answer.total) == np.shape(estimate.total):
            estimate = self.forced[place].answer
        self.seen.asks.append(Asked(ask=ask, values=np.array(statistic.rows()), answer=estimate, fields=fields))
        self.seen.places.append(len(self.seen.episodes) - 1)
        return estimate


def other_contexts(env: Environment, *, seed: int, people: int) -> Floats:
    """Contexts of people who come in another run of the world, (people, K, d); arms that stay are everybody's."""
    world = env.begin(Streams([seed]))
    fixed = arms_that_stay(world)
    return read(world, 0, people, unit=False)[0][0] if fixed is None else np.stack([fixed[0]] * people)


def play(
    policy: Policy[Any],
    env: Environment,
    *,
    rounds: int,
    seed: int = 0,
    canaries: Substitution | None = None,
    forced: list[Asked] | None = None,
) -> Seen:
    """One run along every message, with or without canaries; with `forced`, answered as an earlier one was.

    A run without canaries raises what the policy raises. With canaries, everybody sees that the run has failed.
    """
    seen = Seen() if canaries is None else Seen(replaced=canaries.rounds)
    tally = Tally(checkpoints=np.array([rounds]), n_seeds=1)
    run = Player(policy, env.begin(Streams([seed])), tally, 0, "messages", False)
    run.canaries = canaries
    people = _OTHERS + (run.fixed is None)
    contexts = other_contexts(env, seed=seed + 1, people=people)
    run.answers = _Recorder(run.answers, seen, forced or [], lambda: run.done, contexts)
    try:
        run.run(rounds)
    except Exception as failed:
        if canaries is None:
            raise
        seen.failed = failed
    seen.tell("whether the run goes on", None if seen.failed is None else (run.done, type(seen.failed).__name__))
    return seen


def protects_features(policy: Policy[Any]) -> bool:
    """Whether contexts are private too, by what the guarantee says that it protects."""
    return any(word in policy.guarantee.protects for word in ("features", "contexts"))


def probed(
    policy: Policy[Any], env: Environment, *, rounds: int, seed: int = 0, canaries: Substitution | None = None
) -> Seen:
    """A run that others are compared with, of a policy that asks something."""
    probe = play(policy, env, rounds=rounds, seed=seed, canaries=canaries)
    if not probe.asks and probe.failed is None:
        raise BandannaError(f"{type(policy).__name__} asks nothing in {rounds} rounds: there is nothing to audit")
    return probe


@dataclass(frozen=True, kw_only=True, eq=False)
class Recording:
    """A policy played twice: what holds the canary, as a script; and what else told the worlds apart, if anything.

    place, position  the episode that the canary is in, and where in it
    """

    script: Script
    difference: str | None
    place: int
    position: int
    first: Seen = field(repr=False)
    worlds: tuple[Substitution, Substitution] = field(repr=False)


def recorded(
    policy: Policy[Any],
    env: Environment,
    *,
    rounds: int,
    seed: int = 0,
    probe: Seen | None = None,
    place: int | None = None,
    position: int = 0,
) -> Recording:
    """The canary is the first user of the batch that pays most, in every release of a stream; or somebody else.

    Parameters
    ----------
    policy, env, rounds, seed
        What is played, where, and how long.
    probe
        A run without a canary, if there is one already.
    place, position
        Number of the episode and of the user in it, from 0; unless given, the first user of the dearest episode.

    Returns
    -------
    Recording
        Both runs, whose rows differ in that user alone and are as far apart as we can make them.
    """
    probe = probed(policy, env, rounds=rounds, seed=seed) if probe is None else probe
    place = _dearest(probe, policy.guarantee.delta) if place is None else place
    asks = [each.ask for each, other in zip(probe.asks, probe.places, strict=True) if other == place]
    priced = [each for each in asks if not isinstance(each.protocol.event, NothingEvent)]
    private, row = protects_features(policy), probe.episodes[place][1].at(slice(position, position + 1))
    pair = rows_apart(policy, priced, row, private=private)
    at = probe.begins[place] + position
    one, two = (Substitution.of_row(each, at=at, private=private) for each in pair)
    return recorded_with(policy, env, (one, two), rounds=rounds, seed=seed, place=place, position=position)


def recorded_with(
    policy: Policy[Any],
    env: Environment,
    worlds: tuple[Substitution, Substitution],
    *,
    rounds: int,
    seed: int,
    place: int,
    position: int,
) -> Recording:
    """Two worlds that differ in the rows of one person, who stands at this position of this episode."""
    one = play(policy, env, rounds=rounds, seed=seed, canaries=worlds[0])
    two = play(policy, env, rounds=rounds, seed=seed, canaries=worlds[1], forced=one.asks)
    return Recording(
        script=_script(one, two),
        difference=one.difference(two),
        place=place,
        position=position,
        first=one,
        worlds=worlds,
    )


def _dearest(seen: Seen, delta: float) -> int:
    """The episode whose users pay most for what they alone are asked: the first, if none pays more."""
    paid: dict[int, list[Event]] = {place: [] for place in range(len(seen.episodes))}
    for each, place in zip(seen.asks, seen.places, strict=True):
        if each.ask.of == "episode" and each.ask.arm is None and isinstance(each.ask.protocol, BatchProtocol):
            paid[place].append(each.ask.protocol.event)
    if len({tuple(events) for events in paid.values()}) == 1:
        return 0
    costs = {place: accountant.epsilon(CompositionEvent(events=tuple(events)), delta) for place, events in paid.items()}
    return next((place for place, cost in costs.items() if cost > costs[0] * MORE and cost == max(costs.values())), 0)


def leaking(
    policy: Policy[Any],
    env: Environment,
    worlds: tuple[Substitution, Substitution],
    *,
    rounds: int,
    delta: float,
    confidence: float,
) -> bool:
    """Whether so many of some replays differ that the probability of that is above delta, with confidence."""
    replays = (
        recorded_with(policy, env, worlds, rounds=rounds, seed=seed, place=0, position=0)
        for seed in range(1, _REPLAYS + 1)
    )
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
