"""A cache of calibration searches, in memory and on disk."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from bandanna.errors import BandannaError
from bandanna.storage.files import replace_file

VERSION = 1  # part of every key: raise it when a search changes, and old results are no longer found

_LARGEST = 1 << 16  # bytes of a file; ours have some hundreds
_MOST = 1e300  # size of a stored number (false for NaN)

Key = Mapping[str, int | float | str]
_memory: dict[tuple[str, str], dict[str, Any]] = {}  # results found in this process: (directory, identity) -> result


def find_cache_folder() -> Path | None:
    """Return the folder of stored results, or None if it is switched off."""
    chosen = os.environ.get("BANDANNA_CACHE")
    if chosen is not None:
        return Path(chosen) if chosen else None
    base = os.environ.get("XDG_CACHE_HOME")
    if base:
        return Path(base) / "bandanna"
    try:
        return Path.home() / ".cache" / "bandanna"
    except RuntimeError:  # no home directory
        return None


def compute_cached(
    kind: str, key: Key, compute: Callable[[], dict[str, Any]], *, valid: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """Return the result stored under (kind, key); if there is none, compute and store it.

    `compute` returns finite numbers, texts and lists of numbers by name. A stored result that is not `valid` is
    computed again.
    """
    identity = json.dumps({"version": VERSION, "kind": kind, "key": dict(key)}, sort_keys=True)
    place = find_cache_folder()
    slot = (str(place), identity)
    if slot not in _memory:
        stored = None if place is None else _read(_path(place, kind, identity), identity, valid)
        if stored is None:
            stored = compute()
            if place is not None:
                _write(
                    _path(place, kind, identity),
                    {"identity": identity, "result": stored, "digest": _digest(identity, stored)},
                )
        _memory[slot] = stored
    return deepcopy(_memory[slot])


def clear_memory() -> None:
    """Empty this process's memory. The files stay."""
    _memory.clear()


def _path(place: Path, kind: str, identity: str) -> Path:
    return place / f"{kind}-{hashlib.sha256(identity.encode()).hexdigest()[:24]}.json"


def _digest(identity: str, result: dict[str, Any]) -> str:
    return hashlib.sha256((identity + json.dumps(result, sort_keys=True)).encode()).hexdigest()


def _read(path: Path, identity: str, valid: Callable[[dict[str, Any]], bool]) -> dict[str, Any] | None:
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST:  # a pipe would never end
            return None
        document = json.loads(path.read_text(encoding="utf-8"))
        result = document["result"]
        whole = document["identity"] == identity and document["digest"] == _digest(identity, result)
        usable = whole and _is_plain(result) and valid(result)
    except Exception:  # whatever is wrong with a stored file, computing anew is the answer
        return None
    return dict(result) if usable else None


def _is_plain(result: Any) -> bool:
    if not isinstance(result, dict):
        return False
    entries = [entry for value in result.values() for entry in (value if isinstance(value, list) else [value])]
    numbers = [entry for entry in entries if type(entry) in (int, float)]
    texts = [value for value in result.values() if isinstance(value, str)]
    return len(numbers) + len(texts) == len(entries) and all(abs(number) <= _MOST for number in numbers)


def _write(path: Path, document: dict[str, Any]) -> None:
    with contextlib.suppress(OSError, TypeError, ValueError, BandannaError):
        text = json.dumps(document)
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, lambda beside: beside.write_text(text, encoding="utf-8"))
