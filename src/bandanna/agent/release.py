"""The queries of one episode, answered through the ledger."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bandanna.agent.episodes import EpisodeSpan
from bandanna.device.domain import Estimate, Statistic
from bandanna.numeric.rng import DeviceRandomness, NumberedRandomness, SecureRandomness
from bandanna.policies.base import PlayedRounds, RunnerState, SumQuery, drive_learning, form_reports, ledger_key
from bandanna.privacy.events import CompositionEvent
from bandanna.privacy.ledger import Ledger

if TYPE_CHECKING:
    from bandanna.agent.runner import ReleasingRunner


TASK = "agent"  # the agent's releases in its ledger
_SECURE = SecureRandomness()  # which hold nothing


class AnswerNotStored(Exception):
    """An answer that has to be drawn."""


class ReleaseOvertaken(Exception):
    """Somebody else has released meanwhile: what was drawn here is seen by nobody, and nothing follows from it."""


def device_randomness(seed: int | None, number: int) -> DeviceRandomness:
    """Of the devices of decisions `number`, `number` + 1, ...: the operating system's, or in a test the seed's."""
    return _SECURE if seed is None else NumberedRandomness(seed, number)


@dataclass(frozen=True, kw_only=True)
class QueryAnswer:
    """One ask and what was drawn for it."""

    ask: SumQuery
    statistic: Statistic
    estimate: Estimate


class EpisodeRelease:
    """Asks about the episode of a batch."""

    def __init__(self, loop: ReleasingRunner, batch: EpisodeSpan) -> None:
        self._loop, self._batch = loop, batch
        self._state, self._after = loop.now.state, loop.progress  # the progress after what was drawn so far
        self._before = loop.progress  # what is drawn follows upon this, or not at all
        self._played, self._missing = loop.played(batch)
        self._coins = device_randomness(loop.seed, batch.begin)
        self._kept: RunnerState | None = None
        self._held: list[QueryAnswer] = []  # drawn about the episode's users, and not yet written
        self._read: Counter[Any] = Counter()  # how many answers of an entry were used

    def run(self, *, draw: bool = True) -> None:
        """Answer everything, and go on with what was learned; without `draw`, from stored answers alone or not."""
        loop, batch = self._loop, self._batch
        learned = drive_learning(loop.policy.learn(self._state, batch.episode), self._answer if draw else self._stored)
        self._write()
        with loop.lock:
            self._check_first()
            loop.go_on(self._after, learned, batch, self._played)

    def _check_first(self) -> None:
        """Under the lock: nobody has released anything since."""
        if self._loop.progress is not self._before:
            raise ReleaseOvertaken

    def _stored(self, ask: SumQuery) -> Estimate:
        """An answer that was written before."""
        name = ledger_key(ask, task=TASK, batch=str(self._batch.number))
        found = self._loop.find(*name)
        place, self._read[name] = self._read[name], self._read[name] + 1
        if found is None:
            raise AnswerNotStored
        answer: Estimate = found[place] if isinstance(found, tuple) else found
        return answer

    def _answer(self, ask: SumQuery) -> Estimate:
        try:
            return self._stored(ask)
        except AnswerNotStored:
            pass
        together = ask.of == "episode" and ask.arm is None
        if not together:
            self._write()
        loop, before = self._loop, self._after
        statistic = form_reports(loop.policy, ask, self._rows(ask), self._coins)
        desk, estimate = RunnerState(streams=before.streams).release(ask, statistic, loop.source, path="messages")
        counted = ask.of == "episode" and (ask.step == 0 or not together)
        self._after = replace(
            before,
            state=self._state,
            streams=desk.streams,
            forgot={**before.forgot, ask.of: self._batch.number + 1} if ask.last else before.forgot,
            source=loop.randomness(),
            asked=before.asked + 1,
            reports=before.reports + (self._played.rewards.shape[0] if before.asked == 0 else 0),
            missing=before.missing + (self._missing if before.asked == 0 else 0),
            clipped=before.clipped + (int(statistic.clipped) if counted else 0),
        )
        self._held.append(QueryAnswer(ask=ask, statistic=statistic, estimate=estimate))
        if not together:
            self._write()
        return estimate

    def _write(self) -> None:
        """Expense, answers and progress become durable together; then they count."""
        held, self._held = self._held, []
        if held and self._loop.ledger is not None:
            self._commit(self._loop.ledger, held)

    def _commit(self, ledger: Ledger, answers: list[QueryAnswer]) -> None:
        loop, batch, first = self._loop, self._batch, answers[0]
        task, name, group = ledger_key(first.ask, task=TASK, batch=str(batch.number))
        events = tuple(answer.ask.event(TASK) for answer in answers)
        event = events[0] if len(events) == 1 else CompositionEvent(events=events)
        data: Statistic | bytes = first.statistic
        if len(answers) > 1:
            data = b"".join(np.ascontiguousarray(answer.statistic.rows()).tobytes() for answer in answers)
        estimates = tuple(answer.estimate for answer in answers)
        self._after = after = replace(self._after, released=self._after.released + 1)
        rows = self._played if loop.policy.keeps and first.ask.of == "episode" else None

        def draw() -> Any:
            loop.journals.record_state(loop.notes(after, kept=(batch.number, rows)))
            return estimates[0] if len(estimates) == 1 else estimates

        with loop.lock:
            self._check_first()
            settled, loop.settled = loop.settled, False
            members = loop.members(batch, first.ask.arm) if first.ask.of == "episode" else None
            ledger.release(event, task=task, batch=name, data=data, draw=draw, members=members,
                           streams=first.ask.begun, one_of=group)  # fmt: skip
            loop.noted()
            self._before, loop.settled = loop.progress, settled

    def _rows(self, ask: SumQuery) -> PlayedRounds:
        """Of the episode, or of those that were kept, this episode's among them."""
        if ask.of == "episode":
            return RunnerState().rows(ask, self._played)
        if self._kept is None:
            self._kept = self._loop.kept_rows_with(self._batch.number, self._played)
        return self._kept.rows(ask, self._played)
