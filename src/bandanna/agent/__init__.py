"""The same policies inside one's own program: decide, observe, save; one process, no simulator."""

from __future__ import annotations

from bandanna.agent.agent import Agent
from bandanna.agent.decisions import Decision

__all__ = ["Agent", "Decision"]
