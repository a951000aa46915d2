"""A publication's content: what analyzers sign, devices act on and pages show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from bandanna.agent.kinds import encoding_of
from bandanna.wire.plan import Batch


@dataclass(frozen=True, kw_only=True)
class Published:
    """A publication whose signature was checked; reading its parts may raise whatever it is made of."""

    content: Mapping[str, Any]

    @property
    def number(self) -> int:
        """Of the publication."""
        return int(self.content["number"])

    @property
    def epoch(self) -> int:
        """The batch that is awaited."""
        return int(self.content["epoch"])

    @cached_property
    def batches(self) -> tuple[Batch, ...]:
        """The running one, and the one after it."""
        return tuple(map(Batch.from_dict, self.content["batches"]))

    @cached_property
    def state(self) -> Any:
        """Of the policy: released numbers."""
        return encoding_of().loads(self.content["state"])

    @cached_property
    def snapshot(self) -> Any:
        """What devices act on."""
        return encoding_of().loads(self.content["snapshot"])
