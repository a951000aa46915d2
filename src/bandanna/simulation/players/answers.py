"""How the simulator answers asks: it is every device, the shuffler and the server at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.core.coins import Coins
from bandanna.core.domain import Statistic
from bandanna.core.estimate import Estimate
from bandanna.loop import Desk, check_whole, close, reported
from bandanna.mechanisms.sources import NoiseSource
from bandanna.policies.base import Ask, Episode, Played, Policy
from bandanna.protocols.base import BatchProtocol, StreamProtocol


class Answers:
    """Reports of the devices, and each protocol's own law or messages; counts releases and clipped reports (*R).

    stream: the noise of stream protocols, that of all others unless given.
    """

    def __init__(
        self,
        policy: Policy[Any],
        source: NoiseSource,
        coins: Coins,
        path: str,
        *,
        stream: NoiseSource | None = None,
    ) -> None:
        self.policy, self.source, self.coins, self.path = policy, source, coins, path
        self.stream = source if stream is None else stream
        self.desk, self.clipped, self.releases = Desk(), np.zeros((), dtype=np.int64), 0
        self._sums: dict[int, tuple[Floats, int]] = {}  # of every arm, and their number of users ...
        self._sums_of: tuple[Any, Any] = (None, None)  # ... of these rows, by this protocol

    def learn(self, state: Any, episode: Episode, played: Played) -> Any:
        """The state after an episode with these rows."""
        check_whole(episode, played)
        self.desk = self.desk.keep(self.policy.keeps, played)
        return close(self.policy.learn(state, episode), lambda ask: self._answer(ask, played))

    def end(self, state: Any, episode: Episode, played: Played) -> None:
        """Count the clipped reports of an episode that the end of the run cuts short; nothing is released."""
        ask = next(self.policy.learn(state, episode))
        self.clipped = self.clipped + self.policy.report(ask, played, self.coins).clipped

    def _answer(self, ask: Ask, played: Played) -> Estimate:
        self.releases += 1
        sums = ask.protocol if isinstance(ask.protocol, BatchProtocol) and ask.protocol.sums_only else None
        if sums is not None and ask.arm is not None and ask.at is None and played.counts is not None:
            return sums.of_total(*self._sum_of(ask, ask.arm, played), self.source)
        statistic = reported(self.policy, ask, self.desk.rows(ask, played), self.coins)
        if ask.of == "episode" and (ask.step == 0 or ask.arm is not None):  # every row once
            self.clipped = self.clipped + statistic.clipped
        if sums is not None and ask.of == "episode":
            users = _most_users(statistic)  # seeds may have different numbers of users
            return sums.of_total(statistic.total(), users, self.source)
        source = self.stream if isinstance(ask.protocol, StreamProtocol) else self.source
        self.desk, estimate = self.desk.release(ask, statistic, source, path=self.path)
        return estimate

    def _sum_of(self, ask: Ask, arm: int, played: Played) -> tuple[Floats, int]:
        """Exact sum and number of an arm's users; all arms are reported at once, each a replicate of the same rows."""
        rows_before, protocol = self._sums_of
        if rows_before is not played or protocol is not ask.protocol:
            assert played.arms is not None
            assert played.counts is not None
            each = np.count_nonzero(played.arms == played.arms[0])  # rows of an arm, which stand together
            counts = played.counts.reshape(-1, each)
            rows = Played(rewards=played.rewards.reshape(-1, each), counts=counts)
            reports = self.policy.report(ask, rows, self.coins)
            sums = zip(reports.total(), counts.sum(axis=1).tolist(), strict=True)
            self._sums = dict(zip(played.arms[::each].tolist(), sums, strict=True))
            self._sums_of = played, ask.protocol
            self.clipped = self.clipped + reports.clipped.sum()
        return self._sums.get(arm, (np.zeros(ask.protocol.domain.dim), 0))  # nobody was given it


def _most_users(statistic: Statistic) -> int:
    """Of the seed with most of them."""
    return statistic.values.shape[-2] if statistic.counts is None else int(statistic.counts.sum(axis=-1).max())
