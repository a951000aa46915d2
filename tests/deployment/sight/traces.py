"""Values as they may be found: raw, in hexadecimal, in base64 wherever it begins, and numbers as texts."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

import numpy as np


def traces(value: bytes) -> set[bytes]:
    found = {value, value.hex().encode(), value.hex().upper().encode()}
    for shift in range(3):  # inside something longer, base64 begins anywhere
        padded = base64.b64encode(bytes(shift) + value)
        inner = padded[-(-8 * shift // 6) :] if shift else padded
        whole = (len(value) + shift) * 8 // 6 - (-(-8 * shift // 6))  # characters that depend on the value alone
        for text in (inner[:whole], inner[:whole].replace(b"+", b"-").replace(b"/", b"_")):
            if len(text) >= 8:
                found.add(text)
    return found


def numbers(row: Any) -> set[bytes]:
    """Integers as they might be written: as texts, and as the types of the wire."""
    listed = [int(each) for each in row]
    found = {sign.join(map(str, listed)).encode() for sign in (",", ", ", " ")}
    for dtype in ("<u4", "<u8", ">u4", ">u8"):
        found |= traces(np.array(listed, dtype=np.int64).astype(dtype).tobytes())
    return found


def seen(values: Iterable[bytes], where: bytes) -> int:
    """How many of these values can be found there, in any form."""
    return sum(any(trace in where for trace in traces(value)) for value in values)


def seen_numbers(rows: Iterable[Any], where: bytes) -> int:
    return sum(any(trace in where for trace in numbers(row)) for row in rows)
