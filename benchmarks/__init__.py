"""What we promise about speed, as ratios of two things measured in one run on one machine.

A benchmark is a file in this folder with a function `measure() -> list[Ratio]`; `python -m benchmarks` finds and runs
all of them, or those that are named: `python -m benchmarks imports`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """Our time beside another's, in seconds, and the most seconds that we promise to take (if we promise any)."""

    what: str
    ours: float
    beside: str
    theirs: float
    promise: float | None = None

    @property
    def ratio(self) -> float:
        """How many times longer ours takes."""
        return self.ours / self.theirs

    @property
    def kept(self) -> bool:
        """Whether the promise holds on this machine."""
        return self.promise is None or self.ours <= self.promise


def timed(work: Callable[[], object]) -> float:
    """CPU seconds of the fastest of three runs, on one thread: others on the machine disturb it little."""
    seconds = []
    for _ in range(3):
        begin = time.process_time()
        work()
        seconds.append(time.process_time() - begin)
    return min(seconds)
