"""Floors: what cannot be done without. A round needs its arms drawn, or the largest of K numbers found.

drawing   contexts, means and rewards of a world, as the simulator draws them
argmax    arms times a vector, and the largest product of every seed; with finite arms the largest number alone
memory    bytes copied: no array is read and written faster
"""

from __future__ import annotations

import numpy as np

from bandanna.bench.clock import Effort, timed
from bandanna.bench.problems import Problem
from bandanna.bench.report import Row
from bandanna.core.streams import Streams

DRAWING, ARGMAX, MEMORY = "drawing the contexts", "the bare argmax", "memory bandwidth"
_BLOCK = 200  # rounds drawn at once
_LOOP = 400  # rounds of the bare loop
_COPIED = 1 << 23  # numbers of 8 bytes: more than caches hold


def drawing(problem: Problem, repeats: int) -> float:
    """CPU seconds for a round of a seed."""
    env, rounds = problem.env, min(problem.rounds, 5 * _BLOCK)

    def draw() -> None:
        world = env.begin(Streams(range(problem.seeds)))
        for start in range(0, rounds, _BLOCK):
            means = world.means(world.contexts(start, min(_BLOCK, rounds - start)))
            world.rewards(means[..., 0])

    return timed(draw, repeats) / (rounds * problem.seeds)


def argmax(*, seeds: int, arms: int, dim: int, repeats: int) -> float:
    """CPU seconds for a round of a seed; dim = 0: there are K numbers already."""
    rng = np.random.default_rng(0)
    features, theta = rng.normal(size=(seeds, arms, max(dim, 1))), rng.normal(size=(seeds, max(dim, 1), 1))
    numbers = np.ascontiguousarray(features[..., 0])

    def one_seed() -> None:
        rows, vector = features[0], theta[0, :, 0]
        for _ in range(_LOOP):
            (rows @ vector).argmax()

    def products() -> None:
        for _ in range(_LOOP):
            (features @ theta)[..., 0].argmax(axis=-1)

    def largest() -> None:
        for _ in range(_LOOP):
            numbers.argmax(axis=-1)

    work = largest if not dim else one_seed if seeds == 1 else products
    return timed(work, repeats) / (_LOOP * seeds)


def memory(repeats: int) -> float:
    """CPU seconds for one number of 8 bytes, read and written."""
    source = np.zeros(_COPIED)
    target = np.empty_like(source)
    return timed(lambda: np.copyto(target, source), max(repeats, 2)) / _COPIED


def floor_of(problem: Problem, repeats: int) -> tuple[str, float]:
    """That of a simulation: drawing where arms are fresh, the argmax where they stay; a round of a seed."""
    if problem.fresh:
        return DRAWING, drawing(problem, repeats)
    dim = 0 if problem.world == "finite" else problem.dim
    return ARGMAX, argmax(seeds=problem.seeds, arms=problem.arms, dim=dim, repeats=repeats)


def rows(problems: tuple[Problem, ...], effort: Effort) -> list[Row]:
    """The floors themselves, one for each kind of world, beside the memory that they go through."""
    copied = memory(effort.repeats)
    found = [Row(part="floor", name=MEMORY, world="64 MB", unit="number", sizes={}, cpu_seconds=copied)]
    for problem in problems:
        name, seconds = floor_of(problem, effort.repeats)
        numbers = problem.arms * max(1, problem.dim)  # read or written in a round
        floor = (MEMORY, numbers * copied)
        found.append(
            Row(
                part="floor",
                name=name,
                world=problem.world,
                unit="round",
                sizes=problem.sizes,
                cpu_seconds=seconds,
                floor=floor,
            )
        )
    return found
