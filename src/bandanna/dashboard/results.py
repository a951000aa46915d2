"""Results of experiments in a folder: what `bandanna run` leaves. Files are found by looking, never by a given name."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bandanna.dashboard.readings.base import finite
from bandanna.errors import BandannaError
from bandanna.simulation.result import Result
from bandanna.wire.canonical import digest

_SUMMARY, _RECORD = "summary.json", "experiment.json"
_MOST = 1 << 26  # bytes of a file that is read
_FOLDERS = 500  # that are looked into
_CURVES, _POINTS = 24, 120  # of a page
_KINDS = {".csv": "text/csv; charset=utf-8", ".parquet": "application/octet-stream", ".png": "image/png",
          ".svg": "image/svg+xml", ".json": "application/json"}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class File:
    """A file of an experiment that may be fetched, under a name made of its own."""

    id: str
    name: str
    path: Path
    bytes: int

    @property
    def kind(self) -> str:
        """Its media type."""
        return _KINDS[self.path.suffix.lower()]


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A folder with results, finished or not."""

    id: str
    folder: Path
    name: str

    def files(self) -> list[File]:
        """All that may be fetched: of known kinds, in the folder or in its results/, and no links out of it."""
        found = []
        for path in [*_listed(self.folder), *_listed(self.folder / "results")]:
            if (
                path.suffix.lower() in _KINDS
                and path.is_file()
                and not path.is_symlink()
                and _inside(path, self.folder)
            ):
                name = path.relative_to(self.folder).as_posix()
                found.append(File(id=_id(name), name=name, path=path, bytes=path.stat().st_size))
        return found

    def file(self, wanted: str) -> File | None:
        """By its id."""
        return next((each for each in self.files() if each.id == wanted), None)


class Folder:
    """A directory that holds an experiment, or several of them."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._loaded: dict[Path, tuple[tuple[int, int], Any]] = {}

    def experiments(self) -> list[Experiment]:
        """Those that are there now: the directory itself, and folders up to two levels below it."""
        return list(self._found())

    def find(self, wanted: str) -> Experiment | None:
        """By its id."""
        return next((each for each in self._found() if each.id == wanted), None)

    def _found(self) -> Iterator[Experiment]:
        looked = 0
        waiting = [(self._root, 0)]
        while waiting and looked < _FOLDERS:
            folder, depth = waiting.pop(0)
            looked += 1
            if _is_experiment(folder):
                name = folder.name if folder == self._root else folder.relative_to(self._root).as_posix()
                yield Experiment(id=_id(str(folder)), folder=folder, name=name or str(folder))
            elif depth < 2:
                waiting += [
                    (each, depth + 1)
                    for each in _listed(folder)
                    if each.is_dir() and not each.is_symlink() and not each.name.startswith(".")
                ]

    def line(self, experiment: Experiment) -> dict[str, Any]:
        """For the list."""
        summary, _ = self._summary(experiment)
        title = experiment.name
        if summary is not None and isinstance(summary.get("title"), str):
            title = summary["title"] or title
        rows = None if summary is None else len(_rows(summary))
        return {"id": experiment.id, "title": title[:200], "folder": experiment.name, "curves": rows}

    def document(self, experiment: Experiment) -> dict[str, Any]:
        """The twin of its page."""
        summary, wrong = self._summary(experiment)
        rows = [] if summary is None else _rows(summary)
        curves, unread = self._curves(experiment)
        return {
            **self.line(experiment),
            "wrong": wrong,
            "finished": summary is not None,
            "blocks": sum(1 for each in _listed(experiment.folder / "blocks") if each.suffix == ".csv"),
            "rows": rows,
            "curves_shown": curves,
            "unread": unread,
            "by_epsilon": _by_epsilon(rows),
            "files": [{"id": each.id, "name": each.name, "bytes": each.bytes} for each in experiment.files()],
        }

    def _summary(self, experiment: Experiment) -> tuple[dict[str, Any] | None, str]:
        """What it says; None before the experiment is finished, or what is wrong with it."""
        path = experiment.folder / _SUMMARY
        if not path.is_file() or path.is_symlink():
            return None, ""
        try:
            read = self._read(path, lambda file: json.loads(file.read_text(encoding="utf-8")))
        except (BandannaError, OSError, ValueError, RecursionError) as error:
            return None, f"{_SUMMARY} cannot be read ({type(error).__name__})."
        return (read, "") if isinstance(read, dict) else (None, f"{_SUMMARY} is no summary.")

    def _curves(self, experiment: Experiment) -> tuple[list[dict[str, Any]], list[str]]:
        """Regret over time of every result, decimated; and the names of files that are none."""
        curves, unread = [], []
        paths = [each for each in experiment.files() if each.name.startswith("results/") and each.path.suffix == ".csv"]
        for each in paths[:_CURVES]:
            try:
                curves.append(self._read(each.path, _curve))
            except (BandannaError, OSError, MemoryError):
                unread.append(each.name)
        return curves, unread

    def _read(self, path: Path, read: Any) -> Any:
        """A file's content, kept until the file is another one."""
        about = path.stat()
        if about.st_size > _MOST:
            raise BandannaError(f"{path.name} has more than {_MOST} bytes")
        mark = about.st_mtime_ns, about.st_size
        if self._loaded.get(path, (None, None))[0] != mark:
            if len(self._loaded) > 4 * _CURVES:
                self._loaded.clear()
            self._loaded[path] = mark, read(path)
        return self._loaded[path][1]


def _curve(path: Path) -> dict[str, Any]:
    result = Result.load(path)
    step = max(1, -(-len(result.checkpoints) // _POINTS))
    columns = result.checkpoints.tolist(), result.mean().tolist(), result.stderr().tolist()
    points = [
        {"round": round_, "regret": finite(regret), "stderr": finite(error)}
        for round_, regret, error in zip(*columns, strict=True)
    ]
    return {"label": result.label, "seeds": result.n_seeds, "points": points[::-step][::-1]}


def _rows(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """What a summary says of its curves, of the types that it has to have."""
    rows = summary.get("rows")
    found: list[dict[str, Any]] = []
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict) and isinstance(row.get("label"), str) and len(found) < 1000:
            words = {name: str(row.get(name, ""))[:200] for name in ("label", "algorithm", "trust")}
            numbers = ("epsilon", "delta", "mean", "stderr", "median", "n_seeds", "horizon", "bits_per_user", "seconds")
            found.append({**words, **{name: _number(row.get(name)) for name in numbers}, "group": _group(row)})
    return found


def _group(row: dict[str, Any]) -> str:
    """Curves that differ in their budget alone."""
    given = row.get("arguments")
    budgets = ("epsilon", "delta", "rho")
    others = {name: value for name, value in given.items() if name not in budgets} if isinstance(given, dict) else {}
    said = ", ".join(f"{name} = {value}" for name, value in sorted(others.items(), key=lambda pair: str(pair[0])))
    return f"{row.get('algorithm', '')} {f'({said})' if said else ''}".strip()[:120]


def _by_epsilon(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Final regret against epsilon, of curves that were run for more than one."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["epsilon"] is not None and row["epsilon"] > 0 and row["mean"] is not None:
            groups.setdefault(row["group"], []).append(row)
    return [
        {
            "group": name,
            "points": [
                {"epsilon": row["epsilon"], "regret": row["mean"], "stderr": row["stderr"]}
                for row in sorted(some, key=lambda row: row["epsilon"])
            ],
        }
        for name, some in groups.items()
        if len({row["epsilon"] for row in some}) > 1
    ]


def _number(value: Any) -> float | int | None:
    fine = (
        isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300 and math.isfinite(value)
    )
    return value if fine else None


def _is_experiment(folder: Path) -> bool:
    return (folder / _SUMMARY).is_file() or (folder / _RECORD).is_file()


def _listed(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return sorted(Path(each.path) for each in entries)
    except OSError:
        return []


def _inside(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


def _id(name: str) -> str:
    return digest(name.encode("utf-8", errors="surrogateescape"))[:22]
