"""A deployment without sockets in which some users with valid tickets attack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bandanna.deployment.client.load_simulation import SimulatedUsers, SimulationTotals
from bandanna.deployment.messages.batch_plan import DTYPES, Batch, Part, Round
from bandanna.deployment.messages.report import FINAL, ReportAnswer, TaggedReport
from bandanna.simulation.environments.finite import FiniteArms

from ..inside import Inside, a_task

Attack = Callable[["Attacked", TaggedReport], Sequence[Sequence[bytes]]]  # requests to be sent instead of one report


class Attacked(Inside):
    """Of the users who send a final report, every `every`-th one sends what an attack makes of it first.

    bare  whether an attack is the whole request; else it has the honest reports for other rounds with it
    said  what the collector has answered to attacks, by reason; "" for what it has kept
    """

    def __init__(self, *parts: Any, attack: Attack | None = None, every: int = 3, bare: bool = False) -> None:
        super().__init__(*parts)
        self._attack, self._every, self._bare, self._count = attack, every, bare, 0
        self.said: dict[str, int] = {}

    def plan_of(self, epoch: int) -> Batch:
        return next(batch for batch in self.processor.now.batches if batch.epoch == epoch)

    def upload(self, reports: Any) -> list[ReportAnswer]:
        """Send the attack, then the honest report if the slot is not taken."""
        self._count += 1
        read = [TaggedReport.from_bytes(each) for each in reports]
        if self._attack is not None and self._count % self._every == 0:
            target = next((each for each in read if each.version == FINAL), None)
            for request in () if target is None else self._attack(self, target):
                made = [self._made(target, each) for each in request]
                whole = made if self._bare else _completed(made, read, target)
                for said in super().upload(whole):
                    self.said[said.reason] = self.said.get(said.reason, 0) + 1
        return super().upload(reports)

    def _made(self, target: TaggedReport, content: bytes) -> bytes:
        """Tag the report again if its tag was copied."""
        report = TaggedReport.from_bytes(content)
        return self.tagged(report) if report.tag == target.tag else content


def _completed(request: Sequence[bytes], read: Sequence[TaggedReport], target: TaggedReport | None) -> list[bytes]:
    """Add the other rounds of the honest request, so that the slot can be opened."""
    return [*request, *(each.to_bytes() for each in read if each is not target)]


def with_body(report: TaggedReport, body: bytes, **others: Any) -> bytes:
    fields = {name: getattr(report, name) for name in ("slot", "tag", "epoch", "round", "version", "key_id")}
    return TaggedReport(**{**fields, "body": body, **others}).to_bytes()


def parts_of(round_: Round) -> tuple[Part, ...]:
    return round_.parts[:1] if round_.by_arm else round_.parts


def filled(round_: Round, number: Any) -> bytes:
    """Return a body that repeats one number in the type of every part."""
    made = b""
    for part in parts_of(round_):
        numbers = np.full(part.length, number).astype(part.dtype).tobytes()
        made += numbers + bytes(part.size - DTYPES[part.dtype] * part.length)
    return made + bytes(round_.size - len(made))


def arms_of(environment: Any) -> Any:
    if isinstance(environment, FiniteArms):
        return [f"arm {number}" for number in range(environment.n_arms)]
    given = getattr(environment, "arms", None)
    return None if given is None else {f"arm {number}": list(row) for number, row in enumerate(given)}


def played(
    policy: Any,
    environment: Any,
    rounds: int,
    folder: Path,
    *,
    task: Any = None,
    attack: Attack | None = None,
    every: int = 3,
    bare: bool = False,
    **parts: Any,
) -> tuple[SimulationTotals, Attacked]:
    folder.mkdir(parents=True, exist_ok=True)
    made = a_task(policy, **{"arms": arms_of(environment), **parts}) if task is None else task
    inside = Attacked(*made, folder, attack=attack, every=every, bare=bare)
    crowd = SimulatedUsers(made[0], inside, environment, rounds=rounds, concurrency=1, wait=0.3)
    return crowd.run(), inside
