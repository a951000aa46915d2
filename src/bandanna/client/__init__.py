"""Clients of a deployment: devices act on what is published, and report what came of it, protected.

    with Session("task.json", tickets=...) as session:
        decision = session.act(contexts)
        session.report(decision, reward)

Light: NumPy, the device's own code and (extra `client`) an HTTP client and cryptography; no accountant and no SciPy,
unless a task's algorithm can only be played with the whole library.
"""

from __future__ import annotations

from bandanna.client.decisions import Decision, Outcome
from bandanna.client.outbox import Outbox
from bandanna.client.session import AsyncSession, Session
from bandanna.client.tickets import Registrar
from bandanna.client.wants import Unreachable
from bandanna.wire.answers import Ticket

__all__ = ["AsyncSession", "Decision", "Outbox", "Outcome", "Registrar", "Session", "Ticket", "Unreachable"]
