"""Asks, answered from what arrived: from mixers' views, or from the rows that a trusted server is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bandanna.accounting.events import CompositionEvent
from bandanna.accounting.ledger import Ledger
from bandanna.core.coins import Coins
from bandanna.core.domain import Statistic, all_finite
from bandanna.core.estimate import Estimate
from bandanna.loop import Desk, close, entry_of, reported
from bandanna.mechanisms.sources import NoiseSource
from bandanna.policies.base import Ask, Assigned, Episode, Played, Policy
from bandanna.protocols.base import StreamProtocol

_LARGEST = 1e100  # of a number in a row: its square is one too
_INDEX = 2**31  # no arm or group has so large a number


@dataclass(frozen=True, kw_only=True)
class Charge:
    """An ask that was answered, and what it was answered from."""

    ask: Ask
    data: bytes


def charge(ledger: Ledger | None, charges: Sequence[Charge], *, task: str, batch: str) -> None:
    """Pay for asks, before anybody sees an answer: those about the same people are one entry, at the composed price."""
    if ledger is None:
        return
    together: dict[tuple[str, str, str | None], list[Charge]] = {}
    for each in charges:
        together.setdefault(entry_of(each.ask, task=task, batch=batch), []).append(each)
    for (name, entry, group), some in together.items():
        events = tuple(each.ask.event(task) for each in some)
        ledger.release(
            events[0] if len(events) == 1 else CompositionEvent(events=events),
            task=name,
            batch=entry,
            data=b"".join(each.data for each in some),
            draw=lambda: None,
            streams=some[0].ask.begun,
            one_of=group,
        )


def from_views(
    asks: Sequence[Ask], views: Sequence[tuple[Any, ...]], streams: Mapping[int, Any], source: NoiseSource
) -> tuple[dict[int, Any], list[Estimate]]:
    """Estimates of a round's asks, and what the analyzer holds of streams after it: released numbers only."""
    held, estimates = dict(streams), []
    for ask, parts in zip(asks, views, strict=True):
        analyzer = ask.protocol.analyzer
        state = held.get(ask.stream, analyzer.begin())
        for view in parts:
            state, estimate = analyzer.analyze(state, view, source)
        if state is not None:
            held[ask.stream] = state
        estimates.append(estimate)
    return held, estimates


@dataclass(kw_only=True)
class FromRows:
    """A server that is trusted with rows: it is every device's reporter, the mixer and the analyzer at once."""

    policy: Policy[Any]
    desk: Desk
    source: NoiseSource
    stream: NoiseSource
    coins: Coins
    charges: list[Charge] = field(default_factory=list)

    def learn(self, state: Any, episode: Episode, played: Played) -> Any:
        """The state after an episode with these rows."""
        self.desk = self.desk.keep(self.policy.keeps, played)
        return close(self.policy.learn(state, episode), lambda ask: self._answer(ask, played))

    def _answer(self, ask: Ask, played: Played) -> Estimate:
        statistic = self._statistic(ask, self.desk.rows(ask, played))
        source = self.stream if isinstance(ask.protocol, StreamProtocol) else self.source
        self.desk, estimate = self.desk.release(ask, statistic, source, path="messages")
        self.charges.append(Charge(ask=ask, data=_content(statistic)))
        return estimate

    def _statistic(self, ask: Ask, rows: Played) -> Statistic:
        """What devices would report; a row that this policy cannot take is nobody's, or its sender would stop all."""
        try:
            return self._told(ask, rows)
        except Exception:
            wrong = self._wrong(ask, rows, 0, rows.rewards.shape[0])
            if not wrong:
                raise
        return self._told(ask, _nobody(self.policy, rows, wrong))

    def _told(self, ask: Ask, rows: Played) -> Statistic:
        """What devices would report, of finite numbers."""
        with np.errstate(all="ignore"):
            statistic = reported(self.policy, ask, rows, self.coins)
        all_finite("statistics", statistic.values)
        return statistic

    def _wrong(self, ask: Ask, rows: Played, begin: int, end: int) -> list[int]:
        """Places of rows that cannot be reported, found by halves."""
        try:
            self._told(ask, rows.at(slice(begin, end)))
        except Exception:  # of whatever kind: a row must not stop the others
            if end - begin == 1:
                return [begin]
            middle = (begin + end) // 2
            return self._wrong(ask, rows, begin, middle) + self._wrong(ask, rows, middle, end)
        return []


def _nobody(policy: Policy[Any], rows: Played, places: list[int]) -> Played:
    """The same rows, but for those who count as if they had not answered."""
    told = np.ones(len(rows.rewards), dtype=bool) if rows.answered is None else rows.answered.copy()
    told[places] = False
    there = told.reshape(-1, *(1,) * (rows.rewards.ndim - 1))
    features = None if rows.features is None else np.where(told[:, None], rows.features, 0.0)
    answered = rows.answered if policy.keeps or policy.asks_again else told
    return replace(rows, rewards=np.where(there, rows.rewards, _nothing(policy)), features=features, answered=answered)


def _nothing(policy: Policy[Any]) -> float:
    """The reward of who has none: the one nearest to 0."""
    low, high = getattr(policy, "reward_range", (0.0, 0.0))
    return float(min(max(0.0, low), high))


def _content(statistic: Statistic) -> bytes:
    return np.ascontiguousarray(statistic.rows()).tobytes()


def played_of(policy: Policy[Any], episode: Episode, rows: np.ndarray[Any, Any]) -> Played:
    """Rows (features, rewards, arm, group, answered), in the order of places, as a policy takes them.

    Nobody's reward is the one nearest to 0. A row that no policy could take counts as nobody's: its sender would
    otherwise decide whether the batch can be learned from.
    """
    dim, count = int(getattr(policy, "dim", 0)), getattr(policy, "n_arms", None)
    features, rewards, (arms, groups, answered) = rows[:, :dim], rows[:, dim:-3], rows[:, -3:].T
    numbers = np.all(np.abs(rows) <= _LARGEST, axis=1) & np.all(np.abs(rows[:, -3:]) < _INDEX, axis=1)  # NaN is not
    told = numbers & (answered > 0) & (arms >= 0) & (groups >= 0)
    arms, groups = np.where(told, arms, 0.0), np.where(told, groups, 0.0)
    if isinstance(episode, Assigned) and episode.clients is not None:
        return Played(rewards=np.where(told[:, None], rewards, 0.0))
    chosen = arms.astype(np.int64)
    if isinstance(episode, Assigned):
        chosen = episode.arms_at(np.arange(len(rows)))
    elif count is not None:
        told, chosen = told & (chosen < count), np.minimum(chosen, count - 1)
    made = Played(
        rewards=np.where(told, rewards[:, 0], _nothing(policy)),
        features=np.where(told[:, None], features, 0.0),
        arms=chosen,
        groups=np.minimum(groups.astype(np.int64), len(policy.keeps) - 1) if len(policy.keeps) > 1 else None,
        answered=None if told.all() else told,
    )
    later = policy.keeps or policy.asks_again  # rows that are kept say it by zeros alone
    return replace(made, answered=None) if later else made
