"""Accept, close, forget: every step is one transaction, and what was acknowledged is in it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bandanna.errors import InvalidArgument, InvalidStatistic
from bandanna.roles.collector import closing
from bandanna.roles.collector.filling import Filling
from bandanna.roles.collector.tables import INSERT
from bandanna.roles.collector.verdict import MALFORMED, Verdict
from bandanna.storage.database import Database, Transaction
from bandanna.wire.canonical import dumps, loads
from bandanna.wire.plan import Batch, Round
from bandanna.wire.record import FINAL, split
from bandanna.wire.sealing import checksum
from bandanna.wire.shares import write_share
from bandanna.wire.ticket import agrees, refusal, ticket

Fields = tuple[bytes, bytes, int, int, int, int, bytes]  # slot, mac, epoch, round, version, key_id, body

_KEPT = 2  # batches that are over, of which it is still known which slots were in them


@dataclass(frozen=True, kw_only=True)
class Closed:
    """A round of a batch that waits for its receipt: what is to be forwarded."""

    epoch: int
    round: int
    share: bytes


class Collector:
    """The slots of the running batch and of the one after it.

    task, key  of the tickets
    grace      seconds between full and closed;  answered: of tests, close when all have reported
    name       who forwards;  finish: what a mixer does before it closes a batch, for mixers that draw noise
    """

    MOST = 1000  # records in a request

    def __init__(
        self,
        database: Database,
        *,
        task_id: str,
        task: bytes,
        key: bytes,
        grace: float,
        answered: bool = False,
        name: str = "shuffler",
        clock: Callable[[], float] = time.time,
        finish: closing.Finish = closing.nothing,
    ) -> None:
        self._database, self._task_id, self._task, self._key = database, task_id, task, key
        self._grace, self._answered, self._name, self._clock, self._finish = grace, answered, name, clock, finish
        self._lock = threading.RLock()
        self._fillings: dict[int, Filling] = {}
        self._over: dict[int, Filling] = {}
        self.running = (0, 0)  # epoch and round of the batch that is closed next
        self.closes_at: float | None = None  # when that is; None: it waits for slots, or for its receipt
        self._closed = False
        self._told = False  # whether it has heard of a plan, or knows one
        self._doubt = False  # whether a step has failed, so that the rows may say something else
        self._restore()

    @contextmanager
    def _sure(self) -> Iterator[None]:
        """Alone, with a memory that agrees with the rows: after a step that has failed it is rebuilt from them."""
        with self._lock:
            if self._doubt:
                self._restore()
            self._doubt = True
            yield
            self._doubt = False

    def _restore(self) -> None:
        """From the rows; as it was, if they cannot be read."""
        fillings: dict[int, Filling] = {}
        with self._database.reading() as rows:
            for epoch, text in rows.execute("select epoch, plan from plans order by epoch"):
                fillings[epoch] = Filling(Batch.from_dict(loads(text)))
            query = "select epoch, round, place, version, slot, body from reports order by epoch, place, round, version"
            for epoch, round_, place, version, slot, body in rows.execute(query):
                filling = fillings[epoch]
                if slot not in filling.places:
                    filling.open(slot)
                filling.put(round_, place, version, body)
            done = "select epoch, count(*) from batches where state = 'receipted' group by epoch"
            receipted = {int(epoch): int(count) for epoch, count in rows.execute(done)}
        self._fillings = fillings
        if fillings:
            first = min(fillings)
            self.running = max(self.running, (first, receipted.get(first, 0)))
        self._told = self._told or bool(fillings)
        self._look()

    def _look(self) -> None:
        """Which round is closed next, and when."""
        with self._database.reading() as rows:
            found = rows.execute("select epoch, round, state, closes_at from batches order by epoch, round")
        states = {(epoch, round_): (state, at) for epoch, round_, state, at in found}
        state, at = states.get(self.running, ("filling", None))
        self.closes_at = at if state == "full" else None
        self._closed = state in ("closed", "receipted")

    def plan(self, batches: Sequence[Batch], running: tuple[int, int]) -> None:
        """The newest public plan: the running batch and its round, and the batch after it, where it is known."""
        with self._sure():
            wanted = {batch.epoch: batch for batch in batches if batch.rounds}
            with self._database.transaction() as rows:
                for epoch in [each for each in self._fillings if each not in wanted]:
                    self._forget(rows, epoch)
                for epoch, batch in wanted.items():
                    if epoch not in self._fillings:
                        rows.execute("insert into plans values (?, ?)", epoch, dumps(batch.to_dict()).decode())
                        self._fillings[epoch] = Filling(batch)
                filling = self._fillings.get(running[0])
                if filling is not None and filling.full:
                    self._begin(rows, running)
            self.running, self._told = running, True
            self._look()

    def _begin(self, rows: Transaction, running: tuple[int, int]) -> None:
        """A round whose batch is full closes when grace has passed since now."""
        query = "insert into batches values (?, ?, 'full', ?, null, null) on conflict do nothing"
        rows.execute(query, *running, self._clock() + self._grace)

    def _forget(self, rows: Transaction, epoch: int) -> None:
        rows.execute("delete from reports where epoch = ?", epoch)
        rows.execute("delete from plans where epoch = ?", epoch)
        rows.execute("delete from batches where epoch < ?", epoch - 20)  # receipts of long ago witness nothing new
        self._over[epoch] = self._fillings.pop(epoch)
        for old in sorted(self._over)[:-_KEPT]:
            del self._over[old]

    def accept(self, requests: Sequence[bytes]) -> list[list[Verdict]]:
        """Keep what may be kept of these requests, in one transaction: when this returns, it is durable."""
        with self._sure():
            parsed = [self._parsed(request) for request in requests]
            wrong = self._out_of_range([record for records in parsed for record in records or ()])
            rows: list[tuple[Any, ...]] = []
            before = self._full_running()
            verdicts = [
                [MALFORMED] if records is None else list(self._admitted(records, wrong, rows)) for records in parsed
            ]
            if rows:
                with self._database.transaction() as written:
                    written.many(INSERT, rows)
                    if self._full_running() and not before:
                        self._begin(written, self.running)
                if self._full_running() and not before:
                    self._look()
            return verdicts

    def _full_running(self) -> bool:
        filling = self._fillings.get(self.running[0])
        return filling is not None and filling.full

    def _parsed(self, request: bytes) -> list[Fields] | None:
        try:
            return list(split(request, self.MOST)) or None
        except InvalidArgument:
            return None

    def _round(self, record: Fields) -> Round | None:
        """The round that a record is for, if it has its length."""
        filling, number = self._fillings.get(record[2]), record[3]
        if filling is None or number >= len(filling.plan.rounds) or record[4] > FINAL:
            return None
        found = filling.plan.rounds[number]
        return found if len(record[6]) == found.size else None

    def _out_of_range(self, records: Sequence[Fields]) -> set[int]:
        """Records (by identity) whose numbers no honest device sends, where a mixer can see them."""
        groups: dict[tuple[int, int], list[Fields]] = {}
        for record in records:
            if self._round(record) is not None:
                groups.setdefault((record[2], record[3]), []).append(record)
        wrong: set[int] = set()
        for (epoch, number), group in groups.items():
            round_ = self._fillings[epoch].plan.rounds[number]
            if not closing.in_range(round_, [record[6] for record in group]):
                wrong.update(id(one) for one in group if not closing.in_range(round_, [one[6]]))
        return wrong

    def _admitted(self, records: list[Fields], wrong: set[int], rows: list[tuple[Any, ...]]) -> Iterator[Verdict]:
        """One verdict for each record of a request."""
        fresh: dict[tuple[int, bytes], set[int]] = {}  # rounds that a request has of slots that are not open
        for record in records:
            slot, _, epoch, round_, *_ = record
            filling = self._fillings.get(epoch)
            if filling is None or slot in filling.places:
                continue
            if len(filling.plan.rounds) == 1 or self._sound(record, wrong):
                fresh.setdefault((epoch, slot), set()).add(round_)
        for record in records:
            yield self._verdict(record, wrong, rows, fresh.get((record[2], record[0]), set()))

    def _sound(self, record: Fields, wrong: set[int]) -> bool:
        """Whether it would be kept: a slot with a round that is not would keep its batch open for ever."""
        mac = ticket(self._key, self._task, record[2], record[0])
        return agrees(record[1], mac) and self._round(record) is not None and id(record) not in wrong

    def _verdict(self, record: Fields, wrong: set[int], rows: list[tuple[Any, ...]], rounds: set[int]) -> Verdict:
        slot, mac, epoch, round_, version, key_id, body = record
        if not agrees(mac, ticket(self._key, self._task, epoch, slot)):
            return Verdict(reason="ticket")
        filling = self._fillings.get(epoch)
        if filling is None:
            late = self._told and epoch <= self.running[0]
            return self._too_late(epoch, slot) if late else Verdict(reason="early")
        if self._round(record) is None:
            return Verdict(reason="length")
        if id(record) in wrong:
            return Verdict(reason="range")
        place = filling.places.get(slot)
        if place is None:
            if epoch > self.running[0] and not self._full_running():
                return Verdict(reason="early")
            if filling.full:
                return Verdict(reason="full", refusal=refusal(self._key, self._task, epoch, slot))
            if (epoch, 0) < self.running or ((epoch, 0) == self.running and self._closed):
                return Verdict(reason="closed")  # its slots are gone with its reports: nothing says that it is none
            if len(rounds) != len(filling.plan.rounds):
                return Verdict(reason="incomplete")
            place = filling.open(slot)
        known = filling.has(round_, place, version, body)
        if known is None:
            return Verdict(reason="other")
        if not known:
            if (epoch, round_) < self.running or ((epoch, round_) == self.running and self._closed):
                return Verdict(reason="closed")
            filling.put(round_, place, version, body)
            rows.append((epoch, round_, place, version, slot, mac, key_id, body))
        return Verdict(place=place)

    def _too_late(self, epoch: int, slot: bytes) -> Verdict:
        over = self._over.get(epoch)
        if over is None:
            return Verdict(reason="closed")
        unused = slot not in over.places
        return Verdict(reason="closed", refusal=refusal(self._key, self._task, epoch, slot) if unused else b"")

    def close_due(self) -> bool:
        """Close the running round if it is due: its share is computed from the rows, and durable."""
        with self._sure():
            filling = self._fillings.get(self.running[0])
            if filling is None or self.closes_at is None:
                return False
            self.closes_at = min(self.closes_at, self._clock() + self._grace)  # a clock that was set back
            due = filling.answered(self.running[1]) if self._answered else self._clock() >= self.closes_at
            if not due:
                return False
            with self._database.transaction() as rows:
                share = self._share(rows, filling.plan, *self.running)
                query = "update batches set state = 'closed', share = ? where epoch = ? and round = ?"
                rows.execute(query, share.decode(), *self.running)
            self._look()
            return True

    def _share(self, rows: Transaction, plan: Batch, epoch: int, round_: int) -> bytes:
        query = "select place, slot, body from reports where epoch = ? and round = ? order by place, version"
        newest = {place: (slot, body) for place, slot, body in rows.execute(query, epoch, round_)}
        if sorted(newest) != list(range(plan.slots)):
            raise InvalidStatistic("reports", len(newest), f"one for each of {plan.slots} slots")
        bodies = [newest[place][1] for place in range(plan.slots)]
        views = closing.views(rows, plan, round_, bodies, self._finish)
        last = _last_receipt(rows)
        return write_share(
            task_id=self._task_id,
            epoch=epoch,
            round_=round_,
            mixer=self._name,
            count=plan.slots,
            checksum=checksum(slot for slot, _ in newest.values()),
            bad=0,
            parts=views,
            witness=None if last is None else (last["number"], last["chain"]),
        )

    def waiting(self) -> list[Closed]:
        """Rounds that are closed and have no receipt."""
        query = "select epoch, round, share from batches where state = 'closed' order by epoch, round"
        with self._database.reading() as rows:
            return [Closed(epoch=e, round=r, share=share.encode()) for e, r, share in rows.execute(query)]

    def entries(self, epoch: int, round_: int) -> tuple[Batch, list[tuple[bytes, bytes, int, bytes]]] | None:
        """The plan of a batch, and slot, mac, key and body of every place: what a helper's job is made of.

        None if the analyzer is beyond the batch: its reports are gone.
        """
        query = (
            "select place, slot, mac, key_id, body from reports where epoch = ? and round = ? order by place, version"
        )
        with self._lock, self._database.reading() as rows:
            if epoch not in self._fillings:
                return None
            newest = {place: tuple(rest) for place, *rest in rows.execute(query, epoch, round_)}
            return self._fillings[epoch].plan, [newest[place] for place in sorted(newest)]

    def receipted(self, epoch: int, round_: int, receipt: bytes) -> None:
        """What was forwarded has arrived: the reports of the round are deleted, those of the batch with its last."""
        with self._lock, self._database.transaction() as rows:
            query = "update batches set state = 'receipted', share = null, receipt = ? where epoch = ? and round = ?"
            rows.execute(query, receipt.decode(), epoch, round_)
            rows.execute("delete from reports where epoch = ? and round = ?", epoch, round_)
        self._database.scrub()  # what was deleted is gone from the log of changes too

    def last_receipt(self) -> Any | None:
        """The newest, as a witness of what the analyzer has released."""
        with self._database.reading() as rows:
            return _last_receipt(rows)

    def progress(self) -> dict[str, Any]:
        """For whoever watches: public numbers."""
        with self._lock:
            open_ = next((each for each in self._fillings.values() if not each.full), None)
            filling = self._fillings.get(self.running[0])
            return {
                "epoch": self.running[0],
                "round": self.running[1],
                "open": None if open_ is None else open_.plan.epoch,
                "slots": 0 if filling is None else len(filling.places),
                "of": 0 if filling is None else filling.plan.slots,
                "closes_at": self.closes_at,
            }


def _last_receipt(rows: Transaction) -> Any | None:
    """The newest that the analyzer has signed; batches that it knew better have none."""
    query = "select receipt from batches where state = 'receipted' order by epoch desc, round desc limit 20"
    receipts = (loads(text) for (text,) in rows.execute(query))
    return next((each for each in receipts if each["number"] >= 0), None)
