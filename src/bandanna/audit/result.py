"""What an audit has found: rows, with the claimed value beside the bound, and a picture of both trade-off curves."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import numpy as np

from bandanna.accounting.guarantee import rounded_up
from bandanna.audit.claims import Claim
from bandanna.audit.lower import Curve
from bandanna.core.arrays import Floats

CONSISTENT, REFUTED = "consistent", "refuted"
COLUMNS = (
    "target",
    "known",
    "claimed_epsilon",
    "delta",
    "lower_bound",
    "confidence",
    "trials",
    "verdict",
    "looked_at",
    "not_looked_at",
)
NEVER = (
    "outcomes too rare for so many runs",
    "how many seeds the noise comes from",
    "time, logs and texts of errors",
)  # no audit looks at these

_DRAWN = 10  # rows in one picture


@dataclass(frozen=True, kw_only=True)
class Row:
    """One target.

    lower_bound  an epsilon at delta that the target is not below, with this confidence (1: exact, nothing was sampled)
    trials       how often the target was run, under either neighbour
    attack       what found the bound: "exact", "sampled", "one-run" or "replay"
    why          what told the neighbours apart, where it was no test of numbers
    looked_at    which people, rewards, features and fields were looked at
    not_looked_at  where a fault would not be found
    reached      the bound as a share of the claim, in mu where the claim is Gaussian
    """

    target: str
    known: str | None
    claim: Claim
    lower_bound: float
    confidence: float
    trials: int
    verdict: str
    attack: str = "sampled"
    why: str = ""
    looked_at: str = ""
    not_looked_at: str = ""
    reached: float = 0.0
    curve: Curve | None = field(default=None, compare=False, repr=False)

    @property
    def refuted(self) -> bool:
        """Whether the claim is false, with the stated confidence."""
        return self.verdict == REFUTED

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; infinities are None."""
        claimed, found = (None if math.isinf(each) else each for each in (self.claim.epsilon, self.lower_bound))
        values = (self.target, self.known, claimed, self.claim.delta, found, self.confidence, self.trials, self.verdict)
        return dict(zip(COLUMNS, (*values, self.looked_at, self.not_looked_at), strict=True))

    def __str__(self) -> str:
        """One sentence."""
        if math.isinf(self.claim.epsilon):
            return f"{self.target}: nothing is promised, so nothing can be refuted."
        stated = f"epsilon = {rounded_up(self.claim.epsilon)} at delta = {self.claim.delta:.3g}"
        found = f"at least {self.lower_bound:.4g}"
        how = "exactly" if self.confidence == 1 else f"with confidence {self.confidence:g} after {self.trials:,} runs"
        sentence = f"{self.target}: {self.verdict}; claimed {stated}, found {found}, {how} ({self.attack})."
        if self.why:
            sentence += f" {self.why[0].upper()}{self.why[1:]}."
        for what, where in (("Looked at", self.looked_at), ("Not looked at", self.not_looked_at)):
            sentence += f" {what}: {where}." if where else ""
        return sentence


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """The rows of an audit."""

    rows: tuple[Row, ...]

    def __str__(self) -> str:
        """A sentence for each row."""
        return "\n".join(map(str, self.rows))

    @property
    def refuted(self) -> bool:
        """Whether any claim is false."""
        return any(row.refuted for row in self.rows)

    @property
    def surprises(self) -> tuple[Row, ...]:
        """Rows whose verdict is not what is known of their target."""
        return tuple(row for row in self.rows if row.known and (row.known == "bad") != row.refuted)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"rows": [row.to_dict() for row in self.rows]}

    def plot(self, path: str | PathLike[str]) -> None:
        """Draw the measured trade-offs of the first ten rows that have one, and the claims, below which none may be."""
        from bandanna.figures import axes as drawing

        drawing.drawable(path)
        drawn = [row for row in self.rows if row.curve is not None][:_DRAWN]
        with drawing.styled():
            figure, axes = drawing.blank((8.0, 6.4), (0.1, 0.1, 0.62, 0.74))
            levels = np.linspace(0, 1, 401)
            ends = []
            for place, row in enumerate(drawn):
                assert row.curve is not None
                colour = drawing.colour_of(place)
                axes.plot(row.curve.level, row.curve.missed, color=colour, linewidth=2.6, alpha=0.8)
                dark = "#333333" if len(drawn) == 1 else colour
                axes.plot(levels, 1 - row.claim.power(levels), color=dark, linewidth=1.2, linestyle=(0, (4, 3)))
                ends.append((f"{row.target}: {row.verdict}", 1.0, 0.9 - 0.08 * place, colour, row.refuted))
            axes.set_xlim(0, 1)
            axes.set_ylim(0, 1)
            note = "broad: measured; dashed: the claim, below which no test may lie"
            drawing.furnish(axes, "Telling two neighbours apart", note, across="says P where Q is true", up="misses P")
            drawing.label_ends(axes, ends)
        drawing.save_figure(figure, path)


def joined(results: Iterable[AuditResult]) -> AuditResult:
    """All rows."""
    return AuditResult(rows=tuple(row for each in results for row in each.rows))


def gaussian_curve(mu: float) -> Curve:
    """The trade-off of N(0, 1) and N(mu, 1)."""
    levels: Floats = np.linspace(0.0, 1.0, 201)
    return Curve(level=levels, missed=1 - Claim(epsilon=0.0, delta=0.5, mu=mu).power(levels))
