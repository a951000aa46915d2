"""An agent: a policy inside one's own program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bandanna._lazy import load_lazily

_NAMES = {  # modules and the public names that they define
    "agent": "Agent",
    "continual_sum": "ContinualSum",
    "episodes": "Decision",
}

if TYPE_CHECKING:
    from bandanna.agent.agent import Agent as Agent
    from bandanna.agent.continual_sum import ContinualSum as ContinualSum
    from bandanna.agent.episodes import Decision as Decision
else:
    __getattr__, __dir__, __all__ = load_lazily(__name__, _NAMES, {})
