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


Finish = Callable[[Any, Any], Any]  # mixer, held -> held


def finish_mixer_without_noise(mixer: Any, held: Any) -> Any:
    """Return what a mixer holds as it is: it draws no noise."""
    return held


@lru_cache(maxsize=256)
def mixer_from_text(text: str) -> Any:
    """Return the mixer that a plan names."""
    return make_mixer_encoding().loads(text)


def are_bodies_in_range(round_: Round, bodies: Sequence[bytes]) -> bool:
    """Tell whether all bodies hold numbers that an honest device may send, as far as this mixer sees them."""
    for part, cut in zip(round_.parts, zip(*map(round_.cut, bodies), strict=True), strict=False):
        if part.form == "row" and not _are_valid_rows(part.numbers(cut)):
            return False
        if part.form == "plain":
            try:
                mixer_from_text(part.mixer or "").check(part.numbers(cut))
            except BandannaError:
                return False
    return True


def read_encapsulations(round_: Round, body: bytes) -> list[bytes]:
    """Return the keys with which a body's reports were sealed: a device draws a new one for each of them."""
    pairs = zip(round_.parts, round_.cut(body), strict=False)
    return [cut[:ENCAPSULATION] for part, cut in pairs if part.form == "sealed"]


def _are_valid_rows(rows: np.ndarray[Any, Any]) -> bool:
    """Tell whether rows are finite numbers that end with an arm, a group and whether there was an answer."""
    tail = rows[:, -3:]
    return bool(np.all(np.isfinite(rows)) and np.all((tail >= 0) & (tail < 2**31) & (tail == np.floor(tail))))


def mix_bodies(rows: Transaction, plan: Batch, round_: int, bodies: Sequence[bytes], finish: Finish) -> list[str]:
    """Mix each part and return what is forwarded as texts; store what mixers still hold."""
    wanted, places = plan.rounds[round_], np.arange(len(bodies))
    arms = plan.arms_at(places) if wanted.by_arm else None
    cut = [wanted.cut(body) for body in bodies]
    forwarded = []
    for number, part in enumerate(wanted.parts):
        if arms is None:
            own = [each[number] for each in cut]
        else:
            own = [each[0] for each, arm in zip(cut, arms.tolist(), strict=True) if arm == part.arm]
        forwarded.append(_mix_part(rows, part, f"{round_}.{number}.{part.stream}", own, finish))
    return forwarded


def _mix_part(rows: Transaction, part: Part, name: str, bodies: list[bytes], finish: Finish) -> str:
    if part.form == "row":
        return make_mixer_encoding().dumps(part.numbers(bodies))
    if part.form == "sealed":  # in an order that only they decide
        return make_mixer_encoding().dumps([encode_base64url(body) for body in sorted(bodies)])
    mixer = mixer_from_text(part.mixer or "")
    held = mixer.empty()
    if part.stream is not None:
        _check_same(rows, name, part.mixer or "")
        found = rows.execute("select held from streams where name = ?", name)
        held = make_mixer_encoding().loads(found[0][0]) if found else held
    if (
        isinstance(mixer, GatheringMixer) and part.dtype != "<f8"
    ):  # rows are forwarded: in an order that only they decide
        bodies = sorted(bodies)
    held, seen = mix_messages(mixer, held, part.numbers(bodies), finish)
    if part.stream is not None:
        rows.execute("delete from streams where name = ?", name)
        rows.execute("insert into streams values (?, ?)", name, make_mixer_encoding().dumps(held))
    return make_mixer_encoding().dumps(seen)


def _check_same(rows: Transaction, name: str, mixer: str) -> None:
    """A stream keeps the mixer that it began with.

    Plans come from the analyzer. With smaller levels, and one user of its own, it would be told the sums of levels
    that are not full: of people who added noise for a full one.
    """
    name = f"{name} mixer"
    found = rows.execute("select held from streams where name = ?", name)
    if not found:
        rows.execute("insert into streams values (?, ?)", name, mixer)
    elif found[0][0] != mixer:
        raise BandannaError("a stream goes on with another mixer than it began with: what it holds stays here")


# The slots of a batch in memory


_NO_REPORT = 255  # no version yet


class BatchIndex:
    """The slots of a batch by place, and of every report its version and a fingerprint (of this process only)."""

    def __init__(self, plan: Batch) -> None:
        self.plan = plan
        self.sizes = [each.size for each in plan.rounds]  # of a body, by round
        self.places: dict[bytes, int] = {}
        self.versions = [bytearray() for _ in plan.rounds]
        self.prints = [array("q") for _ in plan.rounds]
        self.finals = [0] * len(plan.rounds)
        self.sealed = [any(part.form == "sealed" for part in each.parts) for each in plan.rounds]
        self.seals: list[dict[bytes, int]] = [{} for _ in plan.rounds]  # whose sealed reports they are, by place

    @property
    def full(self) -> bool:
        """Whether all slots are taken."""
        return len(self.places) >= self.plan.slots

    def open(self, slot: bytes) -> int:
        """Give a place to a new slot."""
        place = self.places[slot] = len(self.places)
        for versions in self.versions:
            versions.append(_NO_REPORT)
        for prints in self.prints:
            prints.append(0)
        return place

    def put(self, round_: int, place: int, version: int, body: bytes) -> None:
        """Note a report that is kept."""
        before = self.versions[round_][place]
        self.versions[round_][place], self.prints[round_][place] = version, hash(body)
        self.finals[round_] += (version == FINAL) - (before == FINAL)
        if self.sealed[round_]:
            for seal in read_encapsulations(self.plan.rounds[round_], body):
                self.seals[round_].setdefault(seal, place)

    def has(self, round_: int, place: int, version: int, body: bytes) -> bool | None:
        """Tell whether this very report or a later version is kept; None if another one of this version is.

        One zero report is as good as another: were it refused only where no final one is, it would tell who answered.
        """
        known = self.versions[round_][place]
        if known == _NO_REPORT or known < version:
            return False
        return True if version == ZERO or known > version or self.prints[round_][place] == hash(body) else None

    def answered(self, round_: int) -> bool:
        """Tell whether every slot has its final report."""
        return self.full and self.finals[round_] == self.plan.slots


# Tables


# plans     a batch as it was announced, until it is over
# slots     who has which place of a batch, until it is over: no place is given twice
# reports   append-only: what devices sent; the highest version of a place counts; deleted with the batch's receipt
# batches   full(closes_at) -> closed(share) -> receipted(receipt), one row for each round of a batch
#           dropped: a batch that was announced and never closed; its number is not used again
# used      of a batch that is over, until the task ends: the digest of its plan and a fingerprint of each of its slots,
#           which prove at any time that the owner of a late ticket was not in the batch
# streams   what mixers hold across batches: sums of batches of higher levels that are not full; and which mixer does
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
create table streams (name text primary key, held text not null);
"""

OPEN_BATCHES = "insert into slots (epoch, place, slot) values (?, ?, ?)"
INSERT_REPORT = "insert into reports (epoch, round, place, version, key_id, body) values (?, ?, ?, ?, ?, ?)"
SELECT_ROUND = (  # what a round's reports are, the newest version of a place last
    "select place, slot, key_id, body from reports join slots using (epoch, place)"
    " where epoch = ? and round = ? order by place, version"
)

_FINGERPRINT = np.dtype(">u8")  # of a slot


def store_used_slots(rows: Transaction, epoch: int, plan: bytes) -> None:
    """Store the fingerprints of the slots of a batch that is over, and delete their places."""
    slots = (slot for (slot,) in rows.execute("select slot from slots where epoch = ?", epoch))
    rows.execute("insert into used values (?, ?, ?)", epoch, plan, _slot_fingerprints(slots).tobytes())
    rows.execute("delete from slots where epoch = ?", epoch)


def select_used_plans(rows: Transaction) -> dict[int, bytes]:
    """Return the digests of the plans of all batches that are over."""
    return {int(epoch): bytes(plan) for epoch, plan in rows.execute("select epoch, plan from used")}


def select_used_slots(rows: Transaction, epoch: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Return the fingerprints of the slots of a batch that is over, in order."""
    ((content,),) = rows.execute("select slots from used where epoch = ?", epoch)
    return np.frombuffer(content, dtype=_FINGERPRINT)


def is_used(slot: bytes, used: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> bool:
    """Tell whether a slot was in a batch with these fingerprints.

    Of one that was it always says so; of one that was not it does so wrongly with probability 2^-64 for each slot that
    was, which costs its owner the proof.
    """
    (own,) = _slot_fingerprints([slot])
    place = int(np.searchsorted(used, own))
    return place < len(used) and bool(used[place] == own)


def _slot_fingerprints(slots: Iterable[bytes]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Return the first 8 bytes of the SHA-256 of each slot, in order."""
    content = b"".join(hashlib.sha256(slot).digest()[: _FINGERPRINT.itemsize] for slot in slots)
    return np.sort(np.frombuffer(content, dtype=_FINGERPRINT))


# The collector


Plan = tuple[Sequence[Batch], tuple[int, int]]  # the running batch and the one after it; epoch and round awaited

_KEPT = 4  # batches that are over, of which the slots are in memory: those that were asked for last


@dataclass(frozen=True, kw_only=True)
class ClosedRound:
    """A round of a batch that waits for its receipt: what is to be forwarded."""

    epoch: int
    round: int
    share: bytes


@dataclass(frozen=True, kw_only=True)
class _AcceptedReports:
    """The new rows of the requests of one transaction.

    wrong  reports, by identity, whose numbers no honest device sends;  seals: whose sealed reports they are
    """

    wrong: set[int]
    slots: list[tuple[int, int, bytes]] = field(default_factory=list)
    reports: list[tuple[Any, ...]] = field(default_factory=list)
    seals: dict[tuple[int, int, bytes], bytes] = field(default_factory=dict)


class Collector:
    """Accept reports of the running batch and of the one after it, close batches, and forget them.

    Every step is one transaction, and what was acknowledged is in it.

    task, key  of the tickets: the key is the one that the registrar and this collector share
    grace      seconds between full and closed;  answered: of tests, close when all have reported
    name       who forwards;  finish: what a mixer does before it closes a batch, for mixers that draw noise
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
        finish: Finish = finish_mixer_without_noise,
    ) -> None:
        self._database, self._task_id, self._task, self._key = database, task_id, task, key
        self._grace, self._answered, self._name, self._clock, self._finish = grace, answered, name, clock, finish
        self._tickets = TicketKeys(key, task, COLLECTOR)
        self._lock = threading.RLock()
        self._fillings: dict[int, BatchIndex] = {}
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
        """Read the memory from the rows, unless it is known to agree with them."""
        if self._known:
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
            self._used, self._slots_used = select_used_plans(rows), {}
        self._fillings = fillings
        if fillings:
            first = min(fillings)
            self.running = max(self.running, (first, receipted.get(first, 0)))
        self._told = self._told or bool(fillings)
        self._look()
        self._known = True

    def _look(self) -> None:
        """The round that is closed next, and when."""
        with self._database.reading() as rows:
            found = rows.execute("select epoch, round, state, closes_at from batches order by epoch, round")
        states = {(epoch, round_): (state, at) for epoch, round_, state, at in found}
        state, at = states.get(self.running, ("filling", None))
        self.closes_at = at if state == "full" else None
        self._closed = state in ("closed", "receipted")
        self._waits = any(state == "closed" for state, _ in states.values())

    def plan(self, batches: Sequence[Batch], running: tuple[int, int]) -> None:
        """The newest public plan: the running batch and its round, and the batch after it, where it is known."""
        with self._consistent_memory():
            wanted = {batch.epoch: batch for batch in batches if batch.rounds}
            forgets = not self._fillings.keys() <= wanted.keys()
            self._load_plan(wanted, running, over=not batches)
            self.running, self._told = running, True
            self._look()
        if forgets:
            self._database.scrub()  # slots of batches that are over are gone from the log of changes too

    @contextmanager
    def _consistent_memory(self) -> Iterator[None]:
        """Hold the lock, with a memory that agrees with the rows; after an error it is read again."""
        with self._lock:
            self._restore()
            self._known = False
            yield
            self._known = True

    def _load_plan(self, wanted: dict[int, Batch], running: tuple[int, int], *, over: bool) -> None:
        with self._database.transaction() as rows:
            _check_streams(rows, wanted, running[0])
            for epoch in [each for each in self._fillings if each not in wanted]:
                self._forget(rows, epoch)
            for epoch, batch in wanted.items():
                if epoch not in self._fillings:
                    _check_new(rows, epoch)
                    rows.execute("insert into plans values (?, ?)", epoch, dumps(batch.to_dict()).decode())
                    self._fillings[epoch] = BatchIndex(batch)
            if over and self._used:  # there is no batch for which anybody could need another ticket
                rows.execute("delete from used")
                self._used, self._slots_used = {}, {}
            filling = self._fillings.get(running[0])
            if filling is not None and filling.full:
                self._begin(rows, running)

    def _begin(self, rows: Transaction, running: tuple[int, int]) -> None:
        """Let a round whose batch is full close when the grace has passed from now on."""
        query = "insert into batches values (?, ?, 'full', ?, null, null) on conflict do nothing"
        rows.execute(query, *running, self._clock() + self._grace)

    def _forget(self, rows: Transaction, epoch: int) -> None:
        rows.execute("delete from reports where epoch = ?", epoch)
        rows.execute("delete from plans where epoch = ?", epoch)
        rows.execute("insert into batches values (?, 0, 'dropped', 0, null, null) on conflict do nothing", epoch)
        rows.execute("delete from batches where epoch < ?", epoch - 20)  # receipts of long ago witness nothing new
        plan = self._fillings.pop(epoch).plan.digest
        store_used_slots(rows, epoch, plan)
        self._used[epoch] = plan

    def accept(self, requests: Sequence[bytes]) -> list[list[ReportVerdict]]:
        """Keep what may be kept of these requests in one transaction, which is durable when this returns."""
        with self._consistent_memory():
            parsed = [self._parse_request(request) for request in requests]
            new = _AcceptedReports(wrong=self._find_out_of_range(parsed))
            before = self._is_running_full()
            verdicts = [[MALFORMED] if reports is None else self._judge_reports(reports, new) for reports in parsed]
            if new.reports:
                begins = self._is_running_full() and not before
                with self._database.transaction() as written:
                    written.many(OPEN_BATCHES, new.slots)
                    written.many(INSERT_REPORT, new.reports)
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

    def _is_running_full(self) -> bool:
        filling = self._fillings.get(self.running[0])
        return filling is not None and (filling.full or self.running[1] >= len(filling.sizes))

    def _parse_request(self, request: bytes) -> list[ReportFields] | None:
        try:
            return split_reports(request, self.MOST) or None
        except InvalidArgument:
            return None

    def _find_out_of_range(self, parsed: Sequence[list[ReportFields] | None]) -> set[int]:
        """Return the reports (by identity) whose numbers no honest device sends, where a mixer sees them."""
        groups: dict[tuple[int, int], list[ReportFields]] = {}
        for reports in parsed:
            for report in reports or ():
                groups.setdefault((report[2], report[3]), []).append(report)
        wrong: set[int] = set()
        for (epoch, number), group in groups.items():
            filling = self._fillings.get(epoch)
            if filling is None or number >= len(filling.plan.rounds):
                continue
            round_, size = filling.plan.rounds[number], filling.sizes[number]
            whole = [report for report in group if len(report[6]) == size]
            if whole and not are_bodies_in_range(round_, [report[6] for report in whole]):
                wrong.update(id(one) for one in whole if not are_bodies_in_range(round_, [one[6]]))
        return wrong

    def _judge_reports(self, reports: list[ReportFields], new: _AcceptedReports) -> list[ReportVerdict]:
        """Return one verdict for each report of a request."""
        refused = [self._checked(report, new) for report in reports]
        offered: dict[tuple[int, bytes], set[int]] = {}  # the rounds for which a request has good reports of a slot
        if any(len(filling.sizes) > 1 for filling in self._fillings.values()):
            for report, verdict in zip(reports, refused, strict=True):
                if verdict is None:
                    offered.setdefault((report[2], report[0]), set()).add(report[3])
        return [
            self._placed(report, offered, new) if verdict is None else verdict
            for report, verdict in zip(reports, refused, strict=True)
        ]

    def _checked(self, report: ReportFields, new: _AcceptedReports) -> ReportVerdict | None:
        """Return what is wrong with a report, whatever its slot has sent before; None if nothing is."""
        slot, _, epoch, round_, version, _, body = report
        filling = self._fillings.get(epoch)
        plan = self._used.get(epoch) if filling is None else filling.plan.digest
        if plan is None:  # without its plan a tag cannot be told from a forged one: both are told as little
            return ReportVerdict(reason="closed" if self._told and epoch <= self.running[0] else "early")
        if not is_tagged(report, self._tickets.key(epoch, slot), plan):  # forged, changed, or of another plan
            return ReportVerdict(reason="ticket")
        if filling is None:
            return self._verdict_on_closed_batch(epoch, slot)
        if round_ >= len(filling.sizes) or version > FINAL or len(body) != filling.sizes[round_]:
            return ReportVerdict(reason="length")
        if new.wrong and id(report) in new.wrong:
            return ReportVerdict(reason="range")
        if filling.sealed[round_] and self._is_copy(filling, report, new):
            return ReportVerdict(reason="copy")
        return None

    def _is_copy(self, filling: BatchIndex, report: ReportFields, new: _AcceptedReports) -> bool:
        """Tell whether a sealed report, or the key that sealed it, is that of another slot."""
        slot, _, epoch, round_, _, _, body = report
        place = filling.places.get(slot)
        for seal in read_encapsulations(filling.plan.rounds[round_], body):
            if filling.seals[round_].get(seal, place) != place or (
                new.seals.setdefault((epoch, round_, seal), slot) != slot
            ):
                return True
        return False

    def _placed(
        self, report: ReportFields, offered: dict[tuple[int, bytes], set[int]], new: _AcceptedReports
    ) -> ReportVerdict:
        """Give a place to a good report, if there is one."""
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
            known = filling.has(round_, place, version, body)
            if known or known is None:
                return ReportVerdict(place) if known else ReportVerdict(reason="other")
            if over:
                return ReportVerdict(reason="closed")
        filling.put(round_, place, version, body)
        new.reports.append((epoch, round_, place, version, key_id, body))
        return ReportVerdict(place)

    def _verdict_on_closed_batch(self, epoch: int, slot: bytes) -> ReportVerdict:
        """Return a proof that a slot was not in a batch that is over."""
        if epoch not in self._slots_used:
            while len(self._slots_used) >= _KEPT:
                del self._slots_used[next(iter(self._slots_used))]
            with self._database.reading() as rows:
                self._slots_used[epoch] = select_used_slots(rows, epoch)
        if is_used(slot, self._slots_used[epoch]):
            return ReportVerdict(reason="closed")
        return ReportVerdict(reason="closed", refusal=prove_unused(self._key, self._task, epoch, slot))

    def close_due(self) -> bool:
        """Close the running round if it is due: compute its share from the rows and store it."""
        if self._known and self.closes_at is None:
            return False
        with self._consistent_memory():
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
        newest = {place: (slot, body) for place, slot, _, body in rows.execute(SELECT_ROUND, epoch, round_)}
        if sorted(newest) != list(range(plan.slots)):
            raise InvalidStatistic("reports", ValueSummary(len(newest)), f"one for each of {plan.slots} slots")
        bodies = [newest[place][1] for place in range(plan.slots)]
        views = mix_bodies(rows, plan, round_, bodies, self._finish)
        return write_share(
            task_id=self._task_id,
            epoch=epoch,
            round_=round_,
            mixer=self._name,
            count=plan.slots,
            checksum=slots_checksum(slot for slot, _ in newest.values()),
            bad=0,
            parts=views,
        )

    def waiting(self) -> list[ClosedRound]:
        """Return the rounds that are closed and have no receipt."""
        if self._known and not self._waits:
            return []
        query = "select epoch, round, share from batches where state = 'closed' order by epoch, round"
        with self._database.reading() as rows:
            return [ClosedRound(epoch=e, round=r, share=share.encode()) for e, r, share in rows.execute(query)]

    def entries(self, epoch: int, round_: int) -> tuple[Batch, list[tuple[bytes, int, bytes]]] | None:
        """Return the plan of a batch, and slot, key and body of every place, for the helper's job.

        None if the batch is over: its reports are gone.
        """
        with self._lock, self._database.reading() as rows:
            if epoch not in self._fillings:
                return None
            newest = {place: tuple(rest) for place, *rest in rows.execute(SELECT_ROUND, epoch, round_)}
            return self._fillings[epoch].plan, [newest[place] for place in sorted(newest)]

    def receipted(self, epoch: int, round_: int, receipt: bytes) -> None:
        """Store a receipt, and delete the reports of its round."""
        with self._consistent_memory():
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
            return _read_last_receipt(rows)

    def glance(self) -> tuple[int, int, int]:
        """Return running batch, open slots and wanted slots without a lock: the numbers may be a moment old."""
        epoch = self.running[0]
        filling = self._fillings.get(epoch)
        return (epoch, 0, 0) if filling is None else (epoch, len(filling.places), filling.plan.slots)

    def progress(self) -> dict[str, Any]:
        """Return how far the running batch is, in public numbers."""
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


def _read_last_receipt(rows: Transaction) -> Any | None:
    """The newest that the analyzer has signed; batches that it knew better have none."""
    query = "select receipt from batches where state = 'receipted' order by epoch desc, round desc limit 20"
    receipts = (loads(text) for (text,) in rows.execute(query))
    return next((each for each in receipts if each["number"] >= 0), None)


def _check_new(rows: Transaction, epoch: int) -> None:
    """Refuse a batch under a used number, where slots were refused for good and reports were forwarded."""
    ((last,),) = rows.execute("select max(epoch) from batches")
    if last is not None and epoch <= last:
        raise BandannaError(f"batch {epoch} is announced after batch {last}: the analyzer has gone back")


def _check_streams(rows: Transaction, wanted: dict[int, Batch], epoch: int) -> None:
    """Refuse a stream of which batches are missing here: sums of higher levels would lack people."""
    if not any(part.stream is not None for batch in wanted.values() for each in batch.rounds for part in each.parts):
        return
    query = "select max(epoch) from batches where state = 'receipted' and receipt not like ?"
    ((last,),) = rows.execute(query, '%"outcome":"over"%')  # of which the analyzer knew other totals
    if epoch > (-1 if last is None else last) + 1:
        raise BandannaError(f"batch {epoch} is next, and those after {last} were not added here: restore the database")
