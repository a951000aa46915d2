"""What a release changes, as one value: an interrupt finds the one before or the one after, never half of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Progress:
    """After `closed` batches: the policy's state, where its seeded noise is, and counts that are not protected."""

    NOTED = "state", "source", "closed", "missing", "clipped"  # the snapshot is computed from the state

    state: Any
    snapshot: Any
    source: Any
    closed: int = 0
    missing: int = 0
    clipped: int = 0

    def note(self) -> dict[str, Any]:
        """What saves and journals hold of it."""
        return {name: getattr(self, name) for name in self.NOTED}

    @classmethod
    def read(cls, note: Mapping[str, Any], snapshot: Any) -> Progress:
        """The inverse of `note`."""
        return cls(snapshot=snapshot, **{name: note[name] for name in cls.NOTED})
