"""The client of a deployment."""

from __future__ import annotations

from bandanna.deployment.client.effects import Decision, Outcome, Unreachable
from bandanna.deployment.client.outbox import Outbox
from bandanna.deployment.client.session import AsyncSession, Registrar, Session
from bandanna.deployment.messages.report import Ticket

__all__ = [
    "AsyncSession",
    "Decision",
    "Outbox",
    "Outcome",
    "Registrar",
    "Session",
    "Ticket",
    "Unreachable",
]
