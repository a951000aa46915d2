"""Checks of what a file says, beyond types: each raises Unreadable, with what is wrong."""

from __future__ import annotations

import re
from typing import Any

from bandanna.errors import Unreadable
from bandanna.storage.declared import conforms

_HEX = re.compile("[0-9a-f]+")


def demand(fits: Any, fault: str) -> None:
    """Unreadable, unless it fits."""
    if not fits:
        raise Unreadable(fault)


def is_hex(text: Any, length: int) -> bool:
    """So many digits of a secret, a hash or a name."""
    return isinstance(text, str) and len(text) == length and _HEX.fullmatch(text) is not None


def check_source(source: Any) -> None:
    """Where NumPy's generator of seeded noise can be."""
    demand(conforms(source, dict[str, Any]) and source.get("bit_generator") == "PCG64", "an unknown generator")
    demand(set(source) == {"bit_generator", "state", "has_uint32", "uinteger"}, "a generator without its parts")
    inner = source["state"]
    demand(conforms(inner, dict[str, int]) and set(inner) == {"state", "inc"}, "a generator without its state")
    bounds = (inner["state"], 128), (inner["inc"], 128), (source["has_uint32"], 1), (source["uinteger"], 32)
    demand(all(type(number) is int and 0 <= number < 1 << bits for number, bits in bounds), "a generator out of range")
