"""`bd.run`: an experiment from Python, with the files, the resuming and the numbers of `bandanna run`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bandanna.core import require
from bandanna.core.calling import by_name
from bandanna.errors import InvalidArgument
from bandanna.experiments import drawing, outputs, sweep, table
from bandanna.experiments.executors import Executor
from bandanna.experiments.experiment import Experiment
from bandanna.experiments.spawning import once
from bandanna.experiments.workers import Progress, silent
from bandanna.figures.axes import drawable, save_figure
from bandanna.simulation.result import Result
from bandanna.storage.frames import frame


class Results(Mapping[str, Result]):
    """The result of every curve, by its label.

    experiment  what was run
    directory   where files are, None if there are none
    notes       what a missing extra prevented
    """

    def __init__(
        self, experiment: Experiment, results: Mapping[str, Result], *, directory: Path | None, notes: list[str]
    ) -> None:
        self.experiment, self.directory, self.notes = experiment, directory, notes
        self._results = dict(results)

    def __getitem__(self, label: str) -> Result:
        return self._results[label]

    def __iter__(self) -> Iterator[str]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)

    def __repr__(self) -> str:
        return f"<Results of {self.experiment.title!r}: {', '.join(self)}>"

    def rows(self) -> list[dict[str, Any]]:
        """One plain row per curve, as in summary.json."""
        return outputs.rows(self.experiment, self)

    def to_frame(self, *, kind: str = "pandas", rounds: str = "last") -> Any:
        """The tidy table of all curves: a row for every seed, with `rounds="all"` for every checkpoint too.

        `kind` is "pandas", "polars" or "arrow". Columns: `bandanna.experiments.table.columns`.
        """
        return frame(table.columns(self.experiment, self, rounds=rounds), kind, f"to_frame(kind={kind!r})")

    def plot(self, path: str | PathLike[str] | None = None, *, against: str | None = None) -> Any:
        """A matplotlib `Figure`: regret over time, or at the horizon `against` a number that was varied.

        That is "epsilon", "horizon", "dim", ...; a panel for every point of the grid that is left. Series are named by
        the epsilon of what ran. Saved to `path` (.png or .svg) if there is one; needs the extra `plot`.
        """
        drawable(path)
        figure = (
            drawing.over_time(self.experiment, self)
            if against is None
            else drawing.against(self.experiment, self, against)
        )
        if path is not None:
            save_figure(figure, path)
        return figure


@by_name("bd.run")
def run(
    experiment: str | PathLike[str] | Mapping[str, Any] | Experiment,
    *,
    out: str | PathLike[str] | None = None,
    jobs: int | None = None,
    executor: str | Executor = "processes",
    scheduler: str | None = None,
    resume: bool = False,
    progress: Progress = silent,
) -> Results:
    """Run an experiment: the path of a TOML file, a mapping with the same keys, or an `Experiment`.

    out        directory for blocks, results, table, figures and summary; of a file by default its name with -results
               in the current directory, otherwise none: then nothing is kept
    jobs       processes, by default as many as there are cores; 1 is this process; the numbers do not depend on it
    executor   "processes", or "dask" (extra `dask`): the workers of `scheduler`, "tcp://127.0.0.1:8786", or without an
               address a cluster on this machine; the numbers do not depend on it
    resume     continue what an earlier run left in `out`

    A script that calls this with a policy of its own in it, and jobs other than 1, needs `if __name__ == "__main__":`,
    since worker processes then import it.
    """
    once()
    chosen, directory = _read(experiment), _place(experiment, out)
    work: dict[str, Any] = {"jobs": jobs, "executor": executor, "scheduler": scheduler, "progress": progress}
    if directory is None:
        if require.flag("resume", resume):
            raise InvalidArgument("resume", resume, "with `out`, the directory of the earlier run")
        with TemporaryDirectory(prefix="bandanna-") as place:
            results = sweep.run(chosen, Path(place) / "run", **work)
        return Results(chosen, results, directory=None, notes=[])
    results = sweep.run(chosen, directory, resume=require.flag("resume", resume), **work)
    return Results(chosen, results, directory=directory, notes=outputs.write(chosen, results, directory))


def _read(given: Any) -> Experiment:
    if isinstance(given, Experiment):
        return given
    if isinstance(given, Mapping):
        return Experiment.from_dict(given)
    if isinstance(given, str | os.PathLike):
        return Experiment.from_toml(given)
    raise InvalidArgument("experiment", given, "the path of a TOML file, a mapping like it, or an Experiment")


def _place(given: Any, out: Any) -> Path | None:
    if out is not None:
        return require.path("out", out, folder=True)
    return Path(f"{Path(given).stem}-results") if isinstance(given, str | os.PathLike) else None
