"""JSON as other programs read it."""

from __future__ import annotations

import json
from typing import Any


def strict(text: str) -> dict[str, Any]:
    """A document of strict JSON, without NaN or infinities, and nothing else."""

    def constant(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    document: dict[str, Any] = json.loads(text, parse_constant=constant)
    return document
