"""Tickets: the registrar's word that a slot is of somebody who may take part, the collector's that it was not used.

    mac     = HMAC-SHA256(key, "ticket"  | task | epoch | slot), its first 16 bytes
    refusal = HMAC-SHA256(key, "refused" | task | epoch | slot), likewise

A slot is drawn at random and is in one batch, so a ticket is used once. Registrar and mixers share the key; the
analyzer sees neither tickets nor slots. A refusal says that the epoch takes no more slots and that this one is not
among its own: the registrar gives its owner another ticket for it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

SLOT = MAC = 16  # bytes
KEY = 32


def draw_slot() -> bytes:
    """A slot that nobody has."""
    return secrets.token_bytes(SLOT)


def ticket(key: bytes, task: bytes, epoch: int, slot: bytes) -> bytes:
    """What makes a slot valid in an epoch of a task."""
    return _mac(key, b"ticket", task, epoch, slot)


def refusal(key: bytes, task: bytes, epoch: int, slot: bytes) -> bytes:
    """What says that a slot was not used in an epoch, and never will be."""
    return _mac(key, b"refused", task, epoch, slot)


def agrees(given: bytes, expected: bytes) -> bool:
    """Compared in constant time."""
    return hmac.compare_digest(given, expected)


def _mac(key: bytes, what: bytes, task: bytes, epoch: int, slot: bytes) -> bytes:
    message = b"|".join((what, task, epoch.to_bytes(4, "little"), slot))
    return hmac.digest(key, message, hashlib.sha256)[:MAC]
