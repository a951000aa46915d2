"""Pending decisions and cached publications of a client."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import threading
from collections.abc import Generator, Hashable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bandanna.deployment.client.device_logic import ClientTask
from bandanna.deployment.messages.batch_plan import Batch
from bandanna.deployment.messages.canonical import loads
from bandanna.deployment.messages.publication import (
    HASH,
    LINKS,
    PublicationPin,
    SignedPublication,
    check_between,
    check_follows,
    read_publication,
)
from bandanna.deployment.messages.report import read_seal_key
from bandanna.errors import BandannaError, InvalidArgument

# Effects


class Unreachable(BandannaError):
    """A role does not answer. The outbox keeps the unsent bytes."""


class NoTicket(BandannaError):
    """The host gives this user no ticket."""


@dataclass(frozen=True, kw_only=True)
class SendRequest:
    """An effect: a request, answered with (status, headers in lower case, body); errors name the `role` only."""

    role: str
    method: str
    url: str
    content: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class GetTicket:
    """An effect: a ticket of an epoch; `refused` lists (epoch, slot, proof) of this user's unused slots."""

    epoch: int
    refused: tuple[tuple[int, bytes, bytes], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Sleep:
    """An effect: a pause; the answer says whether `patience` allowed it."""

    seconds: float


Effect = SendRequest | GetTicket | Sleep
EffectSteps = Generator[Effect, Any, Any]


# Results


@dataclass(frozen=True, kw_only=True)
class ClientDecision:
    """The decision for a user.

    Attributes
    ----------
    id
        The id of the decision.
    arm, action
        The arm and its number.
    publication
        The number of the publication that it follows from.
    taking_part
        Whether to `report` its reward, at any time.
    reason
        Why not: "finished", "exhausted", "participations", "ticket", "full", "stale" or "closed".
    """

    id: str
    arm: Hashable
    action: int
    publication: int
    taking_part: bool = True
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The fate of a report.

    Attributes
    ----------
    kept
        The collector has it.
    pending
        The outbox keeps it until `flush`.
    reason
        Why it is neither.
    """

    kept: bool = False
    pending: bool = False
    reason: str = ""


# The outbox


DECIDED, OPENING, OPEN, ANSWERED, OVER = "decided", "opening", "open", "answered", "over"
_PROOFS = 64  # that a registrar reads
MEMORY = ":memory:"  # for tests, and for hosts that keep nothing
_TABLES = """
create table if not exists pins (task text primary key, number integer not null, chain text not null,
    document blob not null, signature text not null, cosignature text not null);
create table if not exists decisions (id text primary key, task text not null, user text not null, state text not null,
    content text not null, zero blob, final blob, reward real, revision integer not null);
create index if not exists decisions_of on decisions (task, user, state);
create table if not exists claims (id text primary key, task text not null, user text not null, epoch integer,
    unique (task, user, epoch));
"""


@dataclass(frozen=True, kw_only=True)
class PendingDecision:
    """A decision that is not over, with the requests that were made for it.

    `content` holds: number of its publication; day since 1970; arm, features, group, name; with a slot also batch,
    slot, collector and helper (the ticket's keys), key, key_id, place, round; and refused: [epoch, slot, proof] of
    unused slots. `zero` and `final` are the sent bytes. An infinite `reward` stands for an invalid one, for which
    nothing is reported. A copy with an older `revision` is not written.
    """

    id: str
    task: str
    user: str
    state: str = DECIDED
    content: dict[str, Any] = field(default_factory=dict)
    zero: bytes | None = None
    final: bytes | None = None
    reward: float | None = None
    revision: int = 0

    def now(self, state: str, **content: Any) -> PendingDecision:
        """Return the decision in another state, with more content."""
        return replace(self, state=state, content={**self.content, **content})


class Outbox:
    """Keep decisions, sent bytes and the newest publication in a SQLite file until they are acknowledged.

    One file serves one device, or a host that acts for many users, with any number of tasks. Only its owner can read
    it. It is synced before anything is sent, so after a crash the same bytes are sent again and noise is never drawn
    twice. Acknowledged and closed entries are deleted.

        decided (no slot yet) -> opening (zero reports stored) -> open -> answered (final report stored) -> over

    Parameters
    ----------
    path
        The file, made if needed; ":memory:" keeps nothing after a crash.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not isinstance(path, str | os.PathLike):
            raise InvalidArgument("outbox", path, "a file, or bandanna.deployment.client.outbox.Outbox(file)")
        self._own, self._closed, self._pid = threading.RLock(), False, os.getpid()
        try:
            if str(path) != MEMORY:
                _create_private_file(Path(path))
            self._rows = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30.0)
            self._rows.execute("pragma journal_mode = wal")
            self._rows.execute("pragma synchronous = full")
            self._rows.execute("pragma secure_delete = on")  # what is over is overwritten
            self._rows.executescript(_TABLES)
        except (OSError, sqlite3.Error) as error:
            raise BandannaError(f"the outbox {path} cannot be opened: {error}") from error

    @contextlib.contextmanager
    def _write_transaction(self) -> Iterator[sqlite3.Connection]:
        """Run a transaction that is on the disk when it ends, or not written at all."""
        with self._lock:
            self._open().execute("begin immediate")
            try:
                yield self._rows
                self._rows.execute("commit")
            except BaseException:
                self._rows.execute("rollback")
                raise

    @property
    def _lock(self) -> threading.RLock:
        """The lock of this process; a forked process is refused, since its copy could draw a second report."""
        if os.getpid() != self._pid:  # where the lock may be held by a thread that does not exist
            raise BandannaError("the outbox was opened by another process. Open it again in this one")
        return self._own

    def _open(self) -> sqlite3.Connection:
        if self._closed:
            raise BandannaError("the outbox is closed, because its session is closed")
        return self._rows

    def keep(self, kept: PendingDecision) -> PendingDecision:
        """Store a decision durably, unless a newer one is stored; return the stored one.

        Only one of two draws of noise is ever sent.
        """
        with self._write_transaction() as rows:
            found = self.find(kept.task, kept.user, kept.id)
            if found is not None and found.revision != kept.revision:
                return found
            return self._write(rows, kept)

    def _write(self, rows: sqlite3.Connection, kept: PendingDecision) -> PendingDecision:
        made = replace(kept, revision=kept.revision + 1)
        row = (made.id, made.task, made.user, made.state, json.dumps(made.content), made.zero, made.final)
        rows.execute(
            "insert or replace into decisions values (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*row, made.reward, made.revision)
        )
        return made

    def find(self, task: str, user: str, id_: str) -> PendingDecision | None:
        """Return a decision of this user, or None."""
        found = self._all("where task = ? and user = ? and id = ?", task, user, id_)
        return found[0] if found else None

    def waiting(self, task: str, user: str) -> list[PendingDecision]:
        """Return the decisions that are not over, oldest first."""
        return self._all("where task = ? and user = ? and state <> 'over' order by rowid", task, user)

    def refused(self, task: str, user: str) -> list[Any]:
        """Return [epoch, slot, proof] of this user's unused tickets, the newest last."""
        over = self._all("where task = ? and user = ? and state = 'over' order by rowid", task, user)
        return [proof for kept in over for proof in kept.content.get("refused", [])][-_PROOFS:]

    def _all(self, where: str, *values: Any) -> list[PendingDecision]:
        columns = "select id, task, user, state, content, zero, final, reward, revision from decisions "
        with self._lock:
            rows = self._open().execute(columns + where, values).fetchall()
        return [
            PendingDecision(id=i, task=t, user=u, state=s, content=json.loads(c), zero=z, final=f, reward=r, revision=n)
            for i, t, u, s, c, z, f, r, n in rows
        ]

    def over(self, kept: PendingDecision) -> PendingDecision:
        """Erase a decision, in the file's log too, except its id and the proofs that its tickets are unused.

        The id prevents a second answer; the proofs give the user another ticket.
        """
        unused = kept.state == DECIDED  # no slot is, or may be, its own: the claim is given back
        left = {} if "place" in kept.content else {"refused": kept.content.get("refused", [])}
        made = self.keep(replace(PendingDecision(id=kept.id, task=kept.task, user=kept.user, state=OVER, content=left),
                                 revision=kept.revision))  # fmt: skip
        if unused and made.state == OVER:
            with self._write_transaction() as rows:
                rows.execute("delete from claims where id = ?", (kept.id,))
        with self._lock:
            self._rows.execute("pragma wal_checkpoint(truncate)").fetchall()
        return made

    def newest_seen(self, task: str) -> tuple[PublicationPin, SignedPublication] | None:
        """Return the newest publication that was seen, with its pin."""
        with self._lock:
            found = (
                self._open()
                .execute("select number, chain, document, signature, cosignature from pins where task = ?", (task,))
                .fetchall()
            )
        if not found:
            return None
        number, chain, document, *signatures = found[0]
        return PublicationPin(number, chain), SignedPublication(bytes(document), *signatures)

    def pin(self, task: str, pin: PublicationPin, shown: SignedPublication, *, after: PublicationPin | None) -> bool:
        """Keep a publication that was compared with `after` if that is still the newest; return whether it was.

        This keeps two processes from acting on two histories.
        """
        with self._write_transaction() as rows:
            known = rows.execute("select number, chain from pins where task = ?", (task,)).fetchone()
            if (None if known is None else PublicationPin(*known)) != after:
                return False
            rows.execute("insert or replace into pins values (?, ?, ?, ?, ?, ?)", (task, *pin, *shown))
            return True

    def begin(self, kept: PendingDecision, most: int) -> PendingDecision | None:
        """Begin a decision that claims one of the user's `most` participations; None if none is left.

        The claim comes before any ticket, so a user never exceeds the task's reports.
        """
        with self._write_transaction() as rows:
            query = "select count(*) from claims where task = ? and user = ?"
            if rows.execute(query, (kept.task, kept.user)).fetchone()[0] >= most:
                return None
            rows.execute("insert into claims values (?, ?, ?, null)", (kept.id, kept.task, kept.user))
            return self._write(rows, kept)

    def claim(self, kept: PendingDecision, epoch: int) -> bool:
        """Claim the slot of an epoch for this decision; False if another decision has it."""
        with self._write_transaction() as rows:
            query = "select 1 from claims where task = ? and user = ? and epoch = ? and id <> ?"
            if rows.execute(query, (kept.task, kept.user, epoch, kept.id)).fetchone():
                return False
            rows.execute("update claims set epoch = ? where id = ?", (epoch, kept.id))
            return True

    def close(self) -> None:
        """Close the file, in the process that opened it."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            self._closed = True
            self._rows.close()


def default_path() -> Path:
    """Return BANDANNA_OUTBOX, else bandanna/outbox.db in XDG_STATE_HOME or ~/.local/state."""
    chosen = os.environ.get("BANDANNA_OUTBOX")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "bandanna" / "outbox.db"


def _create_private_file(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    path.chmod(0o600)


# Publications


Content = dict[str, Any]

_MOST = 1 << 20  # publications that a device may have missed


class PublicationCache:
    """The verified publications of one task. No publication older than the newest seen is accepted.

    Requests name neither the user nor the newest publication seen. The hashes of missed publications are requested in
    blocks of 256.
    """

    def __init__(self, task: ClientTask, outbox: Outbox) -> None:
        self._task, self._outbox = task, outbox
        self._verified: tuple[SignedPublication, Content, PublicationPin] | None = None

    def newest(self, after: int | None = None) -> Generator[Effect, Any, Content]:
        """Get the publication in force, or one after number `after`; without an answer, the newest seen."""
        known = self._outbox.newest_seen(self._task.id)
        query = "" if after is None else f"?after={after}"
        try:
            status, headers, document = yield self._get(f"snapshot{query}")
            if status == 204 and query:
                raise Unreachable("the analyzer has published nothing since")
            if status != 200:
                raise Unreachable(f"the analyzer shows no publication: {status}")
            content: Content = yield from self._pinned(SignedPublication.of(document, headers), known)
        except Unreachable:
            if known is None:
                raise
            return self._read(known[1], None)[0]
        return content

    def _pinned(
        self, shown: SignedPublication, known: tuple[PublicationPin, SignedPublication] | None
    ) -> Generator[Effect, Any, Content]:
        while True:
            pin = None if known is None else known[0]
            content, made = self._read(shown, pin)
            if pin is not None and made.number > pin.number + 1:
                hashes = yield from self._between(pin.number + 1, made.number)
                check_between(pin, content, hashes)
            if known is not None:
                self._check_seal_key(content, loads(known[1].document))
            if self._outbox.pin(self._task.id, made, shown, after=pin):
                return content
            known = self._outbox.newest_seen(self._task.id)  # another process has seen one
            assert known is not None
            if known[0].number > made.number:
                return self._read(known[1], made)[0]  # a newer one, that follows upon this

    def _check_seal_key(self, content: Content, before: Content) -> None:
        """Refuse a publication that names an older key of the helper than one that was seen.

        An old key may be stolen, and the helper's signature of it stays valid.
        """
        if self._task.mixers != 2:
            return
        now, then = (0 if each["helper"] is None else each["helper"]["id"] for each in (content, before))
        if now < then:
            raise BandannaError(f"publication {content['number']} names the helper's key {now} after key {then}")

    def _between(self, first: int, end: int) -> Generator[Effect, Any, list[bytes]]:
        """Get the hashes of documents first, ..., end - 1, in blocks that many devices share."""
        if end - first > _MOST:
            raise BandannaError(f"publication {end} where {first} was expected: no analyzer publishes so often")
        hashes: list[bytes] = []
        for block in range(first // LINKS, (end - 1) // LINKS + 1):
            status, _, content = yield self._get(f"links/{block}")
            if status != 200:
                raise Unreachable(f"the analyzer shows no links: {status}")
            low, high = (min(max(each - block * LINKS, 0), LINKS) for each in (first, end))
            hashes += [content[HASH * each : HASH * (each + 1)] for each in range(low, high)]
        return hashes

    def _get(self, what: str) -> SendRequest:
        return SendRequest(role="analyzer", method="GET", url=f"{self._task.url('analyzer')}/{what}")

    def seen(self) -> Content | None:
        """Return the newest publication that was seen, or None."""
        known = self._outbox.newest_seen(self._task.id)
        return None if known is None else self._read(known[1], None)[0]

    def _read(self, shown: SignedPublication, before: PublicationPin | None) -> tuple[Content, PublicationPin]:
        """Return the parts of a publication, with the batches that take reports, and its pin.

        With two mixers, the helper must have signed its key for seeds.
        """
        verified = self._verified
        if verified is None or verified[0] != shown:
            key, registrar_key = self._task.key("analyzer"), self._task.key("registrar")
            content, made = read_publication(shown, task_id=self._task.id, key=key, registrar_key=registrar_key)
            if self._task.mixers == 2 and content["helper"] is not None:
                read_seal_key(content["helper"], task_id=self._task.id, key=self._task.key("helper"))
            batches = [Batch.from_dict(each) for each in content["batches"]]
            content["batches"] = [each.to_dict() for each in batches if each.rounds]
            verified = self._verified = shown, content, made
        _, content, made = verified
        if before is not None:
            check_follows(made, content["previous"], before)
        return content, made
