"""The only place where something is released and learned: a policy's asks, answered by whoever runs it.

    simulator    ask.protocol.release(reported(policy, ask, played, coins), source, path=path)
    agent        the same, inside ledger.release(batch=(episode, step))
    deployment   what the shuffler's batch was analyzed to, inside the ledger's transaction

After a crash in the middle the generator is run again from the stored state, and the ledger replays what was released.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from bandanna.core.coins import Coins
from bandanna.core.domain import Ball, Statistic
from bandanna.core.estimate import Estimate
from bandanna.errors import InvalidArgument, InvalidStatistic, Summary
from bandanna.mechanisms.sources import NoiseSource
from bandanna.policies.base import Ask, Episode, Frozen, Played, Policy
from bandanna.protocols.base import BatchProtocol, Protocol, StreamProtocol

State = TypeVar("State")


def close(steps: Generator[Ask, Estimate, State], answer: Callable[[Ask], Estimate]) -> State:
    """Answer the asks of `policy.learn(state, episode)` in order; the next state."""
    try:
        ask = next(steps)
        while True:
            ask = steps.send(answer(ask))
    except StopIteration as learned:
        return learned.value  # type: ignore[no-any-return]


def entry_of(ask: Ask, *, task: str, batch: str) -> tuple[str, str, str | None]:
    """Task, batch and alternative of an ask in a ledger, which composes tasks: a person is in one batch of each.

    All that a batch's users are asked is one entry, at the composed price; users of different arms are different
    people. About rows that are forgotten after the answer a person is asked once. About others a person is asked every
    time, in one group: groups are alternatives.
    """
    if ask.of == "episode":
        return task, batch if ask.arm is None else f"{batch}.{ask.step}", None
    return (f"{task}, {ask.of}", batch, None) if ask.last else (f"{task}, kept", f"{batch}.{ask.step}", ask.of)


def check_whole(episode: Episode, played: Played) -> None:
    """Refuse a batch that was closed early or late: how many answer for it is public, who did not has a row too."""
    if isinstance(episode, Frozen) and (rows := played.rewards.shape[-1]) != episode.users:
        raise InvalidArgument("rows", rows, f"{episode.users}, as many as the episode has users: batches are public")


def reported(policy: Policy[Any], ask: Ask, rows: Played, coins: Coins) -> Statistic:
    """What the devices of these rows tell: one report each, whatever is in it.

    How many are in a batch is public, and told with every answer: a report that is left out would tell by that.
    """
    statistic = policy.report(ask, rows, coins)
    users = rows.counts is None and statistic.counts is None and rows.rewards.shape[statistic.values.ndim - 2]
    if users is not False and statistic.users != users:
        raise InvalidStatistic(
            "reports", Summary(statistic.users), f"{users}, one of every user: who tells nothing reports 0"
        )
    return statistic


def check_group(protocol: Protocol) -> None:
    """Refuse sums over a group that would tell who is in it, or how many are.

    A person who is in one group in one world and in another in the neighbouring one moves both by a report: |x| <=
    Delta_2 / sqrt 2 makes that no dearer than a replacement (`accounting.parallel`). A server that is not trusted, and
    noise that belongs to a number of users, would know the group's size.
    """
    domain = protocol.domain
    if protocol.trust == "none":
        return
    extremes = np.maximum(np.abs(domain.lower), np.abs(domain.upper))
    longest = domain.bound if isinstance(domain, Ball) else float(np.linalg.norm(extremes))
    if not protocol.of_groups or longest * math.sqrt(2) > domain.sensitivity * (1 + 1e-9):
        allowed = "CentralGaussian on reports in a ball around 0: who is in a group is private"
        raise InvalidArgument("ask.protocol", f"{protocol.name} of {domain}", allowed)


@dataclass(frozen=True, kw_only=True)
class Desk:
    """What a runner holds between asks and shows nobody: states of stream protocols, and rows for later asks."""

    streams: Mapping[int, Any] = field(default_factory=dict)
    kept: Mapping[str, tuple[Played, ...]] = field(default_factory=dict)

    def keep(self, names: tuple[str, ...], played: Played) -> Desk:
        """The rows of an episode that has ended, under the names that their devices chose."""
        if not names:
            return self
        if played.rewards.ndim != 1:
            raise InvalidArgument("rows", played.rewards.shape, "those of one run: a desk does not tell runs apart")
        kept = dict(self.kept)
        for number, name in enumerate(names):
            mine = played if played.groups is None else played.at(played.groups == number)
            if (played.groups is not None or number == 0) and mine.rewards.shape[-1]:
                kept[name] = (*kept.get(name, ()), mine)
        return replace(self, kept=kept)

    def rows(self, ask: Ask, played: Played) -> Played:
        """Whose reports are asked for; nobody's are those of one who did not answer."""
        if ask.of == "episode":
            return played if ask.arm is None else played.of_arm(ask.arm)
        if held := self.kept.get(ask.of, ()):
            return Played.joined(held)
        features = None if played.features is None else np.zeros_like(played.features[..., :1, :])
        return Played(rewards=np.zeros(1), features=features)

    def release(self, ask: Ask, statistic: Statistic, source: NoiseSource, *, path: str) -> tuple[Desk, Estimate]:
        """One release; a stream goes on from where it was."""
        if ask.of != "episode":
            check_group(ask.protocol)
        kept = {name: rows for name, rows in self.kept.items() if not (ask.last and name == ask.of)}
        if isinstance(ask.protocol, StreamProtocol):
            replicates = np.shape(statistic.clipped)  # a batch that arrives in parts is read once
            before = self.streams.get(ask.stream)
            begun = ask.protocol.begin(replicates) if before is None else before
            following, estimate = ask.protocol.release(begun, statistic, source, path=path)
            return Desk(streams={**self.streams, ask.stream: following}, kept=kept), estimate
        if not isinstance(ask.protocol, BatchProtocol):
            raise InvalidArgument("ask.protocol", type(ask.protocol).__name__, "a BatchProtocol or a StreamProtocol")
        estimate = ask.protocol.release(statistic, source, path=path)
        if ask.of != "episode":  # how many are in a group is as private as who is
            estimate = replace(estimate, count=0)
        return replace(self, kept=kept), estimate
