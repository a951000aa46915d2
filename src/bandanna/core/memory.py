"""How much memory there is, and what is refused because it would need more."""

from __future__ import annotations

import os
from typing import Any

from bandanna.errors import InvalidArgument

_UNKNOWN = 2**40  # where the system does not say: nothing that anybody has is refused


def available() -> int:
    """Bytes of the machine."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return _UNKNOWN


def require_room(argument: str, value: Any, needed: int, *, of: str) -> None:
    """Refuse an argument by name if what follows from it would not fit: before it is tried."""
    if needed > (room := available()):
        allowed = f"a smaller one: {of} would take {needed / 1e9:,.1f} GB, of which there are {room / 1e9:,.1f}"
        raise InvalidArgument(argument, value, allowed)
