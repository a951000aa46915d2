"""Running an experiment: every curve in blocks of seeds, over processes, each finished block kept in a file.

How seeds are divided into blocks depends on the experiment alone, workers use one thread each, and every run draws
from the streams of its own seed: so the numbers are the same, bit by bit, for any number of processes and in whatever
order blocks end. A block is written whole or not at all; a killed run is continued with `resume` and repeats none.

The directory: experiment.json, blocks/*.csv, and after the last block results/*.csv (*.parquet), figure.png,
figure.svg, summary.json.
"""

from __future__ import annotations

import json
import math
from contextlib import closing
from dataclasses import dataclass, replace
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from bandanna.core import require
from bandanna.errors import BandannaError
from bandanna.experiments.executors import Executor, chosen, ready
from bandanna.experiments.experiment import Experiment
from bandanna.experiments.outputs import plain, stem, write_json
from bandanna.experiments.workers import Progress, silent
from bandanna.policies.base import Policy
from bandanna.policies.elsewhere import code_of, is_place
from bandanna.simulation.engine import simulate
from bandanna.simulation.result import Result

_TASKS = 8  # to share among processes, where there are seeds for it
_LEAST, _MOST = 10, 50  # seeds in a block: beside fewer, the cost that all seeds of a block share weighs too much


@dataclass(frozen=True, kw_only=True)
class Block:
    """Some seeds of one curve: what a worker does at once, and what a file in blocks/ holds."""

    curve: int
    seed: int
    n_seeds: int
    file: str


def blocks(experiment: Experiment) -> tuple[Block, ...]:
    """All blocks, first blocks of all curves first; the number of processes has no part in it."""
    shared = min(math.ceil(_TASKS / len(experiment.curves)), experiment.seeds // _LEAST)
    size = math.ceil(experiment.seeds / max(1, shared, math.ceil(experiment.seeds / _MOST)))
    return tuple(
        Block(
            curve=index,
            seed=experiment.seed + first,
            n_seeds=min(size, experiment.seeds - first),
            file=f"{stem(experiment, index)}-seed-{experiment.seed + first}.csv",
        )
        for first in range(0, experiment.seeds, size)
        for index in range(len(experiment.curves))
    )


def run(
    experiment: Experiment,
    out: str | PathLike[str],
    *,
    jobs: int | None = 1,
    executor: str | Executor = "processes",
    scheduler: str | None = None,
    resume: bool = False,
    progress: Progress = silent,
) -> dict[str, Result]:
    """Run what is not yet in the directory `out`, and return one result per curve, by label; progress is in blocks.

    executor   "processes", of which there are `jobs`, or "dask": workers of the `scheduler` at an address, or `jobs` of
               a cluster on this machine; or one of your own

    A script that calls this with a policy of its own in it needs `if __name__ == "__main__":`, since workers import it.
    """
    working, directory = chosen(executor, jobs=jobs, scheduler=scheduler), require.path("out", out, folder=True)
    curves, worlds = experiment.curves, {id(point): point.world() for point in experiment.points}
    policies = [curve.calibrated(dim=worlds[id(curve.point)].dim, horizon=curve.point.horizon) for curve in curves]
    if (ours := _described(experiment, directory, resume=resume)) is not None:
        ready(working)  # or nothing is left behind
        _claim(directory, ours)
    tasks = blocks(experiment)
    done = {block: found for block in tasks if (found := _finished(directory, block, policies[block.curve]))}
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
        curve.label: merged([done[block] for block in tasks if block.curve == index])
        for index, curve in enumerate(experiment.curves)
    }


def merged(parts: list[Result]) -> Result:
    """Results of the same policy for different seeds, as one; `seconds` adds up the work of all processes."""
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


def _described(experiment: Experiment, directory: Path, *, resume: bool) -> dict[str, Any] | None:
    """What a directory will carry; None if it carries it already. One that belongs to another experiment is refused."""
    record, ours = directory / "experiment.json", {"bandanna": version("bandanna"), **plain(experiment.to_dict())}
    code = {name: code_of(name) for name in (curve.algorithm for curve in experiment.curves) if is_place(name)}
    ours |= {"code": code} if code else {}
    any_blocks = any(directory.glob("blocks/*.csv"))
    if not record.exists():
        if any_blocks:
            raise BandannaError(f"{directory} holds blocks without their experiment.json: choose another --out")
        return ours
    if not resume:
        held = "results already" if any_blocks else "a run without results so far"
        raise BandannaError(f"{directory} holds {held}: continue with --resume, or choose another --out")
    try:
        theirs = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BandannaError(f"{record} cannot be read, choose another --out: {error}") from error
    changes = "; ".join(_changes(theirs, ours))
    if changes:
        raise BandannaError(f"{directory} holds another experiment, choose another --out. What changed: {changes}")
    return None


def _claim(directory: Path, ours: dict[str, Any]) -> None:
    """The directory belongs to one experiment, whose description it carries."""
    try:
        (directory / "blocks").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BandannaError(f"{directory} cannot be made: {error.strerror or error}") from error
    write_json(directory / "experiment.json", ours)


def _changes(before: Any, after: Any, where: str = "") -> list[str]:
    """Places where two plain documents differ, each with what was and what is; lists count from 1."""
    if isinstance(before, dict) and isinstance(after, dict):
        names, absent = [*before, *(name for name in after if name not in before)], "nothing"
        pairs = [(f"{where}.{n}".lstrip("."), before.get(n, absent), after.get(n, absent)) for n in names]
        return [change for place, one, other in pairs for change in _changes(one, other, place)]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = [(f"{where}[{n}]", one, other) for n, (one, other) in enumerate(zip(before, after, strict=True), 1)]
        return [change for place, one, other in pairs for change in _changes(one, other, place)]
    if isinstance(before, list) and isinstance(after, list):
        return [f"{where} (was {len(before)} entries, is {len(after)})"]
    return [] if before == after else [f"{where} (was {before!r}, is {after!r})"]


def _finished(directory: Path, block: Block, policy: Policy[Any]) -> Result | None:
    """What the block's file holds; a damaged one, or one with another guarantee, is as good as none."""
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
