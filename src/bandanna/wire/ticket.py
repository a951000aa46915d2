"""Tickets: the registrar's word that a slot is of somebody who may take part, the collector's that it was not used.

    mac     = HMAC-SHA256(key, "ticket"  | task | epoch | slot), its first 16 bytes
    refusal = HMAC-SHA256(key, "refused" | task | epoch | slot), likewise
    bound   = mac XOR the first 16 bytes of the plan's digest, which is what a record carries

A slot is drawn at random and is in one batch, so a ticket is used once. Registrar and mixers share the key; the
analyzer sees neither tickets nor slots. A refusal says that the epoch takes no more slots and that this one is not
among its own: the registrar gives its owner another ticket for it.

A record counts in a batch of the plan that it was made for and in no other: an analyzer that tells devices of more
people than it tells the mixer, so that they draw less noise, has their tickets refused.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

SLOT = MAC = 16  # bytes
KEY = 32
_BLOCK = 64  # bytes that SHA-256 takes at a time: HMAC pads its key to it


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


def bound(mac: bytes, plan: bytes) -> bytes:
    """A ticket for a batch of a plan with this digest; of one that is bound, the ticket."""
    return (int.from_bytes(mac) ^ int.from_bytes(plan[:MAC])).to_bytes(MAC)


class Tickets:
    """What `ticket` says, for whoever checks many of them: all that is the same for a batch is hashed once."""

    def __init__(self, key: bytes, task: bytes) -> None:
        self._task = task
        padded = (key if len(key) <= _BLOCK else hashlib.sha256(key).digest()).ljust(_BLOCK, b"\0")
        self._inner, self._outer = (hashlib.sha256(bytes(each ^ pad for each in padded)) for pad in (0x36, 0x5C))
        self._epoch, self._begun = -1, self._inner

    def agree(self, mac: bytes, epoch: int, slot: bytes) -> bool:
        """Whether `mac` is the ticket of a slot; compared in constant time."""
        if epoch != self._epoch:
            self._begun = self._inner.copy()
            self._begun.update(_message(b"ticket", self._task, epoch, b""))
            self._epoch = epoch
        inner, outer = self._begun.copy(), self._outer.copy()
        inner.update(slot)
        outer.update(inner.digest())
        return hmac.compare_digest(mac, outer.digest()[:MAC])


def _mac(key: bytes, what: bytes, task: bytes, epoch: int, slot: bytes) -> bytes:
    return hmac.digest(key, _message(what, task, epoch, slot), hashlib.sha256)[:MAC]


def _message(what: bytes, task: bytes, epoch: int, slot: bytes) -> bytes:
    return b"|".join((what, task, epoch.to_bytes(4, "little"), slot))
