"""The player of policies for a distributed population.

Whole episodes are played at once; clients are drawn when they are asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from bandanna.device.domain import Domain, Estimate, Statistic, StreamedStatistic
from bandanna.device.noise import FastNoise, NoiseSource
from bandanna.errors import InvalidArgument
from bandanna.numeric.rng import StreamRandomness
from bandanna.policies.base import AssignedArms, PlayedRounds, Policy, SumQuery, drive_learning
from bandanna.protocols.base import FLOAT_BITS, BatchProtocol
from bandanna.simulation.environments.base import World
from bandanna.simulation.environments.population import PopulationWorld
from bandanna.simulation.result import RunTotals, Tally
from bandanna.types import Floats

_COUNT_NAMES = ("phases", "actions", "clients", "numbers", "bits", "communication", "active", "best_kept")


def play_population(policy: Policy[Any], world: World, tally: Tally, rounds: int, *, path: str) -> RunTotals:
    """Play `rounds` rounds."""
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
    """Play one seed, whose arms lose `gaps` (K,) a round; an episode that the horizon cuts short is never released."""
    state = policy.init(asked.arms)
    while tally.done < rounds:
        episode, left = policy.episode(state), rounds - tally.done
        assert isinstance(episode, AssignedArms)
        for arm, plays in zip(episode.arms, episode.plays, strict=True):
            if playing := min(int(plays), rounds - tally.done):
                tally.steady(gaps[arm : arm + 1], playing)
                tally.add_plays(np.array([arm]), playing)
        if episode.plays.sum() <= left:
            state = drive_learning(policy.learn(state, episode), lambda ask, now=episode: asked.answer(ask, now))  # type: ignore[misc]
            asked.counts.update({"phases": 1, "actions": len(episode.arms)})
        elif episode.clients is None:  # whoever was asked has answered
            asked.count(left, numbers=1, bits=FLOAT_BITS, counted=1)
    asked.counts.update({name: int(number) for name, number in policy._run_counts(state).items()})
    asked.counts["best_kept"] = int(np.any(gaps[state.active] == 0))


class ClientInquiry:
    """The clients of one seed, with what was asked, sent and clipped so far."""

    def __init__(self, policy: Policy[Any], world: PopulationWorld, place: int, source: NoiseSource, path: str) -> None:
        self.policy, self.world, self.place, self.source, self.path = policy, world, place, source, path
        self.arms, self.coins = world.arms[place], StreamRandomness(world.streams).of(place)
        self.counts: Counter[str] = Counter()
        self.clipped, self.longest = 0, (0, 0)  # numbers, bits

    def answer(self, ask: SumQuery, episode: AssignedArms) -> Estimate:
        """Answer a query by asking the clients of an episode."""
        assert isinstance(ask.protocol, BatchProtocol)
        if episode.clients is None:
            self.count(int(episode.plays.sum()), numbers=1, bits=FLOAT_BITS, counted=1)
            return ask.protocol.release(self._strangers(ask, episode), self.source, path=self.path)
        numbers, bits = len(episode.arms), ask.protocol.bits_per_user
        counted = bits if ask.protocol.trust == "shuffle" else numbers  # shuffled counts are sent bit by bit
        self.count(episode.clients, numbers=numbers, bits=bits, counted=counted)
        arms, each = self.arms[episode.arms], self.path == "messages"
        clients = self.world.clients(self.place, arms, episode.plays, episode.clients, each=each)
        reports = (self.policy.report(ask, PlayedRounds(rewards=block), self.coins) for block in clients)
        whole = each or ask.protocol.rounds_each_row
        gathered = _client_rows if whole else _mean_row
        statistic = gathered(ask.protocol.domain, reports, episode.clients)
        estimate = ask.protocol.release(statistic, self.source, path=self.path)
        self.clipped += int(statistic.clipped) + clients.clipped  # known when all clients have come
        return estimate

    def count(self, clients: int, *, numbers: int, bits: int, counted: int) -> None:
        """C(T) = sum over phases of |U_l| N_l [001, (2)], with N_l = `counted`: numbers, or bits of shuffled counts."""
        amounts = {"numbers": numbers, "bits": bits, "communication": counted, "clients": 1}
        self.counts.update({name: clients * amount for name, amount in amounts.items()})
        self.longest = (max(self.longest[0], numbers), max(self.longest[1], bits))

    def _strangers(self, ask: SumQuery, episode: AssignedArms) -> Statistic:
        """Ask a fresh client in every round; path="law" draws how many of them have either reward."""
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
        statistic = self.policy.report(ask, rows, self.coins)
        self.clipped += int(statistic.clipped) + beyond
        return statistic


def _client_rows(domain: Domain, reports: Iterable[Statistic], users: int) -> Statistic:
    """Return a row for every client, a block at a time."""
    return StreamedStatistic(domain, users=users, source=reports, replicates=())


def _mean_row(domain: Domain, reports: Iterable[Statistic], users: int) -> Statistic:
    """Return the mean of all rows, repeated for every client: the sum is the same."""
    total, clipped = np.zeros(domain.dim), np.zeros((), dtype=np.int64)
    for block in reports:
        total, clipped = total + block.values.sum(axis=0), clipped + block.clipped
    return domain.sealed(total[None] / users, clipped=clipped, counts=np.array([users], dtype=np.int64))
