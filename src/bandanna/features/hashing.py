"""Words and numbers to buckets, the same in every language: bytes, CRC-32, and the finisher of MurmurHash3.

A text is taken as its bytes in UTF-8, ASCII capitals made small; a word is a longest run of ASCII letters and digits
and of bytes above 127. A token is "t" and a word's bytes, or "n" and a number's 8 bytes (binary64, the largest first).

    h = mix(CRC-32(token) + seed mod 2^32),     bucket = floor(h / 2) mod buckets,     sign = -1 if h is odd, else 1

This is no secret, and protects nobody: it makes a long list of categories short.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Sequence
from itertools import chain, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna.core.arrays import Bools, Floats, Ints
from bandanna.features.values import number_of

_WORD = re.compile(rb"[0-9a-z\x80-\xff]+")
_TEXT, _NUMBER = zlib.crc32(b"t"), zlib.crc32(b"n")  # CRC-32 goes on from there


def bags(values: Sequence[Any], *, words: bool, buckets: int, seed: int) -> tuple[Floats, Ints, Bools]:
    """Signed counts of the tokens of different values (m, buckets), which of them each value is (n,), and which of them
    are neither text nor number (m,).
    """
    texts: dict[str, int] = {}
    others: list[Any] = []
    places = np.empty(len(values), dtype=np.int64)
    for row, value in enumerate(values):
        if type(value) is str:
            places[row] = texts.setdefault(value, len(texts))
        else:
            places[row] = ~len(others)
            others.append(value)
    places = np.where(places >= 0, places, len(texts) + ~places)  # after the texts
    found = [_words(text, words) for text in texts]
    rest = [_checks(value, words) for value in others]
    lengths = np.fromiter(map(len, chain(found, (each or () for each in rest))), dtype=np.int64)
    checks = chain(map(zlib.crc32, chain.from_iterable(found), repeat(_TEXT)), *(each or () for each in rest))
    flat = np.fromiter(checks, dtype=np.uint32, count=int(lengths.sum()))
    absent = np.array([False] * len(texts) + [each is None for each in rest], dtype=bool)
    return _counted(flat, lengths, buckets, seed), places, absent


def _words(text: str, words: bool) -> list[bytes]:
    content = _utf8(text)
    return _WORD.findall(content.lower()) if words else [content]


def _checks(value: Any, words: bool) -> list[int] | None:
    """CRC-32 of the tokens of what is not plainly a text; None where there are none."""
    if isinstance(value, str | bytes):
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
        return [zlib.crc32(word, _TEXT) for word in _words(text, words)]
    number = number_of(value)
    return None if number != number else [zlib.crc32(struct.pack(">d", number + 0.0), _NUMBER)]  # -0 + 0 = 0


def _utf8(text: str) -> bytes:
    """Half a character becomes U+FFFD, as browsers have it."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def _counted(checks: NDArray[np.uint32], lengths: Ints, buckets: int, seed: int) -> Floats:
    h = mixed(checks, seed)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    places = rows * buckets + (h >> np.uint32(1)).astype(np.int64) % buckets
    signs = 1.0 - 2.0 * (h & np.uint32(1))
    counts: Floats = np.bincount(places, weights=signs, minlength=len(lengths) * buckets)  # type: ignore[assignment]
    return counts.reshape(len(lengths), buckets)


def mixed(checks: NDArray[np.uint32], seed: int) -> NDArray[np.uint32]:
    """fmix32 of MurmurHash3 (Appleby, public domain), of CRC-32 + seed."""
    h = checks + np.uint32(seed)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h ^= h >> np.uint32(shift)
        h *= np.uint32(factor)
    return np.asarray(h ^ (h >> np.uint32(16)))
