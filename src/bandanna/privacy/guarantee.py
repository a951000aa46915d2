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
    "table": "sees every release, but all rewards were fixed in advance",
    "interactive": "sees every release and may choose later data accordingly",
}
SHUFFLER = "the shuffler itself"
PRIVACY_MODELS = ("none", "central", "local", "shuffle", "concurrent shuffle")


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """The promise to one user, computed by the accountant for the noise that is drawn.

    Parameters
    ----------
    trust
        "none", "central" (a trusted server adds the noise), "local" (the device does), "shuffle", or "concurrent
        shuffle" (several shufflers at once).
    epsilon, delta
        The privacy budget that is kept; epsilon is infinite without a guarantee.
    rho
        The same guarantee in zCDP; infinite if zCDP does not hold.
    protects
        Which data of the user.
    unit
        "event": one participation. "user": all of at most `participations`.
    participations
        Largest number of batches with the same user.
    batches
        Whether a user's participations must be in different batches.
    adjacency
        How neighbouring data sets differ.
    adversary
        "interactive": sees every release and may choose later data accordingly. "table": all rewards were fixed in
        advance. "view": sees every release.
    observers
        Pairs of a party and its view, if the roles run separately.
    shuffler
        Shuffle models: the local guarantee left against `against`; None if there is none.
    exposed
        Shuffle models: probability with which `against` tells two reports apart with certainty; 0 if unknown.
    against
        Shuffle models: the parties that together see single reports.
    one_process
        Whether one process, which then sees everything, may run all roles.
    seeded
        Whether the noise follows from a known seed, as in a test.
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
        validation.one_of("trust", self.trust, PRIVACY_MODELS)
        validation.one_of("unit", self.unit, ("event", "user"))
        validation.one_of("adversary", self.adversary, tuple(ADVERSARIES))

    def __str__(self) -> str:
        """Return sentences: the promise, the parties' views, and the guarantee left against a shuffler."""
        test = "This is a test: anyone who knows its seed sees everything." if self.seeded else ""
        parts = (self.promise(), test, self._describe_observers(), self._describe_shuffler())
        return " ".join(sentence for sentence in parts if sentence)

    def brief(self) -> str:
        """Return epsilon in a few characters, rounded up, for figures; empty without privacy."""
        return f"ε = {format_rounded_up(self.epsilon, 3)}" if self._promises else ""

    @property
    def _promises(self) -> bool:
        return self.trust != "none" and not math.isinf(self.epsilon)

    def promise(self) -> str:
        """Return sentences about what is promised, for which data, against which adversary."""
        if not self._promises:
            return f"No privacy is promised for {self.protects}."
        unit = "in each participation"
        if self.unit == "user":
            apart = ", each in another batch" * self.batches
            unit = f"over all participations of a user (at most {self.participations}{apart})"
        zcdp = f" ({format_rounded_up(self.rho)}-zCDP)" if math.isfinite(self.rho) else ""
        return (
            f"{self.trust.capitalize()} differential privacy with epsilon = {format_rounded_up(self.epsilon)}, "
            f"delta = {format_rounded_up(self.delta, 3)}{zcdp} for {self.protects}, {unit}. "
            f"Neighbouring data sets differ by {self.adjacency}. "
            f"The adversary {ADVERSARIES[self.adversary]}."
        )

    def _describe_observers(self) -> str:
        sentences = [describe_view(who, what) for who, what in self.observers]
        if self.one_process:
            if sentences:
                sentences[0] = f"If the roles run separately, {sentences[0]}"
            process = "that process and its files hold all data without noise, and users must trust it."
            sentences.insert(0, f"If one process runs all roles (bd.Agent), {process}")
        return " ".join(sentence[0].upper() + sentence[1:] for sentence in sentences)

    def _describe_shuffler(self) -> str:
        if "shuffle" not in self.trust:
            return ""
        several = any(who.endswith(" shufflers") for who, _ in self.observers)
        against = "all shufflers together" if self.against == SHUFFLER and several else self.against
        if self.shuffler is not None:
            numbers = f"epsilon = {format_rounded_up(self.shuffler.epsilon)}"
            numbers += f", delta = {format_rounded_up(self.shuffler.delta, 3)}"
            left = f"the guarantee is {numbers} if single reports are kept."
        elif self.exposed <= self.delta:
            left = "no guarantee is proven."
        elif self.exposed >= 1.0:
            left = "no privacy is left: some two reports can always be told apart."
        else:
            odds = math.floor(1000 * self.exposed) / 1000
            left = (
                "no privacy is left at this delta: a single report that is kept tells two values apart with certainty,"
                f" with probability at least {odds:g}."
            )
        alone = "" if self.against == SHUFFLER else " The shuffler alone learns who sent each report and when."
        return f"Against {against}, {left}{alone}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; infinities are None."""
        plain = asdict(self)
        plain["observers"] = dict(self.observers)
        return {
            name: None if isinstance(value, float) and math.isinf(value) else value for name, value in plain.items()
        }


def describe_view(who: str, what: str) -> str:
    """Return a sentence about a party's view."""
    return f"{who} {'see' if ' and ' in who else 'sees'} {what}."


def find_worst_guarantee(each: Sequence[Guarantee]) -> Guarantee:
    """Return the worst of every number among these guarantees."""
    stated = max(each, key=lambda one: one.epsilon)
    left = [one.shuffler for one in each if one.shuffler is not None]
    worst = max(left, key=lambda one: one.epsilon) if len(left) == len(each) else None
    rho, exposed = max(one.rho for one in each), max(one.exposed for one in each)
    return replace(stated, rho=rho, shuffler=worst, exposed=exposed)


def format_rounded_up(value: float, digits: int = 4) -> str:
    """Format a number with a few significant digits, rounded up, so that it still holds."""
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
    """Return the guarantee, at this delta, to a user in at most `participations` releases.

    `event` is the price of one participation, or of all if `composed` is False (a continual release). `local` is a
    shuffler's view of one user in one batch.
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
