"""Signatures (Ed25519), sealed messages (HPKE: X25519, HKDF-SHA256, AES-128-GCM) and masks (AES-128-CTR).

A mask is a uniform vector modulo 2^64 made from a seed of 16 bytes:  share = counts - mask,  counts = share + mask.
Whoever has only one of both has a vector that is uniform whatever the counts are (as long as AES-128 is not broken).
"""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np

from bandanna.core.arrays import Ints
from bandanna.errors import BandannaError, MissingExtra, Unreadable
from bandanna.wire.canonical import packed, unpacked

try:
    from cryptography.exceptions import InvalidSignature, InvalidTag
    from cryptography.hazmat.primitives import hpke
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
except ImportError as error:  # pragma: no cover - tests have it
    raise MissingExtra("client", "signing and sealing") from error

SEED = 16
OVERHEAD = 48  # bytes by which a sealed message is longer
_SUITE = hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_128_GCM)


def signing_key() -> tuple[str, str]:
    """A new pair, secret and public."""
    key = Ed25519PrivateKey.generate()
    return packed(key.private_bytes_raw()), packed(key.public_key().public_bytes_raw())


def sealing_key() -> tuple[str, str]:
    """A new pair, secret and public."""
    key = X25519PrivateKey.generate()
    return packed(key.private_bytes_raw()), packed(key.public_key().public_bytes_raw())


def sign(secret: str, content: bytes) -> str:
    """By the owner of a key."""
    return packed(Ed25519PrivateKey.from_private_bytes(unpacked(secret, 32)).sign(content))


def verify(public: str, content: bytes, signature: Any) -> bool:
    """Whether the owner of the key has signed this."""
    try:
        Ed25519PublicKey.from_public_bytes(unpacked(public, 32)).verify(unpacked(signature, 64), content)
    except (InvalidSignature, Unreadable):
        return False
    return True


def seal(public: str, content: bytes, info: bytes) -> bytes:
    """For the owner of a key; `info` says what it belongs to, and must be said again to open it."""
    return _SUITE.encrypt(content, X25519PublicKey.from_public_bytes(unpacked(public, 32)), info)


class Opener:
    """Opens what was sealed for one key; made once, used often."""

    def __init__(self, secret: str) -> None:
        self._key = X25519PrivateKey.from_private_bytes(unpacked(secret, 32))

    def open(self, content: bytes, info: bytes) -> bytes:
        """What was sealed; BandannaError if it was not sealed for this key and for this."""
        try:
            return bytes(_SUITE.decrypt(content, self._key, info))
        except (InvalidTag, ValueError) as error:
            raise BandannaError("a message that was not sealed for this key, or for something else") from error


def draw_seed() -> bytes:
    """Of one mask."""
    return secrets.token_bytes(SEED)


def mask(seed: bytes, length: int) -> Ints:
    """A uniform vector modulo 2^64, as int64: AES-128 in counter mode from 0, for a seed that is used once."""
    stream = Cipher(algorithms.AES(seed), modes.CTR(bytes(16))).encryptor().update(bytes(8 * length))
    return np.frombuffer(stream, dtype="<i8").astype(np.int64)
