"""What a replay returns: what a policy earned on logged events, seed by seed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bandanna.accounting.guarantee import Guarantee
from bandanna.core.arrays import Floats, Ints


@dataclass(frozen=True, kw_only=True)
class Replay:
    """S seeds of a policy on the same logged events.

    rewards    sums of accepted rewards, or of weighted ones, (S,)
    weight     how many events were accepted, or how much they weigh, (S,)
    events     logged events that were used, in each seed
    guarantee  what the policy promises to the people in the log, if it had really run. These numbers are computed from
               raw rows, and promise nothing
    """

    method: str
    rewards: Floats
    weight: Floats
    events: int
    releases: int
    clipped: Ints  # (S,)
    guarantee: Guarantee
    seconds: float
    seeds: tuple[int, ...]
    name: str = ""

    @property
    def n_seeds(self) -> int:
        """Orders of the events, with coins and noise of their own."""
        return len(self.seeds)

    @property
    def means(self) -> Floats:
        """Reward of a round, (S,); NaN where nothing was accepted."""
        none = np.full(self.rewards.shape, math.nan)
        return np.asarray(np.divide(self.rewards, self.weight, out=none, where=self.weight > 0))

    @property
    def mean_reward(self) -> float:
        """Over the seeds."""
        return float(np.mean(self.means))

    @property
    def stderr(self) -> float:
        """Standard error of `mean_reward` over seeds; NaN for one. All seeds share one log, whose own error is more."""
        return float(np.std(self.means, ddof=1) / math.sqrt(self.n_seeds)) if self.n_seeds > 1 else math.nan

    def named(self, name: str) -> Replay:
        """The same under a name."""
        return replace(self, name=name)

    def summary(self) -> dict[str, Any]:
        """Plain values for JSON; what is unknown is None."""
        numbers = {"mean_reward": self.mean_reward, "stderr": self.stderr, "accepted": float(np.mean(self.weight))}
        return {
            "name": self.name,
            "method": self.method,
            **{name: value if math.isfinite(value) else None for name, value in numbers.items()},
            "n_seeds": self.n_seeds,
            "events": self.events,
            "releases": self.releases,
            "clipped": int(np.sum(self.clipped)),
            "seconds": self.seconds,
            "guarantee": self.guarantee.to_dict(),
        }

    def __str__(self) -> str:
        """One line of numbers, and the guarantee's first sentence."""
        spread = "" if self.n_seeds == 1 else f" ± {self.stderr:.4f}"
        seeds = "one seed" if self.n_seeds == 1 else f"mean ± standard error of {self.n_seeds:,} seeds"
        used = "accepted" if self.method == "rejection" else "their weight"
        promise = self.guarantee.promise()
        return (
            f"{self.name or self.guarantee.trust}: reward {self.mean_reward:.4f}{spread} ({seeds}) on {self.events:,} "
            f"logged events, {np.mean(self.weight):,.1f} {used}; {self.releases:,} releases, {self.seconds:.3g} s.\n"
            f"{promise} These numbers are computed from raw rows, and promise nothing."
        )
