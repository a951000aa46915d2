"""An agent: a policy inside one's own program."""

from __future__ import annotations

from bandanna.agent.agent import Agent
from bandanna.agent.continual_sum import ContinualSum
from bandanna.agent.episodes import Decision

__all__ = [
    "Agent",
    "ContinualSum",
    "Decision",
]
