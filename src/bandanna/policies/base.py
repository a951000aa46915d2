"""What every policy is to the runners: freeze, collect, release, learn."""

from __future__ import annotations

from dataclasses import dataclass

from bandanna.device.choice import Choice, pick

__all__ = ["Choice", "Episode", "pick"]


@dataclass(frozen=True, kw_only=True)
class Episode:
    """How long the policy stays frozen: `users` decisions; a last episode too short for a batch is not released."""

    users: int
    released: bool = True
