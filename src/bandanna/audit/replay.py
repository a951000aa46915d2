"""Record a policy's run with one user's row, and replay it with the neighbour's row and the same answers.

Everything that a policy publishes must follow from the answers to its queries, so only the summed statistics may
differ. If anything else differs, or if a run fails, raw data have reached it without noise; if the probability of that
is above delta, no epsilon holds. `audit.policies` searches for the canary and its rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bandanna.audit.comparison import OPAQUE, ValueLeaf, take_apart
from bandanna.audit.releases import RecordingScales, ReleasePair, ReleaseScript, fields_beside_total, find_farthest_rows
from bandanna.audit.sampled_bounds import lower_confidence_bound, make_claim
from bandanna.device.domain import Estimate
from bandanna.device.noise import FastNoise
from bandanna.errors import BandannaError
from bandanna.numeric.rng import NumberedRandomness, Streams
from bandanna.policies.base import AssignedArms, Episode, PlayedRounds, Policy, SumQuery, drive_learning, form_reports
from bandanna.privacy import accountant
from bandanna.privacy.events import CompositionEvent, Event, NothingEvent
from bandanna.protocols.base import BatchProtocol, Protocol, StreamProtocol
from bandanna.simulation.environments.base import Environment, read_block
from bandanna.simulation.players.reference import QueryAnswerer, ReferenceRun, find_fixed_arms
from bandanna.simulation.result import Tally
from bandanna.types import Floats, Ints

# Substituted rows


@dataclass(frozen=True, kw_only=True, eq=False)
class Substitution:
    """Rows that replace those of some users, by the rounds in which these users come, in order.

    Public contexts, unlike `private` ones, are the same for both neighbours.
    """

    rounds: Ints  # (n,)
    rewards: Floats  # (n,); of a client, its average of every arm
    features: Floats | None = None  # (n, d)
    private: bool

    @classmethod
    def from_row(cls, row: PlayedRounds, *, at: int, private: bool) -> Substitution:
        """Return the row of one user in a round."""
        reward = row.rewards.reshape(1, -1)[:, 0]
        return cls(rounds=np.array([at]), rewards=reward, features=row.features, private=private)

    def first(self, count: int) -> Substitution:
        return self.only(slice(0, count))

    def only(self, users: slice) -> Substitution:
        features = None if self.features is None else self.features[users]
        return replace(self, rounds=self.rounds[users], rewards=self.rewards[users], features=features)

    def over(self, base: Substitution) -> Substitution:
        """Return these rows, and the base's for other users; if both are given, rewards alone."""
        rest = ~np.isin(base.rounds, self.rounds)
        rounds = np.concatenate([self.rounds, base.rounds[rest]])
        rewards, order = np.concatenate([self.rewards, base.rewards[rest]]), np.argsort(rounds)
        return replace(base, rounds=rounds[order], rewards=rewards[order])

    def within(self, begin: int, users: int) -> tuple[Ints, Substitution]:
        """Return the indices among `users` users from round `begin` on, and their rows."""
        start, stop = np.searchsorted(self.rounds, [begin, begin + users])
        return self.rounds[start:stop] - begin, self.only(slice(int(start), int(stop)))


class CanaryRun(ReferenceRun):
    """A `ReferenceRun` with substituted rows."""

    canaries: Substitution | None = None

    def _here(self, users: int) -> tuple[Ints, Substitution] | None:
        found = None if self.canaries is None else self.canaries.within(self.done, users)
        return found if found is not None and len(found[0]) else None

    def _look(self, users: int) -> tuple[Floats, Floats]:
        contexts, means = super()._look(users)
        if (mine := self._here(users)) and mine[1].private and mine[1].features is not None:
            contexts = np.array(contexts)
            contexts[mine[0]] = mine[1].features[:, None]  # all arms of a user
        return contexts, means

    def _draw_rewards(self, means: Floats, arms: Ints) -> Floats:
        mine = self._here(len(arms))
        rewards = np.array(super()._draw_rewards(means, arms))
        if mine:
            rewards[mine[0]] = mine[1].rewards
        return rewards

    def frozen(self, users: int) -> PlayedRounds:
        """Let devices choose; public features are the canaries' under both neighbours."""
        mine, played = self._here(users), super().frozen(users)
        return _place_features(mine, played) if mine else played

    def assigned(self, episode: AssignedArms, users: int) -> PlayedRounds:
        """Play assigned arms; a client's averages are the canary's."""
        mine, played = self._here(users), super().assigned(episode, users)
        if not mine or not len(played.rewards):
            return played
        if played.rewards.ndim == 2:
            rewards, clients = np.array(played.rewards), mine[0] < len(played.rewards)
            rewards[mine[0][clients]] = mine[1].rewards[clients, None]
            return PlayedRounds(rewards=rewards)
        return _place_features(mine, played)


def _place_features(mine: tuple[Ints, Substitution], played: PlayedRounds) -> PlayedRounds:
    places, rows = mine
    if rows.private or rows.features is None or played.features is None:
        return played
    features = np.array(played.features)
    features[places] = rows.features
    return replace(played, features=features)


# The choice of neighbours


WORSE_BY = 1.01  # factor by which another pair must be worse than the first one
TOO_LONG_BY = 1 + 1e-6  # times what a domain allows: more than rounding errors
_PILOT, _FARTHER = 256, 0.5  # runs of either neighbour, and by how much more another pair must be apart


def choose_worst(scripts: Sequence[ReleaseScript], *, epsilon: float, delta: float) -> int:
    """Choose the neighbours to attack: the index of the pair that needs most of the claim.

    If none needs more than the claim, it is a pair whose noise must be sampled by itself, or whose means are farther
    apart than those of the first, usual pair.
    """
    standard = scripts[0]
    needs = [_needed_share(standard, epsilon=epsilon, delta=delta)]
    for each in scripts[1:]:
        known = each.mu is not None or not _is_ordinary(each, standard)
        needs.append(_needed_share(each, epsilon=epsilon, delta=delta) if known else 0.0)
    most = int(np.argmax(needs))
    if needs[most] > max(needs[0] * WORSE_BY, 1 + 1e-9):
        return most
    if (alone := next((place for place, each in enumerate(scripts) if each.alone), None)) is not None:
        return alone
    apart = [0.0 if each.mu is not None else _mean_distance(each) for each in scripts]
    farthest = int(np.argmax(apart))
    if apart[farthest] > 2 * apart[0] + _FARTHER:
        return farthest
    return most if needs[most] > needs[0] * WORSE_BY else 0


def _is_ordinary(script: ReleaseScript, standard: ReleaseScript) -> bool:
    """Return whether releases use the same protocols, with reports no farther apart."""
    known = {tuple(take_apart(each.protocol)) for each in standard.releases}
    return all(
        tuple(take_apart(each.protocol)) in known
        and all(
            float(np.linalg.norm(one - two)) <= TOO_LONG_BY * each.protocol.domain.sensitivity
            for one, two in zip(each.one, each.two, strict=True)
        )
        for each in script.releases
    )


def _mean_distance(script: ReleaseScript) -> float:
    """Return the largest distance of the means of a few runs, in standard deviations."""
    one, two = (script.draw(swapped, _PILOT, np.random.default_rng([2, int(swapped)])) for swapped in (False, True))
    spread = np.sqrt((one.var(axis=0) + two.var(axis=0)) / 2)
    gaps = np.abs(one.mean(axis=0) - two.mean(axis=0))
    return float(np.max(np.where(gaps > 0, gaps / np.maximum(spread, 1e-300), 0.0), initial=0.0))


def _needed_share(script: ReleaseScript, *, epsilon: float, delta: float) -> float:
    """Return the exact laws' need as a share of the claim; 0 if not known."""
    claim = make_claim(script.event, epsilon=epsilon, delta=delta)
    if math.isinf(claim.parameter) or claim.parameter == 0:
        return 0.0
    known = claim.needs(mu=script.mu, pure=script.pure)
    if known is None and script.pairs:
        known = claim.parameter_for_pairs(script.pairs)
    return (known or 0.0) / claim.parameter


# Record and replay


_SHOWN_KINDS = (
    "whether the run goes on",
    "a query",
    "the state",
    "the snapshot",
    "the next episode",
    "another user's choice",
)
_OTHER_USERS = 8  # they act on a snapshot
_REPLAYS = 8  # seeds, before we say that nothing but the answers counts


@dataclass(frozen=True, kw_only=True)
class RecordedQuery:
    """One query in one run, with the statistics that it sums as `values`, (users, dim).

    `fields` are those of this run's estimate beside the total, and the scales of its noise.
    """

    query: SumQuery
    values: Floats
    answer: Estimate
    fields: list[ValueLeaf]


@dataclass
class RecordedRun:
    """A run's rows, its queries, the state after each episode, and its output taken apart."""

    episodes: list[tuple[Episode, PlayedRounds]] = field(default_factory=list)
    queries: list[RecordedQuery] = field(default_factory=list)
    places: list[int] = field(default_factory=list)  # the episode of each query
    begins: list[int] = field(default_factory=list)  # the round in which each episode begins
    shown: dict[str, list[list[ValueLeaf]]] = field(default_factory=lambda: {name: [] for name in _SHOWN_KINDS})
    replaced: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # rounds of those with other rows
    failed: Exception | None = None  # how the run ended, if it could not go on

    def record(self, name: str, value: Any) -> None:
        """Append the leaves of a value, as it is now, to the output of this kind."""
        self.shown[name].append(list(take_apart(value)))

    def difference(self, other: RecordedRun) -> str | None:
        """Return the difference from another run with the same answers, if any."""
        return next((name for name in _SHOWN_KINDS if self.shown[name] != other.shown[name]), None)

    @property
    def fields(self) -> list[list[ValueLeaf]]:
        return [each.fields for each in self.queries]

    @property
    def opaque(self) -> set[str]:
        """Return the paths at which only types were compared."""
        found = (leaf for parts in self.shown.values() for part in parts for leaf in part)
        return {path for path, token in found if token == OPAQUE}


class _RecordingAnswerer(QueryAnswerer):
    """A `QueryAnswerer` that records its answers, or gives those of an earlier run."""

    def __init__(
        self,
        usual: QueryAnswerer,
        seen: RecordedRun,
        forced: list[RecordedQuery],
        done: Callable[[], int],
        contexts: Floats,
    ) -> None:
        assert isinstance(usual.source, FastNoise)
        assert isinstance(usual.stream, FastNoise)
        source, stream = RecordingScales(usual.source), RecordingScales(usual.stream)
        super().__init__(usual.policy, source, usual.coins, usual.path, stream=stream)
        self.seen, self.forced, self.done, self.contexts = seen, forced, done, contexts
        self.scales = source.scales, stream.scales
        self._protocols: dict[int, tuple[Protocol, list[ValueLeaf]]] = {}  # frozen values, taken apart once

    def learn(self, state: Any, episode: Episode, played: PlayedRounds) -> Any:
        rounds = len(played.rewards)
        if isinstance(episode, AssignedArms) and episode.clients is not None:
            rounds = episode.users
        self.seen.begins.append(self.done() - rounds)
        self.seen.episodes.append((episode, played))
        self.desk = self.desk.keep(self.policy.execution.retained_groups, played)
        learned = drive_learning(self.policy.learn(state, episode), lambda query: self._answer(query, played))
        self.seen.record("the state", learned)
        snapshot, following = self.policy.publish(learned), self.policy.episode(learned)
        self.seen.record("the snapshot", snapshot)
        self.seen.record("the next episode", following)
        if following is not None and not isinstance(following, AssignedArms):
            self.seen.record("another user's choice", self._given(snapshot, played))
        return learned

    def _given(self, snapshot: Any, played: PlayedRounds) -> list[Any]:
        """Return choices of users in no batch, with coins of their own, beside this batch's last user."""
        last = played.features if played.features is not None and len(self.contexts) > _OTHER_USERS else None
        contexts = np.array(self.contexts)
        if last is not None:
            contexts[-1] = last[-1]
        choice = self.policy.act(snapshot, self.policy.clip_features(contexts), NumberedRandomness(0, 0))
        parts = (choice.actions, np.broadcast_to(choice.probabilities, choice.actions.shape))
        return [np.array(each[:_OTHER_USERS]) for each in parts]

    def _answer(self, query: SumQuery, played: PlayedRounds) -> Estimate:
        if id(query.protocol) not in self._protocols:
            self._protocols[id(query.protocol)] = query.protocol, list(take_apart(query.protocol))
        rest = [(name, part) for name, part in vars(query).items() if name != "protocol"]
        self.seen.record("a query", (len(self.seen.episodes), rest))
        self.seen.shown["a query"].append(self._protocols[id(query.protocol)][1])
        statistic = form_reports(self.policy, query, self.desk.rows(query, played), self.coins)
        source = self.stream if isinstance(query.protocol, StreamProtocol) else self.source
        self.desk, estimate = self.desk.release(query, statistic, source, path="messages")
        place, fields = len(self.seen.queries), fields_beside_total([estimate])
        for scales in self.scales:
            fields += take_apart(list(scales), "scales of noise")
            scales.clear()
        if place < len(self.forced) and np.shape(self.forced[place].answer.total) == np.shape(estimate.total):
            estimate = self.forced[place].answer
        self.seen.queries.append(
            RecordedQuery(query=query, values=np.array(statistic.rows()), answer=estimate, fields=fields)
        )
        self.seen.places.append(len(self.seen.episodes) - 1)
        return estimate


def draw_other_contexts(env: Environment, *, seed: int, users: int) -> Floats:
    """Draw contexts of users in another run, (users, K, d); fixed arms stay."""
    world = env.begin(Streams([seed]))
    fixed = find_fixed_arms(world)
    return read_block(world, 0, users, unit=False)[0][0] if fixed is None else np.stack([fixed[0]] * users)


def play_recorded(
    policy: Policy[Any],
    env: Environment,
    *,
    rounds: int,
    seed: int = 0,
    canaries: Substitution | None = None,
    forced: list[RecordedQuery] | None = None,
) -> RecordedRun:
    """Play one run by messages, with or without canaries; with `forced`, with the answers of an earlier run.

    A run without canaries raises the policy's errors; with canaries, they are output.
    """
    seen = RecordedRun() if canaries is None else RecordedRun(replaced=canaries.rounds)
    tally = Tally(checkpoints=np.array([rounds]), n_seeds=1)
    run = CanaryRun(policy, env.begin(Streams([seed])), tally, 0, "messages", False)
    run.canaries = canaries
    users = _OTHER_USERS + (run.fixed is None)
    contexts = draw_other_contexts(env, seed=seed + 1, users=users)
    run.answers = _RecordingAnswerer(run.answers, seen, forced or [], lambda: run.done, contexts)
    try:
        run.run(rounds)
    except Exception as failed:
        if canaries is None:
            raise
        seen.failed = failed
    seen.record("whether the run goes on", None if seen.failed is None else (run.done, type(seen.failed).__name__))
    return seen


def protects_features(policy: Policy[Any]) -> bool:
    """Return whether the guarantee protects contexts too."""
    return any(word in policy.guarantee.protects for word in ("features", "contexts"))


def play_probe(
    policy: Policy[Any], env: Environment, *, rounds: int, seed: int = 0, canaries: Substitution | None = None
) -> RecordedRun:
    """Play the run with which others are compared; refuse a policy without queries."""
    probe = play_recorded(policy, env, rounds=rounds, seed=seed, canaries=canaries)
    if not probe.queries and probe.failed is None:
        raise BandannaError(f"{type(policy).__name__} queries nothing in {rounds} rounds: there is nothing to audit")
    return probe


@dataclass(frozen=True, kw_only=True, eq=False)
class NeighbourRecording:
    """A policy played twice: the releases that hold the canary as a script, and anything else that differed.

    `place` and `position` are the canary's episode and its position there.
    """

    script: ReleaseScript
    difference: str | None
    place: int
    position: int
    first: RecordedRun = field(repr=False)
    worlds: tuple[Substitution, Substitution] = field(repr=False)


def record_neighbours(
    policy: Policy[Any],
    env: Environment,
    *,
    rounds: int,
    seed: int = 0,
    probe: RecordedRun | None = None,
    place: int | None = None,
    position: int = 0,
) -> NeighbourRecording:
    """Record both runs of a canary: by default the first user of the dearest batch, in every release of a stream.

    Their rows differ in that user alone, `position` of the episode `place`, and are as far apart as can be found.
    `probe` is an earlier run without a canary.
    """
    probe = play_probe(policy, env, rounds=rounds, seed=seed) if probe is None else probe
    place = _find_dearest(probe, policy.guarantee.delta) if place is None else place
    queries = [each.query for each, other in zip(probe.queries, probe.places, strict=True) if other == place]
    priced = [each for each in queries if not isinstance(each.protocol.event, NothingEvent)]
    private, row = protects_features(policy), probe.episodes[place][1].at(slice(position, position + 1))
    pair = find_farthest_rows(policy, priced, row, private=private)
    at = probe.begins[place] + position
    one, two = (Substitution.from_row(each, at=at, private=private) for each in pair)
    return record_worlds(policy, env, (one, two), rounds=rounds, seed=seed, place=place, position=position)


def record_worlds(
    policy: Policy[Any],
    env: Environment,
    worlds: tuple[Substitution, Substitution],
    *,
    rounds: int,
    seed: int,
    place: int,
    position: int,
) -> NeighbourRecording:
    """Record two runs that differ in the rows of one user."""
    one = play_recorded(policy, env, rounds=rounds, seed=seed, canaries=worlds[0])
    two = play_recorded(policy, env, rounds=rounds, seed=seed, canaries=worlds[1], forced=one.queries)
    return NeighbourRecording(
        script=_make_script(one, two),
        difference=one.difference(two),
        place=place,
        position=position,
        first=one,
        worlds=worlds,
    )


def _find_dearest(seen: RecordedRun, delta: float) -> int:
    """Return the episode whose users pay most for their queries, the first of equals."""
    paid: dict[int, list[Event]] = {place: [] for place in range(len(seen.episodes))}
    for each, place in zip(seen.queries, seen.places, strict=True):
        if each.query.group == "episode" and each.query.arm is None and isinstance(each.query.protocol, BatchProtocol):
            paid[place].append(each.query.protocol.event)
    if len({tuple(events) for events in paid.values()}) == 1:
        return 0
    costs = {place: accountant.epsilon(CompositionEvent(events=tuple(events)), delta) for place, events in paid.items()}
    return next(
        (place for place, cost in costs.items() if cost > costs[0] * WORSE_BY and cost == max(costs.values())), 0
    )


def leaks_often(
    policy: Policy[Any],
    env: Environment,
    worlds: tuple[Substitution, Substitution],
    *,
    rounds: int,
    delta: float,
    confidence: float,
) -> bool:
    """Test by fresh replays whether the output differs with a probability above `delta`."""
    replays = (
        record_worlds(policy, env, worlds, rounds=rounds, seed=seed, place=0, position=0)
        for seed in range(1, _REPLAYS + 1)
    )
    differ = sum(each.difference is not None for each in replays)
    return bool(lower_confidence_bound(differ, _REPLAYS, 1 - confidence) > delta)


def _make_script(one: RecordedRun, two: RecordedRun) -> ReleaseScript:
    """Return the releases in which two runs differ: batches, and streams with a differing step."""
    batches: list[ReleasePair] = []
    streams: dict[int, list[tuple[RecordedQuery, RecordedQuery]]] = {}
    for mine, other in zip(one.queries, two.queries, strict=False):
        if isinstance(mine.query.protocol, StreamProtocol):
            streams.setdefault(mine.query.stream, []).append((mine, other))
        elif isinstance(mine.query.protocol, BatchProtocol) and _is_moved(mine, other):
            batches.append(ReleasePair(protocol=mine.query.protocol, one=(mine.values,), two=(other.values,)))
    for steps in streams.values():
        if any(_is_moved(mine, other) for mine, other in steps):
            protocol = steps[0][0].query.protocol
            ones, twos = (tuple(each[place].values for each in steps) for place in (0, 1))
            batches.append(ReleasePair(protocol=protocol, one=ones, two=twos))
    return ReleaseScript(releases=tuple(batches))


def _is_moved(mine: RecordedQuery, other: RecordedQuery) -> bool:
    return mine.values.shape == other.values.shape and not np.array_equal(mine.values, other.values)
