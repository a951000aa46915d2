"""A whole run: floors, simulations, agents, peers, servers; or the parts, algorithms and peers that somebody names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from bandanna.errors import InvalidArgument, did_you_mean
from bandanna.policies.algorithm import ALGORITHMS
from benchmarks import agents, clock, peers, problems, serving
from benchmarks.clock import FULL, Effort
from benchmarks.peers import CONTENDERS
from benchmarks.problems import Problem, problems_of
from benchmarks.report import Absent, Report, Row

PARTS = ("floors", "simulation", "agent", "peers", "serving")
_FLOORS = ("LinUCB", "UCB1", "GOPE", "AdaC-OFUL", "GLOC")  # whose worlds are measured as floors
Found = tuple[list[Row], list[Absent]]
Job = tuple[str, Callable[[], Found]]


def run(
    *,
    only: Iterable[str] = (),
    effort: Effort = FULL,
    progress: Callable[[int, int, str], None] = lambda done, total, what: None,
) -> Report:
    """Measure everything, or what `only` names: parts ("floors", "simulation", "agent", "peers", "serving"),
    algorithms, and peers such as "river UCB".

    progress(done, total, what) is called before every job. What is not installed is listed in `absent`.
    """
    chosen, began = tuple(only), _cpu()
    jobs = _jobs(chosen, effort)
    rows: list[Row] = []
    absent: list[Absent] = []
    for number, (what, job) in enumerate(jobs):
        progress(number, len(jobs), what)
        found, missing = job()
        rows += found
        absent += missing
    return Report(
        rows=tuple(rows),
        machine=clock.describe_machine(),
        absent=tuple(dict.fromkeys(absent)),
        cpu_seconds=_cpu() - began,
        quick=effort.small,
    )


def _jobs(only: tuple[str, ...], effort: Effort) -> list[Job]:
    for name in only:
        if name not in (*PARTS, *ALGORITHMS, *CONTENDERS):
            hint = did_you_mean(name, (*PARTS, *ALGORITHMS, *CONTENDERS))
            allowed = f"{hint}a part ({', '.join(PARTS)}), an algorithm of `bandanna list`, or a peer"
            raise InvalidArgument("only", name, f"{allowed} ({', '.join(CONTENDERS)})")
    named = [name for name in ALGORITHMS if name in only]
    jobs: list[Job] = []
    if _wanted("floors", only):
        jobs.append(("floors", lambda: (problems.floor_rows(_floor_problems(effort), effort), [])))
    for name in ALGORITHMS if _wanted("simulation", only) else named:
        jobs += [(f"{name}, {each.world}", _simulation(each, effort)) for each in problems_of(name)]
    for name in ALGORITHMS if _wanted("agent", only) else named:
        jobs.append((f"{name}, an agent", _agent(name, effort)))
    pairs = peers.pairs([name for name in CONTENDERS if name in only or _wanted("peers", only)])
    jobs += [(f"{known} and peers, {mode}", _peers(known, mode, names, effort)) for known, mode, names in pairs]
    if _wanted("serving", only):
        jobs.append(("serving", lambda: serving.measure(effort)))
    return jobs


def _wanted(part: str, only: tuple[str, ...]) -> bool:
    return not only or part in only


def _floor_problems(effort: Effort) -> tuple[Problem, ...]:
    found = [each for name in _FLOORS for each in problems_of(name)]
    worlds = {each.world: each.small() if effort.small else each for each in found}
    return tuple(worlds.values())


def _simulation(problem: Problem, effort: Effort) -> Callable[[], Found]:
    return lambda: ([problems.measure_simulation(problem, effort)], [])


def _agent(name: str, effort: Effort) -> Callable[[], Found]:
    return lambda: ([agents.measure(name, effort)], [])


def _peers(known: str, mode: str, names: list[str], effort: Effort) -> Callable[[], Found]:
    return lambda: peers.measure(known, mode, names, effort)


def _cpu() -> float:
    """CPU seconds of this process and of its children so far."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system
