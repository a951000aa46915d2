"""How a client chooses and encodes with the policy itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bandanna.deployment.client.device_logic import (
    ClientTask,
    Content,
    DeviceLogic,
    PlayedArm,
    ReportSlot,
    read_announced_batch,
)
from bandanna.deployment.messages.batch_plan import Batch
from bandanna.deployment.messages.publication import PublicationPin, SignedPublication, read_publication
from bandanna.deployment.messages.report import Ticket, choose_seal_key, encode_body, encode_report
from bandanna.deployment.task.document import Task, check_planned_queries
from bandanna.deployment.task.query_plan import QueryPlan, VerifiedPublication, queries_of_round, sends_rows
from bandanna.device.domain import Estimate, check_all_finite
from bandanna.device.noise import NoiseSource
from bandanna.errors import BandannaError, InvalidArgument, Unreadable, raise_without_context
from bandanna.numeric.rng import DeviceRandomness
from bandanna.policies.base import AssignedArms, Episode, PlayedRounds, RunnerState, SumQuery
from bandanna.policies.registry import make_encoding
from bandanna.types import Floats

# Bodies of reports


class BodyEncoder:
    """Make the bodies of users' reports. Every call draws fresh noise: callers keep the bytes until acknowledged."""

    def __init__(self, task: Task, batch: Batch, *, key_id: int = 0, seal_key: str | None = None) -> None:
        self._task, self.batch, self.key_id = task, batch, key_id
        self._seal_key = seal_key

    def final(
        self,
        round_: int,
        queries: Sequence[SumQuery],
        played: PlayedRounds,
        tickets: Sequence[Ticket],
        source: NoiseSource,
        coins: DeviceRandomness,
    ) -> list[bytes]:
        """Draw the bodies of users with these rows and tickets, in the order of places."""
        wanted, users = self.batch.rounds[round_], len(tickets)
        if self._of_rows(round_):
            return [wanted.parts[0].to_bytes(row) for row in self._rows(played, wanted.parts[0].length)]
        told: list[list[np.ndarray[Any, Any]]] = [[] for _ in range(users)]  # messages of each user
        for part, query in zip(wanted.parts, queries, strict=True):
            own = np.arange(users) if part.arm is None else np.flatnonzero(played.arms == part.arm)
            if not len(own):
                continue
            statistic = self._task.policy.report(query, RunnerState().rows(query, played), coins)
            for place, row in zip(own.tolist(), query.protocol.device.report(statistic, source), strict=True):
                told[place].append(row)
        return [self._body(round_, rows, ticket) for rows, ticket in zip(told, tickets, strict=True)]

    def zero(self, round_: int, queries: Sequence[SumQuery], ticket: Ticket, source: NoiseSource) -> bytes:
        """Draw the body of a user who has not answered, with all of its noise."""
        wanted = self.batch.rounds[round_]
        if self._of_rows(round_):
            return wanted.parts[0].to_bytes(np.zeros(wanted.parts[0].length))
        messages = [
            query.protocol.device.zero(source)[0] for query in queries[: len(wanted.own)]
        ]  # the same whatever the arm
        return self._body(round_, messages, ticket)

    def report(self, ticket: Ticket, round_: int, version: int, body: bytes) -> bytes:
        """Return the report of a body."""
        return encode_report(ticket, self.batch, round_=round_, version=version, key_id=self.key_id, body=body)

    def _of_rows(self, round_: int) -> bool:
        rows = self.batch.rounds[round_].parts[0].form == "row"
        if rows and not sends_rows(self._task.policy):
            raise BandannaError(f"batch {self.batch.epoch} collects rows, and the task trusts no server with them")
        return rows

    def _rows(self, played: PlayedRounds, length: int) -> np.ndarray[Any, Any]:
        users = len(played.rewards)
        rewards = played.rewards.reshape(users, -1)
        rows = np.zeros((users, length))
        dim = length - rewards.shape[1] - 3
        if played.features is not None:
            rows[:, :dim] = played.features[:, :dim]
        rows[:, dim:-3] = rewards
        rows[:, -3] = 0 if played.arms is None else played.arms
        rows[:, -2] = 0 if played.groups is None else np.maximum(played.groups, 0)
        rows[:, -1] = 1.0
        return rows

    def _body(self, round_: int, messages: Sequence[np.ndarray[Any, Any]], ticket: Ticket) -> bytes:
        return encode_body(
            messages, task=self._task.digest, batch=self.batch, round_=round_, ticket=ticket, key=self._seal_key
        )


# Publications


@dataclass(frozen=True, kw_only=True)
class CurrentPublication(VerifiedPublication):
    """The publication in force: snapshot, batches that take reports, and running round."""

    task: Task
    chain: str

    @classmethod
    def read(cls, task: Task, shown: SignedPublication, before: CurrentPublication | None = None) -> CurrentPublication:
        """Verify a publication of this task that is not older than `before`; else raise BandannaError."""
        pin = None if before is None else PublicationPin(before.number, before.chain)
        keys = {"key": task.key("analyzer"), "registrar_key": task.key("registrar")}
        content, made = read_publication(shown, task_id=task.id, before=pin, **keys)
        return cls(task=task, content=content, chain=made.chain)

    @property
    def status(self) -> str:
        return str(self.content["status"])

    @property
    def running(self) -> tuple[int, int]:
        """The epoch and round that are awaited."""
        return self.epoch, int(self.content["round"])

    @cached_property
    def seal_key(self) -> tuple[int, str | None]:
        """The number and public key for which seeds or reports are sealed, if any."""
        task = self.task
        return choose_seal_key(self.content["helper"], task_id=task.id, keys=task.content["keys"], mixers=task.mixers)

    @cached_property
    def answers(self) -> tuple[Estimate, ...]:
        return tuple(map(make_encoding().loads, self.content["answers"]))

    def episode(self, place: int = 0) -> Episode | None:
        """Return the episode of the running batch, or of the one after it."""
        episode = self.task.policy.episode(self.state)
        return episode if place == 0 or episode is None else self.task.policy.next_episode(episode)

    def queries(self, place: int = 0) -> tuple[tuple[SumQuery, ...], ...]:
        """Return the queries of every round of a batch; only those of the running round are final."""
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
            rounds[number] = queries_of_round(policy, self.state, episode, self.answers, plan, number)
        return tuple(rounds)

    def _checked(self, place: int, episode: Episode) -> QueryPlan:
        """Return the plan of a batch; refuse less noise or fewer users than the policy's."""
        if place >= len(self.batches):
            raise Unreadable("a publication without the batch that takes reports")
        return check_planned_queries(self.task, self.state, episode, self.batches[place])


# The device


class PolicyDevice(DeviceLogic):
    """A device that runs the policy, as the simulator does."""

    def __init__(self, task: ClientTask) -> None:
        self._task = Task.from_bytes(task.document, task.id)
        self._policy = self._task.policy
        self.dim = int(getattr(self._policy, "dim", 0))
        self.participations = self._policy.privacy.participations

    def _view(self, content: Content) -> CurrentPublication:
        return CurrentPublication(task=self._task, content=dict(content), chain="")

    def clip_features(self, features: Floats) -> Floats:
        return np.asarray(self._policy.clip_features(features[None])[0])

    def choose(self, content: Content, seen: Floats, coins: DeviceRandomness) -> tuple[int, int] | None:
        view = self._view(content)
        episode = view.episode()
        if isinstance(episode, AssignedArms):
            return None
        choice = self._policy.act(view.snapshot, seen[None], coins)
        return int(choice.actions[0]), 0 if choice.groups is None else int(choice.groups[0])

    def batch(self, content: Content, place: int) -> Batch:
        batch = read_announced_batch(content, place)
        if batch.clients:
            hint = "Here a client answers for all plays of a batch"
            raise InvalidArgument("task", self._task.content["algorithm"], "a task whose users play one arm each", hint)
        try:
            self._view(content).queries(place)  # checks the plan
        except BandannaError:
            raise
        except Exception as error:  # a state that is none of this policy's fails anywhere
            raise_without_context(
                Unreadable(f"a publication whose state is none of the policy's ({type(error).__name__})")
            )
        return batch

    def zeros(self, content: Content, place: int, slot: ReportSlot, source: NoiseSource) -> list[bytes]:
        queries = self._view(content).queries(place)
        reporter, rounds = self._reporter(slot), range(len(slot.batch.rounds))
        return [reporter.zero(number, queries[number] if queries else (), slot.ticket, source) for number in rounds]

    def final(
        self,
        content: Content,
        round_: int,
        slot: ReportSlot,
        given: PlayedArm,
        reward: float,
        source: NoiseSource,
        coins: DeviceRandomness,
    ) -> tuple[bytes, Exception | None]:
        view = self._view(content)
        epochs = [batch.epoch for batch in view.batches]
        if slot.batch.epoch not in epochs:
            raise BandannaError(f"batch {slot.batch.epoch} is not the one that is announced")
        place = epochs.index(slot.batch.epoch)
        if view.batches[place] != slot.batch:  # its noise follows from the plan under which slots were opened
            raise BandannaError(f"batch {slot.batch.epoch} is announced with another plan than when it began")
        self.batch(content, place)
        queries = view.queries(place)
        wanted, reporter = queries[round_] if queries else (), self._reporter(slot)
        zero = reporter.zero(round_, wanted, slot.ticket, source)
        try:
            played = PlayedRounds(
                rewards=np.array([reward]),
                features=np.array([given.features]) if given.features else np.zeros((1, 0)),
                arms=np.array([given.arm]),
                groups=np.array([given.group]),
            )
            check_all_finite("rewards", played.rewards)
            with np.errstate(all="ignore"):
                (body,) = reporter.final(round_, wanted, played, [slot.ticket], source, coins)
            if len(body) != len(zero):
                raise Unreadable("a report of another length than the batch wants")
        except Exception as error:
            return zero, error
        return body, None

    def _reporter(self, slot: ReportSlot) -> BodyEncoder:
        return BodyEncoder(self._task, slot.batch, seal_key=slot.key)
