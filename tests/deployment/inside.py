"""A deployment without sockets: the objects of all roles in one process."""

from __future__ import annotations

import secrets
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from bandanna.agent.preflight import fixed_arms
from bandanna.deployment import collector, registrar
from bandanna.deployment.analyzer import processor
from bandanna.deployment.analyzer.processor import BatchProcessor
from bandanna.deployment.analyzer.publication import ServedPublication
from bandanna.deployment.calls import RoleUnreachable
from bandanna.deployment.collector import Collector
from bandanna.deployment.messages.canonical import (
    COLLECTOR,
    HELPER,
    Opener,
    TicketKeys,
    encode_base64url,
    loads,
    sealing_key,
    sign,
    signing_key,
)
from bandanna.deployment.messages.publication import (
    PublicationPin,
    SignedPublication,
    chain_document,
    cosigned_statement,
)
from bandanna.deployment.messages.report import (
    ReportAnswer,
    TaggedReport,
    Ticket,
    encode_verdicts,
    join_reports,
    parse_answers,
)
from bandanna.deployment.registrar import Notary
from bandanna.deployment.registrar_service import make_notary
from bandanna.deployment.task.document import Secrets, Task, make_content
from bandanna.device.arm_sets import FixedArmSet
from bandanna.errors import BandannaError
from bandanna.policies.base import Policy
from bandanna.privacy.stores.database import LEDGER_SCHEMA
from bandanna.storage.database.base import open_database

_ROLES = ("analyzer", "shuffler", "helper", "registrar")


def a_task(
    policy: Policy[Any], *, mixers: int | None = None, seed: int | None = 11, arms: Any = None, **parts: Any
) -> tuple[Task, dict[str, Secrets]]:
    """Return a test task for a policy, and every role's secrets."""
    count = mixers if mixers is not None else int(policy.privacy.model in ("shuffle", "concurrent"))
    pairs = {name: signing_key() for name in _ROLES}
    agreeing = {name: sealing_key() for name in _ROLES}
    seals = {name: sealing_key() for name in ("seal analyzer", "seal helper")}
    if count != 2:
        del seals["seal helper"]
    fixed: FixedArmSet | None = fixed_arms(policy, arms)
    content = make_content(
        policy,
        arms=fixed,
        title="a test",
        algorithm="",
        mixers=count,
        keys={name: public for name, (_, public) in {**pairs, **seals}.items()}
        | {f"agree {name}": public for name, (_, public) in agreeing.items()},
        seed=seed,
        test=True,
        guarantee={},
        promise="",
        expected=None,
        schema=None,
        **{"grace": 0.0, "close": "answered", "max_age": 1, "urls": dict.fromkeys(_ROLES, ""), **parts},
    )
    task = Task.made(content)
    made = {
        role: Secrets(
            task=task.id,
            role=role,
            sign=pairs[role][0],
            seal=seals.get(f"seal {role}", ("", ""))[0],
            agree=agreeing[role][0],
            person=encode_base64url(secrets.token_bytes(32)) if role == "registrar" else "",
            token=secrets.token_hex(16),
        )
        for role in _ROLES
    }
    return task, made


def shown(published: ServedPublication) -> SignedPublication:
    return SignedPublication(published.document, published.signature, published.cosignature or "")


def signed(task_id: str, secrets: dict[str, Secrets], document: bytes) -> SignedPublication:
    """Return any document, signed and cosigned as a publication."""
    signature = sign(secrets["analyzer"].sign, task_id, "publication", document)
    return SignedPublication(document, signature, cosigned(task_id, secrets, document))


def cosigned(task_id: str, secrets: dict[str, Secrets], document: bytes) -> str:
    """Return a registrar's cosignature of a publication; empty for a document without a chain."""
    content = loads(document)
    with suppress(BandannaError, KeyError, TypeError, AttributeError):
        pin = PublicationPin(content["number"], chain_document(content["previous"], document))
        return sign(secrets["registrar"].sign, task_id, "cosignature", cosigned_statement(pin))
    return ""


def headers_of(given: SignedPublication) -> dict[str, str]:
    return {"signature": given.signature, "witness": given.cosignature}


class Inside:
    """Collector and processor, called by hand."""

    def __init__(self, task: Task, secrets_: dict[str, Secrets], folder: Path) -> None:
        self.task, own = task, secrets_["analyzer"]
        verifiers = (COLLECTOR, HELPER)[: max(1, task.mixers)]
        self.keys = {each: secrets_["registrar"].ticket_key(task, each) for each in verifiers}
        self._tickets = {each: TicketKeys(key, task.digest, each) for each, key in self.keys.items()}
        rows = open_database(str(folder / "analyzer.db"), role="analyzer", schema=processor.SCHEMA + LEDGER_SCHEMA)
        notary = open_database(str(folder / "registrar.db"), role="registrar", schema=registrar.SCHEMA)
        self.notary = Notary(notary, **make_notary(task, secrets_["registrar"]))
        self.away = False  # the registrar
        signing = partial(sign, own.sign, task.id)
        self.processor = BatchProcessor(rows, task, sign=signing, opener=Opener(own.seal), witness=self.witness)
        self.processor.settle()
        kept = open_database(str(folder / "shuffler.db"), role="shuffler", schema=collector.SCHEMA)
        self.name = "shuffler" if task.mixers else "analyzer"
        self.collector = Collector(
            kept, task_id=task.id, task=task.digest, key=self.keys[COLLECTOR], grace=0.0, answered=True, name=self.name
        )
        self.collector.plan(self.processor.now.batches, self.processor.running)

    def witness(self, content: bytes) -> tuple[int, Any]:
        if self.away:
            raise RoleUnreachable("the registrar is away")
        return self.notary.witness(loads(content))

    def publication(self, after: int | None, wait: float) -> SignedPublication | None:
        self.pump()
        published = self.processor.published
        assert published is not None
        return None if after is not None and published.number <= after else shown(published)

    def tickets(self, users: Any, epoch: int, refused: Any = ()) -> list[Ticket]:
        return [self.ticket_of(secrets.token_bytes(16), epoch) for _ in users]

    def ticket_of(self, slot: bytes, epoch: int) -> Ticket:
        keys = {verifier: each.key(epoch, slot) for verifier, each in self._tickets.items()}
        return Ticket(slot=slot, epoch=epoch, **keys)

    def tagged(self, report: TaggedReport) -> bytes:
        """Return a report with the tag of its ticket."""
        plan = next((each.digest for each in self.processor.now.batches if each.epoch == report.epoch), bytes(32))
        parts = {name: getattr(report, name) for name in ("slot", "epoch", "version", "key_id", "body")}
        key = self._tickets[COLLECTOR].key(report.epoch, report.slot)
        return TaggedReport.make(key, plan, round_=report.round, **parts).to_bytes()

    def upload(self, reports: Any) -> list[ReportAnswer]:
        (verdicts,) = self.collector.accept([join_reports(list(reports))])
        return parse_answers(*encode_verdicts(verdicts), len(reports))

    def pump(self) -> None:
        self.collector.close_due()
        for closed in self.collector.waiting():
            taken = self.processor.take(closed.share, self.name, closed.epoch, closed.round)
            assert taken.receipt is not None
            self.collector.receipted(closed.epoch, closed.round, taken.receipt)
        self.collector.plan(self.processor.now.batches, self.processor.running)
