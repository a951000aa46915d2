"""Decisions one by one: every call of `act` closes the batches that are due."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bandanna.agent.agent import Agent
from bandanna.agent.episodes import Decision


def act_each(agent: Agent, sets: Sequence[Any], users: Sequence[Any] | None = None) -> list[Decision]:
    """Decide by `act` for one user after the other."""
    return [agent.act(arms, user=None if users is None else users[place]) for place, arms in enumerate(sets)]
