"""One release: answer the queries about one episode with noise, and form the ledger entry of the answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from bandanna.agent.episodes import EpisodeSpan
from bandanna.device.domain import Estimate, Statistic
from bandanna.device.noise import NoiseSource
from bandanna.numeric.rng import DeviceRandomness
from bandanna.policies.base import PlayedRounds, Policy, RunnerState, SumQuery, drive_learning, form_reports, ledger_key
from bandanna.privacy.events import CompositionEvent

TASK = "agent"  # the agent's releases in its ledger


class AnswerNotStored(Exception):
    """The ledger has no answer to a query: it has to be drawn."""


class ReleaseOvertaken(Exception):
    """Another thread has released the episode first: the noise drawn here was seen by nobody and is dropped."""


@dataclass(frozen=True, kw_only=True)
class AgentProgress:
    """All that a release changes, as one value: an interrupt finds the old one or the new one, never half of each.

    It describes the agent before the episode of decision `begin`, of which `asked` queries have been answered.

    state     of the policy. In an episode that public numbers end: the state at its end, once `asked` is positive
    streams   states of stream protocols
    source    state of the seeded generator; None for secure noise
    closed    number of episodes before this one
    released  number of entries in the ledger
    reports   number of reports in closed episodes: `missing` of them had no reward, `clipped` were out of range (both
              are not protected)
    forgot    by name of `Policy.execution.retained_groups`: rows of episodes before this number are no longer kept
    """

    state: Any
    source: Any
    streams: Mapping[int, Any] = field(default_factory=dict)
    forgot: Mapping[str, int] = field(default_factory=dict)
    begin: int = 0
    asked: int = 0
    closed: int = 0
    released: int = 0
    reports: int = 0
    missing: int = 0
    clipped: int = 0

    def note(self) -> dict[str, Any]:
        """Return the fields by name, as saves and journals hold them."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def read(cls, note: Mapping[str, Any]) -> AgentProgress:
        """Return the progress of a `note`."""
        return cls(**{each.name: note[each.name] for each in fields(cls)})


@dataclass(frozen=True, kw_only=True)
class QueryAnswer:
    """One query, the statistic of its reports and the estimate that was drawn."""

    ask: SumQuery
    statistic: Statistic
    estimate: Estimate


def ledger_arguments(batch: EpisodeSpan, answers: Sequence[QueryAnswer]) -> dict[str, Any]:
    """Return the arguments of `Ledger.release` for answers that are written as one entry."""
    first = answers[0]
    task, name, group = ledger_key(first.ask, task=TASK, batch=str(batch.number))
    events = tuple(answer.ask.event(TASK) for answer in answers)
    event = events[0] if len(events) == 1 else CompositionEvent(events=events)
    data: Statistic | bytes = first.statistic
    if len(answers) > 1:
        data = b"".join(np.ascontiguousarray(answer.statistic.rows()).tobytes() for answer in answers)
    return {"event": event, "task": task, "batch": name, "data": data, "streams": first.ask.begun, "one_of": group}


@dataclass(kw_only=True)
class EpisodeRelease:
    """Answer the queries that a policy asks about one episode.

    An answer that the ledger has is used as it is. Others are drawn, and written by `commit` before they are used.

    state      of the policy before the episode
    before     progress that the next commit follows upon
    after      progress with all that was drawn so far
    played     rows of the episode; `missing` of them have no reward
    find       returns what the ledger has under a task, batch and group, or None
    kept_rows  returns the rows that later queries may be about, those of this episode among them
    position   returns the state of the seeded generator
    commit     writes answers to the ledger and returns the progress after that; None where there is no ledger
    """

    policy: Policy[Any]
    batch: EpisodeSpan
    state: Any
    before: AgentProgress
    played: PlayedRounds
    missing: int
    coins: DeviceRandomness
    source: NoiseSource
    find: Callable[[str, str, str | None], Any]
    kept_rows: Callable[[int, PlayedRounds], RunnerState]
    position: Callable[[], Any]
    commit: Callable[[EpisodeRelease, Sequence[QueryAnswer]], AgentProgress] | None

    def __post_init__(self) -> None:
        self.after = self.before
        self._kept: RunnerState | None = None
        self._held: list[QueryAnswer] = []  # drawn about the episode's users, and not yet written
        self._read: Counter[Any] = Counter()  # how many answers of an entry were used

    def run(self, *, draw: bool = True) -> Any:
        """Answer all queries and return the state that the policy learns.

        Without `draw`, raise `AnswerNotStored` at the first answer that the ledger does not have.
        """
        answer = self._answer if draw else self._stored
        learned = drive_learning(self.policy.learn(self.state, self.batch.episode), answer)
        self._write()
        return learned

    def _stored(self, ask: SumQuery) -> Estimate:
        """Return the answer that the ledger has."""
        name = ledger_key(ask, task=TASK, batch=str(self.batch.number))
        found = self.find(*name)
        place, self._read[name] = self._read[name], self._read[name] + 1
        if found is None:
            raise AnswerNotStored
        answer: Estimate = found[place] if isinstance(found, tuple) else found
        return answer

    def _answer(self, ask: SumQuery) -> Estimate:
        """Return the stored answer, or draw one.

        Answers about all users of the episode are held and written as one entry. Others are written one by one.
        """
        try:
            return self._stored(ask)
        except AnswerNotStored:
            pass
        together = ask.of == "episode" and ask.arm is None
        if not together:
            self._write()
        before, first = self.after, self.after.asked == 0
        statistic = form_reports(self.policy, ask, self._rows(ask), self.coins)
        drawn, estimate = RunnerState(streams=before.streams).release(ask, statistic, self.source, path="messages")
        counted = ask.of == "episode" and (ask.step == 0 or not together)
        self.after = replace(
            before,
            state=self.state,
            streams=drawn.streams,
            forgot={**before.forgot, ask.of: self.batch.number + 1} if ask.last else before.forgot,
            source=self.position(),
            asked=before.asked + 1,
            reports=before.reports + (self.played.rewards.shape[0] if first else 0),
            missing=before.missing + (self.missing if first else 0),
            clipped=before.clipped + (int(statistic.clipped) if counted else 0),
        )
        self._held.append(QueryAnswer(ask=ask, statistic=statistic, estimate=estimate))
        if not together:
            self._write()
        return estimate

    def _write(self) -> None:
        """Commit the held answers as one entry."""
        held, self._held = self._held, []
        if held and self.commit is not None:
            self.after = replace(self.after, released=self.after.released + 1)
            self.before = self.commit(self, held)

    def _rows(self, ask: SumQuery) -> PlayedRounds:
        """Return the rows that a query is about: those of the episode, or kept ones."""
        if ask.of == "episode":
            return RunnerState().rows(ask, self.played)
        if self._kept is None:
            self._kept = self.kept_rows(self.batch.number, self.played)
        return self._kept.rows(ask, self.played)
