"""Documents as bytes: one JSON text for one value, its hash, and texts that fit into addresses."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

from bandanna.errors import Unreadable, place_in_json, raise_alone


def dumps(document: Any) -> bytes:
    """Keys in order, no spaces, no numbers that are none: equal values have equal bytes."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    return text.encode("ascii")


def loads(content: bytes | str) -> Any:
    """A document; Unreadable if it is none."""
    try:
        return json.loads(content, parse_constant=_refuse)
    except (RecursionError, ValueError) as error:  # which holds the document
        raise_alone(Unreadable(f"not a document of JSON: {place_in_json(error)}"))


def digest(content: bytes) -> str:
    """SHA-256, as a text for addresses."""
    return packed(hashlib.sha256(content).digest())


def packed(content: bytes) -> str:
    """Bytes as a text for addresses, without padding.

    >>> packed(b"any bytes")
    'YW55IGJ5dGVz'
    """
    return base64.urlsafe_b64encode(content).decode("ascii").rstrip("=")


def unpacked(text: Any, length: int | None = None) -> bytes:
    """The inverse of `packed`, of so many bytes."""
    try:
        content = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (TypeError, ValueError):
        raise_alone(Unreadable("not bytes in base64url"))
    if length is not None and len(content) != length:
        raise Unreadable(f"{len(content)} bytes where {length} belong")
    return content


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is not a number of JSON")
