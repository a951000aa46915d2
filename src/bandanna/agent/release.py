"""One episode of an agent is asked about until it is learned; every answer is durable before it is used.

The noise of an answer is drawn before its expense is written, in memory, where nobody sees it: other decisions need
not wait for it. What is interrupted before it is written was never released, and is drawn anew; what was written is
the answer ever after. So `learn` may be run again from the state before the episode, and ends in the same state.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bandanna.agent.plan import Batch
from bandanna.core.coins import Coins, NumberedCoins, SecureCoins
from bandanna.core.domain import Statistic
from bandanna.core.estimate import Estimate
from bandanna.loop import Desk, close
from bandanna.policies.base import Ask, Played

if TYPE_CHECKING:
    from bandanna.agent.loop import Loop

TASK = "agent"  # the agent's releases in its ledger


class NotStored(Exception):
    """An answer that has to be drawn."""


def entry_of(ask: Ask, episode: int) -> tuple[str, str]:
    """Task and batch of an ask in the ledger, which composes tasks: a person is in one batch of each.

    An episode's users are asked once for each step; about rows that are forgotten after the answer a person is asked
    once, about others with every ask; users of different arms are different people.
    """
    if ask.of != "episode":
        return (f"{TASK}, {ask.of}", str(episode)) if ask.last else (f"{TASK}, {ask.of} {episode}.{ask.step}", "0")
    if ask.arm is not None:
        return TASK, f"{episode}.{ask.step}"
    return TASK if ask.step == 0 else f"{TASK}, step {ask.step}", str(episode)


def coins_for(seed: int | None, number: int) -> Coins:
    """Of the devices of decisions `number`, `number` + 1, ...: the operating system's, or in a test the seed's."""
    return SecureCoins() if seed is None else NumberedCoins(seed, number)


class Release:
    """Asks about the episode of a batch."""

    def __init__(self, loop: Loop, batch: Batch) -> None:
        self._loop, self._batch = loop, batch
        self._state, self._before = loop.now.state, loop.progress  # after answers without a ledger, `_before` moves on
        self._played, self._missing = loop.played(batch)
        self._coins = coins_for(loop.seed, batch.begin)
        self._kept: Desk | None = None

    def run(self, *, draw: bool = True) -> None:
        """Answer everything, and go on with what was learned; without `draw`, from stored answers alone or not."""
        loop, batch = self._loop, self._batch
        steps = loop.policy.learn(self._state, batch.episode)
        learned = close(steps, self._answer if draw else self._stored)
        with loop.lock:
            loop.go_on(self._now(), learned, batch, self._played)

    def _now(self) -> Any:
        return self._before if self._loop.ledger is None else self._loop.progress

    def _stored(self, ask: Ask) -> Estimate:
        found = self._loop.find(*entry_of(ask, self._batch.number))
        if found is None:
            raise NotStored
        return found

    def _answer(self, ask: Ask) -> Estimate:
        try:
            return self._stored(ask)
        except NotStored:
            pass
        loop, before = self._loop, self._now()
        statistic = loop.policy.report(ask, self._rows(ask), self._coins)
        desk, estimate = Desk(streams=before.streams).release(ask, statistic, loop.source, path="messages")
        first, whole = before.asked == 0, ask.of == "episode" and (ask.step == 0 or ask.arm is not None)
        forgot = {ask.of: self._batch.number + 1} if ask.last else {}
        after = replace(
            before,
            state=self._state,
            streams=desk.streams,
            forgot={**before.forgot, **forgot},
            source=loop.randomness(),
            asked=before.asked + 1,
            released=before.released + (loop.ledger is not None),
            missing=before.missing + first * self._missing,
            clipped=before.clipped + (int(statistic.clipped) if whole else 0),
        )
        if loop.ledger is None:
            self._before = after
        else:
            self._commit(ask, statistic, estimate, after)
        return estimate

    def _commit(self, ask: Ask, statistic: Statistic, estimate: Estimate, after: Any) -> None:
        """Expense, answer and progress become durable together; then they count."""
        loop, batch = self._loop, self._batch
        task, name = entry_of(ask, batch.number)
        counted = ask.of == "episode" and (ask.step == 0 or ask.arm is not None)
        rows = self._played if loop.policy.keeps and after.asked == 1 else None

        def draw() -> Estimate:
            loop.journals.advance(loop.notes(after, kept=(batch.number, rows)))
            return estimate

        with loop.lock:
            settled, loop.settled = loop.settled, False
            loop.ledger.release(  # type: ignore[union-attr]
                ask.protocol.event,
                task=task,
                batch=name,
                data=statistic,
                draw=draw,
                members=loop.members(batch, ask.arm) if counted else None,
                streams=ask.begun,
            )
            loop.noted()
            loop.settled = settled

    def _rows(self, ask: Ask) -> Played:
        """Of the episode, or of those that were kept, this episode's among them."""
        if ask.of == "episode":
            return Desk().rows(ask, self._played)
        if self._kept is None:
            self._kept = self._loop.kept_with(self._batch.number, self._played)
        return self._kept.rows(ask, self._played)
