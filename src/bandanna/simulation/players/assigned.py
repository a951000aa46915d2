"""The players of episodes whose arms the server assigns, for fixed arms and for populations.

An episode is one step. Rewards with finitely many values are one multinomial draw; others are drawn one by one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna.device.domain import Box, Domain, Estimate, Statistic, StreamedStatistic
from bandanna.device.noise import FastNoise, NoiseSource, ReplicatedNoise
from bandanna.errors import InvalidArgument
from bandanna.numeric.rng import StreamRandomness, Streams
from bandanna.policies.base import AssignedArms, PlayedRounds, Policy, SumQuery, drive_learning, merge_states
from bandanna.protocols.base import FLOAT_BITS, BatchProtocol
from bandanna.simulation.environments.base import World
from bandanna.simulation.environments.finite import Levels
from bandanna.simulation.environments.population import PopulationWorld
from bandanna.simulation.players.reference import QueryAnswerer
from bandanna.simulation.result import RunTotals, Tally
from bandanna.types import Floats, Ints

_BLOCK = 1 << 20  # rewards drawn at once
_TABLE = 1 << 20  # chances of all values of all arms of all seeds, if there are no more


def play_assigned(policy: Policy[Any], world: World, tally: Tally, rounds: int, *, path: str) -> RunTotals:
    """Play `rounds` rounds; an episode that the horizon cuts short is not released."""
    pulls = ArmPulls(world, getattr(policy, "domain", None), tally, path=path)
    played = _play_side_by_side if policy.execution.side_by_side else _play_one_by_one
    releases, users, counts = played(policy, world, pulls, rounds, path)
    return RunTotals(releases=releases, users=users, clipped=pulls.clipped, numbers_per_user=1, counts=counts)


class ArmPulls:
    """Rewards of fixed arms of S seeds, each at its own round; regret and rewards go to the tally.

    Rewards outside of the `domain` count as clipped even if they are not reported.
    """

    def __init__(self, world: World, domain: Box | None, tally: Tally, *, path: str) -> None:
        if not world.fixed:
            raise InvalidArgument(
                "env", type(world.environment).__name__, "one whose arms stay the same in every round"
            )
        means = world.means(world.contexts(0, 1))[:, 0]  # (S, K)
        self.means, self.gaps = means, means.max(axis=1, keepdims=True) - means
        self.world, self.tally = world, tally
        self.low, self.high = (-math.inf, math.inf) if domain is None else (domain.low, domain.high)
        self.clipped = np.zeros(len(means), dtype=np.int64)
        self.played = np.zeros(len(means), dtype=np.int64)  # rounds
        self._own: dict[int, World] = {}
        self._scale = _reward_values(world) if path == "law" else None
        values = np.zeros(0) if self._scale is None else self._scale[0]
        self._beyond = np.abs(values - np.clip(values, self.low, self.high)) > 1e-9  # values that are clipped, (V,)
        self._clips = bool(self._beyond.any())
        fits = self._scale is not None and means.size * len(values) <= _TABLE
        self._table = self._scale[1](means) if fits and self._scale is not None else None  # (S, K, V)

    def side_by_side(self, arms: Ints, rounds: Ints) -> PlayedRounds:
        """Play one arm of every seed for `rounds` (S,) rounds, 0 allowed; return rows (S, n)."""
        seeds = np.arange(len(arms))
        self._regret(self.gaps[seeds, arms], rounds)
        self.tally.add_plays(arms, rounds)
        if self._scale is None:
            rows = [self._rows(int(s), int(arms[s]), int(rounds[s])) for s in seeds]
            most = max(len(row) for row in rows)
            counts = np.asarray(np.arange(most) < rounds[:, None], dtype=np.int64)
            return PlayedRounds(rewards=np.stack([np.pad(row, (0, most - len(row))) for row in rows]), counts=counts)
        values, chance = self._scale[0], self._chances(seeds, arms)
        if len(values) == 2:
            ones = self.world.streams.binomial("reward sums", rounds, chance[:, 1])
            counts = np.stack([rounds - ones, ones], axis=1)
        else:
            draws = zip(self.world.streams.generators("reward sums"), rounds, chance, strict=True)
            counts = np.array([rng.multinomial(n, p) for rng, n, p in draws])
        self._note(slice(None), counts)
        return PlayedRounds(rewards=np.broadcast_to(values, counts.shape), counts=counts)

    def one(self, seed: int, arms: Ints, plays: Ints, rounds: int, *, in_turn: bool) -> PlayedRounds:
        """Play the first `rounds` rounds of an episode of one seed; return its rows, (n,)."""
        played = self._play_in_turn(seed, arms, rounds) if in_turn else self._play_in_a_row(seed, arms, plays, rounds)
        self.tally.add_plays(arms, played, np.full(len(arms), seed))
        if self._scale is None:
            rows = [self._rows(seed, int(arm), int(n)) for arm, n in zip(arms, played, strict=True)]
            return PlayedRounds(rewards=np.concatenate(rows), arms=np.repeat(arms, played))
        values, rng = self._scale[0], self.world.streams.generators("reward sums")[seed]
        counts = rng.multinomial(played, self._chances(seed, arms))  # (k, V)
        self._note(seed, counts.sum(axis=0))
        return PlayedRounds(
            rewards=np.tile(values, len(arms)), arms=np.repeat(arms, len(values)), counts=counts.reshape(-1)
        )

    def _play_in_a_row(self, seed: int, arms: Ints, plays: Ints, rounds: int) -> Ints:
        """Return the plays of each arm, (k,), one arm after the other."""
        begun = np.cumsum(plays) - plays
        played = np.clip(rounds - begun, 0, plays)
        passed = np.clip(self.tally.checkpoints - self.played[seed] - begun[:, None], 0, played[:, None])  # (k, C)
        for gap, n, rows in zip(self.gaps[seed, arms], played, passed, strict=True):
            self.tally.regret[seed] += gap * rows
            self.tally.total[seed] += gap * n
        self.played[seed] += rounds
        return np.asarray(played)

    def _play_in_turn(self, seed: int, arms: Ints, rounds: int) -> Ints:
        """Return the plays of each arm, (k,), in turn."""
        k, late = len(arms), np.arange(len(arms))[:, None]
        passed = np.clip(self.tally.checkpoints - self.played[seed], 0, rounds)
        self.tally.regret[seed] += self.gaps[seed, arms] @ ((passed + k - 1 - late) // k)
        played = (rounds + k - 1 - late[:, 0]) // k
        self.tally.total[seed] += self.gaps[seed, arms] @ played
        self.played[seed] += rounds
        return np.asarray(played)

    def _chances(self, seeds: int | Ints, arms: Ints) -> Floats:
        assert self._scale is not None
        return self._scale[1](self.means[seeds, arms]) if self._table is None else self._table[seeds, arms]

    def _note(self, seeds: int | slice, counts: Ints) -> None:
        assert self._scale is not None
        if self._clips:
            self.clipped[seeds] += counts @ self._beyond
        self.tally.rewards[seeds] += counts @ self._scale[0]

    def _rows(self, seed: int, arm: int, rounds: int) -> Floats:
        if seed not in self._own:
            self._own[seed] = self.world.environment.begin(Streams([self.world.streams.seeds[seed]]))
        blocks = [np.zeros(0)]
        for begin in range(0, rounds, _BLOCK):
            rewards = self._own[seed].rewards(np.full((1, min(_BLOCK, rounds - begin)), self.means[seed, arm]))[0]
            self.clipped[seed] += np.count_nonzero(np.abs(rewards - np.clip(rewards, self.low, self.high)) > 1e-9)
            self.tally.rewards[seed] += rewards.sum()
            blocks.append(rewards)
        return np.concatenate(blocks)

    def _regret(self, gaps: Floats, rounds: Ints) -> None:
        passed = np.clip(self.tally.checkpoints - self.played[:, None], 0, rounds[:, None])  # (S, C)
        self.tally.regret += gaps[:, None] * passed
        self.tally.total += gaps * rounds
        self.played += rounds
        self.tally.done = int(self.played.min())


def _reward_values(world: World) -> tuple[Floats, Callable[[Floats], Floats]] | None:
    """Return the values and their probabilities; None if they are not finitely many."""
    law = world.environment.reward
    if type(world).rewards is not World.rewards:
        return None
    if isinstance(law, Levels):
        return law.values, law.chances
    if world.binary:
        return np.array([0.0, 1.0]), lambda means: np.stack([1 - means, means], axis=-1)
    return None


def _play_side_by_side(
    policy: Policy[Any], world: World, pulls: ArmPulls, rounds: int, path: str
) -> tuple[int, int, dict[str, NDArray[np.int64]]]:
    seeds = len(pulls.played)
    answers = QueryAnswerer(policy, ReplicatedNoise(world.streams), StreamRandomness(world.streams), path)
    state = policy.init(replicates=(seeds,))
    releases, users = np.zeros(seeds, dtype=np.int64), np.zeros(seeds, dtype=np.int64)
    while np.any(pulls.played < rounds):
        episode = policy.episode(state)
        assert isinstance(episode, AssignedArms)
        (plays,) = episode.plays.T  # one arm at a time
        playing = np.minimum(plays, rounds - pulls.played)
        rows = pulls.side_by_side(episode.arms[:, 0], playing)
        ended = (playing == plays) & (pulls.played < rounds)  # what ends with the run decides nothing: not released
        state = merge_states(ended, answers.learn(state, episode, rows), state)
        releases, users = releases + ended, np.where(ended, pulls.played, users)
    return int(releases.max()), int(users.max()), policy._run_counts(state)


def _play_one_by_one(
    policy: Policy[Any], world: World, pulls: ArmPulls, rounds: int, path: str
) -> tuple[int, int, dict[str, NDArray[np.int64]]]:
    """Play seed by seed, where seeds have different episodes."""
    arms, coins = world.contexts(0, 1)[:, 0], StreamRandomness(world.streams)
    releases, users, counts = [], [], []
    for seed, rng in enumerate(world.streams.generators(policy.execution.noise_stream)):
        answers = QueryAnswerer(policy, FastNoise(rng), coins.of(seed), path)
        state, last = policy.init(arms[seed]), 0
        while pulls.played[seed] < rounds:
            episode = policy.episode(state)
            assert isinstance(episode, AssignedArms)
            whole = int(episode.plays.sum())
            playing = min(whole, rounds - int(pulls.played[seed]))
            rows = pulls.one(seed, episode.arms, episode.plays, playing, in_turn=episode.in_turn)
            if episode.released and playing == whole:
                state, last = answers.learn(state, episode, rows), int(pulls.played[seed])
        releases.append(answers.releases)
        users.append(last)
        counts.append(policy._run_counts(state))
    return max(releases), max(users), {name: np.array([int(each[name]) for each in counts]) for name in counts[0]}


# The player of policies for a distributed population


_COUNT_NAMES = ("phases", "actions", "clients", "numbers", "bits", "communication", "active", "best_kept")


def play_population(policy: Policy[Any], world: World, tally: Tally, rounds: int, *, path: str) -> RunTotals:
    """Play phased elimination with the clients of a population."""
    if not isinstance(world, PopulationWorld):
        raise InvalidArgument(
            "env", type(world.environment).__name__, "a Population, because phased elimination asks clients"
        )
    size, needed = world.environment.size, getattr(policy, "clients_needed", 0)
    if size is not None and size < needed:
        allowed = f"at least {needed} users, because every phase asks new clients"
        raise InvalidArgument("env.size", size, allowed)
    means = world.global_means()  # (S, K)
    best, seeds = means.max(axis=1), []
    for place, rng in enumerate(world.streams.generators(policy.execution.noise_stream)):
        asked, own = (
            ClientInquiry(policy, world, place, FastNoise(rng), path),
            Tally(checkpoints=tally.checkpoints, n_seeds=1, n_arms=tally.n_arms),
        )
        _play_seed(policy, asked, own, rounds, best[place] - means[place])
        tally.regret[place], tally.total[place], tally.plays[place] = own.regret[0], own.total[0], own.plays[0]
        tally.rewards[place] = best[place] * rounds - own.total[0]
        seeds.append(asked)
    tally.done, tally.passed = rounds, len(tally.checkpoints)
    counts = {name: np.array([seed.counts[name] for seed in seeds], dtype=np.int64) for name in _COUNT_NAMES}
    return RunTotals(
        releases=int(np.max(counts["phases"])),
        users=int(np.max(counts["clients"])),
        clipped=np.array([seed.clipped for seed in seeds], dtype=np.int64),
        bits_per_user=max(seed.longest[1] for seed in seeds),
        numbers_per_user=max(seed.longest[0] for seed in seeds),
        counts=counts,
    )


def _play_seed(policy: Policy[Any], asked: ClientInquiry, tally: Tally, rounds: int, gaps: Floats) -> None:
    """Play one seed, whose arms lose `gaps` (K,) a round."""
    state = policy.init(asked.arms)
    while tally.done < rounds:
        episode, left = policy.episode(state), rounds - tally.done
        assert isinstance(episode, AssignedArms)
        for arm, plays in zip(episode.arms, episode.plays, strict=True):
            if playing := min(int(plays), rounds - tally.done):
                tally.steady(gaps[arm : arm + 1], playing)
                tally.add_plays(np.array([arm]), playing)
        if episode.plays.sum() <= left:
            state = drive_learning(policy.learn(state, episode), lambda query, now=episode: asked.answer(query, now))  # type: ignore[misc]
            asked.counts.update({"phases": 1, "actions": len(episode.arms)})
        elif episode.clients is None:  # whoever was asked has answered
            asked.count(left, numbers=1, bits=FLOAT_BITS, counted=1)
    asked.counts.update({name: int(number) for name, number in policy._run_counts(state).items()})
    asked.counts["best_kept"] = int(np.any(gaps[state.active] == 0))


class ClientInquiry:
    """The clients of one seed, and counts of requests, messages and clipped values."""

    def __init__(self, policy: Policy[Any], world: PopulationWorld, place: int, source: NoiseSource, path: str) -> None:
        self.policy, self.world, self.place, self.source, self.path = policy, world, place, source, path
        self.arms, self.coins = world.arms[place], StreamRandomness(world.streams).of(place)
        self.counts: Counter[str] = Counter()
        self.clipped, self.longest = 0, (0, 0)  # numbers, bits

    def answer(self, query: SumQuery, episode: AssignedArms) -> Estimate:
        assert isinstance(query.protocol, BatchProtocol)
        if episode.clients is None:
            self.count(int(episode.plays.sum()), numbers=1, bits=FLOAT_BITS, counted=1)
            return query.protocol.release(self._strangers(query, episode), self.source, path=self.path)
        numbers, bits = len(episode.arms), query.protocol.bits_per_user
        counted = bits if query.protocol.trust == "shuffle" else numbers  # shuffled counts are sent bit by bit
        self.count(episode.clients, numbers=numbers, bits=bits, counted=counted)
        arms, each = self.arms[episode.arms], self.path == "messages"
        clients = self.world.clients(self.place, arms, episode.plays, episode.clients, each=each)
        reports = (self.policy.report(query, PlayedRounds(rewards=block), self.coins) for block in clients)
        whole = each or query.protocol.rounds_each_row
        gathered = _client_rows if whole else _mean_row
        statistic = gathered(query.protocol.domain, reports, episode.clients)
        estimate = query.protocol.release(statistic, self.source, path=self.path)
        self.clipped += int(statistic.clipped) + clients.clipped  # known when all clients have come
        return estimate

    def count(self, clients: int, *, numbers: int, bits: int, counted: int) -> None:
        """C(T) = sum over phases of |U_l| N_l [001, (2)], with N_l = `counted`: numbers, or bits of shuffled counts."""
        amounts = {"numbers": numbers, "bits": bits, "communication": counted, "clients": 1}
        self.counts.update({name: clients * amount for name, amount in amounts.items()})
        self.longest = (max(self.longest[0], numbers), max(self.longest[1], bits))

    def _strangers(self, query: SumQuery, episode: AssignedArms) -> Statistic:
        arms, bound = self.arms[episode.arms], self.world.environment.bound
        if self.path == "law":
            ones, beyond = self.world.strangers(self.place, arms, episode.plays)
            counts = np.concatenate([episode.plays - ones, ones])
            rewards, places = np.repeat([-bound, bound], len(arms)), np.concatenate([episode.arms, episode.arms])
            rows = PlayedRounds(rewards=rewards, arms=places, counts=counts)
        else:
            once, beyond, drawn = np.ones(1, dtype=np.int64), 0, list[Floats]()
            for arm, plays in zip(arms, episode.plays, strict=True):
                clients = self.world.clients(self.place, arm[None], once, int(plays), each=True)
                drawn.extend(block[:, 0] for block in clients)
                beyond += clients.clipped
            rows = PlayedRounds(rewards=np.concatenate(drawn), arms=np.repeat(episode.arms, episode.plays))
        statistic = self.policy.report(query, rows, self.coins)
        self.clipped += int(statistic.clipped) + beyond
        return statistic


def _client_rows(domain: Domain, reports: Iterable[Statistic], users: int) -> Statistic:
    return StreamedStatistic(domain, users=users, source=reports, replicates=())


def _mean_row(domain: Domain, reports: Iterable[Statistic], users: int) -> Statistic:
    """Return the mean of all rows, repeated for every client: the sum is the same."""
    total, clipped = np.zeros(domain.dim), np.zeros((), dtype=np.int64)
    for block in reports:
        total, clipped = total + block.values.sum(axis=0), clipped + block.clipped
    return domain.sealed(total[None] / users, clipped=clipped, counts=np.array([users], dtype=np.int64))
