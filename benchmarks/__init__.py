"""What we promise about speed, as ratios of two things measured in one run on one machine.

A benchmark is a file in this folder with a function `measure() -> list[Ratio]`; `python -m benchmarks` finds and runs
all of them, or those that are named: `python -m benchmarks imports`. What a user can run, every algorithm beside its
floors and other libraries, is `bandanna bench`; here is what needs the repository, and what we promise.

Times are CPU times, by `timed` and `timed_in_turn`. Where a benchmark is about waiting - `deployed` - it says so.
"""

from __future__ import annotations

from dataclasses import dataclass

from bandanna.bench.clock import timed as timed
from bandanna.bench.clock import timed_in_turn as timed_in_turn


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
