"""CPU seconds, bytes and exponents: how things are measured. Never the wall clock, which others on the machine move."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

_LEAST = 1e-9  # seconds: what the clock cannot tell from nothing


def timed(work: Callable[[], object], repeats: int = 3) -> float:
    """CPU seconds of the fastest of some runs, in this process: others on the machine disturb it little."""
    return timed_in_turn((work,), repeats)[0]


def timed_in_turn(works: Sequence[Callable[[], object]], repeats: int = 3) -> list[float]:
    """The same of several, by turns: what slows the machine for a while slows all of them."""
    seconds = np.empty((repeats, len(works)))
    for turn in seconds:
        for place, work in enumerate(works):
            begin = time.process_time()
            work()
            turn[place] = time.process_time() - begin
    return [max(float(least), _LEAST) for least in seconds.min(axis=0)]


def peak(work: Callable[[], object]) -> int:
    """Most bytes that Python and NumPy held at one time for a run, beside what was there before it."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """a of seconds ~ size^a: the slope through the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much is measured.

    small    sizes that prove only that everything runs
    repeats  runs of which the fastest counts
    growth   whether exponents are measured too
    seconds  CPU time of every peer, and of every agent, at least
    """

    small: bool = False
    repeats: int = 3
    growth: bool = True
    seconds: float = 0.5


FULL = Effort()
QUICK = Effort(small=True, repeats=1, seconds=0.005)
