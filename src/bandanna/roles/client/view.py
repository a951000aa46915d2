"""A publication as a device reads it: verified, never older than one it has seen, and what it asks for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from bandanna.agent.kinds import encoding_of
from bandanna.core.estimate import Estimate
from bandanna.errors import Unreadable
from bandanna.policies.base import Ask, Episode
from bandanna.tasks.announced import checked
from bandanna.tasks.asking import Planned, asks_of_round
from bandanna.tasks.batches import sends_rows
from bandanna.tasks.document import Task
from bandanna.tasks.published import Published
from bandanna.wire.publications import Pin, Shown, read_publication
from bandanna.wire.sealing import read_seal_key


@dataclass(frozen=True, kw_only=True)
class View(Published):
    """What is in force: the policy's snapshot, the batches that take reports, and the running round."""

    task: Task
    chain: str

    @classmethod
    def read(cls, task: Task, shown: Shown, before: View | None = None) -> View:
        """A publication of this task, signed and cosigned, not older than `before`; BandannaError for any other."""
        pin = None if before is None else Pin(before.number, before.chain)
        keys = {"key": task.key("analyzer"), "registrar_key": task.key("registrar")}
        content, made = read_publication(shown, task_id=task.id, before=pin, **keys)
        return cls(task=task, content=content, chain=made.chain)

    @property
    def status(self) -> str:
        """running, exhausted or finished."""
        return str(self.content["status"])

    @property
    def running(self) -> tuple[int, int]:
        """Epoch and round that are awaited."""
        return self.epoch, int(self.content["round"])

    @cached_property
    def seal_key(self) -> tuple[int, str | None]:
        """Number and public key for which seeds or reports are sealed; no key where nothing is."""
        keys, told, mixers = self.task.content["keys"], self.content["helper"], self.task.mixers
        if mixers == 2 and told is not None:
            return read_seal_key(told, task_id=self.task.id, key=self.task.key("helper"))
        return 0, keys.get("seal helper" if mixers == 2 else "seal analyzer")

    @cached_property
    def answers(self) -> tuple[Estimate, ...]:
        """Of earlier rounds of the running batch."""
        return tuple(map(encoding_of().loads, self.content["answers"]))

    def episode(self, place: int = 0) -> Episode | None:
        """Of the running batch, or of the one after it."""
        episode = self.task.policy.episode(self.state)
        return episode if place == 0 or episode is None else self.task.policy.following(episode)

    def asks(self, place: int = 0) -> tuple[tuple[Ask, ...], ...]:
        """Of every round of a batch: what is reported; only the running round's are placed where they belong."""
        policy, episode = self.task.policy, self.episode(place)
        if episode is None:
            if place < len(self.batches):  # with any plan: there is none of the policy's to compare it with
                raise Unreadable(f"batch {self.batches[place].epoch} was announced where the policy has none")
            return ()
        plan = self._checked(place, episode)
        if sends_rows(policy):
            return ()
        rounds = [plan.round_of(number) for number in range(len(plan.rounds))]
        if place == 0 and rounds:
            number = self.running[1]
            if number >= len(rounds):
                raise Unreadable(f"a publication that awaits round {number} of {len(rounds)}")
            rounds[number] = asks_of_round(policy, self.state, episode, self.answers, plan, number)
        return tuple(rounds)

    def _checked(self, place: int, episode: Episode) -> Planned:
        """The asks of a batch, if it was announced as the policy means it: an analyzer that announces less noise, or
        fewer people, gets no reports.
        """
        if place >= len(self.batches):
            raise Unreadable("a publication without the batch that takes reports")
        return checked(self.task, self.state, episode, self.batches[place])
