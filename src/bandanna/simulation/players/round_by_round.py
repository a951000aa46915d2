"""The players of policies that learn in every round, and of policies that stop an episode at a public time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna.device.domain import Estimate, check_all_finite
from bandanna.device.noise import FastNoise, ReplicatedNoise
from bandanna.errors import InvalidArgument
from bandanna.numeric.rng import StreamRandomness, Streams
from bandanna.policies.base import (
    AssignedArms,
    PlayedRounds,
    Policy,
    RunnerState,
    SumQuery,
    drive_learning,
    replace_states,
    select_states,
)
from bandanna.protocols.base import BatchProtocol
from bandanna.simulation.environments.base import World
from bandanna.simulation.players.reference import QueryAnswerer
from bandanna.simulation.result import RunTotals, Tally
from bandanna.types import Floats, Ints


def play_every_round(policy: Policy[Any], world: World, tally: Tally, rounds: int, *, path: str) -> RunTotals:
    """Play one round after the other, all seeds side by side; both paths are the same."""
    if not world.fixed:
        raise InvalidArgument("env", type(world.environment).__name__, "one whose arms stay the same in every round")
    table = world.means(world.contexts(0, 1))[:, 0]  # (S, K)
    gaps, seeds = table.max(axis=1, keepdims=True) - table, np.arange(tally.n_seeds)
    nothing = np.zeros((tally.n_seeds, 1, table.shape[1], 0))  # features of arms that have none
    coins = StreamRandomness(world.streams)
    answers = QueryAnswerer(policy, ReplicatedNoise(world.streams), coins, "messages")
    state = policy.init(replicates=(tally.n_seeds,))
    while tally.done < rounds:
        episode = policy.episode(state)
        if isinstance(episode, AssignedArms):
            arms = episode.arms
        else:
            assert episode is not None  # rounds are at most the policy's horizon
            arms = policy.act(policy.publish(state), nothing, coins).actions
        chosen = arms[:, 0]
        rewards = world.rewards(table[seeds, chosen][:, None])  # (S, 1)
        tally.steady(gaps[seeds, chosen], 1)
        tally.add_plays(chosen, 1)
        tally.rewards += rewards[:, 0]
        state = answers.learn(state, episode, PlayedRounds(rewards=rewards, arms=arms))
    return RunTotals(releases=rounds, users=rounds, clipped=answers.clipped, numbers_per_user=1)


_CHUNK = 1 << 18  # numbers in a chunk of contexts: small enough for a cache
_SHARE = 4  # a chunk is at most the rounds so far over this: an episode grows with them, so few crossings fall in it


def play_until_stopped(policy: Any, world: World, tally: Tally, rounds: int, *, path: str) -> RunTotals:
    """Play each seed by itself; path="messages" decides round by round.

    One matrix product decides a chunk of rounds, which is cut where public numbers end the episode. Rounds after the
    cut are decided anew from the same contexts.
    """
    switches, users, clipped = (np.zeros(tally.n_seeds, dtype=np.int64) for _ in range(3))
    most = max(1, _CHUNK // (world.n_arms * policy.dim)) if path == "law" else 1
    coins = StreamRandomness(world.streams)
    noise = world.streams.generators(policy.execution.noise_stream)
    for place, (seed, rng) in enumerate(zip(world.streams.seeds, noise, strict=True)):
        own = _StoppingRun(world.environment.begin(Streams([seed])), tally, place)
        answers = QueryAnswerer(policy, FastNoise(rng), coins.of(place), path)
        state, parts = policy.init(), []
        same = own.world.fixed and policy._devices_agree  # all users of an episode choose the same arm
        while own.played < rounds:
            contexts, means = own.look(min(most, rounds - own.played, max(16, own.played // _SHARE)))
            while len(contexts):
                shown = contexts[:1] if same else contexts
                actions = policy.act(policy.publish(state), shown, answers.coins).actions
                actions = np.broadcast_to(actions, len(contexts))
                features = contexts[np.arange(len(actions)), actions]
                cut = policy.stopping_round(state, features)
                n = len(actions) if cut is None else cut
                state = policy.advance_public(state, features[:n])
                parts.append(PlayedRounds(features=features[:n], rewards=own.play(means[:n], actions[:n])))
                if cut is not None:
                    rows, parts, users[place] = PlayedRounds.joined(parts), [], own.played
                    state = answers.learn(state, policy.episode(state), rows)
                contexts, means = contexts[n:], means[n:]
        if parts:
            answers.end(state, policy.episode(state), PlayedRounds.joined(parts))
        switches[place] = policy._run_counts(state)["switches"]
        clipped[place] = answers.clipped
    return RunTotals(
        releases=int(switches.max()),
        users=int(users.max()),
        reports=rounds,
        clipped=clipped,
        numbers_per_user=policy.dim + 1,
        counts={"switches": switches},
    )


class _StoppingRun:
    """One seed's world, read in order."""

    def __init__(self, world: World, tally: Tally, place: int) -> None:
        self.world, self.tally, self.place, self.played, self._read_rounds = world, tally, place, 0, 0

    def look(self, rounds: int) -> tuple[Floats, Floats]:
        contexts = self.world.contexts(self._read_rounds, rounds)
        means = self.world.means(contexts)
        self._read_rounds += rounds
        k, d = contexts.shape[2:]
        return np.broadcast_to(contexts[0], (rounds, k, d)), np.broadcast_to(means[0], (rounds, k))

    def play(self, means: Floats, actions: NDArray[np.int64]) -> Floats:
        chosen = means[np.arange(len(actions)), actions]
        rewards = self.world.rewards(chosen[None])[0]
        best = means[0].max() if self.world.fixed else means.max(axis=1)
        self.tally.of_seed(self.place, self.played, best - chosen, rewards)
        self.tally.add_arms(actions[None], np.array([self.place]))
        self.played += len(actions)
        return np.asarray(rewards)


# The players of generalised linear policies: every round, or in blocks where a policy rarely switches


# Chunks of rounds


_BYTES = 64 << 20  # of a chunk
_UNMOVED = np.zeros((1, 1, 1), dtype=bool)  # was moved


@dataclass(frozen=True, kw_only=True)
class RoundChunk:
    """Rounds `start` to `stop` of all seeds: features and the outcome of every arm."""

    start: int
    stop: int
    contexts: Floats  # (S, n, K, d), as the policy's devices see them
    means: Floats  # (S, n, K)
    outcomes: Floats  # (S, n, K), in the policy's range
    clips: Ints | None  # (S, n, K): 1 where an arm's features or reward were clipped; None: nothing anywhere

    def played(self, actions: Ints, tally: Tally) -> tuple[Floats, Floats, Ints]:
        """Play and tally actions (S, n); return features (S, n, d), rewards (S, n) and clips (S,)."""
        arms = actions[..., None]
        features = np.take_along_axis(self.contexts, arms[..., None], axis=2)[:, :, 0]
        rewards = np.take_along_axis(self.outcomes, arms, axis=2)[..., 0]
        tally.add_arms(actions)
        tally.add_losses(self.means.max(axis=2) - np.take_along_axis(self.means, arms, axis=2)[..., 0])
        tally.rewards += rewards.sum(axis=1)
        if self.clips is None:
            return features, rewards, np.zeros(len(actions), dtype=np.int64)
        return features, rewards, np.sum(np.take_along_axis(self.clips, arms, axis=2), axis=(1, 2))


def split_rounds(world: World, rounds: int, seeds: int, *, beside: int = 0, held: int | None = None) -> list[range]:
    """Split rounds into ranges whose outcomes, with `beside` more values per round and seed, fit in memory."""
    numbers = world.n_arms * (world.environment.dim + 2) + beside
    size = max(1, (_BYTES if held is None else held) // (8 * seeds * numbers))
    return [range(begin, min(begin + size, rounds)) for begin in range(0, rounds, size)]


def read_all_arms(world: World, span: range, policy: Any) -> RoundChunk:
    """Read contexts, means and outcomes of all arms, clipped into `policy.domain`."""
    contexts = world.contexts(span.start, len(span))
    means = world.means(contexts)
    if world.fixed:  # one round stands for all of them; rewards are drawn for each
        contexts = np.broadcast_to(contexts, (contexts.shape[0], len(span), *contexts.shape[2:]))
        means = np.broadcast_to(means, contexts.shape[:-1])
    drawn = world.rewards(means)
    outcomes, moved = _clip_rewards(drawn, policy), _UNMOVED
    features = contexts
    if not (world.unit and getattr(policy, "sees_unit", False)):
        features, moved = _clip_contexts(contexts, policy)
    clips = None
    if outcomes is not drawn or moved.any():
        clips = np.asarray((np.abs(outcomes - drawn) > 1e-9) | moved, dtype=np.int64)  # a report is counted once
    return RoundChunk(start=span.start, stop=span.stop, contexts=features, means=means, outcomes=outcomes, clips=clips)


def _clip_rewards(drawn: Floats, policy: Any) -> Floats:
    domain = policy.domain
    if drawn.size and drawn.min() >= domain.low and drawn.max() <= domain.high:  # not where one is no number
        return drawn
    check_all_finite("rewards", drawn)
    outcomes: Floats = domain.project(drawn)
    return outcomes


def _clip_contexts(contexts: Floats, policy: Any) -> tuple[Floats, NDArray[np.bool_]]:
    """Return features as the policy takes them, and which ones changed, (S or 1, n, K)."""
    shared = contexts.strides[0] == 0  # the same for all seeds
    once = contexts[:1] if shared else contexts
    check_all_finite("contexts", once)
    features = policy.clip_features(once)
    unmoved = np.zeros((1, *once.shape[1:-1]), dtype=bool)
    moved = unmoved if features is once else np.any(np.abs(features - once) > 1e-9, axis=-1)
    return (np.broadcast_to(features, contexts.shape) if shared else features), moved


# Every round


def play_glm_rounds(policy: Any, world: World, tally: Tally, rounds: int, *, path: str) -> RunTotals:
    """Play one round after the other, all seeds side by side; both paths are the same."""
    everyone = np.arange(tally.n_seeds)
    coins, source = StreamRandomness(world.streams), ReplicatedNoise(world.streams)
    state, clipped, done = policy.init(replicates=(tally.n_seeds,)), np.zeros(tally.n_seeds, dtype=np.int64), 0
    room = rounds if policy.execution.retained_groups else 0
    features, rewards = np.zeros((tally.n_seeds, room, policy.dim)), np.zeros((tally.n_seeds, room))

    def answer(query: SumQuery) -> Estimate:
        assert isinstance(query.protocol, BatchProtocol)
        held = row if query.group == "episode" else PlayedRounds(features=features[:, :done], rewards=rewards[:, :done])
        return query.protocol.release(policy.report(query, held, coins), source, path=path)

    for span in split_rounds(world, rounds, tally.n_seeds):
        chunk = read_all_arms(world, span, policy)
        actions = np.empty((tally.n_seeds, len(span)), dtype=np.int64)
        for t in range(len(span)):
            shown = chunk.contexts[:, t : t + 1]
            chosen = policy.act(policy.publish(state), shown, coins).actions
            arms = actions[:, t] = chosen[:, 0]
            row = PlayedRounds(
                features=shown[everyone, 0, arms][:, None], rewards=chunk.outcomes[everyone, t, arms][:, None]
            )
            done += 1
            if policy.execution.retained_groups:
                features[:, done - 1], rewards[:, done - 1] = row.features[:, 0], row.rewards[:, 0]  # type: ignore[index]
            state = drive_learning(policy.learn(state, policy.episode(state)), answer)
        clipped += chunk.played(actions, tally)[2]
    releases = 0 if policy.privacy.model == "none" else rounds
    return RunTotals(releases=releases, users=rounds, reports=rounds, clipped=clipped, counts=policy._run_counts(state))


class SeedPrefixSums:
    """Exact prefix sums plus noise that does not depend on the data, for seeds at different rounds."""

    def __init__(self, stream: Any, source: ReplicatedNoise, seeds: int) -> None:
        dim = stream.domain.dim
        self.sums = np.zeros((seeds, dim))  # exact: the server's secret
        self.start, self.stop, self.noise = 0, 0, np.zeros((seeds, 1, dim))  # after start, ..., stop rounds
        self._prefixes = stream.mechanism.prefix_noise(source, (seeds,))

    def draw(self, stop: int) -> None:
        """Draw the noise of the prefixes up to round `stop`, in the law of the protocol's steps."""
        last, self.start, self.stop = self.noise[:, -1], self.stop, stop
        self.noise = np.zeros((len(last), self.stop - self.start + 1, last.shape[-1]))
        self.noise[:, 0] = last
        for t in range(1, self.noise.shape[1]):
            self.noise[:, t] = next(self._prefixes)

    def before(self, seeds: Ints, rounds: Ints) -> Floats:
        """Return the releases before rounds (s, B) and after the last one: (s, B + 1, dim)."""
        after = np.concatenate([rounds, rounds[:, -1:] + 1], axis=1)
        noise = self.noise[seeds[:, None], np.minimum(after, self.stop) - self.start]
        return np.asarray(self.sums[seeds, None] + noise)

    def add(self, seeds: Ints, leaves: Floats) -> None:
        self.sums[seeds] += leaves


# Blocks of rounds


_LONGEST = 256  # rounds decided at once, per seed


def play_blocks(policy: Any, world: World, tally: Tally, rounds: int, *, path: str) -> RunTotals:
    """Play in blocks, with each seed at its own round; path="messages" runs every step of a stream.

    `policy.decide_block` decides a block as if nothing changed; rounds after the first event are decided anew.
    """
    stream, seeds = policy.stream, tally.n_seeds
    run, source = _BlockSeeds(policy, world, seeds, rounds, path), ReplicatedNoise(world.streams)
    stepwise = stream is not None and path == "messages"
    sums = None if stream is None or stepwise else SeedPrefixSums(stream, source, seeds)
    clipped = np.zeros(seeds, dtype=np.int64)
    for span in split_rounds(world, rounds, seeds, beside=0 if stream is None else stream.domain.dim):
        chunk = read_all_arms(world, span, policy)
        if stepwise:
            run.step_by_step(chunk, source)
        else:
            if sums is not None:
                sums.draw(span.stop)
            run.in_blocks(chunk, sums)
        clipped += chunk.played(run.actions[:, span.start : span.stop], tally)[2]
    counts = {"explorations": np.sum(run.groups == 0, axis=1)} | policy._run_counts(run.state)
    return RunTotals(
        releases=0 if policy.privacy.model == "none" else rounds,
        users=rounds,
        reports=rounds,
        clipped=clipped,
        numbers_per_user=policy.numbers_per_user,
        counts=counts,
    )


def _next_length(length: int, moved: Any) -> int:
    """Return how many rounds to look at next: fewer while every run stops at once."""
    stopped = (moved.taken <= 1) & ((moved.groups[:, 0] == 0) | (length > 1))
    if stopped.all():
        return max(1, length // 2)
    return int(np.clip(1.5 * float(np.median(moved.taken)), 8, _LONGEST))


class _BlockSeeds:
    """The states of all seeds, and the rows kept for later queries."""

    def __init__(self, policy: Any, world: World, seeds: int, rounds: int, path: str) -> None:
        self.policy, self.path, self.coins, self.desk = policy, path, StreamRandomness(world.streams), RunnerState()
        self.sources = [FastNoise(rng) for rng in world.streams.generators(policy.execution.noise_stream)]
        self.state = policy.init(replicates=(seeds,))
        self.position = np.zeros(seeds, dtype=np.int64)
        self.features, self.rewards = np.zeros((seeds, rounds, policy.dim)), np.zeros((seeds, rounds))
        self.actions = np.zeros((seeds, rounds), dtype=np.int64)
        self.groups = np.full((seeds, rounds), -1, dtype=np.int8)

    def in_blocks(self, chunk: RoundChunk, sums: SeedPrefixSums | None) -> None:
        length, shared = 16, chunk.contexts.strides[0] == 0
        while len(seeds := np.flatnonzero(self.position < chunk.stop)):
            begun = self.position[seeds]
            rounds = begun[:, None] + np.arange(length)
            places = np.minimum(rounds, chunk.stop - 1) - chunk.start
            contexts = chunk.contexts[0][places] if shared else chunk.contexts[seeds[:, None], places]
            whole = len(seeds) == len(self.position)
            state = self.state if whole else select_states(self.state, seeds)
            totals = None if sums is None else sums.before(seeds, rounds)
            moved = self.policy.decide_block(state, contexts, rounds < chunk.stop, totals)
            self.state = moved.state if whole else replace_states(self.state, seeds, moved.state)
            if sums is not None:
                sums.add(seeds, moved.added)
            self._record(chunk, seeds, rounds, moved.actions, moved.groups, moved.taken)
            self._settle(seeds[moved.due])
            length = _next_length(length, moved)

    def step_by_step(self, chunk: RoundChunk, source: ReplicatedNoise) -> None:
        policy, everyone = self.policy, np.arange(len(self.position))
        once = np.ones(len(everyone), dtype=np.int64)
        for t in range(chunk.start, chunk.stop):
            choice = policy.act(policy.publish(self.state), chunk.contexts[:, t - chunk.start, None], self.coins)
            self._record(chunk, everyone, self.position[:, None], choice.actions, choice.groups, once)
            query, rows = policy.make_round_query(self.state), slice(t, t + 1)
            held = PlayedRounds(features=self.features[:, rows], rewards=self.rewards[:, rows], groups=choice.groups)
            statistic = policy.report(query, held, self.coins)
            self.desk, released = self.desk.release(query, statistic, source, path=self.path)
            self.state = policy.record_round(self.state, released.total)
            self._settle(np.flatnonzero(policy.needs_refit(self.state)))

    def _record(self, chunk: RoundChunk, seeds: Ints, rounds: Ints, actions: Ints, groups: Ints, taken: Ints) -> None:
        rows, columns = np.nonzero(np.arange(actions.shape[1]) < taken[:, None])
        which, when, arms = seeds[rows], rounds[rows, columns], actions[rows, columns]
        places = when - chunk.start
        self.features[which, when] = chunk.contexts[which, places, arms]
        self.rewards[which, when] = chunk.outcomes[which, places, arms]
        self.actions[which, when], self.groups[which, when] = arms, groups[rows, columns]
        self.position[seeds] += taken

    def _settle(self, seeds: Ints) -> None:
        """Compute the estimates that are due, seed by seed where noise is drawn per seed."""
        groups = [seeds] if self.policy.execution.side_by_side and len(seeds) else seeds
        for each in groups:
            settled = drive_learning(self.policy.refit(select_states(self.state, each)), self._answers(each))
            self.state = replace_states(self.state, each, settled)

    def _answers(self, seeds: Ints) -> Callable[[SumQuery], Estimate]:
        held: dict[str, PlayedRounds] = {}

        def answer(query: SumQuery) -> Estimate:
            assert isinstance(query.protocol, BatchProtocol)
            if query.group not in held:
                held[query.group] = self._kept(seeds, self.policy.execution.retained_groups.index(query.group))
            statistic = self.policy.report(query, held[query.group], self.coins)
            source = self.sources[int(np.ravel(seeds)[0])]  # several seeds share none: there is no noise
            estimate = query.protocol.release(statistic, source, path=self.path)
            return replace(estimate, count=0)  # how many are in a group is as private as who is

        return answer

    def _kept(self, seeds: Ints, group: int) -> PlayedRounds:
        """Return a group's rows: (n, d) of one seed, (s, n, d) of several, padded with zeros."""
        which = np.atleast_1d(seeds)
        rows = [np.flatnonzero(self.groups[seed, : self.position[seed]] == group) for seed in which]
        counts = np.array([len(each) for each in rows])
        most = max(1, int(counts.max()))
        places = np.stack([np.pad(each, (0, most - len(each))) for each in rows])
        features, rewards = self.features[which[:, None], places], self.rewards[which[:, None], places]
        nobody = np.arange(most) >= counts[:, None]
        features[nobody], rewards[nobody] = 0.0, 0.0
        kept = PlayedRounds(features=features, rewards=rewards)
        return kept if np.ndim(seeds) else kept.at(0)
