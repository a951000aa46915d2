"""How the simulator answers asks: it is every device, the shuffler and the server at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from bandanna.core.coins import Coins
from bandanna.core.domain import Statistic
from bandanna.core.estimate import Estimate
from bandanna.loop import Desk, check_whole, close
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
        statistic = self.policy.report(ask, self.desk.rows(ask, played), self.coins)
        if ask.of == "episode" and (ask.step == 0 or ask.arm is not None):  # every row once
            self.clipped = self.clipped + statistic.clipped
        if isinstance(ask.protocol, BatchProtocol) and ask.of == "episode" and ask.protocol.sums_only:
            users = _most_users(statistic)  # seeds may have different numbers of users
            return ask.protocol.of_total(statistic.total(), users, self.source)
        source = self.stream if isinstance(ask.protocol, StreamProtocol) else self.source
        self.desk, estimate = self.desk.release(ask, statistic, source, path=self.path)
        return estimate


def _most_users(statistic: Statistic) -> int:
    """Of the seed with most of them."""
    return statistic.values.shape[-2] if statistic.counts is None else int(statistic.counts.sum(axis=-1).max())
