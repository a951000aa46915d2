"""Every algorithm in the simulator: many seeds at once, how its cost grows, and the memory that it takes."""

from __future__ import annotations

import warnings

from bandanna.bench.clock import Effort, exponent, peak, timed
from bandanna.bench.floors import floor_of
from bandanna.bench.problems import Problem
from bandanna.bench.report import Row
from bandanna.simulation.engine import simulate

GROWING = 2  # runs of every size, of which the fastest counts


def seconds(problem: Problem, repeats: int) -> float:
    """CPU seconds of the whole simulation; calibration comes before it."""
    policy, env = problem.policy, problem.env
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # most reports may be clipped here
        return timed(lambda: simulate(policy, env, n_seeds=problem.seeds), repeats)


def memory(problem: Problem) -> int:
    """Most bytes of the simulation."""
    policy, env = problem.policy, problem.env
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return peak(lambda: simulate(policy, env, n_seeds=problem.seeds))


def growth(problem: Problem, whole: float, effort: Effort) -> dict[str, float]:
    """The exponent in every size that the problem has; `whole`: the seconds of the problem as it stands."""
    found = {}
    for name, sizes in problem.through.items():
        grown = (problem.at(name, size) for size in sizes)
        times = [whole if each == problem else seconds(each, min(GROWING, effort.repeats)) for each in grown]
        found[name] = exponent(sizes, times)
    return found


def measure(problem: Problem, effort: Effort) -> Row:
    """One problem."""
    if effort.small:
        problem = problem.small()
    whole = seconds(problem, effort.repeats)
    return Row(
        part="simulation",
        name=problem.name,
        world=problem.world,
        unit="round",
        sizes=problem.sizes,
        cpu_seconds=whole / (problem.rounds * problem.seeds),
        memory=memory(problem),
        growth=growth(problem, whole, effort) if effort.growth else {},
        floor=floor_of(problem, effort.repeats),
    )
