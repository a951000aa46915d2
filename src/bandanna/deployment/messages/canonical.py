"""Canonical JSON, keys, signatures and authorities of URLs."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import secrets
import ssl
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Literal

import numpy as np

from bandanna.errors import BandannaError, MissingExtra, Unreadable, describe_json_error, raise_without_context
from bandanna.types import Ints

# Canonical JSON


def dumps(document: Any) -> bytes:
    """Encode JSON with sorted keys, no spaces, no NaN or infinity: equal values have equal bytes."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    return text.encode("ascii")


def loads(content: bytes | str) -> Any:
    """Parse a document; Unreadable if it is none."""
    try:
        return json.loads(content, parse_constant=_refuse)
    except (RecursionError, ValueError) as error:  # which holds the document
        raise_without_context(Unreadable(f"not a document of JSON: {describe_json_error(error)}"))


def digest(content: bytes) -> str:
    """Return the SHA-256 of bytes, as base64url."""
    return encode_base64url(hashlib.sha256(content).digest())


def encode_base64url(content: bytes) -> str:
    """Encode bytes for addresses, without padding.

    >>> encode_base64url(b"any bytes")
    'YW55IGJ5dGVz'
    """
    return base64.urlsafe_b64encode(content).decode("ascii").rstrip("=")


def decode_base64url(text: Any, length: int | None = None) -> bytes:
    """Decode exactly this many bytes."""
    try:
        content = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (TypeError, ValueError):
        raise_without_context(Unreadable("not bytes in base64url"))
    if length is not None and len(content) != length:
        raise Unreadable(f"{len(content)} bytes where {length} belong")
    return content


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is not a number of JSON")


# Signatures, sealed messages and masks


try:
    from cryptography.exceptions import InvalidSignature, InvalidTag
    from cryptography.hazmat.primitives import hashes, hpke
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
except ImportError as error:  # pragma: no cover - tests have it
    raise MissingExtra("client", "signing and sealing") from error

Kind = Literal["publication", "receipt", "witness", "cosignature", "share", "job", "keys", "join"]
Signer = Callable[[Kind, bytes], str]  # `sign` by one key, of one task

SEED = 16
ENCAPSULATION = 32  # bytes with which a sealed message begins: a key that is drawn for this message alone
OVERHEAD = 48  # bytes by which a sealed message is longer
_P = 2**255 - 19
_SMALL = frozenset(  # Ed25519 points of order 1 to 8, without their sign; anyone can sign for them
    each.to_bytes(32, "little")
    for each in (0, 1, _P - 1, _P, _P + 1, *(int.from_bytes(bytes.fromhex(y), "little") for y in (
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    )))
)  # fmt: skip
_SUITE = hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_128_GCM)


def signing_key() -> tuple[str, str]:
    """Draw a new pair for signatures, secret and public."""
    key = Ed25519PrivateKey.generate()
    return encode_base64url(key.private_bytes_raw()), encode_base64url(key.public_key().public_bytes_raw())


def sealing_key() -> tuple[str, str]:
    """Draw a new pair, secret and public, to seal for its owner or to agree on a key."""
    key = X25519PrivateKey.generate()
    return encode_base64url(key.private_bytes_raw()), encode_base64url(key.public_key().public_bytes_raw())


def public_half(secret: str) -> str:
    """Return the public half of a secret of `sealing_key`."""
    return encode_base64url(
        X25519PrivateKey.from_private_bytes(decode_base64url(secret, 32)).public_key().public_bytes_raw()
    )


def is_sound(kind: Literal["sign", "agree", "seal"], public: str) -> bool:
    """Return whether a public key of another party can have an owner: anyone could sign for one that cannot."""
    try:
        key = decode_base64url(public, 32)
        if kind == "sign":
            Ed25519PublicKey.from_public_bytes(key)
            return key[:31] + bytes([key[31] & 0x7F]) not in _SMALL
        return any(X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(key)))
    except (Unreadable, ValueError):  # of an all-zero result, too
        return False


def agreed_key(secret: str, public: str, *, salt: bytes, info: bytes) -> bytes:
    """Return the 32-byte key that the owners of two pairs share; `salt` and `info` name its purpose."""
    own, other = decode_base64url(secret, 32), decode_base64url(public, 32)
    try:
        shared = X25519PrivateKey.from_private_bytes(own).exchange(X25519PublicKey.from_public_bytes(other))
    except ValueError:  # of an all-zero result
        shared = bytes(32)
    if not any(shared):
        raise_without_context(Unreadable("the public key for agreement is invalid: anyone would know the agreed key"))
    return HKDF(algorithm=hashes.SHA256(), length=32, salt=salt, info=info).derive(shared)


def sign(secret: str, task: str, kind: Kind, content: bytes) -> str:
    """Sign a document of a kind and of a task: it never passes for another kind or task.

    The signed text is `bandanna KIND`, a line feed, the task's id, a line feed and the bytes.
    """
    return encode_base64url(
        Ed25519PrivateKey.from_private_bytes(decode_base64url(secret, 32)).sign(_signed_bytes(task, kind, content))
    )


def verify(public: str, task: str, kind: Kind, content: bytes, signature: Any) -> bool:
    """Return whether the owner of the key has signed this, as a document of this kind and of this task.

    Kind and task are expectations of the caller, never read from a message.
    """
    try:
        key = Ed25519PublicKey.from_public_bytes(decode_base64url(public, 32))
        key.verify(decode_base64url(signature, 64), _signed_bytes(task, kind, content))
    except (InvalidSignature, Unreadable):
        return False
    return True


def _signed_bytes(task: str, kind: Kind, content: bytes) -> bytes:
    """Return the signed bytes; kind and task have no line feed, so two texts are never one."""
    return f"bandanna {kind}\n{task}\n".encode() + content


def seal(public: str, content: bytes, info: bytes) -> bytes:
    """Seal content for the owner of a key; it opens only with the same `info`."""
    return _SUITE.encrypt(content, X25519PublicKey.from_public_bytes(decode_base64url(public, 32)), info)


class Opener:
    """Open what was sealed for one key; made once, used often."""

    def __init__(self, secret: str) -> None:
        self._key = X25519PrivateKey.from_private_bytes(decode_base64url(secret, 32))

    def open(self, content: bytes, info: bytes) -> bytes:
        """Return what was sealed; raise BandannaError for another key or info."""
        try:
            return bytes(_SUITE.decrypt(content, self._key, info))
        except (InvalidTag, ValueError) as error:
            raise BandannaError("a message that was not sealed for this key, or for something else") from error


def draw_seed() -> bytes:
    """Draw the seed of a mask."""
    return secrets.token_bytes(SEED)


def expand_masks(seed: bytes, lengths: Sequence[int]) -> list[Ints]:
    """Return the masks of the parts of one report: pieces of one mask."""
    return np.split(expand_mask(seed, sum(lengths)), np.cumsum(lengths)[:-1])


def expand_mask(seed: bytes, length: int) -> Ints:
    """Return a uniform vector modulo 2^64, as int64: AES-128 in counter mode from 0, for a seed that is used once.

    share = counts - mask and counts = share + mask: share or mask alone is uniform, as long as AES-128 is not broken.
    """
    stream = Cipher(algorithms.AES(seed), modes.CTR(bytes(16))).encryptor().update(bytes(8 * length))
    return np.frombuffer(stream, dtype="<i8").astype(np.int64)


# Certificates


def make_tls_context(*, environment: bool = False) -> ssl.SSLContext:
    """Return httpx's TLS context; with `environment`, with the certificates of SSL_CERT_FILE or SSL_CERT_DIR.

    Sharing it saves 50 ms for each client.
    """
    return _read(*(os.environ.get(name) if environment else None for name in ("SSL_CERT_FILE", "SSL_CERT_DIR")))


@cache
def _read(file: str | None, folder: str | None) -> ssl.SSLContext:
    import httpx

    return httpx.create_ssl_context(trust_env=file is not None or folder is not None)


# Keys of tickets


SLOT = MAC = 16  # bytes
COLLECTOR, HELPER = "collector", "helper"  # who verifies tickets
_KEY = 64  # bytes of a key for HMAC-SHA256, which are those that SHA-256 takes at a time
_PADS = tuple(bytes(byte ^ pad for byte in range(256)) for pad in (0x36, 0x5C))


def encode_label(purpose: str) -> bytes:
    """Return the purpose of a hash, MAC or seal as 32 bytes.

    >>> encode_label("tag").rstrip(b"\\0")
    b'bandanna/3 tag'
    """
    text = f"bandanna/3 {purpose}".encode("ascii")
    assert len(text) <= 32
    return text.ljust(32, b"\0")


def ticket_key_info(verifier: str) -> bytes:
    """Return the HKDF info of the key that registrar and verifier share."""
    return encode_label("pair") + encode_label(verifier)


def mac(key: bytes, *parts: bytes) -> bytes:
    """Return the first 16 bytes of HMAC-SHA256 of the parts, for a key of at most 64 bytes.

    For such short messages two hashes are faster than OpenSSL's HMAC.
    """
    padded = key.ljust(_KEY, b"\0")
    inner = hashlib.sha256(padded.translate(_PADS[0]) + b"".join(parts)).digest()
    return hashlib.sha256(padded.translate(_PADS[1]) + inner).digest()[:MAC]


def prove_unused(key: bytes, task: bytes, epoch: int, slot: bytes) -> bytes:
    """Return the proof, with the key of registrar and collector, that a slot is unused in an epoch for good."""
    return mac(key, encode_label("refused"), task, epoch.to_bytes(4, "little"), slot)


def is_equal_mac(given: bytes, expected: bytes) -> bool:
    """Compare two codes in constant time."""
    return hmac.compare_digest(given, expected)


class TicketKeys:
    """Derive the keys of slots for one verifier (COLLECTOR or HELPER), with one hash state for each epoch."""

    def __init__(self, key: bytes, task: bytes, verifier: str) -> None:
        padded = key.ljust(_KEY, b"\0")
        self._outer = hashlib.sha256(padded.translate(_PADS[1]))
        self._inner = hashlib.sha256(padded.translate(_PADS[0]) + encode_label(f"ticket {verifier}") + task)
        self._begun = (-1, self._inner)  # an epoch, and the hash as far as it goes with it

    def key(self, epoch: int, slot: bytes) -> bytes:
        """Return the 16-byte key of a slot in an epoch."""
        known, begun = self._begun
        if epoch != known:
            begun = self._inner.copy()
            begun.update(epoch.to_bytes(4, "little"))
            self._begun = (epoch, begun)
        inner, outer = begun.copy(), self._outer.copy()
        inner.update(slot)
        outer.update(inner.digest())
        return outer.digest()[:MAC]
