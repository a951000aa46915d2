"""Replay: a policy runs on logged events as if it had been there, and learns by its real protocol.

Rejection (Li, Chu, Langford and Schapire 2010): where the policy chooses the arm that was given, its reward is known;
all other events are rejected. Arms that were given more often than others are rejected in proportion, so that what is
accepted has the law of a run with the policy.

**Slots are fixed.** A batch counts logged events, not accepted ones, and whoever is rejected reports nothing: a report
of zeros, noised in full, as of a user who did not answer. Otherwise one person more or less who is accepted would move
everybody after them into other batches, and a person would be in all of them instead of one.

Weighted: nobody is rejected. The policy learns from every logged row - what was given, and what came of it - and is
valued by the weight pi / p that it gives to the logged arm: progressive validation of what it has learned so far.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from bandanna.accounting.guarantee import Guarantee
from bandanna.core import require
from bandanna.core.arrays import Bools, Floats, Ints
from bandanna.core.calling import by_name
from bandanna.core.streams import Streams
from bandanna.errors import ClippingWarning, InvalidArgument
from bandanna.logs.coins import SlotCoins
from bandanna.logs.log import Log
from bandanna.logs.replayed import Replay
from bandanna.logs.showing import Shown, chances_of, check_fits, shown_to
from bandanna.mechanisms.sources import FastNoise
from bandanna.policies.base import Assigned, Frozen, Played, Policy, Until
from bandanna.simulation.players.answers import Answers

_MOST_SEEDS = 100_000
_METHODS = ("rejection", "weighted")


@by_name("bd.replay")
def replay(
    policy: Policy[Any],
    log: Log,
    *,
    n_seeds: int = 1,
    seed: int = 0,
    method: str = "rejection",
    path: str = "law",
    horizon: int | None = None,
    shuffled: bool = True,
) -> Replay:
    """Run `policy` on logged events with seeds seed, ..., seed + n_seeds - 1: what it earns, on average.

    method    "rejection", which is unbiased, or "weighted", which uses every event
    horizon   logged events to use: the policy's horizon by default, at most as many as there are
    shuffled  every seed has an order of events of its own; False: as they were logged
    path      as in `bd.simulate`: noise is seeded and protects nobody, and what is returned is computed from raw rows.
              A private estimate of a policy's value is `bd.ope`'s
    """
    require.instance("policy", policy, Policy, "a Policy: bd.LinTS(...), bd.make(...), or your own")
    if not isinstance(log, Log):
        raise InvalidArgument("log", type(log).__name__, "a bd.Log: bd.Log.from_frame(...)")
    require.one_of("method", method, _METHODS)
    require.one_of("path", path, ("law", "messages"))
    check_fits(policy, log)
    events = _events(policy, log, horizon)
    began = time.perf_counter()
    first = require.whole("seed", seed, least=0, most=require.SEEDS)
    seeds = range(first, first + require.whole("n_seeds", n_seeds, most=_MOST_SEEDS))
    runs = [_Run(policy, log, each, method, path, events, require.flag("shuffled", shuffled)) for each in seeds]
    for run in runs:
        run.go()
    clipped = np.array([int(run.answers.clipped) for run in runs], dtype=np.int64)
    reports = sum(run.reports for run in runs)
    if reports and (said := ClippingWarning.of(int(clipped.sum()), reports)):
        warnings.warn(said, stacklevel=3)
    return Replay(
        method=method,
        rewards=np.array([run.earned for run in runs]),
        weight=np.array([run.weight for run in runs]),
        events=events,
        releases=max(run.releases for run in runs),
        clipped=clipped,
        guarantee=_promised(policy, any(run.counted for run in runs)),
        seconds=time.perf_counter() - began,
        seeds=tuple(seeds),
    )


def _events(policy: Policy[Any], log: Log, horizon: int | None) -> int:
    wanted = policy.horizon if horizon is None else require.whole("horizon", horizon)
    if wanted is None:
        return len(log)
    if wanted > len(log):
        allowed = f"at most {len(log):,}, the events of the log: a round of a replay is a logged event"
        raise InvalidArgument("horizon", wanted, allowed)
    if policy.horizon is not None and wanted > policy.horizon:
        raise InvalidArgument("horizon", wanted, f"at most the policy's, {policy.horizon}")
    return wanted


class _Run:
    """One seed: its order of events, its policy's state, and the desk of whoever runs it."""

    def __init__(
        self, policy: Policy[Any], log: Log, seed: int, method: str, path: str, events: int, shuffled: bool
    ) -> None:
        own = Streams([seed])
        order = own.generators("order")[0].permutation(len(log)) if shuffled else np.arange(len(log))
        self.policy, self.log, self.seed, self.method = policy, log.at(order[:events]), seed, method
        self.keeping = _kept(policy, self.log, own)
        low, high = self.range = getattr(policy, "reward_range", (0.0, 1.0))
        self.told = low + (high - low) * self.log.scaled_rewards()  # rewards as the policy takes them
        names = policy.noise_stream, policy.stream_noise or policy.noise_stream
        noise, stream = (FastNoise(own.generators(name)[0]) for name in names)
        self.coins = SlotCoins(seed, 0)
        self.answers = Answers(policy, noise, self.coins, path, stream=stream)
        self.events, self.done, self.episodes = events, 0, 0
        self.releases, self.reports, self.earned, self.weight = 0, 0, 0.0, 0.0
        self.counted = False  # accepted events, instead of slots
        self.state = policy.init(_arms(policy, log))

    def go(self) -> None:
        """Freeze, collect, release, learn."""
        while self.done < self.events and (episode := self.policy.episode(self.state)) is not None:
            self.coins = self.answers.coins = SlotCoins(self.seed, self.episodes)
            self.episodes += 1
            if isinstance(episode, Frozen) and hasattr(self.policy, "dim"):
                rows, ended = self._slots(episode)
            else:
                rows, ended = self._accepted(episode)
                self.counted = True
            if ended and episode.released:
                self.state = self.answers.learn(self.state, episode, rows)
                self.releases, self.reports = self.releases + 1, self.reports + rows.rewards.shape[-1]

    def _slots(self, episode: Frozen) -> tuple[Played, bool]:
        """A slot for every event: who was not given the arm that the policy chooses reports nothing."""
        users = min(episode.users, self.events - self.done)
        shown = shown_to(self.policy, self.log, slice(self.done, self.done + users))
        snapshot, given = self.policy.publish(self.state), self.log.arms[self.done : self.done + users]
        choice = shown.act(self.policy, snapshot, self.coins)
        if self.method == "weighted":
            chances = chances_of(self.policy, snapshot, shown, given, choice)
            self._note(chances / self.log.propensities[self.done : self.done + users])
            accepted: Bools = np.ones(users, dtype=bool)
        else:
            accepted = (choice.actions == given) & self.keeping[self.done : self.done + users]
            self._note(accepted.astype(float))
        arms = given if self.method == "weighted" else choice.actions
        rows = self._played(shown, arms, accepted, choice.groups)
        self.done += users
        return rows, users == episode.users

    def _played(self, shown: Shown, arms: Ints, accepted: Bools, groups: Ints | None) -> Played:
        """Rows as an agent has them: of whoever did not answer, features of 0 and the reward nearest to 0."""
        part = slice(self.done, self.done + len(arms))
        low, high = self.range
        nothing = float(min(max(0.0, low), high))
        features = np.take_along_axis(shown.contexts, arms[:, None, None], axis=1)[:, 0]
        later = self.policy.keeps or self.policy.asks_again  # rows that are kept say it by zeros alone
        return Played(
            rewards=np.where(accepted, self.told[part], nothing),
            features=np.where(accepted[:, None], features, 0.0),
            arms=arms,
            groups=groups,
            answered=None if later or accepted.all() else accepted,
        )

    def _accepted(self, episode: Any) -> tuple[Played, bool]:
        """Where arms and features are public, and rewards alone are protected, a round is an accepted event."""
        if self.method == "weighted" or getattr(episode, "clients", None) is not None:
            allowed = "a policy whose devices choose by contexts, for method='weighted'; and none that asks clients"
            raise InvalidArgument("policy", type(self.policy).__name__, allowed)
        parts: list[Played] = []
        wanted = episode.users
        while self.done < self.events and len(parts) < wanted:
            if (row := self._one(episode, len(parts))) is None:
                continue
            parts.append(row)
            if isinstance(episode, Until):
                assert row.features is not None
                ended = self.policy.crossing(self.state, row.features) is not None
                self.state = self.policy.passed(self.state, row.features)
                if ended:
                    return Played.joined(parts), True
        whole = len(parts) == wanted and not isinstance(episode, Until)
        return (Played.joined(parts) if parts else Played(rewards=np.zeros(0))), whole

    def _one(self, episode: Any, place: int) -> Played | None:
        """The next event, if it is accepted."""
        here = self.done
        shown, given = shown_to(self.policy, self.log, slice(here, here + 1)), self.log.arms[here : here + 1]
        if isinstance(episode, Assigned):
            arms, groups = episode.arms_at(np.array([place])), None
        else:
            choice = shown.act(self.policy, self.policy.publish(self.state), self.coins)
            arms, groups = choice.actions, choice.groups
        accepted: Bools = (arms == given) & self.keeping[here : here + 1]
        self._note(accepted.astype(float))
        row = self._played(shown, arms, accepted, groups) if accepted[0] else None
        self.done += 1
        return row

    def _note(self, weights: Floats) -> None:
        """What the events from here on are worth, by so much weight each."""
        self.earned += float(weights @ self.log.rewards[self.done : self.done + len(weights)])
        self.weight += float(weights.sum())


def _promised(policy: Policy[Any], counted: bool) -> Guarantee:
    """The policy's; where accepted events were counted, for people of whom the reward alone is private."""
    stated = policy.guarantee
    if not counted or not policy.privacy.noisy:
        return stated
    public = ("everybody", "which arm everybody in the log was given, and with which probability")
    return replace(stated, adjacency="replacement of one user's reward", observers=(*stated.observers, public))


def _kept(policy: Policy[Any], log: Log, streams: Streams) -> Bools:
    """Which events may be accepted at all, (n,): floor / p of them, so that arms given often count no more."""
    floor = log.floor
    if floor is None:
        floor = float(log.propensities.min())
        if policy.privacy.noisy and not np.all(log.propensities == floor):
            allowed = (
                "the least probability of any arm, public (floor=0.1, --floor 0.1): found in the log, it would tell"
            )
            allowed += " of somebody in it"
            raise InvalidArgument("log.floor", None, allowed)
    return np.asarray(streams.uniform("acceptance", (len(log),))[0] * log.propensities < floor * (1 + 1e-9))


def _arms(policy: Policy[Any], log: Log) -> Floats | None:
    """Features of arms that stay, for policies that plan with them."""
    if getattr(policy, "n_arms", None) is not None:
        return np.zeros((log.n_arms, int(getattr(policy, "dim", 0))))
    return log.contexts[0] if not log.of_users and np.all(log.contexts == log.contexts[:1]) else None
