"""What a release changes, as one value: an interrupt finds the one before or the one after, never half of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Before the episode of decision `begin`, of which `asked` asks have been answered.

    state     of the policy; of an episode that ends by public numbers, as soon as something is asked, at its end
    streams   states of stream protocols
    source    where the seeded noise is
    closed    episodes before this one;  `released`: entries in the ledger
    reports   that closed episodes asked for; `missing` of them were nobody's, `clipped` were: not protected
    forgot    by name of `Policy.keeps`: rows of episodes before this number are kept no more
    """

    state: Any
    source: Any
    streams: Mapping[int, Any] = field(default_factory=dict)
    forgot: Mapping[str, int] = field(default_factory=dict)
    begin: int = 0
    asked: int = 0
    closed: int = 0
    released: int = 0
    reports: int = 0
    missing: int = 0
    clipped: int = 0

    def note(self) -> dict[str, Any]:
        """What saves and journals hold of it."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def read(cls, note: Mapping[str, Any]) -> Progress:
        """The inverse of `note`."""
        return cls(**{each.name: note[each.name] for each in fields(cls)})
