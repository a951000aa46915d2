"""The client of a deployment: sessions of users on devices or on a host's server, and simulated users."""

from __future__ import annotations

from bandanna.deployment.client.outbox import ClientDecision, Outbox, Outcome, Unreachable
from bandanna.deployment.client.session import AsyncSession, RegistrarClient, Session
from bandanna.deployment.messages.report import Ticket

__all__ = ["AsyncSession", "ClientDecision", "Outbox", "Outcome", "RegistrarClient", "Session", "Ticket", "Unreachable"]
