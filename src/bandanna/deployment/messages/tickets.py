"""The keys of tickets, and authentication codes by which slots are proved."""

from __future__ import annotations

import hashlib
import hmac

SLOT = MAC = 16  # bytes
COLLECTOR, HELPER = "collector", "helper"  # who verifies tickets
_KEY = 64  # bytes of a key for HMAC-SHA256, which are those that SHA-256 takes at a time
_PADS = tuple(bytes(byte ^ pad for byte in range(256)) for pad in (0x36, 0x5C))


def encode_label(purpose: str) -> bytes:
    """What a hash, a MAC or a seal is for, as 32 bytes.

    >>> encode_label("tag")
    b'bandanna/3 tag\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00'
    """
    text = f"bandanna/3 {purpose}".encode("ascii")
    assert len(text) <= 32
    return text.ljust(32, b"\0")


def ticket_key_info(verifier: str) -> bytes:
    """For HKDF: whose pair key it is."""
    return encode_label("pair") + encode_label(verifier)


def mac(key: bytes, *parts: bytes) -> bytes:
    """HMAC-SHA256 of some parts, its first 16 bytes; the key has at most 64 bytes.

    By two hashes: for messages as short as these OpenSSL's own HMAC takes longer to begin than to run.
    """
    padded = key.ljust(_KEY, b"\0")
    inner = hashlib.sha256(padded.translate(_PADS[0]) + b"".join(parts)).digest()
    return hashlib.sha256(padded.translate(_PADS[1]) + inner).digest()[:MAC]


def prove_unused(key: bytes, task: bytes, epoch: int, slot: bytes) -> bytes:
    """What says that a slot was not used in an epoch, and never will be; `key`: of registrar and collector."""
    return mac(key, encode_label("refused"), task, epoch.to_bytes(4, "little"), slot)


def is_equal_mac(given: bytes, expected: bytes) -> bool:
    """Compared in constant time."""
    return hmac.compare_digest(given, expected)


class TicketKeys:
    """The keys of slots for one verifier, for the registrar that gives them and the verifier that checks them.

    All that is the same for an epoch is hashed once.

    Parameters
    ----------
    key : the pair key of registrar and verifier, 32 bytes
    task : the task's digest
    verifier : COLLECTOR or HELPER
    """

    def __init__(self, key: bytes, task: bytes, verifier: str) -> None:
        padded = key.ljust(_KEY, b"\0")
        self._outer = hashlib.sha256(padded.translate(_PADS[1]))
        self._inner = hashlib.sha256(padded.translate(_PADS[0]) + encode_label(f"ticket {verifier}") + task)
        self._begun = (-1, self._inner)  # an epoch, and the hash as far as it goes with it

    def key(self, epoch: int, slot: bytes) -> bytes:
        """The key of a slot in an epoch, 16 bytes."""
        known, begun = self._begun
        if epoch != known:
            begun = self._inner.copy()
            begun.update(epoch.to_bytes(4, "little"))
            self._begun = (epoch, begun)
        inner, outer = begun.copy(), self._outer.copy()
        inner.update(slot)
        outer.update(inner.digest())
        return outer.digest()[:MAC]
