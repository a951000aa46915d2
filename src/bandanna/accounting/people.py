"""People in a ledger: known by a keyed hash, never by the name that a caller has for them."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import numpy as np

from bandanna.errors import InvalidStatistic, Summary

_BITS = 4096  # of a whole number: its digits can be written


def hashed(secret: bytes, user: Any, name: str) -> str:
    """The name under which a user is kept; 17, NumPy's 17 and "17" are the same. Messages never show an id."""
    allowed = "a user's id: a text that is not empty, or a whole number"
    if isinstance(user, bool | np.timedelta64) or not isinstance(user, str | int | np.integer):
        raise InvalidStatistic(name, user, allowed)
    if isinstance(user, str):
        plain = str.__str__(user)  # an enumeration's member is its value
    elif int.bit_length(number := int(user)) <= _BITS:
        plain = int.__repr__(number)
    else:
        raise InvalidStatistic(name, Summary("a longer number"), f"{allowed} of at most {_BITS} bits")
    if not plain:
        raise InvalidStatistic(name, Summary("an empty text"), allowed)
    return hmac.digest(secret, f"user {plain}".encode(errors="surrogatepass"), hashlib.sha256).hex()
