"""Runs phased elimination over a population: a phase at a time, at a cost of its clients, not of its rounds.

A client's rewards of an action have one mean while the phase lasts, so their sum is one binomial number; the sum of the
clients' reports is all that the clear, central and local protocols need, and the binomial one rounds each report.
Seeds have different actions left, so each is run by itself, from streams of its own.

Counted for every seed: released phases, actions played in them (sum of N_l), clients who answered, real numbers and
bits that they sent, communication C(T) = sum of |U_l| N_l [001, (2)], actions left, and whether the best is among them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bandanna.core.arriving import Arriving
from bandanna.core.domain import Box, Statistic
from bandanna.environments.base import World
from bandanna.environments.population import ClientBlocks, PopulationWorld
from bandanna.errors import InvalidArgument
from bandanna.mechanisms.sources import FastNoise
from bandanna.policies.phased_elimination import Phase, PhasedElimination, State
from bandanna.protocols.shuffle_binomial import ShuffleBinomial
from bandanna.simulation.run import Run
from bandanna.simulation.tally import Tally

Floats = NDArray[np.float64]

_COUNTED = ("phases", "actions", "clients", "numbers", "bits", "communication", "active", "best_kept")


@dataclass(kw_only=True)
class _Seed:
    """One run: its tally, what it communicated, and the largest report."""

    tally: Tally
    counts: Counter[str] = field(default_factory=Counter)
    clipped: int = 0
    longest: tuple[int, int] = (0, 0)  # numbers, bits


def run(policy: PhasedElimination, world: World, tally: Tally, rounds: int, *, path: str) -> Run:
    """Play `rounds` rounds."""
    if not isinstance(world, PopulationWorld):
        raise InvalidArgument("env", world.environment, "a Population: phased elimination asks clients")
    size, needed = world.environment.size, policy.clients_needed
    if size is not None and size < needed:
        allowed = f"at least {needed} users: every phase of the schedule asks clients who were never asked"
        raise InvalidArgument("env.size", size, allowed)
    means = world.global_means()  # (S, K)
    seeds = [_run_seed(policy, world, index, means[index], tally, rounds, path) for index in range(tally.n_seeds)]
    for index, seed in enumerate(seeds):
        tally.regret[index], tally.total[index] = seed.tally.regret[0], seed.tally.total[0]
        tally.rewards[index] = np.max(means[index]) * rounds - seed.tally.total[0]
    tally.done, tally.passed = rounds, len(tally.checkpoints)
    counts = {name: np.array([seed.counts[name] for seed in seeds], dtype=np.int64) for name in _COUNTED}
    return Run(
        guarantee=policy.guarantee,
        releases=int(np.max(counts["phases"])),
        users=int(np.max(counts["clients"])),
        clipped=np.array([seed.clipped for seed in seeds], dtype=np.int64),
        repairs=np.zeros(tally.n_seeds, dtype=np.int64),
        bits_per_user=max(seed.longest[1] for seed in seeds),
        numbers_per_user=max(seed.longest[0] for seed in seeds),
        counts=counts,
    )


def _run_seed(
    policy: PhasedElimination, world: PopulationWorld, index: int, means: Floats, tally: Tally, rounds: int, path: str
) -> _Seed:
    seed = _Seed(tally=Tally(checkpoints=tally.checkpoints, n_seeds=1))
    source = FastNoise(world.streams.generators("noise")[index])
    gaps = np.max(means) - means  # (K,)
    state = policy.begin(world.arms[index])
    while seed.tally.done < rounds:
        phase, began = policy.plan(state), seed.tally.done
        complete = began + phase.length <= rounds
        for place, plays in zip(phase.support, phase.plays, strict=True):
            playing = min(int(plays), rounds - seed.tally.done)
            if playing:
                seed.tally.steady(gaps[place : place + 1], playing)
        if complete:  # a phase that the horizon cuts short is never released
            averages = _collect(policy, world, index, state, phase, seed, source, path)
            state = policy.learn(state, phase, averages)
            seed.counts.update({"phases": 1, "actions": len(phase.support)})
        elif policy.per_round:  # whoever was asked has answered
            _count(seed, rounds - began, numbers=1, bits=64, communicated=1)
    seed.counts["active"] = len(state.active)
    seed.counts["best_kept"] = int(np.any(gaps[state.active] == 0))
    return seed


def _collect(
    policy: PhasedElimination,
    world: PopulationWorld,
    index: int,
    state: State,
    phase: Phase,
    seed: _Seed,
    source: FastNoise,
    path: str,
) -> Floats:
    """The released averages of a phase, (s,)."""
    arms, s = state.arms[phase.support], len(phase.support)
    if policy.per_round:
        _count(seed, phase.clients, numbers=1, bits=64, communicated=1)
        if path == "messages":
            return _one_by_one(world, index, arms, phase, seed)
        averages, clipped = world.strangers(index, arms, phase.plays)
        seed.clipped += clipped
        return averages
    protocol = policy.protocol(phase)
    shuffled = isinstance(protocol, ShuffleBinomial)
    _count(
        seed,
        phase.clients,
        numbers=s,
        bits=protocol.bits_per_user,
        communicated=protocol.bits_per_user if shuffled else s,
    )
    clients = world.clients(index, arms, phase.plays, phase.clients, each=path == "messages")
    whole = path == "messages" or shuffled
    statistic = _rows(policy.domain(phase), clients) if whole else _mean(policy.domain(phase), clients)
    averages = np.asarray(protocol.release(statistic, source, path=path).total / phase.clients)
    seed.clipped += int(statistic.clipped) + clients.clipped  # known when all clients have come
    return averages


def _count(seed: _Seed, clients: int, *, numbers: int, bits: int, communicated: int) -> None:
    """C(T) = sum over phases of |U_l| N_l [001, (2)], N_l in real numbers, or in bits where bits are sent."""
    amounts = {"numbers": numbers, "bits": bits, "communication": communicated, "clients": 1}
    seed.counts.update({name: clients * amount for name, amount in amounts.items()})
    seed.longest = (max(seed.longest[0], numbers), max(seed.longest[1], bits))


def _rows(domain: Box, clients: ClientBlocks) -> Statistic:
    """A row for every client, a block at a time."""
    return Arriving(domain, users=clients.count, source=map(domain.admit, clients), replicates=())


def _mean(domain: Box, clients: ClientBlocks) -> Statistic:
    """One row, the mean of all, shared by all: the same sum."""
    total, clipped, inside = np.zeros(domain.dim), 0, clients.population.bound <= domain.high
    for block in clients:
        rows = block if inside else np.clip(block, domain.low, domain.high)
        clipped += 0 if inside else int(np.count_nonzero(np.any(np.abs(rows - block) > 1e-9, axis=1)))
        total += np.sum(rows, axis=0)
    counts = np.array([clients.count], dtype=np.int64)
    return domain.sealed(total[None] / clients.count, clipped=np.asarray(clipped, dtype=np.int64), counts=counts)


def _one_by_one(world: PopulationWorld, index: int, arms: Floats, phase: Phase, seed: _Seed) -> Floats:
    """Every round's client by itself."""
    averages = []
    for arm, plays in zip(arms, phase.plays, strict=True):
        clients = world.clients(index, arm[None], np.ones(1, dtype=np.int64), int(plays), each=True)
        averages.append(float(np.mean(np.concatenate(list(clients)))))
        seed.clipped += clients.clipped
    return np.array(averages)
