"""What a collector remembers of one batch's slots, so that it need not ask its database: rebuilt from the rows."""

from __future__ import annotations

from array import array

from bandanna.roles.collector import closing
from bandanna.wire.plan import Batch
from bandanna.wire.record import FINAL, ZERO

_NONE = 255  # no version yet


class Filling:
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
        """No more slots."""
        return len(self.places) >= self.plan.slots

    def open(self, slot: bytes) -> int:
        """A place for a new slot."""
        place = self.places[slot] = len(self.places)
        for versions in self.versions:
            versions.append(_NONE)
        for prints in self.prints:
            prints.append(0)
        return place

    def put(self, round_: int, place: int, version: int, body: bytes) -> None:
        """A report that is kept."""
        before = self.versions[round_][place]
        self.versions[round_][place], self.prints[round_][place] = version, hash(body)
        self.finals[round_] += (version == FINAL) - (before == FINAL)
        if self.sealed[round_]:
            for seal in closing.encapsulations(self.plan.rounds[round_], body):
                self.seals[round_].setdefault(seal, place)

    def has(self, round_: int, place: int, version: int, body: bytes) -> bool | None:
        """Whether this very report is kept, or a later version; None if another one of this version is.

        One zero report is as good as another: were it refused only where no final one is, it would tell who answered.
        """
        known = self.versions[round_][place]
        if known == _NONE or known < version:
            return False
        return True if version == ZERO or known > version or self.prints[round_][place] == hash(body) else None

    def answered(self, round_: int) -> bool:
        """Whether every slot has its final report."""
        return self.full and self.finals[round_] == self.plan.slots
