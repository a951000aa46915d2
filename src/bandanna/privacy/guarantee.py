"""The guarantee of a release: epsilon, delta, and what each party sees."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from decimal import ROUND_CEILING, Context
from typing import Any

from bandanna import validation
from bandanna.privacy import accountant
from bandanna.privacy.budgets import ApproxDP
from bandanna.privacy.events import Event, RepetitionEvent

ADVERSARIES = {
    "view": "sees every release",
    "table": "sees every release and fixes all rewards in advance",
    "interactive": "sees every release and may choose later data accordingly",
}
SHUFFLER = "the shuffler itself"
TRUST_MODELS = ("none", "central", "local", "shuffle", "concurrent shuffle")


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """What is promised to one person, computed by the accountant for the noise that is drawn.

    Parameters
    ----------
    trust
        "none", "central" (a trusted server adds the noise), "local" (the device does), "shuffle", or "concurrent
        shuffle" (several shufflers at once).
    epsilon, delta
        The numbers, infinite without a guarantee; `rho` beside them if zCDP holds.
    protects
        Which data of the person.
    unit
        "event": one participation. "user": all of at most `participations`.
    batches
        Whether a user's participations must be in different batches.
    adjacency
        How neighbouring data sets differ.
    adversary
        "interactive": sees every release and may choose later data after earlier releases.
    observers
        Each party and what it sees, if the parties run apart.
    one_process
        Whether one process may run all parties, as an agent does: that process sees everything.
    seeded
        Whether the noise follows from a known seed: a test.
    shuffler
        Shuffle only: the local guarantee left against `against`, None if there is none.
    exposed
        Shuffle only: probability with which `against` can surely tell two reports apart (0 if unknown).
    against
        Shuffle only: the parties who together see single reports.
    """

    trust: str
    epsilon: float
    delta: float
    rho: float = math.inf
    protects: str
    unit: str = "event"
    participations: int = 1
    batches: bool = False
    adjacency: str = "replacement of one user's data"
    adversary: str = "interactive"
    observers: tuple[tuple[str, str], ...] = ()
    shuffler: ApproxDP | None = None
    exposed: float = 0.0
    against: str = SHUFFLER
    one_process: bool = True
    seeded: bool = False

    def __post_init__(self) -> None:
        validation.one_of("trust", self.trust, TRUST_MODELS)
        validation.one_of("unit", self.unit, ("event", "user"))
        validation.one_of("adversary", self.adversary, tuple(ADVERSARIES))

    def __str__(self) -> str:
        """Return a few sentences: the promise, whom to trust, who sees what, and what is left against a shuffler."""
        parts = (self.promise(), self._test(), self._process(), self._sight(), self._shuffler())
        return " ".join(sentence for sentence in parts if sentence)

    def brief(self) -> str:
        """Return epsilon in a few characters, rounded up, for figures; empty without privacy."""
        return "" if self.trust == "none" or math.isinf(self.epsilon) else f"ε = {format_rounded_up(self.epsilon, 3)}"

    def promise(self) -> str:
        """Return the first sentence: what is promised, for which data, against which adversary."""
        if self.trust == "none" or math.isinf(self.epsilon):
            return f"No privacy is promised for {self.protects}."
        unit = (
            "each participation"
            if self.unit == "event"
            else f"all of a user's at most {self.participations} participations{', one in a batch' * self.batches}"
        )
        zcdp = f" ({format_rounded_up(self.rho)}-zCDP)" if math.isfinite(self.rho) else ""
        return (
            f"{self.trust.capitalize()} differential privacy with epsilon = {format_rounded_up(self.epsilon)}, "
            f"delta = {format_rounded_up(self.delta, 3)}{zcdp} for {self.protects}, in {unit}, under {self.adjacency}, "
            f"against an adversary who {ADVERSARIES[self.adversary]}."
        )

    def _test(self) -> str:
        return "This is a test: whoever knows its seed sees everything." if self.seeded else ""

    def _process(self) -> str:
        if not self.one_process:
            return ""
        return (
            "Run in one process (bd.Agent), that process and its files see everybody's data without noise and must be"
            " trusted."
        )

    def _sight(self) -> str:
        sights = "; ".join(f"{who}: {what}" for who, what in self.observers)
        where = "Run as separate roles, who sees what" if self.one_process else "Who sees what"
        return f"{where} - {sights}." if sights else ""

    def _shuffler(self) -> str:
        if "shuffle" not in self.trust:
            return ""
        alone = "" if self.against == SHUFFLER else " The shuffler alone learns of a report who sent it and when."
        if self.shuffler is None and self.exposed <= self.delta:
            left = "no guarantee is proven."
        elif self.shuffler is None and self.exposed >= 1.0:
            left = "no privacy is left: some two reports can always be told apart."
        elif self.shuffler is None:
            odds = math.floor(1000 * self.exposed) / 1000
            left = (
                "no privacy is left at this delta: a single report that is kept tells two values apart for certain with"
                f" probability at least {odds:g}."
            )
        else:
            numbers = f"({format_rounded_up(self.shuffler.epsilon)}, {format_rounded_up(self.shuffler.delta, 3)})"
            left = f"(epsilon, delta) = {numbers} is left if single reports are kept."
        return f"Against {self.against} {left}{alone}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; infinities are None."""
        plain = asdict(self)
        plain["observers"] = dict(self.observers)
        return {
            name: None if isinstance(value, float) and math.isinf(value) else value for name, value in plain.items()
        }


def find_worst_guarantee(each: Sequence[Guarantee]) -> Guarantee:
    """Return the worst of every number, for a person who meets one of these guarantees.

    The shuffler itself learns most from a large batch, which needs less noise of each user.
    """
    stated = max(each, key=lambda one: one.epsilon)
    left = [one.shuffler for one in each if one.shuffler is not None]
    worst = max(left, key=lambda one: one.epsilon) if len(left) == len(each) else None
    rho, exposed = max(one.rho for one in each), max(one.exposed for one in each)
    return replace(stated, rho=rho, shuffler=worst, exposed=exposed)


def format_rounded_up(value: float, digits: int = 4) -> str:
    """Format a number with a few significant digits, rounded up, so that the printed number holds too."""
    rounded = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(repr(float(value)))
    return f"{float(rounded):.{digits}g}"


def compute_guarantee(
    event: Event,
    *,
    delta: float,
    trust: str,
    protects: str,
    participations: int = 1,
    composed: bool = True,
    observers: tuple[tuple[str, str], ...] = (),
    local: Event | None = None,
    exposed: float = 0.0,
) -> Guarantee:
    """Return the guarantee of a release that a user meets `participations` times, at the given delta.

    `composed`: one event per participation; otherwise `event` covers all of them (a continual release). `local` is what
    a shuffler sees of one user in one batch.
    """
    whole = RepetitionEvent(event=event, times=participations) if composed else event
    left = None
    if local is not None:
        epsilon = accountant.epsilon(RepetitionEvent(event=local, times=participations), delta)
        left = None if math.isinf(epsilon) else ApproxDP(epsilon=max(epsilon, sys.float_info.min), delta=delta)
    return Guarantee(
        trust=trust,
        epsilon=accountant.epsilon(whole, delta),
        delta=delta,
        rho=accountant.rho(whole),
        protects=protects,
        unit="event" if participations == 1 else "user",
        participations=participations,
        batches=participations > 1 and trust != "local",
        observers=observers,
        shuffler=left,
        exposed=exposed,
    )
