"""What privacy costs on real data: reward against epsilon under every trust model, beside peers without privacy.

A log is replayed (`bd.replay`: rejection, with a slot for every logged event), a table of people is drawn from. All
algorithms see the same people in the same order, seed by seed; seeds are 0, 1, 2, ...

A row is one algorithm at one epsilon. With a directory every finished row is kept, and not computed again: whoever asks
for more epsilons, algorithms or trust models later gets the rest.
"""

from __future__ import annotations

import json
import math
import re
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.datasets.dataset import DataSet
from bandanna.errors import BandannaError, InvalidArgument
from bandanna.experiments import peers
from bandanna.experiments.executors import Executor, here_unless, ready
from bandanna.experiments.outputs import write_json
from bandanna.experiments.study_runs import FIXED, OURS, Job, known_of, measured
from bandanna.experiments.study_settings import Setting, setting_of
from bandanna.experiments.workers import Progress, silent

TRUSTS = ("central", "shuffle", "local", "concurrent")
EPSILONS = (0.5, 1.0, 3.0, 10.0)


def study(
    data: DataSet,
    *,
    epsilons: Sequence[float] = EPSILONS,
    delta: float = 1e-5,
    trusts: Sequence[str] = TRUSTS,
    algorithms: Sequence[str] | None = None,
    seeds: int | None = None,
    horizon: int | None = None,
    out: str | PathLike[str] | None = None,
    jobs: int | None = None,
    executor: str | Executor | None = None,
    scheduler: str | None = None,
    progress: Progress = silent,
) -> list[dict[str, Any]]:
    """Rows of a table: algorithm, trust, epsilon, delta, mean_reward, stderr, n_seeds, ...

    algorithms  "LinTS" (as the data set's setting says), "LinTS-users", "LinTS-arms", "LinUCB", "best arm", "random"
                and the names of `peers.PEERS`; by default LinTS, best arm, random and all peers that are installed
    horizon     logged events to replay, or rounds; the data set's by default
    out         a directory in which finished rows are kept
    executor    "processes" (of which there are `jobs`) or "dask" (at `scheduler`) as in `bd.run`: a row is a task; by
                default this process
    """
    if not isinstance(data, DataSet):
        raise InvalidArgument("data", type(data).__name__, "a data set: bd.datasets.load(...)")
    logged = data.given is not None
    size = {"rows": len(data), "features": data.dim, "arms": len(data.arms)}
    setting = setting_of(data.card.name, logged=logged, **size)
    if horizon is not None:
        most = len(data) if logged else 10**9
        setting = _shorter(setting, require.whole("horizon", horizon, least=20, most=most))
    if seeds is not None:
        setting = replace(setting, seeds=require.whole("seeds", seeds, most=10_000))
    working = here_unless(executor, jobs=jobs, scheduler=scheduler)
    todo = list(_jobs(epsilons, require.delta(delta), trusts, _named(algorithms)))
    folder = None if out is None else require.path("out", out, folder=True)
    if folder is not None:
        if not (folder / "study.json").exists():
            ready(working)  # or nothing is left behind
        _claimed(folder, data, setting, delta)
    rows = {job: row for job in todo if (row := _kept(folder, job))}
    shared = {"data": data, "setting": setting, "delta": delta}
    progress(len(rows), len(todo), f"{len(rows)} found" if rows else "")
    with closing(working.call_all(_row, {job: {"job": job, **shared} for job in todo if job not in rows})) as ending:
        for job, row in ending:
            rows[job] = _keep(folder, job, row)
            progress(len(rows), len(todo), job.label)
    return [rows[job] for job in todo]


def _named(algorithms: Sequence[str] | None) -> list[str]:
    if algorithms is None:
        return ["LinTS", *FIXED, *(name for name in peers.PEERS if peers.installed(name))]
    known = (*OURS, *FIXED, *peers.PEERS)
    return [require.one_of("algorithms", each, known) for each in require.several("algorithms", algorithms, "names")]


def _jobs(epsilons: Sequence[float], delta: float, trusts: Sequence[str], names: list[str]) -> Iterator[Job]:
    """Without privacy first."""
    sizes = [require.epsilon(each) for each in require.several("epsilons", epsilons, "numbers > 0")]
    models = [require.one_of("trusts", each, TRUSTS) for each in require.several("trusts", trusts, "trust models")]
    for name in dict.fromkeys(names):
        yield Job(algorithm=name)
    for name in dict.fromkeys(name for name in names if name in OURS):
        for trust in dict.fromkeys(models):
            for size in dict.fromkeys(sizes):
                yield Job(algorithm=name, trust=trust, epsilon=size)


def _shorter(setting: Setting, horizon: int) -> Setting:
    """As many batches, where they are of one size."""
    batch = setting.batch
    if isinstance(batch, int):
        batch = max(2, batch * horizon // setting.horizon)
    elif not isinstance(batch, str) and horizon < setting.horizon:
        batch = max(2, horizon // 6)
    return replace(setting, horizon=horizon, batch=batch, every=min(setting.every, max(1, horizon // 10)))


def _row(data: DataSet, setting: Setting, job: Job, delta: float) -> dict[str, Any]:
    began = time.perf_counter()
    found = known_of(data, job) if job.algorithm in FIXED else measured(data, setting, job, delta)
    rewards: Floats = found.pop("rewards")
    known = job.algorithm in FIXED  # from the data, exactly: there is nothing to run
    spread = float(np.std(rewards, ddof=1) / math.sqrt(len(rewards))) if len(rewards) > 1 else None
    return {
        "data": data.card.name,
        "algorithm": job.algorithm,
        "trust": job.trust,
        "epsilon": job.epsilon,
        "delta": None if job.epsilon is None else delta,
        "mean_reward": float(np.mean(rewards)),
        "stderr": 0.0 if known else spread,
        "n_seeds": 0 if known else len(rewards),
        "horizon": setting.horizon,
        **found,
        "seconds": time.perf_counter() - began,
    }


def _claimed(folder: Path, data: DataSet, setting: Setting, delta: float) -> None:
    """The directory belongs to one study, whose description it carries."""
    print_ = zlib.crc32(np.ascontiguousarray(data.rewards).tobytes() + np.ascontiguousarray(data.contexts).tobytes())
    ours = {
        "bandanna": version("bandanna"),
        "data": data.card.name,
        "checksum": print_,
        "features": None if data.features is None else data.features.to_dict(),
        "delta": delta,
        "setting": setting.to_dict(),
    }
    record = folder / "study.json"
    try:
        (folder / "rows").mkdir(parents=True, exist_ok=True)
        if not record.exists():
            write_json(record, ours)
            return
        theirs = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise BandannaError(f"{folder} cannot be used, choose another --out: {why}") from error
    changed = [name for name in ours if not isinstance(theirs, dict) or theirs.get(name) != ours[name]]
    if changed:
        raise BandannaError(f"{folder} holds another study ({', '.join(changed)} differ): choose another --out")


def _file(folder: Path, job: Job) -> Path:
    plain = re.sub(r"[^a-z0-9.]+", "-", job.label.lower()).strip("-")
    return folder / "rows" / f"{plain}.json"


def _kept(folder: Path | None, job: Job) -> dict[str, Any] | None:
    """A row that was finished before; a damaged file is as good as none."""
    if folder is None or not (file := _file(folder, job)).exists():
        return None
    try:
        row = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    same = isinstance(row, dict) and (row.get("algorithm"), row.get("epsilon")) == (job.algorithm, job.epsilon)
    return row if same else None


def _keep(folder: Path | None, job: Job, row: dict[str, Any]) -> dict[str, Any]:
    if folder is not None:
        write_json(_file(folder, job), row)
    return row
