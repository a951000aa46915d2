"""What hostile clients can do to a shuffled bandit, by who draws the coins.

`python -m reproductions.hostile_clients 100` runs 100 seeds.

One client in 200 is hostile, knows theta, and sends in every batch the counts that hurt most among some that push theta
away from the truth: at the ends of what the mixer lets in. Everybody else is honest. Regret stands beside that of the
same seeds without them.

    device    counts up to s range + b: what a client chooses can look like coins
    seven     counts within seven standard deviations of some statistic's; a yardstick, which is not a setting
    checked   counts that honest devices send with probability above 2^-60 (proofs.md A.9)
    mixer     counts up to s range: the mixer draws the coins
    report    mixer's coins, and a report that some features and reward have: one person's weight
    reward    mixer's coins, and true features with the reward 0

`measure` gives regrets where other benchmarks have seconds.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import bandanna as bd
from bandanna.device.domain import Estimate
from bandanna.device.linear_report import LinearReport
from bandanna.device.noise import ReplicatedNoise
from bandanna.numeric.rng import StreamRandomness, Streams
from bandanna.policies.base import FixedLength, RunningSumPolicy, SumQuery, drive_learning
from bandanna.protocols.shuffle_binomial import ShuffleBinomial
from bandanna.simulation.environments.base import read_block
from bandanna.simulation.environments.linear import LinearContextual, LinearWorld
from bandanna.types import Floats, Ints

DIM, ARMS, ROUNDS, SHARE = 5, 20, 20_000, 0.005
BATCHES, NAMES = (200, 2000), ("LinTS-SDP", "LinUCB-SDP-Vec")
BUDGET = bd.privacy.ApproxDP(epsilon=1.0, delta=1e-5)
COINS = {"device": "device", "seven": "device", "checked": "checked", "mixer": "mixer"}
COINS |= {"report": "mixer", "reward": "mixer"}
PUSHES = ("against theta", "against theta, small matrix", "across theta", "across theta, small matrix")
_BLOCK = 2000  # users whose contexts are held at once


@dataclass(frozen=True, kw_only=True)
class Attack:
    """What hostile clients send: `limits` as above, and whereto they push."""

    limits: str
    push: str = PUSHES[0]

    def counts(self, protocol: ShuffleBinomial, theta: Floats, honest: Floats) -> Ints:
        """(S, h, dim) from theta (S, d) and what they would report as honest people (S, h, dim), of reward 0."""
        noise, domain = protocol.noise, protocol.domain
        assert isinstance(domain, LinearReport)
        middle = 0.0 if protocol.coins == "mixer" else noise.trials * noise.probability
        if self.limits == "reward":
            return np.rint(noise.scale * (honest - domain.lower) + middle).astype(np.int64)
        if self.limits == "report":
            return np.rint(noise.scale * (self._report(domain, theta, honest) - domain.lower)).astype(np.int64)
        low, high = (np.broadcast_to(end, domain.dim) for end in self._ends(protocol))
        sent = np.rint(noise.scale * (honest - domain.lower) + middle)
        wanted = self._direction(theta)[:, None, :]  # (S, 1, d)
        sent[..., :DIM] = np.where(wanted > 0, high[:DIM], low[:DIM])
        if "small" in self.push:
            sent[..., DIM : 2 * DIM] = low[DIM : 2 * DIM]
        return sent.astype(np.int64)

    def _direction(self, theta: Floats) -> Floats:
        """Against theta; or against it but for its constant, which is raised: then no sum of rewards looks low."""
        pushed = -theta
        if "across" in self.push:
            pushed[:, -1] = 1.0
        return np.asarray(pushed)

    def _report(self, domain: LinearReport, theta: Floats, honest: Floats) -> Floats:
        """The features of the best arm that there could be, and the least reward of the domain."""
        unit = theta / np.linalg.norm(theta, axis=-1, keepdims=True)
        one = domain.pack(unit, np.full(len(unit), -domain.reward_bound))
        return np.broadcast_to(one[:, None, :], honest.shape)

    def _ends(self, protocol: ShuffleBinomial) -> tuple[Any, Any]:
        """The least and the largest count that gets in."""
        mixer, noise = protocol.mixer, protocol.noise
        if self.limits == "checked":
            return mixer.likely
        if self.limits == "seven":
            mean, wide = noise.trials / 2, 3.5 * math.sqrt(noise.trials)
            return math.ceil(mean - wide), mixer.encoded + math.floor(mean + wide)
        return 0, mixer.largest


def regrets(name: str, batch: int, coins: str, seeds: int, attack: Attack | None = None) -> Floats:
    """Of every seed, (S,), over all rounds: devices, mixer and analyzer, with hostile messages among the others."""
    privacy = bd.shuffle(noise=coins, budget=BUDGET)
    policy = bd.make(name, dim=DIM, horizon=ROUNDS, privacy=privacy, batch=batch)
    assert isinstance(policy, RunningSumPolicy)
    streams = Streams(range(seeds))
    world = LinearContextual(dim=DIM, n_arms=ARMS).begin(streams)
    source, choosing = ReplicatedNoise(streams), StreamRandomness(streams)
    state, done, regret = policy.init(replicates=(seeds,)), 0, np.zeros(seeds)
    while done < ROUNDS:
        episode, snapshot, features, rewards = policy.episode(state), policy.publish(state), [], []
        assert isinstance(episode, FixedLength)
        for begin in range(0, episode.users, _BLOCK):
            contexts, means = read_block(world, done + begin, min(_BLOCK, episode.users - begin))
            actions = policy.act(snapshot, contexts, choosing).actions
            chosen = np.take_along_axis(means, actions[..., None], axis=2)[..., 0]
            regret += np.sum(means.max(axis=2) - chosen, axis=1)
            features.append(np.take_along_axis(contexts, actions[..., None, None], axis=2)[:, :, 0])
            rewards.append(world.rewards(chosen))
        done += episode.users
        told = np.concatenate(features, axis=1), np.concatenate(rewards, axis=1)
        if episode.released:
            state = drive_learning(policy.learn(state, episode), partial(answer, policy, world, *told, source, attack))
    return regret


def answer(
    policy: RunningSumPolicy[Any],
    world: LinearWorld,
    features: Floats,
    rewards: Floats,
    source: ReplicatedNoise,
    attack: Attack | None,
    query: SumQuery,
) -> Estimate:
    """A batch of messages, of which the first are hostile."""
    protocol = query.protocol
    assert isinstance(protocol, ShuffleBinomial)
    messages = protocol.device.message(policy._form_statistic(features, rewards), source)
    if attack is not None:
        hostile = max(1, round(SHARE * rewards.shape[1]))
        honest = policy._form_statistic(features[:, :hostile], np.zeros_like(rewards[:, :hostile])).values
        messages[:, :hostile] = attack.counts(protocol, world.theta, honest)
    return protocol.release_messages(protocol.mixer.check(messages), source)


@dataclass(frozen=True, kw_only=True)
class Row:
    """Regret with hostile clients over that without, and the standard error of the ratio over seeds."""

    name: str
    batch: int
    limits: str
    push: str
    hostile: float
    honest: float
    error: float

    @property
    def ratio(self) -> float:
        """How many times larger."""
        return self.hostile / self.honest


def worst(name: str, batch: int, limits: str, seeds: int, honest: Floats) -> Row:
    """The most harmful of the attacks, on the same seeds for all."""
    pushes = PUSHES if limits not in ("report", "reward") else ("",)
    found = {push: regrets(name, batch, COINS[limits], seeds, Attack(limits=limits, push=push)) for push in pushes}
    push = max(found, key=lambda each: found[each].mean())
    hostile, ratio = found[push], found[push].mean() / honest.mean()
    error = np.std(hostile - ratio * honest, ddof=1) / math.sqrt(seeds) / honest.mean()  # seeds in pairs
    return Row(
        name=name, batch=batch, limits=limits, push=push, hostile=hostile.mean(), honest=honest.mean(), error=error
    )


def rows(seeds: int) -> list[Row]:
    """Every policy, batch size and limit."""
    made = []
    for name in NAMES:
        for batch in BATCHES:
            honest = {coins: regrets(name, batch, coins, seeds) for coins in ("device", "checked", "mixer")}
            made += [worst(name, batch, limits, seeds, honest[coins]) for limits, coins in COINS.items()]
    return made


if __name__ == "__main__":
    table = Table(title=f"Regret with 0.5 % hostile clients, T = {ROUNDS:,}, (1, 1e-5), d = {DIM}")
    for column in ("policy", "B", "limits", "honest", "hostile", "ratio", "s.e.", "worst push"):
        table.add_column(column, no_wrap=True)
    for row in rows(int(sys.argv[1]) if len(sys.argv) > 1 else 20):
        figures = (f"{row.honest:.0f}", f"{row.hostile:.0f}", f"{row.ratio:.2f}", f"{row.error:.2f}")
        table.add_row(row.name, str(row.batch), row.limits, *figures, row.push)
    Console(width=120).print(table)
