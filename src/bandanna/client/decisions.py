"""What a user is given, and what became of the reward."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What a user is given.

    arm          its id;   action: its number
    publication  on which it was decided
    taking_part  whether its reward will be asked for: `report` it, whenever it comes
    reason       why not: "finished", "exhausted", "participations", "ticket", "full", "stale", "closed"; "" if it does
    """

    id: str
    arm: Hashable
    action: int
    publication: int
    taking_part: bool = True
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a report: kept; or pending, kept in the outbox and sent when `flush` can; or neither, and why."""

    kept: bool = False
    pending: bool = False
    reason: str = ""
