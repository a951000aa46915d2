"""What a policy is worth, as far as a log and its noise can tell."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

from bandanna.accounting.guarantee import Guarantee
from bandanna.core import require
from bandanna.ope.intervals import Hidden, Law, ends

_NAMES = {"ips": "IPS", "snips": "SNIPS", "dr": "DR", "dm": "Direct method", "switch": "Switch"}


@dataclass(frozen=True, kw_only=True)
class Value:
    """The mean reward that a target would earn from people like those in the log.

    estimate                in the rewards' own units
    stderr                  its standard error, noise included
    noise_std               what privacy added to it, as a standard deviation; 0 without
    people                  in the log: public
    weight_bound            at which weights were cut; infinite: nowhere
    clipped_mass            the share of the target's probability that was cut off, at most; 0.0 where it cannot be any
    effective_sample_size   so many people drawn by the target itself would tell as much; None: not released
    guarantee               what is promised to the people in the log for this value

    Without privacy `diagnostics()` has a histogram of weights; with it there is nothing that was not released.
    """

    method: str
    target: str
    estimate: float
    people: int
    weight_bound: float
    clipped_mass: float
    effective_sample_size: float | None
    guarantee: Guarantee
    reward_range: tuple[float, float]
    seeded: bool = False
    law: Law = field(repr=False)  # of the estimate on rewards in [0, 1]
    hidden: Hidden = field(default=Hidden(), repr=False)  # what was cut off, and how far that may pull
    details: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def _span(self) -> float:
        return self.reward_range[1] - self.reward_range[0]

    @property
    def stderr(self) -> float:
        """Sampling and noise; what clipping hides is not in it."""
        return self._span * self.law.stderr

    @property
    def noise_std(self) -> float:
        """Of the noise alone."""
        return self._span * self.law.noise

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Covers the target's value with this probability: sampling, noise, and what clipping may hide.

        low <= estimate <= high. Cut to the range of rewards, except where an estimate without privacy is outside: it is
        an end then. What a model of rewards gets wrong is not in the direct method's.
        """
        low, high = ends(self.law, (self.hidden,), require.chance("level", level))
        least, span = self.reward_range[0], self._span
        return min(least + span * max(low, 0.0), self.estimate), max(least + span * min(high, 1.0), self.estimate)

    def diagnostics(self) -> dict[str, Any]:
        """What tells whether to believe it: plain values for JSON."""
        low, high = self.interval()
        return {
            **self.to_dict(),
            "interval_width": high - low,
            "noise_share": 0.0 if self.stderr == 0 else _number((self.noise_std / self.stderr) ** 2),
            "sample_share": _share(self.effective_sample_size, self.people),
            **self.details,
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; what is unknown or infinite is None."""
        low, high = self.interval()
        numbers = {
            "estimate": self.estimate,
            "stderr": self.stderr,
            "low": low,
            "high": high,
            "noise_std": self.noise_std,
            "weight_bound": self.weight_bound,
            "clipped_mass": self.clipped_mass,
        }
        size = self.effective_sample_size
        return {
            "method": self.method,
            "target": self.target,
            **{name: _number(value) for name, value in numbers.items()},
            "effective_sample_size": None if size is None else _number(size),
            "people": self.people,
            "guarantee": self.guarantee.to_dict(),
        }

    def page(self, path: str | PathLike[str]) -> None:
        """The same as a page: an HTML file that needs nothing from elsewhere."""
        from bandanna.ope.page import write_page

        write_page(self, path)

    def __str__(self) -> str:
        """A few lines for people."""
        size = self.effective_sample_size
        lines = [
            f"{_NAMES.get(self.method, self.method)} of {self.target}: {self.summary()}",
            f"{self.people:,} people, effective sample size "
            f"{'not released' if size is None else f'{size:,.0f}'}; {self._clipping()}",
        ]
        if not math.isfinite(self.stderr):
            lines.append("the sum of the weights, as it was released or seen, does not allow an estimate")
        elif self.noise_std:
            lines.append(f"standard error {self.stderr:.3g}, of which privacy's noise alone has {self.noise_std:.3g}")
        if self.seeded:
            lines.append("The noise was seeded: this is a test, and protects nobody")
        return "\n".join([*lines, str(self.guarantee)])

    def summary(self) -> str:
        """Return the estimate and the 95 % interval as a line of text; an interval that excludes nothing is named."""
        low, high = self.interval()
        everything = ", the whole range of rewards" if (low, high) == self.reward_range else ""
        return f"{self.estimate:.4g}, 95 % interval {low:.4g} to {high:.4g}{everything}"

    def _clipping(self) -> str:
        if math.isinf(self.weight_bound):
            return "no weight was cut"
        if self.clipped_mass == 0:
            return f"weights are at most {self.weight_bound:g}, nothing was cut off"
        return (
            f"weights were cut at {self.weight_bound:g}, which hides up to {self.clipped_mass:.3g} of the probability"
        )


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _share(size: float | None, people: int) -> float | None:
    return None if size is None else _number(size / people)
