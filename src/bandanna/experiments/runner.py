"""Run an experiment over processes, resume it, and write results, tables and figures.

Every curve runs in blocks of seeds, which depend on the experiment alone: numbers are equal bit by bit for any number
of processes. Blocks are written atomically; `resume` repeats no finished block.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from bandanna import validation
from bandanna.data.tables import make_frame, write_csv, write_parquet
from bandanna.errors import BandannaError, InvalidArgument, MissingExtra
from bandanna.experiments import experiment
from bandanna.experiments.executors import (
    Executor,
    ProgressCallback,
    check_ready,
    choose_executor,
    exit_if_imported,
    ignore_progress,
)
from bandanna.experiments.experiment import Experiment, ExperimentCurve, label_parts, result_columns
from bandanna.policies.algorithm import is_import_path, source_digest
from bandanna.policies.base import Policy
from bandanna.simulation.engine import simulate
from bandanna.simulation.figures import (
    MAX_PANELS,
    PanelLine,
    check_drawable,
    plot_panels,
    plot_regret,
    save_both,
    save_figure,
)
from bandanna.simulation.result import Result
from bandanna.storage.files import replace_file
from bandanna.validation import checked_keywords

# Figures


_BUDGET = ("epsilon", "delta", "rho")  # figures show the epsilon of what ran instead


def series_names(experiment: Experiment, results: Mapping[str, Result]) -> dict[str, str]:
    """Return the names of series in figures, by label, with the guarantee of what ran.

    For several points it is the largest one. Series with the same guarantee show their setting too.
    """
    found: dict[str, str] = {}
    for series in experiment.series:
        promised = [results[curve.label].guarantee for curve in experiment.curves if curve.series is series]
        worst = max(promised, key=lambda each: each.epsilon).brief()
        sign = "=" if len({each.brief() for each in promised}) == 1 else "≤"
        kept = {key: value for key, value in series.varied.items() if key not in _BUDGET}
        name = ", ".join(part for part in (series.called, *label_parts(kept), worst.replace("=", sign)) if part)
        found[series.label] = name if name not in found.values() else f"{name} ({series.label})"
    return found


def draw_over_time(experiment: Experiment, results: Mapping[str, Result]) -> Any:
    """Draw the mean regret over rounds, in a panel for every grid point."""
    panels: dict[str, dict[str, Result]] = {}
    called = series_names(experiment, results)
    for curve in experiment.curves:
        panel = panels.setdefault(", ".join(label_parts(curve.point.varied)), {})
        panel[called[curve.series.label]] = results[curve.label]
    if len(panels) == 1:
        return plot_regret(next(iter(panels.values())), title=experiment.title)
    lines = {
        panel: {
            name: PanelLine(across=each.checkpoints.astype(float), values=each.mean(), spread=2 * each.stderr())
            for name, each in curves.items()
        }
        for panel, curves in panels.items()
    }
    return plot_panels(lines, across="rounds", title=experiment.title, note=_figure_note(experiment))


def draw_against(experiment: Experiment, results: Mapping[str, Result], key: str) -> Any:
    """Draw the regret at the horizon against a varied setting: "epsilon" (of what ran), "horizon", "dim", ...

    Other settings of the environment have panels. Against epsilon, no privacy is a dashed line.
    """
    if key not in varied_axes(experiment):
        allowed = f"a varied number: {', '.join(varied_axes(experiment)) or 'this experiment has none'}"
        raise InvalidArgument("against", key, allowed)
    called = series_names(experiment, results)
    groups: dict[str, dict[str, list[tuple[float, Result]]]] = {}
    for curve in experiment.curves:
        result = results[curve.label]
        series = {name: value for name, value in curve.series.varied.items() if name not in (key, "delta")}
        if key == "epsilon":
            name, at = ", ".join([curve.series.called, *label_parts(series)]), result.guarantee.epsilon
        else:
            name, at = called[curve.series.label], float(curve.varied.get(key, np.inf))
        groups.setdefault(_without_axis(curve.point.varied, key), {}).setdefault(name, []).append((at, result))
    panels = {panel: {name: _panel_line(found) for name, found in lines.items()} for panel, lines in groups.items()}
    return plot_panels(panels, across=key, title=experiment.title, note=_figure_note(experiment), points=True, log=True)


def varied_axes(experiment: Experiment) -> list[str]:
    """Return the numeric settings with at least two values and few enough panels."""
    found: dict[str, set[float]] = {}
    for curve in experiment.curves:
        for key, value in curve.varied.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                found.setdefault(key, set()).add(float(value))
    return [
        key
        for key, values in found.items()
        if len(values) > 1 and len({_without_axis(point.varied, key) for point in experiment.points}) <= MAX_PANELS
    ]


def _without_axis(varied: Mapping[str, Any], key: str) -> str:
    return ", ".join(label_parts({name: value for name, value in varied.items() if name != key}))


def _panel_line(found: list[tuple[float, Result]]) -> PanelLine:
    ordered = sorted(found, key=lambda each: each[0])
    finite = [each for each in ordered if np.isfinite(each[0])]
    shown = finite or ordered
    return PanelLine(
        across=np.array([at for at, _ in finite]) if finite else None,
        values=np.array([result.mean()[-1] for _, result in shown]),
        spread=np.array([2 * result.stderr()[-1] for _, result in shown]),
    )


def _figure_note(experiment: Experiment) -> str:
    return f"mean of {experiment.n_seeds:,} seeds ± 2 standard errors" if experiment.n_seeds > 1 else "one seed"


# Outputs


def file_stem(experiment: Experiment, index: int) -> str:
    """Return the name of a curve's files, from its number and label."""
    plain = re.sub(r"[^a-z0-9.]+", "-", experiment.curves[index].label.lower()).strip("-.")
    return f"{index + 1:02d}-{plain[:60]}".rstrip("-.")


def summary_rows(experiment: Experiment, results: Mapping[str, Result]) -> list[dict[str, Any]]:
    """Return a plain row of settings, guarantee and results per curve."""
    return [_summary_row(curve, results[curve.label]) for curve in experiment.curves]


def _summary_row(curve: ExperimentCurve, result: Result) -> dict[str, Any]:
    summary = result.to_dict()
    guarantee = summary["guarantee"]
    return {
        "label": curve.label,
        "algorithm": curve.algorithm,
        "arguments": to_json_value(dict(curve.arguments)),
        "varied": to_json_value(curve.varied),
        "trust": guarantee["trust"],
        "epsilon": guarantee["epsilon"],
        "delta": None if guarantee["epsilon"] is None else guarantee["delta"],
        "bits_per_user": result.bits_per_user,
        **{name: value for name, value in summary.items() if name != "name"},
    }


def write_outputs(experiment: Experiment, results: Mapping[str, Result], out: str | PathLike[str]) -> list[str]:
    """Write results, one table of all, figures and summary.json; return notes about missing extras."""
    directory = Path(out)
    notes: list[str] = []
    (directory / "results").mkdir(parents=True, exist_ok=True)
    for index, curve in enumerate(experiment.curves):
        results[curve.label].to_csv(directory / "results" / f"{file_stem(experiment, index)}.csv")
        with _note_missing_extra(notes):
            results[curve.label].to_parquet(directory / "results" / f"{file_stem(experiment, index)}.parquet")
    tidy = result_columns(experiment, results)
    write_csv(directory / "table.csv", tidy)
    with _note_missing_extra(notes):
        write_parquet(directory / "table.parquet", tidy, "table.parquet")
    with _note_missing_extra(notes):
        if len(experiment.points) <= MAX_PANELS:
            save_both(draw_over_time(experiment, results), directory / "figure")
        for key in varied_axes(experiment):
            save_both(draw_against(experiment, results, key), directory / f"figure-{key}")
    write_json(directory / "summary.json", {"title": experiment.title, "rows": summary_rows(experiment, results)})
    return notes


@contextmanager
def _note_missing_extra(notes: list[str]) -> Iterator[None]:
    try:
        yield
    except MissingExtra as missing:
        if not any(f"[{missing.extra}]" in note for note in notes):
            notes.append(str(missing))


def to_json_value(value: Any) -> Any:
    """Return JSON values, with words for infinities."""
    if isinstance(value, dict):
        return {name: to_json_value(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_value(entry) for entry in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write strict JSON atomically."""
    text = json.dumps(document, indent=2, allow_nan=False) + "\n"
    replace_file(path, lambda beside: beside.write_text(text, encoding="utf-8"))


# Blocks


_TASKS = 8  # to share among processes, where there are seeds for it
_LEAST, _MOST = 10, 50  # seeds in a block: beside fewer, the cost that all seeds of a block share weighs too much


@dataclass(frozen=True, kw_only=True)
class SeedBlock:
    """Some seeds of one curve: a worker's task and a file in blocks/."""

    curve: int
    seed: int
    n_seeds: int
    file: str


def list_blocks(experiment: Experiment) -> tuple[SeedBlock, ...]:
    """Return all blocks, the first blocks of all curves first."""
    shared = min(math.ceil(_TASKS / len(experiment.curves)), experiment.n_seeds // _LEAST)
    size = math.ceil(experiment.n_seeds / max(1, shared, math.ceil(experiment.n_seeds / _MOST)))
    return tuple(
        SeedBlock(
            curve=index,
            seed=experiment.seed + first,
            n_seeds=min(size, experiment.n_seeds - first),
            file=f"{file_stem(experiment, index)}-seed-{experiment.seed + first}.csv",
        )
        for first in range(0, experiment.n_seeds, size)
        for index in range(len(experiment.curves))
    )


def run_sweep(
    experiment: Experiment,
    out: str | PathLike[str],
    *,
    jobs: int | None = 1,
    executor: str | Executor = "processes",
    scheduler: str | None = None,
    resume: bool = False,
    progress: ProgressCallback = ignore_progress,
) -> dict[str, Result]:
    """Run the blocks that are not yet in the directory `out`, and return one result per curve, by label.

    `executor` and `progress` are as in `run`; a policy of the calling script needs `if __name__ == "__main__":`.
    """
    working = choose_executor(executor, jobs=jobs, scheduler=scheduler)
    directory = validation.path("out", out, folder=True)
    curves, worlds = experiment.curves, {id(point): point.world() for point in experiment.points}
    policies = [curve.calibrated(dim=worlds[id(curve.point)].dim, horizon=curve.point.horizon) for curve in curves]
    if (ours := _describe_directory(experiment, directory, resume=resume)) is not None:
        check_ready(working)  # or nothing is left behind
        _claim_directory(directory, ours)
    tasks = list_blocks(experiment)
    done = {block: found for block in tasks if (found := _read_finished(directory, block, policies[block.curve]))}
    progress(len(done), len(tasks), f"{len(done)} found" if done else "")
    waiting = {
        block: {
            "policy": policies[block.curve],
            "env": worlds[id(curves[block.curve].point)],
            "path": curves[block.curve].point.path,
            "checkpoints": experiment.checkpoints,
            "n_seeds": block.n_seeds,
            "seed": block.seed,
        }
        for block in tasks
        if block not in done
    }
    with closing(working.call_all(simulate, waiting)) as ending:
        for block, result in ending:
            label = experiment.curves[block.curve].label
            done[block] = replace(result, name=label)
            done[block].to_csv(directory / "blocks" / block.file)
            progress(len(done), len(tasks), label)
    return {
        curve.label: merge_results([done[block] for block in tasks if block.curve == index])
        for index, curve in enumerate(experiment.curves)
    }


def merge_results(parts: list[Result]) -> Result:
    """Merge results of one policy for different seeds, adding their `seconds`."""
    return replace(
        parts[0],
        regret=np.concatenate([part.regret for part in parts]),
        rewards=np.concatenate([part.rewards for part in parts]),
        clipped=np.concatenate([part.clipped for part in parts]),
        repairs=np.concatenate([part.repairs for part in parts]),
        plays=None
        if parts[0].plays is None
        else np.concatenate([part.plays for part in parts if part.plays is not None]),
        counts={name: np.concatenate([part.counts[name] for part in parts]) for name in parts[0].counts},
        seeds=tuple(seed for part in parts for seed in part.seeds),
        seconds=math.fsum(part.seconds for part in parts),
    )


def _describe_directory(experiment: Experiment, directory: Path, *, resume: bool) -> dict[str, Any] | None:
    """Return a new directory's description, None if it is there; refuse one of another experiment."""
    record = directory / "experiment.json"
    ours = {"bandanna": version("bandanna"), **to_json_value(experiment.to_dict())}
    code = {
        name: source_digest(name) for name in (curve.algorithm for curve in experiment.curves) if is_import_path(name)
    }
    ours |= {"code": code} if code else {}
    any_blocks = any(directory.glob("blocks/*.csv"))
    if not record.exists():
        if any_blocks:
            raise BandannaError(f"{directory} holds blocks without their experiment.json. Choose another --out")
        return ours
    if not resume:
        held = "results already" if any_blocks else "a run without results so far"
        raise BandannaError(f"{directory} holds {held}. Continue with --resume, or choose another --out")
    try:
        theirs = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BandannaError(f"{record} cannot be read ({error}). Choose another --out") from error
    changes = "; ".join(_list_changes(theirs, ours))
    if changes:
        raise BandannaError(f"{directory} holds another experiment. Choose another --out. Differences: {changes}")
    return None


def _claim_directory(directory: Path, ours: dict[str, Any]) -> None:
    try:
        (directory / "blocks").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BandannaError(f"{directory} cannot be created: {error.strerror or error}") from error
    write_json(directory / "experiment.json", ours)


def _list_changes(before: Any, after: Any, where: str = "") -> list[str]:
    """Return the differences of two plain documents with both values; lists count from 1."""
    if isinstance(before, dict) and isinstance(after, dict):
        names, absent = [*before, *(name for name in after if name not in before)], "nothing"
        pairs = [(f"{where}.{n}".lstrip("."), before.get(n, absent), after.get(n, absent)) for n in names]
        return [change for place, one, other in pairs for change in _list_changes(one, other, place)]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = [(f"{where}[{n}]", one, other) for n, (one, other) in enumerate(zip(before, after, strict=True), 1)]
        return [change for place, one, other in pairs for change in _list_changes(one, other, place)]
    if isinstance(before, list) and isinstance(after, list):
        return [f"{where} (was {len(before)} entries, is {len(after)})"]
    return [] if before == after else [f"{where} (was {before!r}, is {after!r})"]


def _read_finished(directory: Path, block: SeedBlock, policy: Policy[Any]) -> Result | None:
    """Return a block's result; None if damaged or of another guarantee."""
    file = directory / "blocks" / block.file
    if not file.exists():
        return None
    try:
        found = Result.load(file)
    except BandannaError:
        return None
    seeds = tuple(range(block.seed, block.seed + block.n_seeds))
    same = (found.seeds, found.horizon, found.guarantee) == (seeds, policy.horizon, policy.guarantee)
    return found if same else None


class Results(Mapping[str, Result]):
    """The result of every curve, by label.

    Parameters
    ----------
    directory
        The folder of the files, if any.
    notes
        Outputs that a missing extra prevented.
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
        """Return one plain row per curve, as in summary.json."""
        return summary_rows(self.experiment, self)

    def to_frame(self, *, kind: str = "pandas", rounds: str = "last") -> Any:
        """Return a table of all curves, a row for every seed; with `rounds="all"` for every checkpoint.

        `kind` is "pandas", "polars" or "arrow". Columns: `bandanna.experiments.experiment.result_columns`.
        """
        return make_frame(
            experiment.result_columns(self.experiment, self, rounds=rounds), kind, f"to_frame(kind={kind!r})"
        )

    def plot(self, path: str | PathLike[str] | None = None, *, against: str | None = None) -> Any:
        """Draw regret over time, or at the horizon `against` a varied number: "epsilon", "horizon", "dim", ...

        There is a panel for every point of the rest of the grid. The figure is saved to `path` (.png or .svg) if given.
        Needs the extra `plot`; returns a matplotlib `Figure`.
        """
        check_drawable(path)
        figure = (
            draw_over_time(self.experiment, self) if against is None else draw_against(self.experiment, self, against)
        )
        if path is not None:
            save_figure(figure, path)
        return figure


@checked_keywords("bd.experiments.run")
def run(
    experiment: str | PathLike[str] | Mapping[str, Any] | Experiment,
    *,
    out: str | PathLike[str] | None = None,
    jobs: int | None = None,
    executor: str | Executor = "processes",
    scheduler: str | None = None,
    resume: bool = False,
    progress: ProgressCallback = ignore_progress,
) -> Results:
    """Run an experiment.

    A script with a policy of its own and `jobs` other than 1 needs `if __name__ == "__main__":`, because workers import
    it.

    Parameters
    ----------
    experiment
        The path of a TOML file, a mapping with the same keys, or an `Experiment`.
    out : path, optional
        The directory for blocks, results, table, figures and summary; for a file by default its name with -results,
        otherwise none.
    jobs : int, optional
        The number of processes, by default that of the cores; 1 is this process.
    executor, scheduler
        "processes", or "dask" (extra `dask`): the workers of `scheduler`, "tcp://127.0.0.1:8786", or a cluster on this
        machine. Numbers depend on neither these nor `jobs`.
    resume : bool
        Continue an earlier run in `out`.
    progress : callable
        Called with the blocks done, all blocks, and a label.
    """
    exit_if_imported()
    chosen, directory = _read_experiment(experiment), _choose_directory(experiment, out)
    work: dict[str, Any] = {"jobs": jobs, "executor": executor, "scheduler": scheduler, "progress": progress}
    if directory is None:
        if validation.boolean("resume", resume):
            raise InvalidArgument("resume", resume, "False unless `out` names the directory of the earlier run")
        with TemporaryDirectory(prefix="bandanna-") as place:
            results = run_sweep(chosen, Path(place) / "run", **work)
        return Results(chosen, results, directory=None, notes=[])
    results = run_sweep(chosen, directory, resume=validation.boolean("resume", resume), **work)
    return Results(chosen, results, directory=directory, notes=write_outputs(chosen, results, directory))


def _read_experiment(given: Any) -> Experiment:
    if isinstance(given, Experiment):
        return given
    if isinstance(given, Mapping):
        return Experiment.from_dict(given)
    if isinstance(given, str | os.PathLike):
        return Experiment.from_toml(given)
    raise InvalidArgument("experiment", given, "the path of a TOML file, a mapping like it, or an Experiment")


def _choose_directory(given: Any, out: Any) -> Path | None:
    if out is not None:
        return validation.path("out", out, folder=True)
    return Path(f"{Path(given).stem}-results") if isinstance(given, str | os.PathLike) else None
