"""A collector of small batches, and reports for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

import bandanna as bd
from bandanna.deployment import collector
from bandanna.deployment.collector import Collector
from bandanna.deployment.messages.batch_plan import Batch
from bandanna.deployment.messages.canonical import COLLECTOR, TicketKeys, dumps, prove_unused
from bandanna.deployment.messages.report import FINAL, ReportVerdict, TaggedReport, join_reports
from bandanna.deployment.task.query_plan import first_batches
from bandanna.storage.database.base import Database, open_database

KEY, TASK, SLOTS = b"k" * 32, b"t" * 32, 6
HONEST = bytes(16)  # stands for the tag that a report's fields must have, until it is sent
TICKETS = TicketKeys(KEY, TASK, COLLECTOR)


@cache
def batches(rounds: int = 1) -> tuple[Batch, Batch]:
    policy = bd.make("LinTS-SDP", dim=2, batch=SLOTS, horizon=600, epsilon=8.0, delta=1e-2)
    first, second = first_batches(policy, None, mixers=1, seeded=False)
    return replace(first, rounds=first.rounds * rounds), replace(second, rounds=second.rounds * rounds)


def slot(number: int) -> bytes:
    return number.to_bytes(16, "little")


def report(
    number: int, value: int = 100, *, epoch: int = 0, round_: int = 0, version: int = FINAL, **other: Any
) -> bytes:
    """Return a report of user `number` whose counts are all `value`."""
    own = slot(number)
    parts: dict[str, Any] = {"body": np.full(5, value, dtype="<u4").tobytes(), "key_id": 0, **other}
    parts.setdefault("tag", HONEST)
    return TaggedReport(slot=own, epoch=epoch, round=round_, version=version, **parts).to_bytes()


def proof(number: int, epoch: int = 0) -> bytes:
    return prove_unused(KEY, TASK, epoch, slot(number))


def receipt(number: int) -> bytes:
    return dumps({"number": number, "chain": "c" * 8})


def tagged(report: TaggedReport, plans: Sequence[Batch]) -> TaggedReport:
    """Return the report with the tag of its fields and its ticket, unless it has a tag."""
    plan = next((each.digest for each in plans if each.epoch == report.epoch), bytes(32))
    if report.tag != HONEST:
        return report
    parts = {name: getattr(report, name) for name in ("slot", "epoch", "version", "key_id", "body")}
    return TaggedReport.make(TICKETS.key(report.epoch, report.slot), plan, round_=report.round, **parts)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Collecting:
    """A collector with its database, which can be opened again."""

    def __init__(self, url: str, *, rounds: int = 1, grace: float = 5.0, answered: bool = False) -> None:
        self.url, self.clock, self.plans = url, Clock(), batches(rounds)
        self._how: dict[str, Any] = {"grace": grace, "answered": answered, "clock": self.clock}
        self.database: Database
        self.collector: Collector
        self.begin()
        self.collector.plan(self.plans, (0, 0))

    def begin(self) -> None:
        """Open the database as after a crash."""
        self.database = open_database(self.url, role="shuffler", schema=collector.SCHEMA)
        self.collector = Collector(self.database, task_id="t", task=TASK, key=KEY, **self._how)

    def restart(self) -> None:
        self.database.close()
        self.begin()

    def send(self, *reports: bytes) -> list[ReportVerdict]:
        return self.collector.accept([self.request(*reports)])[0]

    def request(self, *reports: bytes) -> bytes:
        return join_reports([tagged(TaggedReport.from_bytes(each), self.plans).to_bytes() for each in reports])

    def fill(self, epoch: int = 0, first: int = 0, users: int = SLOTS) -> list[int]:
        """Send a report for every round of so many users and return their places."""
        rounds = range(len(self.plans[0].rounds))
        sent = [self.send(*(report(user, epoch=epoch, round_=each) for each in rounds))
                for user in range(first, first + users)]  # fmt: skip
        return [verdicts[0].place for verdicts in sent]

    def rows(self) -> list[tuple[Any, ...]]:
        query = "select epoch, round, place, version, slot from reports join slots using (epoch, place)"
        query += " order by epoch, place, round, version"
        with self.database.reading() as rows:
            return [tuple(row) for row in rows.execute(query)]
