"""What an agent asks of its policy: arms, noise, calibrated protocols, and whether the budget pays for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

from bandanna.accounting import parallel
from bandanna.accounting.ledger import Ledger
from bandanna.agent.contexts import Floats
from bandanna.agent.plan import Policy, channel_of
from bandanna.core import require
from bandanna.core.coins import NumberedCoins, SecureCoins
from bandanna.core.sizes import Sizes
from bandanna.errors import BudgetExceeded, InvalidStatistic
from bandanna.mechanisms.sources import FastNoise, NoiseSource, SecureNoise
from bandanna.policies.linear.anytime import Anytime
from bandanna.policies.linear.linucb import Snapshot
from bandanna.protocols.channel import Channel
from bandanna.protocols.clear import Clear
from bandanna.protocols.concurrent_shuffle import ConcurrentShuffle
from bandanna.protocols.shuffle_binomial import ShuffleBinomial

TASK = "agent"  # the agent's releases in its ledger


def choose(
    policy: Policy, snapshot: Snapshot, sets: Sequence[Floats], *, seed: int | None, number: int
) -> list[tuple[int, float]]:
    """The action for each set of arms (K, d) and its probability, neighbours with as many arms at a time.

    Coins come from the operating system; in a test from its seed and the decisions' numbers, `number` being the first.
    """
    chosen: list[tuple[int, float]] = []
    for _, alike in groupby(sets, key=len):
        coins = SecureCoins() if seed is None else NumberedCoins(seed, number + len(chosen))
        choice = policy.act(snapshot, np.stack(list(alike)), coins)  # (users, K, d)
        chosen += zip(choice.actions.tolist(), choice.probabilities.tolist(), strict=True)
    return chosen


def noise_for(policy: Policy, seed: int | None) -> tuple[NoiseSource, np.random.Generator | None]:
    """Secure noise, whose extra must be there from the start; or seeded noise and its generator."""
    if seed is not None:
        rng = np.random.Generator(np.random.PCG64(seed))
        return FastNoise(rng), rng
    source = SecureNoise()
    protocols = channel_of(policy, 0).protocols.values()
    if not all(isinstance(protocol, Clear | ShuffleBinomial | ConcurrentShuffle) for protocol in protocols):
        source.discrete_gaussian(std=1.0, size=1)  # raises MissingExtra now, not after the first batch
    return source, None


def affordable(policy: Policy, ledger: Ledger) -> None:
    """Refuse a policy whose noise is not enough for its own budget, such as a paper's printed constants."""
    channel = channel_of(policy, 0)
    counts = channel.sizes.counts()
    events = Counter({protocol.event: counts[size] for size, protocol in channel.protocols.items()})
    if not parallel.within({TASK: events}, ledger.participations, ledger.budget):
        raise BudgetExceeded(
            f"the policy's noise is not proven to keep {ledger.budget} for {ledger.participations} participations: "
            'use calibration="tight", and batches of one size for returning users'
        )


def release_seconds(policy: Policy, *, secure: bool) -> float:
    """The estimated time of the longest release of the phases that are calibrated."""
    protocols = [pair for channel in _channels(policy).values() for pair in channel.protocols.items()]
    return max(protocol.draws(size).seconds(secure=secure) for size, protocol in protocols)


def reward_of(reward: Any) -> float:
    """A finite number; True and False are 1 and 0."""
    if isinstance(reward, bool | np.bool_):
        return float(reward)
    return require.finite("reward", reward, "a finite number; the slot is still open", error=InvalidStatistic)


def calibrations(policy: Policy) -> dict[int, tuple[Channel, list[int]]]:
    """The calibrated protocols in use, by phase: a search elsewhere might find others, of the same budget.

    The batch sizes stand beside the channel as runs: size, how often, size, how often, ...
    """
    return {
        phase: (replace(channel, sizes=Sizes()), [n for run in channel.sizes.runs for n in run])
        for phase, channel in _channels(policy).items()
    }


def calibrated(policy: Policy) -> int:
    """How many phases have their protocols."""
    return len(_channels(policy))


def _channels(policy: Policy) -> dict[int, Channel]:
    """By phase, of those that are calibrated."""
    phases = policy._phases if isinstance(policy, Anytime) else {0: policy}
    return {phase: one.channel for phase, one in phases.items() if "channel" in vars(one)}


def recalibrate(policy: Policy, saved: dict[int, tuple[Channel, list[int]]]) -> None:
    """Make a policy use these protocols, where it has none yet; what they guarantee is computed from them anew."""
    for phase, (channel, runs) in saved.items():
        sizes = Sizes(tuple(zip(runs[::2], runs[1::2], strict=True)))
        owner = policy.phase(phase) if isinstance(policy, Anytime) else policy
        if "channel" in vars(owner):
            continue
        vars(owner)["channel"] = replace(channel, sizes=sizes)  # where its cached property looks first
