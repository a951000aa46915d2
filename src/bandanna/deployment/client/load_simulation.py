"""Simulated users for tests and demonstrations."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Protocol, Self

import numpy as np

from bandanna import validation
from bandanna.deployment.calls import RoleConnection, RoleUnreachable
from bandanna.deployment.client.policy_device import BodyEncoder, CurrentPublication
from bandanna.deployment.messages.batch_plan import Batch
from bandanna.deployment.messages.canonical import dumps, encode_base64url, loads
from bandanna.deployment.messages.publication import SignedPublication
from bandanna.deployment.messages.report import (
    FINAL,
    ZERO,
    ReportAnswer,
    Ticket,
    join_reports,
    parse_answers,
    ticket_from_plain,
)
from bandanna.deployment.task.description import world_for
from bandanna.deployment.task.document import Task
from bandanna.device.noise import FastNoise, NoiseSource, SecureNoise
from bandanna.errors import BandannaError, InvalidArgument
from bandanna.numeric.rng import DeviceRandomness, SecureRandomness, Streams
from bandanna.policies.base import AssignedArms, FixedLength, PlayedRounds, SumQuery
from bandanna.protocols.base import StreamProtocol
from bandanna.simulation import environments
from bandanna.simulation.environments.base import Environment, regret_of_random_play
from bandanna.simulation.environments.population import OneClientPerRound, Population
from bandanna.simulation.players.reference import ReferenceRun
from bandanna.simulation.result import Tally, checkpoints_for

# The deployment


_PAUSE, _LONGEST = 0.05, 2.0  # seconds before something is tried again


class Deployment(Protocol):
    """The requests that simulated users send to a deployment."""

    def publication(self, after: int | None, wait: float) -> SignedPublication | None:
        """Return the publication in force, if it is newer."""

    def tickets(self, users: Sequence[str], epoch: int, refused: Sequence[Any] = ()) -> list[Ticket]:
        """Return one ticket for each user."""

    def upload(self, reports: Sequence[bytes]) -> list[ReportAnswer]:
        """Send the reports of one request; return when they are durable, or refused."""


class HttpDeployment:
    """A deployment over HTTP that repeats a request without an answer for at most `patience` seconds."""

    def __init__(self, task: Task, *, token: str, patience: float = 60.0, verify_tls: Any = True) -> None:
        self._task, self._token, self._patience = task, token, patience
        self._calls = {
            role: RoleConnection(task.url(role), verify_tls=verify_tls) for role in ("analyzer", "registrar")
        }
        if task.collector not in self._calls:
            self._calls[task.collector] = RoleConnection(task.url(task.collector), verify_tls=verify_tls)
        self.retries = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for calls in self._calls.values():
            calls.close()

    def publication(self, after: int | None, wait: float) -> SignedPublication | None:
        analyzer = self._calls["analyzer"]
        found: SignedPublication | None = self._again(lambda: analyzer.publication(self._task.id, after, wait))
        return found

    def tickets(self, users: Sequence[str], epoch: int, refused: Sequence[Any] = ()) -> list[Ticket]:
        asked: list[dict[str, Any]] = [{"user": user, "epoch": epoch} for user in users]
        for each, proofs in zip(asked, refused, strict=False):
            if proofs:
                each["refused"] = [[e, encode_base64url(slot), encode_base64url(proof)] for e, slot, proof in proofs]
        content = dumps({"tickets": asked})
        headers = {"Authorization": f"Bearer {self._token}"}
        path = f"/tasks/{self._task.id}/tickets"
        status, answer, _ = self._again(lambda: self._calls["registrar"].request("POST", path, content, headers))
        if status != 200:
            raise BandannaError(f"the registrar gives no tickets: {status} {answer[:200]!r}")
        made = []
        for each in loads(answer)["tickets"]:
            if "refused" in each:
                raise BandannaError(f"the registrar refuses a ticket: {each['refused']}")
            made.append(ticket_from_plain(each))
        return made

    def upload(self, reports: Sequence[bytes]) -> list[ReportAnswer]:
        """Send to the collector, which may learn of a batch a little later than users do."""
        content, path = join_reports(list(reports)), f"/tasks/{self._task.id}/reports"

        def asked() -> list[ReportAnswer]:
            status, answer, _ = self._calls[self._task.collector].request("POST", path, content)
            answers = parse_answers(status, answer, len(reports))
            if any(each.reason == "early" for each in answers):
                raise RoleUnreachable("the batch is not open yet")
            return answers

        made: list[ReportAnswer] = self._again(asked)
        return made

    def _again(self, call: Any) -> Any:
        pause, end = _PAUSE, time.monotonic() + self._patience
        while True:
            try:
                return call()
            except RoleUnreachable:
                if time.monotonic() + pause > end:
                    raise
                self.retries += 1
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST)


# Simulated users


_WAIT = 20.0  # seconds in one request for a newer publication


@dataclass(kw_only=True)
class SimulationTotals:
    """Counts and latencies of simulated users.

    `dropped` users opened a slot and never answered. `unbatched` users acted after the last full batch.
    """

    users: int = 0
    dropped: int = 0
    unbatched: int = 0
    acknowledged: int = 0
    retries: int = 0
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)
    publications: list[CurrentPublication] = field(default_factory=list)


class SimulatedUsers:
    """Users of a deployment who act in an environment, `concurrency` of them at once.

    In a seeded test they draw what a simulation with the task's seed draws, so the deployment must learn what the
    simulator learns, bit for bit. `dropout` is the share of users who open a slot and never answer.
    """

    def __init__(
        self,
        task: Task,
        deployment: Deployment,
        environment: Environment,
        *,
        rounds: int,
        seed: int = 0,
        concurrency: int = 8,
        dropout: float = 0.0,
        wait: float = 120.0,
        progress: Callable[[int], None] = lambda users: None,
    ) -> None:
        self.task, self._deployment, self._rounds, self._wait = task, deployment, rounds, wait
        self._progress, self._dropout = progress, dropout
        first = seed if task.seed is None else task.seed
        self._environment, self._first = environment, first
        world = environment.begin(Streams([first]))
        self.tally = Tally(checkpoints=checkpoints_for(rounds, min(rounds, 200)), n_seeds=1)
        self.seed = ReferenceRun(task.policy, world, self.tally, 0, "messages", False)
        self._secure, self._choosing = SecureNoise(), np.random.default_rng(first)
        self.account = SimulationTotals()
        self._pool = ThreadPoolExecutor(max_workers=concurrency)
        self._view: CurrentPublication | None = None
        self._session = f"user {secrets.token_hex(4)}"  # other users than in an earlier simulation
        self._numbered = 0

    @property
    def random_play(self) -> float:
        """The regret of as many users if arms were chosen at random."""
        env = self._environment
        played = OneClientPerRound(population=env) if isinstance(env, Population) else env
        return float(regret_of_random_play(played, horizon=max(1, self.account.users), n_seeds=1, seed=self._first)[0])

    @property
    def regret(self) -> float:
        return float(self.tally.total[0])

    def run(self) -> SimulationTotals:
        """Play until the rounds are over, or the task is."""
        began = time.monotonic()
        view = self._await_publication(None)
        while self.seed.done < self._rounds and view.status == "running":
            batch = view.batches[0] if view.batches else None
            if batch is None or not self._play(view, batch):
                break
            view = self.after(batch.epoch)
        self._rest(view)
        self._pool.shutdown()
        self.account.seconds = time.monotonic() - began
        self.account.retries = getattr(self._deployment, "retries", 0)
        return self.account

    def _await_publication(self, before: CurrentPublication | None) -> CurrentPublication:
        end = time.monotonic() + self._wait
        while time.monotonic() < end:
            found = self._deployment.publication(None if before is None else before.number, _WAIT)
            if found is not None:
                self._view = CurrentPublication.read(self.task, found, before)
                self.account.publications.append(self._view)
                return self._view
        raise BandannaError(f"the deployment has published nothing for {self._wait:g} seconds")

    def after(self, epoch: int) -> CurrentPublication:
        """Return the publication in force when a batch is over."""
        view = self._view
        while view is None or (view.running[0] <= epoch and view.status == "running"):
            view = self._await_publication(view)
        return view

    def _rest(self, view: CurrentPublication) -> None:
        left = self._rounds - self.seed.done
        episode = view.episode()
        if left > 0 and view.status != "exhausted" and isinstance(episode, FixedLength | AssignedArms):
            self.seed.state = view.state
            rows = (
                self.seed.assigned(episode, min(left, episode.users))
                if isinstance(episode, AssignedArms)
                else self.seed.frozen(left)
            )
            self._note(rows)
            self.account.unbatched += len(rows.rewards)

    def _note(self, rows: PlayedRounds) -> None:
        if rows.arms is not None:
            self.account.actions += rows.arms.tolist()
        self.account.users += len(rows.rewards)
        self._progress(self.account.users)

    def _play(self, view: CurrentPublication, batch: Batch) -> bool:
        """Play all rounds of a batch; return whether that was possible."""
        episode, seed = view.episode(), self.seed
        if (
            episode is None
            or not isinstance(episode, FixedLength | AssignedArms)
            or episode.users > self._rounds - seed.done
        ):
            return False
        tickets, reporter = self._tickets(batch), self._reporter(batch)
        queries = view.queries()
        seed.state = view.state
        if isinstance(episode, AssignedArms) and not batch.clients:  # the place says which arm
            places = self._open(reporter, batch, queries, tickets)
            tickets = [tickets[user] for user in np.argsort(places).tolist()]
            rows = seed.assigned(episode, episode.users)
        else:
            rows = (
                seed.assigned(episode, episode.users) if isinstance(episode, AssignedArms) else seed.frozen(batch.slots)
            )
        self._note(rows)
        rows = self.choose_rows(view, rows)
        answering = self._draw_answering(batch.slots)
        self.account.dropped += int(np.sum(~answering))
        self._report(reporter, batch, 0, queries, tickets, rows, answering)
        for number in range(1, len(batch.rounds)):
            view = self._await_publication(view)
            if view.running != (batch.epoch, number):
                return True  # it was not used
            self._report(reporter, batch, number, view.queries(), tickets, rows, answering)
        return True

    def choose_rows(self, view: CurrentPublication, rows: PlayedRounds) -> PlayedRounds:
        """Return the rows that a batch's users report; an audit overrides this."""
        return rows

    def _draw_answering(self, users: int) -> np.ndarray[Any, Any]:
        return self._choosing.random(users) >= self._dropout

    def _reporter(self, batch: Batch) -> BodyEncoder:
        number, key = (0, None) if self._view is None else self._view.seal_key
        return BodyEncoder(self.task, batch, key_id=number, seal_key=key)

    def _tickets(self, batch: Batch) -> list[Ticket]:
        names = [f"{self._session} {self._numbered + number}" for number in range(batch.slots)]
        self._numbered += batch.slots
        made: list[Ticket] = []
        for begin in range(0, batch.slots, 500):
            made += self._deployment.tickets(names[begin : begin + 500], batch.epoch)
        return made

    def _open(
        self, reporter: BodyEncoder, batch: Batch, queries: Sequence[tuple[SumQuery, ...]], tickets: Sequence[Ticket]
    ) -> list[int]:
        answers = self._send(
            [self._zeros(reporter, batch, queries, ticket, range(len(batch.rounds))) for ticket in tickets]
        )
        return [answer[0].place for answer in answers]

    def _zeros(
        self,
        reporter: BodyEncoder,
        batch: Batch,
        queries: Sequence[tuple[SumQuery, ...]],
        ticket: Ticket,
        rounds: Sequence[int],
    ) -> list[bytes]:
        bodies = (
            reporter.zero(number, queries[number] if queries else (), ticket, self._noise_source()) for number in rounds
        )
        return [reporter.report(ticket, number, ZERO, body) for number, body in zip(rounds, bodies, strict=True)]

    def _noise_source(self) -> NoiseSource:
        """Return the noise of zero reports, which in seeded tests are not counted."""
        if self.task.seed is None:
            return self._secure
        return FastNoise(self._choosing)

    def _report(
        self,
        reporter: BodyEncoder,
        batch: Batch,
        number: int,
        queries: Sequence[tuple[SumQuery, ...]],
        tickets: Sequence[Ticket],
        rows: PlayedRounds,
        answering: np.ndarray[Any, Any],
    ) -> None:
        """Send the final reports of a round; one that opens a slot has zero reports for later rounds."""
        wanted = queries[number] if queries else ()
        bodies = reporter.final(number, wanted, rows, tickets, *self._randomness(wanted))
        requests = []
        later = range(1, len(batch.rounds)) if number == 0 else ()
        for ticket, body, is_answered in zip(tickets, bodies, answering.tolist(), strict=True):
            if is_answered:
                request = [reporter.report(ticket, number, FINAL, body)]
            else:
                request = self._zeros(reporter, batch, queries, ticket, [number]) if number == 0 else []
            requests.append(request + (self._zeros(reporter, batch, queries, ticket, later) if number == 0 else []))
        self._send([request for request in requests if request])

    def _randomness(self, queries: Sequence[SumQuery]) -> tuple[NoiseSource, DeviceRandomness]:
        if self.task.seed is None:
            return self._secure, SecureRandomness()
        stream = any(isinstance(query.protocol, StreamProtocol) for query in queries)
        own = self.seed.answers
        return (own.stream if stream else own.source), own.coins

    def _send(self, requests: Sequence[Sequence[bytes]]) -> list[list[ReportAnswer]]:
        sent = list(self._pool.map(self._upload, requests))
        for some in sent:
            for answer in some:
                if answer.reason:
                    self.account.refused[answer.reason] = self.account.refused.get(answer.reason, 0) + 1
                else:
                    self.account.acknowledged += 1
        return sent

    def _upload(self, request: Sequence[bytes]) -> list[ReportAnswer]:
        began = time.monotonic()
        answer = self._deployment.upload(request)
        self.account.latencies.append(time.monotonic() - began)
        return answer


def summarize_users(crowd: SimulatedUsers) -> dict[str, Any]:
    """Return the totals of simulated users, for printing or JSON."""
    account = crowd.account
    latencies = account.latencies or [float("nan")]
    numbers: dict[str, Any] = {
        "users": account.users,
        "without report (dropout)": account.dropped,
        "without report (no batch)": account.unbatched,
        "reports acknowledged": account.acknowledged,
        "reports per second": round(account.acknowledged / max(account.seconds, 1e-9), 1),
        **{
            f"latency, {share} % (ms)": round(1000 * float(np.percentile(latencies, share)), 1)
            for share in (50, 90, 99)
        },
        "retries": account.retries,
        "refused": ", ".join(f"{reason}: {count}" for reason, count in sorted(account.refused.items())) or "none",
        "publications": account.publications[-1].number if account.publications else 0,
        "regret": round(crowd.regret, 2),
        "regret of random play": round(crowd.random_play, 2),
        "seconds": round(account.seconds, 1),
    }
    return numbers


def describe_missing_users(account: SimulationTotals) -> str:
    """Say how many users reported nothing, and why; empty if all reported."""
    reasons = ((account.dropped, "by --dropout"), (account.unbatched, "because the last batch did not fill"))
    found = ", ".join(f"{count:,} {reason}" for count, reason in reasons if count)
    missing = account.dropped + account.unbatched
    return found and f"{missing:,} of {account.users:,} users reported nothing: {found}."


# Environments


def world_for_task(task: Task, name: str | None = None) -> Environment:
    """Return an environment for the task's policy, typical or of this name."""
    policy = task.policy
    if name is None:
        found = world_for(policy, task.arms)
        if found is None:
            allowed = "the name of a class in bandanna.simulation.environments"
            raise InvalidArgument("environment", None, allowed, "No environment is known to fit this policy")

        return found
    known = {
        each: kind
        for each, kind in vars(environments).items()
        if isinstance(kind, type) and issubclass(kind, Environment) and is_dataclass(kind)
    }
    kind: Any = known[validation.one_of("environment", name, tuple(known))]
    wanted = {"dim": getattr(policy, "dim", None), "n_arms": getattr(policy, "n_arms", None) or _arms(task)}
    taken = {each.name for each in fields(kind)}
    made: Environment = kind(**{each: value for each, value in wanted.items() if each in taken and value is not None})
    return made


def _arms(task: Task) -> int:
    return 5 if task.arms is None else len(task.arms.ids)
