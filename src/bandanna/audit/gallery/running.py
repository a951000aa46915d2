"""The gallery as a whole: every known fault, every algorithm at what it states, mechanisms and protocols beside them.

Known-bad rows have a confidence of 0.95. Known-good ones have 1 - 0.05 / rows, so that by the union bound the
probability that any of them is refuted by chance is at most 0.05; seeds are fixed, so that every run has the same
verdicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial

from bandanna.audit import settings
from bandanna.audit.gallery.bad import BAD
from bandanna.audit.mechanisms import MECHANISMS, mechanism_target
from bandanna.audit.policies import policy_target
from bandanna.audit.protocols import PROTOCOLS, protocol_target
from bandanna.audit.result import AuditResult, Row
from bandanna.audit.targets import Progress, Target, attacked, silent
from bandanna.experiments.executors import Executor, here_unless

EPSILON, DELTA = 4.0, 1e-3  # of what is known to be good
ROWS = 90  # at least as many as there are
CONFIDENCES = {"bad": 0.95, "good": 1 - 0.05 / ROWS}
_SLOW = {"the printed refit rule of GLM-JDP": 512}  # runs, where one takes milliseconds
_MANY = {"epsilon 10": 400_000}  # runs, below which no count can show an epsilon of 10


def good() -> dict[str, Callable[[], Target]]:
    """What is known to be good, by name."""
    made: dict[str, Callable[[], Target]] = {}
    for make, names in (
        (mechanism_target, MECHANISMS),
        (protocol_target, PROTOCOLS),
        (policy_target, settings.names()),
    ):
        made |= {name: partial(make, name, epsilon=EPSILON, delta=DELTA) for name in names}
    return made


def targets() -> Iterator[tuple[str, str, Callable[[], Target]]]:
    """(name, known, how to make it) of every row, in order."""
    for name, make in BAD.items():
        yield name, "bad", make
    for name, make in good().items():
        yield name, "good", make


def trials_for(name: str, trials: int) -> int:
    """How often a row is run: more where a count must show a large epsilon, less where a run is slow."""
    if name in _SLOW:
        return min(trials, _SLOW[name])
    return max([trials, *(most for word, most in _MANY.items() if name.endswith(word))])


def run_gallery(
    *,
    trials: int = 20_000,
    seed: int = 0,
    wanted: Callable[[str, str], bool] = lambda name, known: True,
    jobs: int | None = None,
    executor: str | Executor | None = None,
    scheduler: str | None = None,
    progress: Progress = silent,
) -> AuditResult:
    """Audit everything whose truth is known, or the `wanted` of it; `result.surprises` are rows that came out wrong.

    A row is a task of the `executor`, as in `bd.run`: "processes" (`jobs` of them), "dask" (at `scheduler`), or here.
    """
    working = here_unless(executor, jobs=jobs, scheduler=scheduler)
    todo = [(name, known) for name, known, _ in targets() if wanted(name, known)]
    tasks = {each: {"name": each[0], "known": each[1], "trials": trials, "seed": seed} for each in todo}
    rows: dict[tuple[str, str], Row] = {}
    progress(0, len(todo), "")
    with closing(working.call_all(row_of, tasks)) as ending:
        for each, row in ending:
            rows[each] = row
            progress(len(rows), len(todo), each[0])
    return AuditResult(rows=tuple(rows[each] for each in todo))


def row_of(*, name: str, known: str, trials: int, seed: int) -> Row:
    """One row, wherever it is computed."""
    (make,) = (make for other, truth, make in targets() if (other, truth) == (name, known))
    target = replace(make(), name=name, known=known)
    return attacked(target, trials=trials_for(name, trials), confidence=CONFIDENCES[known], seed=seed)
