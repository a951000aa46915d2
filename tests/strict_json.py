"""A reader of strict JSON."""

from __future__ import annotations

import json
from typing import Any


def strict(text: str) -> dict[str, Any]:
    """Return a document; fail for NaN or infinities."""

    def constant(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    document: dict[str, Any] = json.loads(text, parse_constant=constant)
    return document
