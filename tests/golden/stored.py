"""The corpus as files, one for each group, and how computed entries are compared with stored ones.

The last bits of some entries depend on kernels of BLAS and NumPy, which are chosen by the processor.
`processors.json` names them: those that stay within `TOLERANCE`, and those whose searches or draws go another way. On
the processor of the files everything is compared exactly, but what depends on the number of threads.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

PLACE = Path(__file__).parent
TOLERANCE = 1e-9  # relative, of floats; integers and texts are compared exactly


def kernels() -> list[str]:
    """Those that BLAS and NumPy have chosen for this processor."""
    import numpy
    import threadpoolctl

    chosen = {each.get("architecture", "") for each in threadpoolctl.threadpool_info()} - {""}
    simd: dict[str, Any] = numpy.show_config(mode="dicts")["SIMD Extensions"]  # type: ignore[call-overload]
    return [*sorted(chosen), *simd.get("found", ())]


def read(name: str) -> dict[str, Any]:
    stored: dict[str, Any] = json.loads((PLACE / f"{name}.json").read_text(encoding="utf-8"))
    return stored


def write(name: str, entries: dict[str, Any], place: Path = PLACE) -> None:
    """One line for each part of an entry, in alphabetical order."""
    lines = []
    for key, entry in sorted(entries.items()):
        if isinstance(entry, dict):
            held = (f"  {json.dumps(part)}: {json.dumps(each, sort_keys=True)}" for part, each in sorted(entry.items()))
            lines.append(f"{json.dumps(key)}: {{\n" + ",\n".join(held) + "\n}")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(entry, sort_keys=True)}")
    (place / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


@cache
def processors() -> dict[str, Any]:
    """On which kernels the files were computed, and which entries depend on them."""
    return read("processors") | {"here": kernels()}


def tolerance(group: str, key: str) -> float | None:
    """With which an entry is compared: 0 exactly; None: it is not comparable on this processor."""
    known = processors()
    if key in known["threads"].get(group, ()):
        return TOLERANCE
    if known["kernels"] == known["here"]:
        return 0.0
    if key in known["elsewhere another"].get(group, ()):
        return None
    return TOLERANCE


def differences(found: Any, stored: Any, *, place: str, tolerance: float) -> Iterator[str]:
    """Where two values differ: in a type, a length, a key or a number."""
    if isinstance(found, dict) and isinstance(stored, dict):
        for key in sorted(found.keys() | stored.keys()):
            if key not in stored or key not in found:
                yield f"{place} / {key}: {'not stored' if key not in stored else 'not computed'}"
            else:
                yield from differences(found[key], stored[key], place=f"{place} / {key}", tolerance=tolerance)
    elif isinstance(found, list) and isinstance(stored, list) and len(found) == len(stored):
        for number, (one, two) in enumerate(zip(found, stored, strict=True)):
            yield from differences(one, two, place=f"{place}[{number}]", tolerance=tolerance)
    elif type(found) is not type(stored) or not _equal(found, stored, tolerance):
        yield f"{place}: {_short(found)} now, {_short(stored)} stored"


def _equal(found: Any, stored: Any, tolerance: float) -> bool:
    if isinstance(found, float) and tolerance:
        return math.isclose(found, stored, rel_tol=tolerance, abs_tol=tolerance * 1e-3)
    return bool(found == stored)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:120]} ..."
