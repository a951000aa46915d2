"""A public random projection that every language computes alike.

The sign of input j in output i is bit j mod 256, the highest of the first byte first, of
SHA-256("bandanna project/{seed}/{i}/{floor(j/256)}"): -1 if it is set, else 1.
"""

from __future__ import annotations

import hashlib
import math
from functools import lru_cache

import numpy as np

from bandanna.core.arrays import Floats

_BITS = 256


@lru_cache(maxsize=16)
def signs(inputs: int, outputs: int, seed: int) -> Floats:
    """(inputs, outputs), of -1 and 1."""
    blocks = range(-(-inputs // _BITS))
    texts = (f"bandanna project/{seed}/{i}/{block}".encode("ascii") for i in range(outputs) for block in blocks)
    drawn = np.frombuffer(b"".join(hashlib.sha256(text).digest() for text in texts), dtype=np.uint8)
    bits = np.unpackbits(drawn).reshape(outputs, -1)[:, :inputs]
    made = np.ascontiguousarray(1.0 - 2.0 * bits.T)
    made.setflags(write=False)
    return made


def projected(x: Floats, outputs: int, seed: int) -> Floats:
    """(n, inputs) -> (n, outputs): sum_j sign x_j, added in the order of j, by sqrt(outputs).

    One column after the other: a row is the same to the last bit in any company, and in any language.
    """
    table = signs(x.shape[1], outputs, seed)
    total = np.zeros((len(x), outputs))
    for column, row in zip(x.T, table, strict=True):
        total += column[:, None] * row
    return np.asarray(total / math.sqrt(outputs))
