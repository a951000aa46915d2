"""What `bandanna run` and `bandanna study` leave in a folder. Files are found by looking, never by a given name."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bandanna.dashboard import studies
from bandanna.dashboard.summaries import by_epsilon, curve_of, rows_of
from bandanna.errors import BandannaError
from bandanna.wire.canonical import digest

_SUMMARY, _RECORD = "summary.json", "experiment.json"
_MOST = 1 << 26  # bytes of a file that is read
_FOLDERS = 500  # that are looked into
_CURVES = 24  # of a page
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
    kind: str = "experiment"  # or "study"

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
            kind = "experiment" if _is_experiment(folder) else "study" if studies.is_study(folder) else ""
            if kind:
                name = folder.name if folder == self._root else folder.relative_to(self._root).as_posix()
                yield Experiment(id=_id(str(folder)), folder=folder, name=name or str(folder), kind=kind)
            elif depth < 2:
                waiting += [
                    (each, depth + 1)
                    for each in _listed(folder)
                    if each.is_dir() and not each.is_symlink() and not each.name.startswith(".")
                ]

    def line(self, experiment: Experiment) -> dict[str, Any]:
        """For the list."""
        if experiment.kind == "study":
            name, found, finished, _ = studies.title_and_rows(experiment.folder, self._read)
            return _line(experiment, name, len(found) if finished else None)
        summary, _ = self._summary(experiment)
        title = summary.get("title") if summary is not None else None
        return _line(experiment, title, None if summary is None else len(rows_of(summary)))

    def document(self, experiment: Experiment) -> dict[str, Any]:
        """The twin of its page."""
        if experiment.kind == "study":
            return self._study(experiment)
        summary, wrong = self._summary(experiment)
        rows = [] if summary is None else rows_of(summary)
        curves, unread = self._curves(experiment)
        return {
            **self.line(experiment),
            "wrong": wrong,
            "finished": summary is not None,
            "blocks": sum(1 for each in _listed(experiment.folder / "blocks") if each.suffix == ".csv"),
            "rows": rows,
            "curves_shown": curves,
            "unread": unread,
            "by_epsilon": by_epsilon(rows),
            "files": _files(experiment),
        }

    def _study(self, experiment: Experiment) -> dict[str, Any]:
        _, rows, finished, wrong = studies.title_and_rows(experiment.folder, self._read)
        return {
            **self.line(experiment),
            "wrong": wrong,
            "finished": finished,
            "rows": rows,
            "curves_shown": studies.curves(rows),
            "levels": studies.levels(rows),
            "files": _files(experiment),
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
                curves.append(self._read(each.path, curve_of))
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


def _line(experiment: Experiment, title: Any, rows: int | None) -> dict[str, Any]:
    shown = title if isinstance(title, str) and title else experiment.name
    return {
        "id": experiment.id,
        "title": shown[:200],
        "folder": experiment.name,
        "kind": experiment.kind,
        "curves": rows,
    }


def _files(experiment: Experiment) -> list[dict[str, Any]]:
    return [{"id": each.id, "name": each.name, "bytes": each.bytes} for each in experiment.files()]


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
