"""What `bandanna study` leaves, read with suspicion: reward against epsilon on real data, row by row."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bandanna.dashboard.summaries import plain
from bandanna.errors import BandannaError

ROWS, RECORD = "rows.json", "study.json"
_MOST = 1000  # rows
_WORDS = ("algorithm", "trust")
_NUMBERS = ("epsilon", "stated_epsilon", "delta", "mean_reward", "stderr", "n_seeds", "horizon", "accepted", "seconds")

Read = Callable[[Path, Callable[[Path], Any]], Any]


def is_study(folder: Path) -> bool:
    """Whether a study was begun there."""
    return (folder / RECORD).is_file() or (folder / ROWS).is_file()


def title_and_rows(folder: Path, read: Read) -> tuple[str, list[dict[str, Any]], bool, str]:
    """Its title, if it is finished; its rows, until then those that are done; whether it is; and what is wrong."""
    whole = folder / ROWS
    if not whole.is_file() or whole.is_symlink():
        return "", _rows(_done(folder, read)), False, ""
    try:
        found = read(whole, _json)
    except (BandannaError, OSError, ValueError, RecursionError) as error:
        return "", [], False, f"{ROWS} cannot be read ({type(error).__name__})."
    if not isinstance(found, dict) or not isinstance(found.get("rows"), list):
        return "", [], False, f"{ROWS} holds no rows."
    title = found.get("title")
    return title if isinstance(title, str) else "", _rows(iter(found["rows"])), True, ""


def _done(folder: Path, read: Read) -> Iterator[Any]:
    """Rows that are finished, a file each; a file that is none is left out."""
    try:
        paths = sorted(each for each in (folder / "rows").iterdir() if each.suffix == ".json")[:_MOST]
    except OSError:
        return
    for path in paths:
        try:
            if not path.is_symlink():
                yield read(path, _json)
        except (BandannaError, OSError, ValueError, RecursionError):
            continue


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _rows(rows: Iterator[Any]) -> list[dict[str, Any]]:
    """Rows of the types that they have to have."""
    found: list[dict[str, Any]] = []
    for row in rows:
        if isinstance(row, dict) and isinstance(row.get("algorithm"), str) and len(found) < _MOST:
            words = {name: str(row.get(name, ""))[:200] for name in _WORDS}
            found.append(words | {name: plain(row.get(name)) for name in _NUMBERS})
    return found


def curves(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Reward against the epsilon of what ran, for every algorithm and trust model."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        at = row["stated_epsilon"] or row["epsilon"]
        if at is not None and at > 0 and row["mean_reward"] is not None:
            point = {"epsilon": at, "reward": row["mean_reward"], "stderr": row["stderr"]}
            groups.setdefault(f"{row['algorithm']}, {row['trust']}", []).append(point)
    return [{"group": name, "points": sorted(some, key=lambda each: each["epsilon"])} for name, some in groups.items()]


def levels(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rewards without privacy: the same whatever epsilon is."""
    free = [row for row in rows if row["epsilon"] is None and row["mean_reward"] is not None]
    return [{"name": row["algorithm"], "reward": row["mean_reward"], "stderr": row["stderr"]} for row in free]
