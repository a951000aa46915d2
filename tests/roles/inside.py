"""A deployment without sockets: the parties' own objects, in one process, one after the other."""

from __future__ import annotations

import secrets
from functools import partial
from pathlib import Path
from typing import Any

from bandanna.accounting.stores.tables import LEDGER_MIGRATION
from bandanna.agent.arms import fixed_arms
from bandanna.core.arm_sets import FixedArms
from bandanna.policies.base import Policy
from bandanna.roles.analyzer import tables as analyzing
from bandanna.roles.analyzer.learner import Learner
from bandanna.roles.client.deployment import first_key
from bandanna.roles.collector import tables as collecting
from bandanna.roles.collector.collector import Collector
from bandanna.roles.collector.verdict import answer
from bandanna.storage.database import open_database
from bandanna.tasks.document import Secrets, Task, content_of
from bandanna.wire.answers import Answer, Ticket, answers
from bandanna.wire.canonical import packed
from bandanna.wire.keys import Opener, sealing_key, sign, signing_key
from bandanna.wire.record import joined
from bandanna.wire.ticket import draw_slot, ticket

_ROLES = ("analyzer", "shuffler", "helper", "registrar")


def a_task(
    policy: Policy[Any], *, mixers: int | None = None, seed: int | None = 11, arms: Any = None, **parts: Any
) -> tuple[Task, dict[str, Secrets]]:
    """A test task for a policy, with keys, and every role's secrets."""
    count = mixers if mixers is not None else int(policy.privacy.model in ("shuffle", "concurrent"))
    pairs = {name: signing_key() for name in ("analyzer", "shuffler", "helper")}
    seals = {name: sealing_key() for name in ("seal analyzer", "seal helper")}
    if count != 2:
        del seals["seal helper"]
    fixed: FixedArms | None = fixed_arms(policy, arms)
    content = content_of(
        policy,
        arms=fixed,
        title="a test",
        algorithm="",
        mixers=count,
        keys={name: public for name, (_, public) in {**pairs, **seals}.items()},
        seed=seed,
        test=True,
        guarantee={},
        promise="",
        expected=None,
        schema=None,
        **{"grace": 0.0, "close": "answered", "max_age": 1, "urls": dict.fromkeys(_ROLES, ""), **parts},
    )
    task = Task.made(content)
    key = packed(secrets.token_bytes(32))
    made = {
        role: Secrets(
            task=task.id,
            role=role,
            sign=pairs[role][0] if role in pairs else "",
            seal=seals.get(f"seal {role}", ("", ""))[0],
            ticket=key,
            token=secrets.token_hex(16),
        )
        for role in _ROLES
    }
    return task, made


class Inside:
    """Collector and learner, called by hand."""

    def __init__(self, task: Task, secrets_: dict[str, Secrets], folder: Path) -> None:
        self.task, own = task, secrets_["analyzer"]
        self._key = bytes.fromhex("00" * 32)
        rows = open_database(
            str(folder / "analyzer.db"), role="analyzer", migrations=(analyzing.MIGRATION, LEDGER_MIGRATION)
        )
        self.learner = Learner(rows, task, sign=partial(sign, own.sign), opener=Opener(own.seal))
        kept = open_database(str(folder / "shuffler.db"), role="shuffler", migrations=(collecting.MIGRATION,))
        self.name = "shuffler" if task.mixers else "analyzer"
        self.collector = Collector(
            kept, task_id=task.id, task=task.digest, key=self._key, grace=0.0, answered=True, name=self.name
        )
        self.collector.plan(self.learner.now.batches, self.learner.running)

    def publication(self, after: int | None, wait: float) -> tuple[bytes, str] | None:
        """At once."""
        self.pump()
        published = self.learner.published
        return None if after is not None and published.number <= after else (published.document, published.signature)

    def tickets(self, users: Any, epoch: int, refused: Any = ()) -> list[Ticket]:
        """For everybody."""
        slots = [draw_slot() for _ in users]
        return [Ticket(slot=s, mac=ticket(self._key, self.task.digest, epoch, s), epoch=epoch) for s in slots]

    def seal_key(self) -> tuple[int, str] | None:
        """The task's."""
        return first_key(self.task)

    def upload(self, records: Any) -> list[Answer]:
        """One request."""
        (verdicts,) = self.collector.accept([joined(list(records))])
        return answers(*answer(verdicts), len(records))

    def pump(self) -> None:
        """Close, forward, learn."""
        self.collector.close_due()
        for closed in self.collector.waiting():
            taken = self.learner.take(closed.share, self.name, closed.epoch, closed.round)
            assert taken.receipt is not None
            self.collector.receipted(closed.epoch, closed.round, taken.receipt)
        self.collector.plan(self.learner.now.batches, self.learner.running)
