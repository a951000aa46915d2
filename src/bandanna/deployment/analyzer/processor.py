"""The batch processor: from shares to publications in one transaction."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bandanna.deployment.analyzer import publication
from bandanna.deployment.analyzer.publication import ServedPublication
from bandanna.deployment.analyzer.query_answers import (
    LedgerCharge,
    Share,
    TrustedServerRunner,
    UnusableBatch,
    charge_ledger,
    check_share,
    decode_shares,
    estimate_from_views,
    played_from_rows,
    rows_from_share,
)
from bandanna.deployment.calls import RoleUnreachable
from bandanna.deployment.messages.batch_plan import Batch
from bandanna.deployment.messages.canonical import Opener, Signer, digest, dumps, loads, verify
from bandanna.deployment.messages.publication import PublicationPin, is_cosigned
from bandanna.deployment.messages.report import read_seal_key, report_info
from bandanna.deployment.task.document import Task
from bandanna.deployment.task.query_plan import (
    QueryPlan,
    check_deployable,
    count_reporters,
    make_batch,
    next_query_or_state,
    queries_of_round,
    sends_rows,
)
from bandanna.device.domain import Estimate
from bandanna.device.noise import FastNoise, NoiseSource, SecureNoise
from bandanna.errors import BandannaError, BudgetExceeded
from bandanna.numeric.rng import DeviceRandomness, SecureRandomness, StreamRandomness, Streams
from bandanna.policies.base import Episode, PlayedRounds, Policy, RunnerState
from bandanna.policies.registry import columns_from_played, make_encoding
from bandanna.privacy.events import Event
from bandanna.privacy.ledger import Ledger
from bandanna.privacy.stores.base import LedgerEntry
from bandanna.privacy.stores.database import TransactionStore
from bandanna.storage.database.base import Database, Transaction
from bandanna.storage.encoding import Encoding

# Progress


@dataclass(frozen=True, kw_only=True)
class AnalyzerProgress:
    """The state of the analyzer before round `round` of batch `epoch`: one row of its database.

    `state` is the policy's before the batch's episode, `streams` those of stream protocols, `next_epoch` the number of
    the batch after it, `kept` the rows that later queries of a trusted server may need, and `source` the place of
    seeded noise, None for secure noise.
    """

    task: str
    status: str
    state: Any
    source: Any
    epoch: int = 0
    next_epoch: int = 1
    round: int = 0
    streams: Mapping[int, Any] = field(default_factory=dict)
    kept: Mapping[str, tuple[PlayedRounds, ...]] = field(default_factory=dict)


def read_progress(rows: Transaction, encoding: Encoding) -> AnalyzerProgress | None:
    """Return the stored progress; None before the first."""
    columns = "task, status, epoch, next_epoch, round, state, streams, kept, source"
    found = rows.execute(f"select {columns} from progress")
    if not found:
        return None
    task, status, epoch, next_epoch, round_, *texts = found[0]
    state, streams, kept, source = map(encoding.loads, texts)
    return AnalyzerProgress(
        task=task,
        status=status,
        epoch=epoch,
        next_epoch=next_epoch,
        round=round_,
        state=state,
        streams=streams,
        kept={name: tuple(PlayedRounds(**columns) for columns in each) for name, each in kept.items()},
        source=source,
    )


def write_progress(rows: Transaction, progress: AnalyzerProgress, state: str, encoding: Encoding) -> None:
    """Replace the row; `state` is the progress's state as text."""
    kept = {name: [columns_from_played(each) for each in some] for name, some in progress.kept.items()}
    texts = state, *map(encoding.dumps, (dict(progress.streams), kept, progress.source))
    rows.execute("delete from progress")
    rows.execute(
        "insert into progress values (0, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        progress.task, progress.status, progress.epoch, progress.next_epoch, progress.round, *texts,
    )  # fmt: skip


# Randomness


class AnalyzerRandomness:
    """Noise and coins of the operating system, or of the simulation's streams in a seeded test."""

    def __init__(self, policy: Policy[Any], seed: int | None, state: Any) -> None:
        self.source: NoiseSource = SecureNoise()
        self.stream: NoiseSource = self.source
        self.coins: DeviceRandomness = SecureRandomness()
        self._rngs: dict[str, np.random.Generator] = {}
        if seed is not None:
            streams, names = (
                Streams([seed]),
                (policy.execution.noise_stream, policy.execution.stream_noise or policy.execution.noise_stream),
            )
            self._rngs = {name: streams.generators(name)[0] for name in names}
            for name, rng in self._rngs.items():
                if state is not None:
                    rng.bit_generator.state = state[name]
            self.source, self.stream = (FastNoise(self._rngs[name]) for name in names)
            self.coins = StreamRandomness(streams).of(0)

    def state(self) -> Any:
        """Return the state of the seeded generators; None for secure noise."""
        return {name: rng.bit_generator.state for name, rng in self._rngs.items()} or None


# The batch processor


RUNNING, EXHAUSTED, FINISHED = "running", "exhausted", "finished"
_MAX_PRICES = 100  # of a ledger's summary


@dataclass(frozen=True, kw_only=True)
class ShareResult:
    """The answer to a share: 201 released, 422 burned, 200 known, each with a receipt; or 202 if that comes later."""

    status: int
    receipt: bytes | None = None


Witness = Callable[[bytes], tuple[int, Any]]  # tells the registrar; its answer, or Unreachable


class ShareRejected(BandannaError):
    """A share that cannot be taken, with a `reason` of one or two words."""

    def __init__(self, reason: str, text: str) -> None:
        self.reason = reason
        super().__init__(text)


@dataclass(frozen=True, kw_only=True)
class ReceivedShare:
    """A checked share, and the bytes in which it came."""

    share: Share
    content: bytes


@dataclass(frozen=True, kw_only=True)
class BatchPlan:
    """The running batch, and the next one if it is known."""

    episode: Episode | None
    batches: tuple[Batch, ...]
    plan: QueryPlan


class BatchProcessor:
    """Turn shares into publications, without sockets.

    Ledger entry, answers, state, snapshot and chain of a batch are written in one transaction. Then the registrar
    cosigns the publication, and only then it is served.

        batch        expected -> partial -> released | burned (totals seen but unusable: charged, not learned)
        publication  pending (committed) -> cosigned and served; nothing is released while one is pending
        task         running -> exhausted (the budget refuses) | finished (nothing more is released)

    `witness` requests the registrar's cosignature. `published` is the newest served publication.
    """

    def __init__(
        self, database: Database, task: Task, *, sign: Signer, opener: Opener | None, witness: Witness
    ) -> None:
        self._database, self.task, self._sign, self._opener = database, task, sign, opener
        self._witness, self._settle_lock = witness, threading.Lock()
        self.heard: Callable[[], None] = lambda: None  # called in any thread when another publication is served
        self._published: ServedPublication | None = None
        self.policy: Policy[Any] = task.policy
        check_deployable(self.policy)
        self._encoding = make_encoding()
        self._lock = threading.RLock()
        self.rolled_back = False  # whether the registrar has cosigned a publication that this database does not know
        self.mixers = {0: ("analyzer",), 1: ("shuffler",), 2: ("helper", "shuffler")}[task.mixers]
        self._seal_key: dict[str, Any] | None = None  # as the helper has told it last; None: the task's own
        with database.transaction() as rows:
            if read_progress(rows, self._encoding) is None:
                self._begin(rows)
        self._restore()

    def _restore(self) -> None:
        with self._database.reading() as rows:
            found = read_progress(rows, self._encoding)
            assert found is not None
            if found.task != self.task.id:
                raise BandannaError(f"the database belongs to task {found.task}. Use one database per task")
            self._newest = publication.read_publication_row(rows)
        self._seal_key = self._newest.read_field("helper")
        self._set_progress(found)
        self._reload_needed = False

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Hold the lock, with the state that the database has.

        A commit with unknown outcome may have happened, so after an error the state is read again: a release is never
        drawn twice.
        """
        with self._lock:
            if self._reload_needed:
                self._restore()
            try:
                yield
            except ShareRejected:
                raise
            except BaseException:
                self._reload_needed = True
                raise

    def check_claim(self) -> None:
        """Refuse, with Fenced, to send anything once another process serves the database."""
        self._database.check_claim()

    def _begin(self, rows: Transaction) -> None:
        state = self.policy.init(self.task.fixed_features)
        source = AnalyzerRandomness(self.policy, self.task.seed, None).state()
        first = AnalyzerProgress(task=self.task.id, status=RUNNING, state=state, source=source)
        self._publish(rows, self._settled(first), (), outcome="begun")

    def _settled(self, progress: AnalyzerProgress) -> AnalyzerProgress:
        """Return the progress; finished if nothing more is released."""
        episode = self.policy.episode(progress.state)
        over = episode is None or not episode.released
        return replace(progress, status=FINISHED) if over and progress.status == RUNNING else progress

    def _set_progress(self, progress: AnalyzerProgress, now: BatchPlan | None = None) -> None:
        self.progress, self.now = progress, self._now(progress) if now is None else now

    def _now(self, progress: AnalyzerProgress) -> BatchPlan:
        """Plan the running batch and the next one from the progress alone."""
        episode = self.policy.episode(progress.state)
        if episode is None or progress.status != RUNNING:
            return BatchPlan(episode=episode, batches=(), plan=QueryPlan(queries=(), rounds=()))
        count, seeded = self.task.mixers, self.task.seed is not None
        batch, plan = make_batch(
            self.policy, progress.state, episode, epoch=progress.epoch, mixer_count=count, seeded=seeded
        )
        after = self.policy.next_episode(episode) if self.task.content["max_age"] else None
        batches = [batch]
        if after is not None and after.released:
            following, _ = make_batch(
                self.policy, progress.state, after, epoch=progress.next_epoch, mixer_count=count, seeded=seeded
            )
            batches.append(following)
        return BatchPlan(episode=episode, batches=tuple(batches), plan=plan)

    @property
    def published(self) -> ServedPublication | None:
        """The newest cosigned publication, once the registrar has confirmed that this database is the newest."""
        return self._published

    @published.setter
    def published(self, published: ServedPublication | None) -> None:
        self._published = published
        self.heard()

    @property
    def running(self) -> tuple[int, int]:
        """The epoch and round that are awaited."""
        return self.progress.epoch, self.progress.round

    def take(self, content: bytes, mixer: str, epoch: int, round_: int) -> ShareResult:
        """Take a mixer's share of a round, and release and learn from the round if it is the last one."""
        share = check_share(loads(content), task=self.task.id, epoch=epoch, round_=round_, mixer=mixer)
        if mixer == "helper" and share["key"] is not None:
            read_seal_key(share["key"], task_id=self.task.id, key=self.task.key("helper"))
        with self._exclusive():
            self._check_settled()
            over = self.progress.status == EXHAUSTED and (epoch, round_) == self.running
            if (epoch, round_) < self.running or over:
                return ShareResult(status=200, receipt=self.known(digest(content), mixer, epoch, round_))
            if (epoch, round_) > self.running or self.progress.status != RUNNING:
                reason = "early" if self.progress.status == RUNNING else self.progress.status
                raise ShareRejected(reason, f"batch {epoch}, round {round_} is not awaited")
            try:
                with self._database.transaction() as rows:
                    received = self._receive(rows, ReceivedShare(share=share, content=content))
                    if received is None:
                        return ShareResult(status=202)
                    outcome, after, published = self._release(rows, received)
                    now = self._planned
            except BudgetExceeded:
                outcome, after, published = self._exhaust(epoch, round_)
                now = self._planned
            self._newest = published
            self._set_progress(after, now)
        if not self.settle():
            return ShareResult(status=202)
        return ShareResult(status=201 if outcome == "released" else 422, receipt=self.receipt(epoch, round_))

    @property
    def pending(self) -> ServedPublication | None:
        """The publication that is committed but not served yet."""
        newest, served = self._newest, self.published
        return newest if served is None or served.number < newest.number else None

    @property
    def number(self) -> int:
        """The number of the publication in force; -1 before there is one."""
        return -1 if self.published is None else self.published.number

    @property
    def status(self) -> str:
        """The status in the publication in force, or "starting" before there is one."""
        served = self.published
        return "starting" if served is None else str(served.read_field("status"))

    def settle(self) -> bool:
        """Have the registrar cosign the pending publication, store the cosignature, then serve it.

        Return whether nothing is pending. If the registrar has cosigned another publication of this number or a later
        one, this database was restored, and `rolled_back` is set for good.
        """
        with self._settle_lock:
            pending = self.pending
            if pending is None or self.rolled_back:
                return not self.rolled_back
            self.check_claim()
            try:
                status, answer = self._witness(self._sign_statement(pending))
            except RoleUnreachable:
                return False
            said = answer if isinstance(answer, dict) else {}
            if status in (200, 201):
                return self._serve(pending, said.get("cosignature"))
            if status == 409:
                self.check_rollback(said.get("witness"))
            return False

    def _sign_statement(self, published: ServedPublication) -> bytes:
        document = loads(published.document)
        told = {name: document[name] for name in ("number", "previous", "epoch")} | {"chain": published.chain}
        return dumps({**told, "signature": self._sign("witness", dumps(told))})

    def _serve(self, pending: ServedPublication, cosignature: Any) -> bool:
        """Store the registrar's cosignature of a publication, then serve it."""
        pin, key = PublicationPin(pending.number, pending.chain), self.task.key("registrar")
        if not is_cosigned(pin, cosignature, task_id=self.task.id, key=key):
            return False
        with self._exclusive():
            if pending.cosignature is None:
                with self._database.transaction() as rows:
                    publication.keep_cosignature(rows, pending.number, cosignature)
            self._newest = self.published = replace(pending, cosignature=cosignature)
        return True

    def check_rollback(self, witness: Any) -> None:
        """Stop for good if this analyzer's key has signed a publication that is not in this history."""
        if not isinstance(witness, dict):
            return
        statement = {name: value for name, value in witness.items() if name != "signature"}
        own, signature = self.task.key("analyzer"), witness.get("signature")
        if not verify(own, self.task.id, "witness", dumps(statement), signature):
            return
        with self._database.reading() as rows:
            self.rolled_back |= publication.read_chain(rows, int(statement["number"])) != statement["chain"]

    def _check_settled(self) -> None:
        """Refuse to continue from a publication that is not served."""
        if self.rolled_back:
            text = "the registrar has cosigned a publication that this analyzer does not know: restore its database"
            raise ShareRejected("rolled back", text)
        if self.pending is not None:
            raise ShareRejected("unwitnessed", "the registrar has not cosigned the newest publication yet")

    def _receive(self, rows: Transaction, received: ReceivedShare) -> list[ReceivedShare] | None:
        """Return all shares of the round by mixer, or store this one if others are missing."""
        share = received.share
        epoch, round_, mixer = share["epoch"], share["round"], share["mixer"]
        found = rows.execute("select mixer, content from shares where epoch = ? and round = ?", epoch, round_)
        stored: dict[str, str] = dict(found)
        known = stored.pop(mixer, None)
        if known is not None and known != received.content.decode():
            raise ShareRejected("other", "another share of this batch is stored")
        if {mixer, *stored} == set(self.mixers):
            others = {name: ReceivedShare(share=loads(text), content=text.encode()) for name, text in stored.items()}
            return [each for _, each in sorted({mixer: received, **others}.items())]
        if known is None:
            rows.execute("insert into shares values (?, ?, ?, ?)", epoch, round_, mixer, received.content.decode())
        return None

    def _release(
        self, rows: Transaction, received: Sequence[ReceivedShare]
    ) -> tuple[str, AnalyzerProgress, ServedPublication]:
        """Pay, answer, learn and write the next publication, in the transaction of the last share."""
        epoch, round_ = self.running
        digests = {each.share["mixer"]: digest(each.content) for each in received}
        shares, ledger = [each.share for each in received], self._ledger(rows)
        outcome = "released"
        for share in shares:  # the helper's newest key for sealing goes into the next publications
            told, known = share["key"], self._seal_key
            if share["mixer"] == "helper" and told is not None and (known is None or told["id"] > known["id"]):
                self._seal_key = told
        try:
            learn = self._from_rows if sends_rows(self.policy) else self._from_views
            after, answers = learn(rows, ledger, shares, "".join(digests.values()).encode())
        except UnusableBatch:
            outcome, answers = "burned", ()
            after = self._skip_unusable(rows, ledger)
        rows.execute("delete from shares where epoch = ? and round = ?", epoch, round_)
        rows.execute("delete from answers where epoch = ?", epoch)
        texts = [self._encoding.dumps(answer) for answer in answers]
        for place, text in enumerate(texts):
            rows.execute("insert into answers values (?, ?, ?)", epoch, place, text)
        after = self._settled(after)
        return (
            outcome,
            after,
            self._publish(rows, after, texts, outcome=outcome, round_key=(epoch, round_), digests=digests),
        )

    def _from_rows(
        self, rows: Transaction, ledger: Ledger | None, shares: Sequence[Share], data: bytes
    ) -> tuple[AnalyzerProgress, tuple[Estimate, ...]]:
        progress, episode, (share,) = self.progress, self.now.episode, shares
        assert episode is not None
        noise = AnalyzerRandomness(self.policy, self.task.seed, progress.source)
        runner = TrustedServerRunner(policy=self.policy, desk=RunnerState(streams=progress.streams, kept=progress.kept),
                          source=noise.source, stream=noise.stream, coins=noise.coins)  # fmt: skip
        state = runner.learn(progress.state, episode, played_from_rows(self.policy, episode, rows_from_share(share)))
        charge_ledger(ledger, runner.charges, task=self.task.id, batch=str(progress.epoch))
        return self._next(progress, state, runner.desk.streams, runner.desk.kept, noise), ()

    def _from_views(
        self, rows: Transaction, ledger: Ledger | None, shares: Sequence[Share], data: bytes
    ) -> tuple[AnalyzerProgress, tuple[Estimate, ...]]:
        progress, now = self.progress, self.now
        assert now.episode is not None
        answers, users = self._answers(rows), count_reporters(now.episode)
        queries = queries_of_round(self.policy, progress.state, now.episode, answers, now.plan, progress.round)
        info = report_info(self.task.digest, progress.epoch, progress.round)
        views = decode_shares(shares, now.batches[0].rounds[progress.round].parts, queries, users, self._opener, info)
        if progress.round == 0:  # all later queries about these users are paid for now
            self._charge_batch(ledger, data)
        noise = AnalyzerRandomness(self.policy, self.task.seed, progress.source)
        streams, fresh = estimate_from_views(queries, views, progress.streams, noise.source)
        answers = (*answers, *fresh)
        if progress.round + 1 < len(now.plan.rounds):
            return replace(progress, round=progress.round + 1, streams=streams, source=noise.state()), answers
        query, state = next_query_or_state(self.policy, progress.state, now.episode, answers)
        if query is not None:
            raise BandannaError(f"{type(self.policy).__name__} queries more than was planned")
        return self._next(progress, state, streams, {}, noise), ()

    def _charge_batch(self, ledger: Ledger | None, data: bytes) -> None:
        charges = [LedgerCharge(query=query, data=data) for query in self.now.plan.queries]
        charge_ledger(ledger, charges, task=self.task.id, batch=str(self.progress.epoch))

    def _skip_unusable(self, rows: Transaction, ledger: Ledger | None) -> AnalyzerProgress:
        """Pay for totals that were seen, and repeat the episode with other users."""
        progress = self.progress
        if progress.round == 0:
            self._charge_batch(ledger, b"burned")
        if any(part.stream is not None for each in self.now.batches[0].rounds for part in each.parts):
            return replace(progress, status=EXHAUSTED)  # a stream with a hole in it has no sums
        epoch = progress.next_epoch + (len(self.now.batches) - 1)  # the one after it was announced with another size
        return replace(progress, epoch=epoch, next_epoch=epoch + 1, round=0)

    def _next(
        self, progress: AnalyzerProgress, state: Any, streams: Any, kept: Any, noise: AnalyzerRandomness
    ) -> AnalyzerProgress:
        epoch = progress.next_epoch
        return replace(progress, state=state, streams=streams, kept=kept, source=noise.state(), epoch=epoch,
                       next_epoch=epoch + 1, round=0)  # fmt: skip

    def _exhaust(self, epoch: int, round_: int) -> tuple[str, AnalyzerProgress, ServedPublication]:
        """Publish that the budget refuses."""
        with self._database.transaction() as rows:
            after = replace(self.progress, status=EXHAUSTED)
            return EXHAUSTED, after, self._publish(rows, after, (), outcome=EXHAUSTED, round_key=(epoch, round_))

    def _ledger(self, rows: Transaction) -> Ledger | None:
        privacy = self.policy.privacy
        if not privacy.noisy or privacy.budget is None:
            return None
        often = self.policy._batch_privacy.participations
        return Ledger(budget=privacy.budget, participations=often, store=TransactionStore(rows))

    def ledger_view(self) -> dict[str, Any] | None:
        """Return the ledger as of the publication in force, for JSON; None without a promise."""
        with self._database.reading() as rows:
            ledger, served = self._ledger(rows), self.published
            if ledger is None or served is None:
                return None
            view, hidden = ledger.view(), self._pending_entries(rows, served)
        shown = view.releases[: len(view.releases) - len(hidden)]
        entries = [{"task": each.task, "batch": each.batch, "event": repr(each.event)} for each in shown]
        return {
            "budget": str(view.budget),
            "participations": view.participations,
            "spent": served.read_field("spent"),
            "entries": entries,
        }

    def ledger_summary(self) -> dict[str, Any] | None:
        """Return the ledger without its entries: how often each price was paid."""
        with self._database.reading() as rows:
            ledger, served = self._ledger(rows), self.published
            if ledger is None or served is None:
                return None
            paid: Counter[Event] = sum(ledger.store.tasks().values(), Counter())
            hidden = self._pending_entries(rows, served)
        paid -= Counter(each.event for each in hidden)
        return {
            "budget": str(ledger.budget),
            "participations": ledger.participations,
            "spent": served.read_field("spent"),
            "entries": sum(paid.values()),
            "prices": [{"event": repr(event), "entries": often} for event, often in paid.most_common(_MAX_PRICES)],
        }

    def _pending_entries(self, rows: Transaction, served: ServedPublication) -> list[LedgerEntry]:
        query = "select task, batch from ledger_entries where number > ? order by number"
        store = TransactionStore(rows)
        found = [store.find(task, batch) for task, batch in rows.execute(query, served.entries)]
        return [entry for entry in found if entry is not None]

    def _answers(self, rows: Transaction) -> tuple[Estimate, ...]:
        found = rows.execute("select estimate from answers where epoch = ? order by place", self.progress.epoch)
        return tuple(self._encoding.loads(text) for (text,) in found)

    def _publish(
        self,
        rows: Transaction,
        after: AnalyzerProgress,
        answers: Sequence[str],
        *,
        outcome: str,
        round_key: tuple[int, int] = (0, 0),
        digests: dict[str, str] | None = None,
    ) -> ServedPublication:
        """Write the progress and the signed publication that follows from it."""
        state = self._encoding.dumps(after.state)
        write_progress(rows, after, state, self._encoding)
        self._planned = self._now(after)  # in force when the caller's transaction is committed
        ledger = self._ledger(rows)
        spent = None if ledger is None else ledger.spent()
        document = {
            "task": self.task.id,
            "status": after.status,
            "epoch": after.epoch,
            "round": after.round,
            "state": state,
            "snapshot": self._encoding.dumps(self.policy.publish(after.state)),
            "answers": list(answers),
            "batches": [batch.to_dict() for batch in self._planned.batches],
            "helper": self._seal_key,
            "spent": spent if spent is not None and math.isfinite(spent) else None,  # infinite for zCDP at delta 0
        }
        return publication.append_publication(
            rows, document, self._sign, outcome=outcome, round_key=round_key, digests=digests or {}
        )

    def receipt(self, epoch: int, round_: int) -> bytes:
        """Return a signed receipt: a round was released, burned or refused, and in which publication."""
        self._check_settled()
        with self._database.reading() as rows:
            return publication.make_receipt(rows, self.task.id, epoch, round_, self._sign)

    def known(self, share: str, mixer: str, epoch: int, round_: int) -> bytes:
        """Return the receipt of a finished round to a mixer whose share has this digest; refuse others."""
        with self._exclusive():
            self._check_settled()
            with self._database.reading() as rows:
                known = publication.read_share_digests(rows, epoch, round_)
                refused = publication.has_outcome(rows, epoch, round_, EXHAUSTED)  # they were never opened
            if not refused and known is None and (epoch, round_) >= self.running:
                raise ShareRejected("awaited", f"batch {epoch}, round {round_} is not over")
            if not refused and (known is None or known.get(mixer) != share):
                raise ShareRejected("over", f"batch {epoch}, round {round_} is over, with other totals")
            return self.receipt(epoch, round_)


# Tables


# progress   one row: which round of which batch is awaited, the policy's state before it, what the analyzer holds
# answers    of the running batch, those of earlier rounds
# shares     what mixers have sent of the awaited round: expected -> partial -> released | burned
# releases   every publication with its signature and chain, in order, the ledger's last entry before it, and the
#            registrar's cosignature: pending (null) -> served; the newest one alone may be pending
SCHEMA = """
create table progress (
    id {bigint} primary key, task text not null, status text not null, epoch {bigint} not null,
    next_epoch {bigint} not null, round {bigint} not null, state text not null, streams text not null,
    kept text not null, source text not null);
create table answers (epoch {bigint} not null, place {bigint} not null, estimate text not null,
    primary key (epoch, place));
create table shares (
    epoch {bigint} not null, round {bigint} not null, mixer text not null, content text not null,
    primary key (epoch, round, mixer));
create table releases (
    number {bigint} primary key, epoch {bigint} not null, round {bigint} not null, outcome text not null,
    document text not null, signature text not null, chain text not null, digests text not null,
    entries {bigint} not null, cosignature text);
create index releases_of_rounds on releases (epoch, round);  -- receipts are asked for by round
"""
