"""The collector: accepts reports, closes batches and mixes them."""

from __future__ import annotations

import hashlib
import threading
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from bandanna.deployment.messages.batch_plan import Batch, Part, Round
from bandanna.deployment.messages.canonical import (
    COLLECTOR,
    ENCAPSULATION,
    TicketKeys,
    dumps,
    encode_base64url,
    loads,
    prove_unused,
)
from bandanna.deployment.messages.report import (
    FINAL,
    MALFORMED,
    ZERO,
    ReportFields,
    ReportVerdict,
    is_tagged,
    slots_checksum,
    split_reports,
)
from bandanna.deployment.messages.share import write_share
from bandanna.errors import BandannaError, InvalidArgument, InvalidStatistic, ValueSummary
from bandanna.protocols.factory import make_mixer_encoding, mix_messages
from bandanna.protocols.mixers import GatheringMixer
from bandanna.storage.database.base import Database, Transaction

# Mixing


Finish = Callable[[Any, Any], Any]  # (mixer, its state) -> its state


def skip_noise(mixer: Any, state: Any) -> Any:
    """Return the state of a mixer that draws no noise."""
    return state


@lru_cache(maxsize=256)
def mixer_from_text(text: str) -> Any:
    """Return the mixer that a plan contains as text."""
    return make_mixer_encoding().loads(text)


def are_bodies_in_range(round_: Round, bodies: Sequence[bytes]) -> bool:
    """Return whether honest devices may send all bodies, as far as this mixer sees them."""
    for part, own in zip(round_.parts, zip(*map(round_.cut, bodies), strict=True), strict=False):
        if part.form == "row":  # finite numbers that end with an arm, a group and whether there was an answer
            rows = part.numbers(own)
            tail = rows[:, -3:]
            if not (np.all(np.isfinite(rows)) and np.all((tail >= 0) & (tail < 2**31) & (tail == np.floor(tail)))):
                return False
        if part.form == "plain":
            try:
                mixer_from_text(part.mixer or "").check(part.numbers(own))
            except BandannaError:
                return False
    return True


def read_encapsulations(round_: Round, body: bytes) -> list[bytes]:
    """Return the keys with which a body's reports were sealed: a device draws a new one for each report."""
    parts = zip(round_.parts, round_.cut(body), strict=False)
    return [sealed[:ENCAPSULATION] for part, sealed in parts if part.form == "sealed"]


def mix_bodies(rows: Transaction, plan: Batch, round_: int, bodies: Sequence[bytes], finish: Finish) -> list[str]:
    """Mix each part and return what is forwarded; store the states of mixers of streams."""
    parts = plan.rounds[round_].parts
    by_arm = plan.rounds[round_].by_arm
    arms = plan.arms_at(np.arange(len(bodies))).tolist() if by_arm else []
    split = [plan.rounds[round_].cut(body) for body in bodies]
    forwarded = []
    for number, part in enumerate(parts):
        if by_arm:
            own = [each[0] for each, arm in zip(split, arms, strict=True) if arm == part.arm]
        else:
            own = [each[number] for each in split]
        forwarded.append(_mix_part(rows, part, f"{round_}.{number}.{part.stream}", own, finish))
    return forwarded


def _mix_part(rows: Transaction, part: Part, name: str, bodies: list[bytes], finish: Finish) -> str:
    encoding = make_mixer_encoding()
    if part.form == "row":
        return encoding.dumps(part.numbers(bodies))
    if part.form == "sealed":  # sorted, so that the order depends on the reports alone
        return encoding.dumps([encode_base64url(body) for body in sorted(bodies)])
    mixer = mixer_from_text(part.mixer or "")
    state = mixer.empty()
    if part.stream is not None:
        # Plans come from the analyzer. With smaller levels, and one user of its own, it would learn the sums of levels
        # that are not full, of users who added noise for a full one. So a stream keeps the mixer that it began with.
        found = rows.execute("select state from streams where name = ?", f"{name} mixer")
        if not found:
            rows.execute("insert into streams values (?, ?)", f"{name} mixer", part.mixer or "")
        elif found[0][0] != (part.mixer or ""):
            raise BandannaError("a stream continues with another mixer than it began with: its sums are not forwarded")
        found = rows.execute("select state from streams where name = ?", name)
        state = encoding.loads(found[0][0]) if found else state
    if isinstance(mixer, GatheringMixer) and part.dtype != "<f8":  # rows are forwarded, sorted as above
        bodies = sorted(bodies)
    state, views = mix_messages(mixer, state, part.numbers(bodies), finish)
    if part.stream is not None:
        rows.execute("delete from streams where name = ?", name)
        rows.execute("insert into streams values (?, ?)", name, encoding.dumps(state))
    return encoding.dumps(views)


# The slots of a batch in memory


_NO_REPORT = 255  # no version yet


class BatchIndex:
    """The slots of a batch by place, and the version and a hash (of this process only) of every report."""

    def __init__(self, plan: Batch) -> None:
        self.plan = plan
        self.sizes = [each.size for each in plan.rounds]  # of a body, by round
        self.places: dict[bytes, int] = {}
        self.versions = [bytearray() for _ in plan.rounds]
        self.hashes = [array("q") for _ in plan.rounds]
        self.finals = [0] * len(plan.rounds)
        self.sealed = [any(part.form == "sealed" for part in each.parts) for each in plan.rounds]
        self.seals: list[dict[bytes, int]] = [{} for _ in plan.rounds]  # places by key of sealed reports

    @property
    def full(self) -> bool:
        """Whether all slots are taken."""
        return len(self.places) >= self.plan.slots

    def open(self, slot: bytes) -> int:
        """Give a place to a new slot."""
        place = self.places[slot] = len(self.places)
        for versions in self.versions:
            versions.append(_NO_REPORT)
        for hashes in self.hashes:
            hashes.append(0)
        return place

    def put(self, round_: int, place: int, version: int, body: bytes) -> None:
        """Note a report that is stored."""
        before = self.versions[round_][place]
        self.versions[round_][place], self.hashes[round_][place] = version, hash(body)
        self.finals[round_] += (version == FINAL) - (before == FINAL)
        if self.sealed[round_]:
            for seal in read_encapsulations(self.plan.rounds[round_], body):
                self.seals[round_].setdefault(seal, place)

    def has(self, round_: int, place: int, version: int, body: bytes) -> bool | None:
        """Return whether this report or a later version is stored; None if another report of this version is.

        Any zero report counts as stored: refusing some would show who answered.
        """
        stored = self.versions[round_][place]
        if stored == _NO_REPORT or stored < version:
            return False
        return True if version == ZERO or stored > version or self.hashes[round_][place] == hash(body) else None

    def answered(self, round_: int) -> bool:
        """Return whether every slot has its final report."""
        return self.full and self.finals[round_] == self.plan.slots


# Tables


# plans    announced batches, until they are over
# slots    the slot at each place of a batch, until it is over: no place is given twice
# reports  append-only; the highest version of a place counts; deleted with the batch's receipt
# batches  one row per round of a batch: full(closes_at) -> closed(share) -> receipted(receipt);
#          dropped: a batch that was announced and never closed, whose number is not used again
# used     one row per batch that is over, until the task ends: the digest of its plan and a fingerprint of each slot,
#          which prove at any time that the owner of a late ticket was not in the batch
# streams  states of mixers across batches (sums of levels that are not full), and the mixer of each
#
# A collector gives places in order. A process with an old memory gives a place that the rows already have, and its
# transaction fails; so slots need no unique key. An index of random slots more than doubles the cost of an upload.
SCHEMA = """
create table plans (epoch {bigint} primary key, plan text not null);
create table slots (
    epoch {bigint} not null, place {bigint} not null, slot {blob} not null, primary key (epoch, place));
create table reports (
    epoch {bigint} not null, round {bigint} not null, place {bigint} not null, version {bigint} not null,
    key_id {bigint} not null, body {blob} not null, primary key (epoch, round, place, version));
create table batches (
    epoch {bigint} not null, round {bigint} not null, state text not null, closes_at {real} not null,
    share text, receipt text, primary key (epoch, round));
create table used (epoch {bigint} primary key, plan {blob} not null, slots {blob} not null);
create table streams (name text primary key, state text not null);
"""

INSERT_SLOT = "insert into slots (epoch, place, slot) values (?, ?, ?)"
INSERT_REPORT = "insert into reports (epoch, round, place, version, key_id, body) values (?, ?, ?, ?, ?, ?)"
SELECT_ROUND = (  # the newest version of a place is last
    "select place, slot, key_id, body from reports join slots using (epoch, place)"
    " where epoch = ? and round = ? order by place, version"
)

_FINGERPRINT = np.dtype(">u8")  # of a slot


Fingerprints = np.ndarray[tuple[int], np.dtype[np.uint64]]


def is_used(slot: bytes, used: Fingerprints) -> bool:
    """Return whether a slot was in a batch with these fingerprints.

    True for every slot that was. For another slot, True has a probability of 2^-64 per slot of the batch and costs its
    owner the proof.
    """
    (own,) = _slot_fingerprints([slot])
    place = int(np.searchsorted(used, own))
    return place < len(used) and bool(used[place] == own)


def _slot_fingerprints(slots: Iterable[bytes]) -> Fingerprints:
    content = b"".join(hashlib.sha256(slot).digest()[: _FINGERPRINT.itemsize] for slot in slots)
    return np.sort(np.frombuffer(content, dtype=_FINGERPRINT))


# The collector


Plan = tuple[Sequence[Batch], tuple[int, int]]  # running batch and the next one; epoch and round that are awaited

_CACHED_BATCHES = 4  # finished batches whose slots are in memory


@dataclass(frozen=True, kw_only=True)
class ClosedRound:
    """A round of a batch whose share has no receipt yet."""

    epoch: int
    round: int
    share: bytes


@dataclass(frozen=True, kw_only=True)
class _AcceptedReports:
    """The new rows of the requests of one transaction."""

    out_of_range: set[int]  # reports, by identity, whose numbers no honest device sends
    slots: list[tuple[int, int, bytes]] = field(default_factory=list)
    reports: list[tuple[Any, ...]] = field(default_factory=list)
    seals: dict[tuple[int, int, bytes], bytes] = field(default_factory=dict)  # slots by epoch, round and sealing key


class Collector:
    """Accepts reports of the running batch and the next one, closes batches, and deletes reports with their receipt.

    Every step is one transaction. A report is acknowledged after its transaction is committed.

    Parameters
    ----------
    key
        The key of tickets that the registrar and this collector share.
    grace
        Seconds between a full batch and its closing.
    answered
        Close a round when all slots have reported; for tests.
    name
        The role that forwards shares.
    finish
        Called before a mixer closes a batch, with the mixer and its state; returns the state, with noise if the mixer
        draws some.
    """

    MOST = 1000  # reports in a request

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
        finish: Finish = skip_noise,
    ) -> None:
        self._database, self._task_id, self._task, self._key = database, task_id, task, key
        self._grace, self._answered, self._name, self._clock, self._finish = grace, answered, name, clock, finish
        self._tickets = TicketKeys(key, task, COLLECTOR)
        self._lock = threading.RLock()
        self._fillings: dict[int, BatchIndex] = {}
        self._used: dict[int, bytes] = {}  # digests of the plans of finished batches
        self._used_slots: dict[int, Any] = {}  # fingerprints of their slots, for some
        self.running = (0, 0)  # epoch and round of the batch that is closed next
        self.closes_at: float | None = None  # None: the round is not full, or already closed
        self._closed = False  # the running round
        self._awaits_receipt = False  # whether a closed round has no receipt
        self._has_plan = False  # whether it has had any plan
        self._is_current = False  # whether memory agrees with the rows
        self._restore()

    def _restore(self) -> None:
        if self._is_current:
            return
        fillings: dict[int, BatchIndex] = {}
        with self._database.reading() as rows:
            for epoch, text in rows.execute("select epoch, plan from plans order by epoch"):
                fillings[epoch] = BatchIndex(Batch.from_dict(loads(text)))
            for epoch, place, slot in rows.execute("select epoch, place, slot from slots order by epoch, place"):
                if slot in fillings[epoch].places or fillings[epoch].open(slot) != place:
                    raise BandannaError(f"{self._database.name} has a slot at two places, or a place without a slot")
            query = "select epoch, round, place, version, body from reports order by epoch, place, round, version"
            for epoch, round_, place, version, body in rows.execute(query):
                fillings[epoch].put(round_, place, version, body)
            done = "select epoch, count(*) from batches where state = 'receipted' group by epoch"
            receipted = {int(epoch): int(count) for epoch, count in rows.execute(done)}
            used = rows.execute("select epoch, plan from used")
            self._used, self._used_slots = {int(epoch): bytes(digest) for epoch, digest in used}, {}
        self._fillings = fillings
        if fillings:
            first = min(fillings)
            self.running = max(self.running, (first, receipted.get(first, 0)))
        self._has_plan = self._has_plan or bool(fillings)
        self._read_deadline()
        self._is_current = True

    def _read_deadline(self) -> None:
        with self._database.reading() as rows:
            found = rows.execute("select epoch, round, state, closes_at from batches order by epoch, round")
        states = {(epoch, round_): (state, at) for epoch, round_, state, at in found}
        state, at = states.get(self.running, ("filling", None))
        self.closes_at = at if state == "full" else None
        self._closed = state in ("closed", "receipted")
        self._awaits_receipt = any(each == "closed" for each, _ in states.values())

    def plan(self, batches: Sequence[Batch], running: tuple[int, int]) -> None:
        """Enter the newest public plan: the running batch and its round, and the next batch."""
        with self._consistent_memory():
            announced = {batch.epoch: batch for batch in batches if batch.rounds}
            finished = [epoch for epoch in self._fillings if epoch not in announced]
            with self._database.transaction() as rows:
                _check_streams(rows, announced, running[0])
                for epoch in finished:
                    self._delete_batch(rows, epoch)
                for epoch, batch in announced.items():
                    if epoch not in self._fillings:
                        ((last,),) = rows.execute("select max(epoch) from batches")
                        if last is not None and epoch <= last:  # its slots are refused, or its reports forwarded
                            text = f"batch {epoch} is announced after batch {last}: the analyzer has gone back"
                            raise BandannaError(text)
                        rows.execute("insert into plans values (?, ?)", epoch, dumps(batch.to_dict()).decode())
                        self._fillings[epoch] = BatchIndex(batch)
                if not batches and self._used:  # the task is over, so no user needs another ticket
                    rows.execute("delete from used")
                    self._used, self._used_slots = {}, {}
                filling = self._fillings.get(running[0])
                if filling is not None and filling.full:
                    self._set_deadline(rows, running)
            self.running, self._has_plan = running, True
            self._read_deadline()
        if finished:
            self._database.scrub()  # delete their slots from the log of changes too

    @contextmanager
    def _consistent_memory(self) -> Iterator[None]:
        """Hold the lock, with a memory that agrees with the rows; after an error, the next step reads it again."""
        with self._lock:
            self._restore()
            self._is_current = False
            yield
            self._is_current = True

    def _set_deadline(self, rows: Transaction, running: tuple[int, int]) -> None:
        """Mark a round as full: it closes when the grace from now is over."""
        query = "insert into batches values (?, ?, 'full', ?, null, null) on conflict do nothing"
        rows.execute(query, *running, self._clock() + self._grace)

    def _delete_batch(self, rows: Transaction, epoch: int) -> None:
        """Delete a finished batch; the proof that a slot was not in it stays possible."""
        rows.execute("delete from reports where epoch = ?", epoch)
        rows.execute("delete from plans where epoch = ?", epoch)
        rows.execute("insert into batches values (?, 0, 'dropped', 0, null, null) on conflict do nothing", epoch)
        rows.execute("delete from batches where epoch < ?", epoch - 20)  # old receipts are not needed
        plan = self._used[epoch] = self._fillings.pop(epoch).plan.digest
        slots = (slot for (slot,) in rows.execute("select slot from slots where epoch = ?", epoch))
        rows.execute("insert into used values (?, ?, ?)", epoch, plan, _slot_fingerprints(slots).tobytes())
        rows.execute("delete from slots where epoch = ?", epoch)

    def accept(self, requests: Sequence[bytes]) -> list[list[ReportVerdict]]:
        """Store the valid reports of these requests in one durable transaction."""
        with self._consistent_memory():
            parsed = [_parse_request(request) for request in requests]
            new = _AcceptedReports(out_of_range=self._find_out_of_range(parsed))
            before = self._is_running_full()
            verdicts = [[MALFORMED] if reports is None else self._judge_reports(reports, new) for reports in parsed]
            if new.reports:
                begins = self._is_running_full() and not before
                with self._database.transaction() as written:
                    written.many(INSERT_SLOT, new.slots)
                    written.many(INSERT_REPORT, new.reports)
                    if begins:
                        self._set_deadline(written, self.running)
                if begins:
                    self._read_deadline()
            elif any(verdict is not MALFORMED for each in verdicts for verdict in each):  # from memory
                self.check_claim()
            return verdicts

    def check_claim(self) -> None:
        """Raise FencedError if another process serves the database, before anything is sent."""
        self._database.check_claim()

    def _is_running_full(self) -> bool:
        filling = self._fillings.get(self.running[0])
        return filling is not None and (filling.full or self.running[1] >= len(filling.sizes))

    def _find_out_of_range(self, parsed: Sequence[list[ReportFields] | None]) -> set[int]:
        """Return the reports, by identity, that no honest device sends."""
        groups: dict[tuple[int, int], list[ReportFields]] = {}
        for reports in parsed:
            for report in reports or ():
                groups.setdefault((report[2], report[3]), []).append(report)
        found: set[int] = set()
        for (epoch, number), group in groups.items():
            filling = self._fillings.get(epoch)
            if filling is None or number >= len(filling.plan.rounds):
                continue
            round_, size = filling.plan.rounds[number], filling.sizes[number]
            complete = [report for report in group if len(report[6]) == size]
            if complete and not are_bodies_in_range(round_, [report[6] for report in complete]):
                found.update(id(each) for each in complete if not are_bodies_in_range(round_, [each[6]]))
        return found

    def _judge_reports(self, reports: list[ReportFields], new: _AcceptedReports) -> list[ReportVerdict]:
        refused = [self._find_fault(report, new) for report in reports]
        offered: dict[tuple[int, bytes], set[int]] = {}  # the rounds for which a request has good reports of a slot
        if any(len(filling.sizes) > 1 for filling in self._fillings.values()):
            for report, verdict in zip(reports, refused, strict=True):
                if verdict is None:
                    offered.setdefault((report[2], report[0]), set()).add(report[3])
        return [
            self._give_place(report, offered, new) if verdict is None else verdict
            for report, verdict in zip(reports, refused, strict=True)
        ]

    def _find_fault(self, report: ReportFields, new: _AcceptedReports) -> ReportVerdict | None:
        """Return the refusal of a report that no state of its slot would allow, or None."""
        slot, _, epoch, round_, version, _, body = report
        filling = self._fillings.get(epoch)
        plan = self._used.get(epoch) if filling is None else filling.plan.digest
        if plan is None:  # without the plan, a forged tag cannot be recognised: the answer is the same
            return ReportVerdict(reason="closed" if self._has_plan and epoch <= self.running[0] else "early")
        if not is_tagged(report, self._tickets.key(epoch, slot), plan):  # forged, changed, or of another plan
            return ReportVerdict(reason="ticket")
        if filling is None:
            return self._verdict_on_closed_batch(epoch, slot)
        if round_ >= len(filling.sizes) or version > FINAL or len(body) != filling.sizes[round_]:
            return ReportVerdict(reason="length")
        if id(report) in new.out_of_range:
            return ReportVerdict(reason="range")
        if filling.sealed[round_] and self._is_copy(filling, report, new):
            return ReportVerdict(reason="copy")
        return None

    def _is_copy(self, filling: BatchIndex, report: ReportFields, new: _AcceptedReports) -> bool:
        """Return whether a sealed report, or the key that sealed it, belongs to another slot."""
        slot, _, epoch, round_, _, _, body = report
        place = filling.places.get(slot)
        for seal in read_encapsulations(filling.plan.rounds[round_], body):
            if filling.seals[round_].get(seal, place) != place:
                return True
            if new.seals.setdefault((epoch, round_, seal), slot) != slot:
                return True
        return False

    def _give_place(
        self, report: ReportFields, offered: dict[tuple[int, bytes], set[int]], new: _AcceptedReports
    ) -> ReportVerdict:
        slot, _, epoch, round_, version, key_id, body = report
        filling, running = self._fillings[epoch], self.running
        over = (epoch, round_) < running or (self._closed and (epoch, round_) == running)
        place = filling.places.get(slot)
        if place is None:
            if epoch > running[0] and not self._is_running_full():
                return ReportVerdict(reason="early")
            if len(filling.places) >= filling.plan.slots:
                return ReportVerdict(reason="full", refusal=prove_unused(self._key, self._task, epoch, slot))
            if over:
                return ReportVerdict(reason="closed")
            if len(filling.sizes) > 1 and len(offered[epoch, slot]) != len(filling.sizes):
                return ReportVerdict(reason="incomplete")
            place = filling.open(slot)
            new.slots.append((epoch, place, slot))
        else:
            stored = filling.has(round_, place, version, body)
            if stored is not False:
                return ReportVerdict(place) if stored else ReportVerdict(reason="other")
            if over:
                return ReportVerdict(reason="closed")
        filling.put(round_, place, version, body)
        new.reports.append((epoch, round_, place, version, key_id, body))
        return ReportVerdict(place)

    def _verdict_on_closed_batch(self, epoch: int, slot: bytes) -> ReportVerdict:
        """Return the refusal of a slot of a finished batch, with a proof if it was unused."""
        if epoch not in self._used_slots:
            while len(self._used_slots) >= _CACHED_BATCHES:
                del self._used_slots[next(iter(self._used_slots))]
            with self._database.reading() as rows:
                ((content,),) = rows.execute("select slots from used where epoch = ?", epoch)
            self._used_slots[epoch] = np.frombuffer(content, dtype=_FINGERPRINT)
        if is_used(slot, self._used_slots[epoch]):
            return ReportVerdict(reason="closed")
        return ReportVerdict(reason="closed", refusal=prove_unused(self._key, self._task, epoch, slot))

    def close_due(self) -> bool:
        """Close the running round if it is due, and store its share."""
        if self._is_current and self.closes_at is None:
            return False
        with self._consistent_memory():
            filling = self._fillings.get(self.running[0])
            if filling is None or self.closes_at is None:
                return False
            self.closes_at = min(self.closes_at, self._clock() + self._grace)  # if the clock was set back
            due = filling.answered(self.running[1]) if self._answered else self._clock() >= self.closes_at
            if not due:
                return False
            with self._database.transaction() as rows:
                share = self._compute_share(rows, filling.plan, *self.running)
                query = "update batches set state = 'closed', share = ? where epoch = ? and round = ?"
                rows.execute(query, share.decode(), *self.running)
            self._read_deadline()
            return True

    def _compute_share(self, rows: Transaction, plan: Batch, epoch: int, round_: int) -> bytes:
        newest = {place: (slot, body) for place, slot, _, body in rows.execute(SELECT_ROUND, epoch, round_)}
        if sorted(newest) != list(range(plan.slots)):
            raise InvalidStatistic("reports", ValueSummary(len(newest)), f"one for each of {plan.slots} slots")
        bodies = [newest[place][1] for place in range(plan.slots)]
        return write_share(
            task_id=self._task_id,
            epoch=epoch,
            round_=round_,
            mixer=self._name,
            count=plan.slots,
            checksum=slots_checksum(slot for slot, _ in newest.values()),
            bad=0,
            parts=mix_bodies(rows, plan, round_, bodies, self._finish),
        )

    def waiting(self) -> list[ClosedRound]:
        """Return the rounds that are closed and have no receipt."""
        if self._is_current and not self._awaits_receipt:
            return []
        query = "select epoch, round, share from batches where state = 'closed' order by epoch, round"
        with self._database.reading() as rows:
            return [ClosedRound(epoch=e, round=r, share=share.encode()) for e, r, share in rows.execute(query)]

    def entries(self, epoch: int, round_: int) -> tuple[Batch, list[tuple[bytes, int, bytes]]] | None:
        """Return the plan of a batch, and slot, key and body of every place; None after their deletion."""
        with self._lock, self._database.reading() as rows:
            if epoch not in self._fillings:
                return None
            newest = {place: tuple(rest) for place, *rest in rows.execute(SELECT_ROUND, epoch, round_)}
            return self._fillings[epoch].plan, [newest[place] for place in sorted(newest)]

    def receipted(self, epoch: int, round_: int, receipt: bytes) -> None:
        """Store a receipt and delete the reports of its round."""
        query = "update batches set state = 'receipted', share = null, receipt = ? where epoch = ? and round = ?"
        with self._consistent_memory():
            with self._database.transaction() as rows:
                rows.execute(query, receipt.decode(), epoch, round_)
                rows.execute("delete from reports where epoch = ? and round = ?", epoch, round_)
            self._read_deadline()
        self._database.scrub()  # delete them from the log of changes too

    def last_receipt(self) -> Any | None:
        """Return the newest receipt that the analyzer has signed, or None.

        A batch of which the analyzer had other totals has no signed receipt.
        """
        query = "select receipt from batches where state = 'receipted' order by epoch desc, round desc limit 20"
        with self._database.reading() as rows:
            receipts = [loads(text) for (text,) in rows.execute(query)]
        return next((each for each in receipts if each["number"] >= 0), None)

    def glance(self) -> tuple[int, int, int]:
        """Return running batch, open slots and wanted slots without a lock, perhaps a moment old."""
        epoch = self.running[0]
        filling = self._fillings.get(epoch)
        return (epoch, 0, 0) if filling is None else (epoch, len(filling.places), filling.plan.slots)

    def progress(self) -> dict[str, Any]:
        """Return how far the running batch is, in public numbers."""
        (epoch, round_), fillings = self.running, self._fillings.copy()  # without waiting for a writer
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


def _parse_request(request: bytes) -> list[ReportFields] | None:
    try:
        return split_reports(request, Collector.MOST) or None
    except InvalidArgument:
        return None


def _check_streams(rows: Transaction, batches: dict[int, Batch], epoch: int) -> None:
    """Refuse a stream with missing batches: sums of higher levels would lack users."""
    if not any(part.stream is not None for batch in batches.values() for each in batch.rounds for part in each.parts):
        return
    query = "select max(epoch) from batches where state = 'receipted' and receipt not like ?"
    ((last,),) = rows.execute(query, '%"outcome":"over"%')  # the analyzer had other totals
    if epoch > (-1 if last is None else last) + 1:
        raise BandannaError(f"batch {epoch} is next, and those after {last} were not added here: restore the database")
