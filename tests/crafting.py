"""Altered files of JSON, for tests of readers."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

OTHER: list[Any] = [
    None, True, False, 0, 1, -1, 3, 10**6, 10**12, 10**30, 10**400, 1e308, -1e308, 0.5, "", "x", "best",
    "paper", "a" * 64, [], [1], {}, {"tuple": []}, {"dict": []}, {"float": "nan"}, {"float": "inf"}, {"float": "7"},
    {"array": "<f8", "shape": [10**12], "data": ""}, {"array": "<f8", "shape": [-1], "data": ""},
    {"array": "<f8", "shape": [0], "data": ""}, {"array": "|O", "shape": [0], "data": ""},
    {"kind": "LinUCB", "fields": {}}, {"kind": "Clear", "fields": {}}, {"kind": "os.system", "fields": {}},
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inside:
        yield (*path, key)
        yield from places(part, (*path, key))


def pick(rng: np.random.Generator, things: list[Any]) -> Any:
    return things[rng.integers(len(things))]


def mutated(plain: Any, rng: np.random.Generator) -> Any:
    """Return a copy with one part removed, repeated, changed a little or replaced."""
    made = copy.deepcopy(plain)
    path = pick(rng, list(places(made)))
    inside = made
    for key in path[:-1]:
        inside = inside[key]
    value, kind = inside[path[-1]], rng.integers(4)
    if kind == 0:
        del inside[path[-1]]
    elif kind == 1 and isinstance(inside, list):
        inside.append(copy.deepcopy(value))
    elif kind == 2 and type(value) in (int, float):
        inside[path[-1]] = pick(rng, [value + 1, value - 1, -value, value * 2, float(value)])
    else:
        inside[path[-1]] = copy.deepcopy(pick(rng, OTHER))
    return made


def rewrite(save: Path, text: str, noun: str = "agent") -> None:
    header = {"format": f"bandanna {noun}", "version": 1, "sha256": hashlib.sha256(text.encode()).hexdigest()}
    save.write_text(json.dumps(header) + "\n" + text + "\n")


def strict(text: str) -> dict[str, Any]:
    """Return a document; fail for NaN or infinities."""

    def constant(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    document: dict[str, Any] = json.loads(text, parse_constant=constant)
    return document
