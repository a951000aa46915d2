"""Accept, close, forget: every step is one transaction, and what was acknowledged is in it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from bandanna.errors import BandannaError, InvalidArgument, InvalidStatistic, Summary
from bandanna.roles.collector import closing, tables
from bandanna.roles.collector.filling import Filling
from bandanna.roles.collector.verdict import MALFORMED, Verdict
from bandanna.storage.database import Database, Transaction
from bandanna.wire.canonical import dumps, loads
from bandanna.wire.plan import Batch
from bandanna.wire.record import FINAL, Fields, is_tagged, split
from bandanna.wire.sealing import checksum
from bandanna.wire.shares import write_share
from bandanna.wire.ticket import COLLECTOR, Tickets, refusal

Plan = tuple[Sequence[Batch], tuple[int, int]]  # the running batch and the one after it; epoch and round awaited

_KEPT = 4  # batches that are over, of which the slots are in memory: those that were asked for last


@dataclass(frozen=True, kw_only=True)
class Closed:
    """A round of a batch that waits for its receipt: what is to be forwarded."""

    epoch: int
    round: int
    share: bytes


@dataclass(frozen=True, kw_only=True)
class _New:
    """What the requests of one transaction bring.

    wrong  records, by identity, whose numbers no honest device sends;  seals: whose sealed reports they are
    """

    wrong: set[int]
    slots: list[tuple[int, int, bytes]] = field(default_factory=list)
    reports: list[tuple[Any, ...]] = field(default_factory=list)
    seals: dict[tuple[int, int, bytes], bytes] = field(default_factory=dict)


class Collector:
    """The slots of the running batch and of the one after it.

    task, key  of the tickets: the key is the one that the registrar and this collector share
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
        self._tickets = Tickets(key, task, COLLECTOR)
        self._lock = threading.RLock()
        self._fillings: dict[int, Filling] = {}
        self._used: dict[int, bytes] = {}  # of batches that are over, the digests of their plans
        self._slots_used: dict[int, Any] = {}
        self.running = (0, 0)  # epoch and round of the batch that is closed next
        self.closes_at: float | None = None  # when that is; None: it waits for slots, or for its receipt
        self._closed = False  # the running round
        self._waits = False  # whether a closed round waits for its receipt
        self._told = False  # whether it knows of any plan
        self._known = False  # whether memory is what the rows say
        self._restore()

    def _restore(self) -> None:
        """From the rows, unless memory is known to agree with them."""
        if self._known:
            return
        fillings: dict[int, Filling] = {}
        with self._database.reading() as rows:
            for epoch, text in rows.execute("select epoch, plan from plans order by epoch"):
                fillings[epoch] = Filling(Batch.from_dict(loads(text)))
            for epoch, place, slot in rows.execute("select epoch, place, slot from slots order by epoch, place"):
                if slot in fillings[epoch].places or fillings[epoch].open(slot) != place:
                    raise BandannaError(f"{self._database.name} has a slot at two places, or a place without a slot")
            query = "select epoch, round, place, version, body from reports order by epoch, place, round, version"
            for epoch, round_, place, version, body in rows.execute(query):
                fillings[epoch].put(round_, place, version, body)
            done = "select epoch, count(*) from batches where state = 'receipted' group by epoch"
            receipted = {int(epoch): int(count) for epoch, count in rows.execute(done)}
            self._used, self._slots_used = tables.plans_used(rows), {}
        self._fillings = fillings
        if fillings:
            first = min(fillings)
            self.running = max(self.running, (first, receipted.get(first, 0)))
        self._told = self._told or bool(fillings)
        self._look()
        self._known = True

    def _look(self) -> None:
        """Which round is closed next, and when."""
        with self._database.reading() as rows:
            found = rows.execute("select epoch, round, state, closes_at from batches order by epoch, round")
        states = {(epoch, round_): (state, at) for epoch, round_, state, at in found}
        state, at = states.get(self.running, ("filling", None))
        self.closes_at = at if state == "full" else None
        self._closed = state in ("closed", "receipted")
        self._waits = any(state == "closed" for state, _ in states.values())

    def plan(self, batches: Sequence[Batch], running: tuple[int, int]) -> None:
        """The newest public plan: the running batch and its round, and the batch after it, where it is known."""
        with self._changing():
            wanted = {batch.epoch: batch for batch in batches if batch.rounds}
            forgets = not self._fillings.keys() <= wanted.keys()
            self._replan(wanted, running, over=not batches)
            self.running, self._told = running, True
            self._look()
        if forgets:
            self._database.scrub()  # slots of batches that are over are gone from the log of changes too

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Alone, with a memory that agrees with the rows; if it fails, memory is read from them before it is used."""
        with self._lock:
            self._restore()
            self._known = False
            yield
            self._known = True

    def _replan(self, wanted: dict[int, Batch], running: tuple[int, int], *, over: bool) -> None:
        with self._database.transaction() as rows:
            _check_streams(rows, wanted, running[0])
            for epoch in [each for each in self._fillings if each not in wanted]:
                self._forget(rows, epoch)
            for epoch, batch in wanted.items():
                if epoch not in self._fillings:
                    _check_new(rows, epoch)
                    rows.execute("insert into plans values (?, ?)", epoch, dumps(batch.to_dict()).decode())
                    self._fillings[epoch] = Filling(batch)
            if over and self._used:  # there is no batch for which anybody could need another ticket
                rows.execute("delete from used")
                self._used, self._slots_used = {}, {}
            filling = self._fillings.get(running[0])
            if filling is not None and filling.full:
                self._begin(rows, running)

    def _begin(self, rows: Transaction, running: tuple[int, int]) -> None:
        """A round whose batch is full closes when grace has passed since now."""
        query = "insert into batches values (?, ?, 'full', ?, null, null) on conflict do nothing"
        rows.execute(query, *running, self._clock() + self._grace)

    def _forget(self, rows: Transaction, epoch: int) -> None:
        rows.execute("delete from reports where epoch = ?", epoch)
        rows.execute("delete from plans where epoch = ?", epoch)
        rows.execute("insert into batches values (?, 0, 'dropped', 0, null, null) on conflict do nothing", epoch)
        rows.execute("delete from batches where epoch < ?", epoch - 20)  # receipts of long ago witness nothing new
        plan = self._fillings.pop(epoch).plan.digest
        tables.use_up(rows, epoch, plan)
        self._used[epoch] = plan

    def accept(self, requests: Sequence[bytes]) -> list[list[Verdict]]:
        """Keep what may be kept of these requests, in one transaction: when this returns, it is durable."""
        with self._changing():
            parsed = [self._parsed(request) for request in requests]
            new = _New(wrong=self._out_of_range(parsed))
            before = self._full_running()
            verdicts = [[MALFORMED] if records is None else self._admitted(records, new) for records in parsed]
            if new.reports:
                begins = self._full_running() and not before
                with self._database.transaction() as written:
                    written.many(tables.OPEN, new.slots)
                    written.many(tables.INSERT, new.reports)
                    if begins:
                        self._begin(written, self.running)
                if begins:
                    self._look()
            elif any(verdict is not MALFORMED for each in verdicts for verdict in each):  # said from memory alone
                self.check_claim()
            return verdicts

    def check_claim(self) -> None:
        """Refuse, with Fenced, to say or to send anything where another process serves the database."""
        self._database.check_claim()

    def _full_running(self) -> bool:
        filling = self._fillings.get(self.running[0])
        return filling is not None and (filling.full or self.running[1] >= len(filling.sizes))

    def _parsed(self, request: bytes) -> list[Fields] | None:
        try:
            return split(request, self.MOST) or None
        except InvalidArgument:
            return None

    def _out_of_range(self, parsed: Sequence[list[Fields] | None]) -> set[int]:
        """Records (by identity) whose numbers no honest device sends, where a mixer can see them."""
        groups: dict[tuple[int, int], list[Fields]] = {}
        for records in parsed:
            for record in records or ():
                groups.setdefault((record[2], record[3]), []).append(record)
        wrong: set[int] = set()
        for (epoch, number), group in groups.items():
            filling = self._fillings.get(epoch)
            if filling is None or number >= len(filling.plan.rounds):
                continue
            round_, size = filling.plan.rounds[number], filling.sizes[number]
            whole = [record for record in group if len(record[6]) == size]
            if whole and not closing.in_range(round_, [record[6] for record in whole]):
                wrong.update(id(one) for one in whole if not closing.in_range(round_, [one[6]]))
        return wrong

    def _admitted(self, records: list[Fields], new: _New) -> list[Verdict]:
        """One verdict for each record of a request."""
        refused = [self._checked(record, new) for record in records]
        offered: dict[tuple[int, bytes], set[int]] = {}  # the rounds for which a request has good reports of a slot
        if any(len(filling.sizes) > 1 for filling in self._fillings.values()):
            for record, verdict in zip(records, refused, strict=True):
                if verdict is None:
                    offered.setdefault((record[2], record[0]), set()).add(record[3])
        return [
            self._placed(record, offered, new) if verdict is None else verdict
            for record, verdict in zip(records, refused, strict=True)
        ]

    def _checked(self, record: Fields, new: _New) -> Verdict | None:
        """What is wrong with a record, whatever its slot has sent before; None if nothing is."""
        slot, _, epoch, round_, version, _, body = record
        filling = self._fillings.get(epoch)
        plan = self._used.get(epoch) if filling is None else filling.plan.digest
        if plan is None:  # without its plan a tag cannot be told from a forged one: both are told as little
            return Verdict(reason="closed" if self._told and epoch <= self.running[0] else "early")
        if not is_tagged(record, self._tickets.key(epoch, slot), plan):  # forged, changed, or of another plan
            return Verdict(reason="ticket")
        if filling is None:
            return self._too_late(epoch, slot)
        if round_ >= len(filling.sizes) or version > FINAL or len(body) != filling.sizes[round_]:
            return Verdict(reason="length")
        if new.wrong and id(record) in new.wrong:
            return Verdict(reason="range")
        if filling.sealed[round_] and self._is_copy(filling, record, new):
            return Verdict(reason="copy")
        return None

    def _is_copy(self, filling: Filling, record: Fields, new: _New) -> bool:
        """Whether a sealed report, or what it was sealed with, is that of another slot."""
        slot, _, epoch, round_, _, _, body = record
        place = filling.places.get(slot)
        for seal in closing.encapsulations(filling.plan.rounds[round_], body):
            if filling.seals[round_].get(seal, place) != place or (
                new.seals.setdefault((epoch, round_, seal), slot) != slot
            ):
                return True
        return False

    def _placed(self, record: Fields, offered: dict[tuple[int, bytes], set[int]], new: _New) -> Verdict:
        """A place for a good record, if there is one."""
        slot, _, epoch, round_, version, key_id, body = record
        filling, running = self._fillings[epoch], self.running
        over = (epoch, round_) < running or (self._closed and (epoch, round_) == running)
        place = filling.places.get(slot)
        if place is None:
            if epoch > running[0] and not self._full_running():
                return Verdict(reason="early")
            if len(filling.places) >= filling.plan.slots:
                return Verdict(reason="full", refusal=refusal(self._key, self._task, epoch, slot))
            if over:
                return Verdict(reason="closed")
            if len(filling.sizes) > 1 and len(offered[epoch, slot]) != len(filling.sizes):
                return Verdict(reason="incomplete")
            place = filling.open(slot)
            new.slots.append((epoch, place, slot))
        else:
            known = filling.has(round_, place, version, body)
            if known or known is None:
                return Verdict(place) if known else Verdict(reason="other")
            if over:
                return Verdict(reason="closed")
        filling.put(round_, place, version, body)
        new.reports.append((epoch, round_, place, version, key_id, body))
        return Verdict(place)

    def _too_late(self, epoch: int, slot: bytes) -> Verdict:
        """A proof for a slot that was not in a batch that is over: its rows say which slots were."""
        if epoch not in self._slots_used:
            while len(self._slots_used) >= _KEPT:
                del self._slots_used[next(iter(self._slots_used))]
            with self._database.reading() as rows:
                self._slots_used[epoch] = tables.slots_used(rows, epoch)
        if tables.was_used(slot, self._slots_used[epoch]):
            return Verdict(reason="closed")
        return Verdict(reason="closed", refusal=refusal(self._key, self._task, epoch, slot))

    def close_due(self) -> bool:
        """Close the running round if it is due: its share is computed from the rows, and durable."""
        if self._known and self.closes_at is None:
            return False
        with self._changing():
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
        newest = {place: (slot, body) for place, slot, _, body in rows.execute(tables.OF_ROUND, epoch, round_)}
        if sorted(newest) != list(range(plan.slots)):
            raise InvalidStatistic("reports", Summary(len(newest)), f"one for each of {plan.slots} slots")
        bodies = [newest[place][1] for place in range(plan.slots)]
        views = closing.views(rows, plan, round_, bodies, self._finish)
        return write_share(
            task_id=self._task_id,
            epoch=epoch,
            round_=round_,
            mixer=self._name,
            count=plan.slots,
            checksum=checksum(slot for slot, _ in newest.values()),
            bad=0,
            parts=views,
        )

    def waiting(self) -> list[Closed]:
        """Rounds that are closed and have no receipt."""
        if self._known and not self._waits:
            return []
        query = "select epoch, round, share from batches where state = 'closed' order by epoch, round"
        with self._database.reading() as rows:
            return [Closed(epoch=e, round=r, share=share.encode()) for e, r, share in rows.execute(query)]

    def entries(self, epoch: int, round_: int) -> tuple[Batch, list[tuple[bytes, int, bytes]]] | None:
        """The plan of a batch, and slot, key and body of every place: what a helper's job is made of.

        None if the batch is over: its reports are gone.
        """
        with self._lock, self._database.reading() as rows:
            if epoch not in self._fillings:
                return None
            newest = {place: tuple(rest) for place, *rest in rows.execute(tables.OF_ROUND, epoch, round_)}
            return self._fillings[epoch].plan, [newest[place] for place in sorted(newest)]

    def receipted(self, epoch: int, round_: int, receipt: bytes) -> None:
        """What was forwarded has arrived: the reports of the round are deleted, those of the batch with its last."""
        with self._changing():
            with self._database.transaction() as rows:
                query = (
                    "update batches set state = 'receipted', share = null, receipt = ? where epoch = ? and round = ?"
                )
                rows.execute(query, receipt.decode(), epoch, round_)
                rows.execute("delete from reports where epoch = ? and round = ?", epoch, round_)
            self._look()
        self._database.scrub()  # what was deleted is gone from the log of changes too

    def last_receipt(self) -> Any | None:
        """The newest: what the analyzer is known to have released."""
        with self._database.reading() as rows:
            return _last_receipt(rows)

    def glance(self) -> tuple[int, int, int]:
        """Running batch, its open slots, those that it needs: a moment old perhaps, and without waiting for a lock."""
        epoch = self.running[0]
        filling = self._fillings.get(epoch)
        return (epoch, 0, 0) if filling is None else (epoch, len(filling.places), filling.plan.slots)

    def progress(self) -> dict[str, Any]:
        """For whoever watches: public numbers."""
        (epoch, round_), fillings = self.running, self._fillings.copy()  # without waiting for who writes
        open_ = next((each for each in fillings.values() if not each.full), None)
        filling = fillings.get(epoch)
        return {
            "epoch": epoch,
            "round": round_,
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


def _check_new(rows: Transaction, epoch: int) -> None:
    """Refuse a batch under a number that was used: slots were refused for good there, and reports were forwarded."""
    ((last,),) = rows.execute("select max(epoch) from batches")
    if last is not None and epoch <= last:
        raise BandannaError(f"batch {epoch} is announced after batch {last}: the analyzer has gone back")


def _check_streams(rows: Transaction, wanted: dict[int, Batch], epoch: int) -> None:
    """Refuse to go on with a stream of which batches are missing here: sums of higher levels would lack people."""
    if not any(part.stream is not None for batch in wanted.values() for each in batch.rounds for part in each.parts):
        return
    query = "select max(epoch) from batches where state = 'receipted' and receipt not like ?"
    ((last,),) = rows.execute(query, '%"outcome":"over"%')  # of which the analyzer knew other totals
    if epoch > (-1 if last is None else last) + 1:
        raise BandannaError(f"batch {epoch} is next, and those after {last} were not added here: restore the database")
