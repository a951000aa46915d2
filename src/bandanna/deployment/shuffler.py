"""The shuffler: it takes plans from the analyzer, and forwards shares to it and jobs to the helper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bandanna.deployment.calls import RoleConnection, RoleUnreachable
from bandanna.deployment.collector import ClosedRound, Collector, Plan
from bandanna.deployment.messages.batch_plan import Batch
from bandanna.deployment.messages.canonical import Signer, digest, dumps, loads
from bandanna.deployment.messages.publication import read_publication
from bandanna.deployment.messages.share import JobEntry, check_receipt, write_job
from bandanna.errors import BandannaError, Unreadable


class Shuffler:
    """The mixer's side of a batch: its plan from the analyzer, its share to the analyzer.

    check  refuses batches that are not the policy's in a state: with fewer people or less noise than devices were told
    """

    def __init__(
        self,
        collector: Collector,
        *,
        task_id: str,
        analyzer: RoleConnection,
        helper: RoleConnection | None,
        sign: Signer,
        analyzer_key: str,
        registrar_key: str,
        check: Callable[[str, Sequence[Batch]], None],
    ) -> None:
        self._check_announced = check
        self._collector, self._task, self._sign, self._key = collector, task_id, sign, analyzer_key
        self._registrar_key = registrar_key
        self._analyzer, self._helper = analyzer, helper
        self._number: int | None = None
        self.status = "starting"

    def plan(self) -> Plan | None:
        """What the analyzer has published since."""
        if self._number is not None and (self._collector.closes_at is not None or self._filling()):
            return None  # nothing can be newer before this round is forwarded
        found = self._analyzer.publication(self._task, self._number)
        if found is None:
            return None
        content, _ = read_publication(found, task_id=self._task, key=self._key, registrar_key=self._registrar_key)
        self._check_not_older(content)
        batches = tuple(map(Batch.from_dict, content["batches"]))
        self._check_announced(content["state"], batches)
        self._number, self.status = int(content["number"]), str(content["status"])
        return batches, (int(content["epoch"]), int(content["round"]))

    def _filling(self) -> bool:
        progress = self._collector.progress()
        return bool(progress["of"]) and progress["slots"] < progress["of"]

    def _check_not_older(self, content: Any) -> None:
        """An analyzer that has forgotten what it has released must not release it again."""
        last = self._collector.last_receipt()
        if last is not None and int(content["number"]) < int(last["number"]):
            raise BandannaError(f"the analyzer has gone back to publication {content['number']}, from {last['number']}")

    def forward(self, closed: ClosedRound) -> bytes | None:
        """A closed round: the receipt, or None if it is stored and waits for another share."""
        content = closed.share
        where = f"/tasks/{self._task}/batches/{closed.epoch}.{closed.round}"
        known = self._fetch_receipt(closed, where)
        if known is not None:
            return known
        if self._helper is not None:
            self._send_job(closed, where)
        status, answer, _ = self._analyzer.ask(
            "PUT", f"{where}/shares/shuffler", content, {"Signature": self._sign("share", content)}
        )
        if status == 202:
            return None
        if status not in (200, 201, 422):
            raise RoleUnreachable(f"the analyzer refuses batch {closed.epoch}: {status}")
        return self._receipt(answer, closed)

    def _fetch_receipt(self, closed: ClosedRound, where: str) -> bytes | None:
        """The receipt of a round that the analyzer has been through; None if it awaits it.

        Its totals are not sent before that is known: if this database was rolled back they are other ones, and the
        analyzer would have two sums of nearly the same people. Their digest tells whether they are those that it has.
        """
        status, answer, _ = self._analyzer.ask("GET", f"{where}/shares/shuffler/{digest(closed.share)}")
        if status == 200:
            return self._receipt(answer, closed)
        if status == 409:
            self._receipt(answer, closed)  # without one no report is given up
            return dumps({"epoch": closed.epoch, "round": closed.round, "number": -1, "outcome": "over"})
        if status != 404:
            raise RoleUnreachable(f"no word on batch {closed.epoch}: {status}")
        return None

    def _receipt(self, answer: bytes, closed: ClosedRound) -> bytes:
        """The receipt in an answer: the analyzer's, of this round. There is a newer plan then."""
        try:
            document = loads(answer)
            receipt = document.get("receipt") if isinstance(document, dict) else None
            check_receipt(receipt, task_id=self._task, epoch=closed.epoch, round_=closed.round, key=self._key)
        except Unreadable as error:
            raise RoleUnreachable(str(error)) from error
        self._number = None
        return dumps(receipt)

    def _send_job(self, closed: ClosedRound, where: str) -> None:
        """What is sealed for the helper of a batch: each seed with its ticket's key, which is not seen here."""
        assert self._helper is not None
        found = self._collector.entries(closed.epoch, closed.round)
        if found is None:  # only the receipt is missing: the helper has had its job
            return
        plan, rows = found
        wanted = plan.rounds[closed.round]
        entries = [JobEntry(slot, key_id, wanted.sealed(body)) for slot, key_id, body in rows]
        content = write_job(task_id=self._task, batch=plan, round_=closed.round, entries=entries)
        status, _, _ = self._helper.ask("PUT", f"{where}/job", content, {"Signature": self._sign("job", content)})
        if status not in (200, 201):
            raise RoleUnreachable(f"the helper refuses batch {closed.epoch}: {status}")
