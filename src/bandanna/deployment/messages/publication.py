"""Publications: parts, chain, signature and verification."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from bandanna.deployment.messages.canonical import decode_base64url, digest, dumps, loads, verify
from bandanna.errors import BandannaError, Unreadable
from bandanna.storage.encoding import matches_type

_FIELDS: dict[str, Any] = {
    "number": int, "previous": str, "status": str, "epoch": int, "round": int, "state": str, "snapshot": str,
    "answers": list, "batches": list, "helper": dict[str, Any] | None,
}  # fmt: skip


LINKS = 256  # hashes of documents in one block: block k has those of publications 256 k, 256 k + 1, ...
HASH = 32  # bytes of each


class PublicationPin(NamedTuple):
    """The number and the chain of a publication, which determine its history."""

    number: int
    chain: str


class SignedPublication(NamedTuple):
    """A publication with the analyzer's signature and the registrar's cosignature."""

    document: bytes
    signature: str
    cosignature: str

    @classmethod
    def of(cls, document: bytes, headers: Mapping[str, str]) -> SignedPublication:
        """Make one from an answer of the analyzer, with lower-case headers."""
        return cls(document, headers.get("signature", ""), headers.get("witness", ""))


def chain_document(previous: str, document: bytes) -> str:
    """Return the chain of a publication: its document names the chain before it."""
    return extend_chain(previous, [hashlib.sha256(document).digest()])


def extend_chain(chain: str, hashes: Iterable[bytes]) -> str:
    """Return the chain after documents with these hashes."""
    for each in hashes:
        chain = digest((decode_base64url(chain, HASH) if chain else b"") + each)
    return chain


def cosigned_statement(pin: PublicationPin) -> bytes:
    """Return the registrar's statement of the publication of a number."""
    return dumps({"chain": pin.chain, "number": pin.number})


def is_cosigned(pin: PublicationPin, cosignature: Any, *, task_id: str, key: str) -> bool:
    """Return whether the registrar, by its `key`, has cosigned this publication."""
    return verify(key, task_id, "cosignature", cosigned_statement(pin), cosignature)


def check_cosigned(pin: PublicationPin, cosignature: Any, *, task_id: str, key: str) -> None:
    """Refuse a publication that the registrar, by its `key`, has not cosigned."""
    if not is_cosigned(pin, cosignature, task_id=task_id, key=key):
        raise BandannaError(f"publication {pin.number} is not cosigned by the task's registrar")


def read_publication(
    shown: SignedPublication, *, task_id: str, key: str, registrar_key: str, before: PublicationPin | None = None
) -> tuple[dict[str, Any], PublicationPin]:
    """Check a publication, and return its parts and its pin.

    Raise BandannaError if analyzer (`key`) or registrar have not signed it, or if it is of another history than
    `before`, or of another task.
    """
    document = shown.document
    if not verify(key, task_id, "publication", document, shown.signature):
        raise BandannaError("a publication that the task's analyzer has not signed")
    content = loads(document)
    if not isinstance(content, dict) or content.get("task") != task_id:
        raise Unreadable("a publication of another task")
    if not set(_FIELDS) <= set(content) or not all(matches_type(content[name], _FIELDS[name]) for name in _FIELDS):
        raise Unreadable("a publication with other fields than it has to have")
    if not all(0 <= content[name] < 2**32 for name in ("number", "epoch", "round")):
        raise Unreadable("a publication with numbers that are none")
    made = PublicationPin(int(content["number"]), chain_document(content["previous"], document))
    check_cosigned(made, shown.cosignature, task_id=task_id, key=registrar_key)
    if before is not None:
        check_follows(made, content["previous"], before)
    return content, made


def check_between(before: PublicationPin, content: dict[str, Any], hashes: Sequence[bytes]) -> None:
    """Refuse a publication that does not continue the history of `before`; `hashes` are of all documents between."""
    if extend_chain(before.chain, hashes) != content["previous"]:
        number = content["number"]
        raise BandannaError(f"publication {number} has another history than {before.number}: the analyzer shows two")


def check_follows(made: PublicationPin, previous: str, before: PublicationPin) -> None:
    """Refuse an older publication, and another history as far as two publications show it."""
    if made.number < before.number:
        raise BandannaError(f"publication {made.number} after {before.number}: the analyzer has gone back")
    if made.number == before.number and made.chain != before.chain:
        raise BandannaError(f"two publications of number {made.number}: the analyzer shows different histories")
    if made.number == before.number + 1 and previous != before.chain:
        raise BandannaError(f"publication {made.number} does not follow the one before it")
