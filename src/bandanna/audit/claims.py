"""What is claimed, as a region of tests: the most power that telling two neighbours apart may have at every level.

A test says "it was P" for some outputs. Its level alpha is how often it says so of Q, its power how often of P. A
promise bounds the power at every level, for every test and every pair of neighbours:

    (epsilon, delta)             power <= e^epsilon alpha + delta                        (Wasserman and Zhou 2010)
    mu-GDP up to a mass tail     power <= Phi(Phi^-1(alpha + tail) + mu) + tail          (Dong, Roth and Su 2022)

A Gaussian claim is refuted by far fewer runs, because it says something about frequent outputs too: at delta = 1e-5 a
sample of a few thousand runs can never show that (epsilon, delta) is false, but it does show that mu is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from bandanna.accounting import accountant, gdp
from bandanna.accounting.events import Event
from bandanna.audit import exact
from bandanna.audit.exact import Pair
from bandanna.core.arrays import Floats
from bandanna.errors import UnknownEvent

_ROUNDING = 1e-6  # relative: by how much a stated epsilon may lie below the price of what was asked


@dataclass(frozen=True, kw_only=True)
class Claim:
    """(epsilon, delta) as stated; `mu` and `tail` beside it where the release has a Gaussian price."""

    epsilon: float
    delta: float
    mu: float | None = None
    tail: float = 0.0

    @property
    def gaussian(self) -> bool:
        """Whether tests are held against a Gaussian price."""
        return self.mu is not None

    def power(self, level: Floats) -> Floats:
        """The most power that is allowed at every level."""
        level = np.asarray(level, dtype=float)
        if self.mu is not None:
            moved = special.ndtr(special.ndtri(np.minimum(level + self.tail, 1.0)) + self.mu)
            return np.asarray(np.minimum(moved + self.tail, 1.0))
        ratio = math.exp(min(self.epsilon, 700.0))
        kept = 1 - np.maximum(1 - self.delta - level, 0.0) / ratio  # the same, of the complement of the test
        return np.asarray(np.minimum(np.minimum(ratio * level + self.delta, kept), 1.0))

    def needed(self, power: Floats, level: Floats) -> Floats:
        """The least parameter of a claim of this kind that allows so much power at a level: mu, or epsilon."""
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.mu is not None:
                found = special.ndtri(np.maximum(power - self.tail, 0.0)) - special.ndtri(
                    np.minimum(level + self.tail, 1.0)
                )
            else:
                found = np.log(np.maximum(power - self.delta, 0.0)) - np.log(level)
        return np.asarray(np.where(np.isnan(found), 0.0, np.maximum(found, 0.0)))

    @property
    def parameter(self) -> float:
        """What `needed` is compared with."""
        return self.epsilon if self.mu is None else self.mu

    @property
    def stated(self) -> float:
        """The parameter that the stated epsilon alone stands for: what bounds are a share of."""
        return self.epsilon if self.mu is None else gdp.mu(self.epsilon, self.delta)

    def refuted_by(self, needed: float) -> bool:
        """Whether a test needs more than is claimed; rounding errors of a number that is equal do not count."""
        return needed > self.parameter * (1 + 1e-9)

    def needs(self, *, mu: float | None, pure: float | None) -> float | None:
        """The parameter, from an exact separation of Gaussians or an exact pure loss; None where neither tells."""
        if mu is not None and self.mu is not None:
            return mu
        if mu is not None and self.delta > 0:
            return gdp.epsilon(self.delta, mu)
        return pure if self.mu is None and self.delta == 0.0 else None

    def needed_by(self, pairs: Sequence[Pair]) -> float:
        """The parameter, from the exact laws of independent releases under both neighbours."""
        if self.delta == 0.0 and self.mu is None:
            return exact.pure_loss(pairs)
        p, q = exact.composed(pairs)
        if self.mu is None:
            return exact.least_epsilon(p, q, self.delta + exact.ROUNDING)
        power, level = exact.best_tests(p, q)
        return float(np.max(self.needed(power - exact.ROUNDING, level + exact.ROUNDING)))

    def needed_for(self, right: float) -> float:
        """The least mu that allows guesses to be right so often, of neighbours that are as likely as each other.

        power - level <= 2 Phi(mu / 2) - 1 + 2 tail at every level, and (1 + power - level) / 2 are right.
        """
        return max(0.0, 2 * float(special.ndtri(min(max(right - self.tail, 0.0), 1.0))))

    def epsilon_of(self, needed: float) -> float:
        """The epsilon at delta that such a claim must have, for what a test needs: above the stated one iff refuted."""
        found = float(needed)
        if self.mu is not None and math.isfinite(needed):
            found = gdp.epsilon(self.delta, found)
        if self.refuted_by(needed):
            return max(found, math.nextafter(self.epsilon, math.inf))
        return min(found, self.epsilon)


def claim_of(event: Event | None, *, epsilon: float, delta: float) -> Claim:
    """The claim that a release with this event is (epsilon, delta)-private.

    Where all of it has a Gaussian price, the claim is the Gaussian whose epsilon at delta is the stated one; or the
    price itself, where it is a little larger at this epsilon (a single binomial has a tighter bound there) and still
    keeps within what is stated. Anything else is held to epsilon and delta alone.
    """
    if event is None or delta == 0.0 or math.isinf(epsilon):
        return Claim(epsilon=epsilon, delta=delta)
    try:
        counts = accountant.atoms(event)
    except UnknownEvent:
        return Claim(epsilon=epsilon, delta=delta)
    if not counts or not accountant.is_gaussian(counts):
        return Claim(epsilon=epsilon, delta=delta)
    stated = gdp.mu(epsilon, delta)
    priced = accountant.price(event, accountant.tail_for(delta, epsilon))
    if math.isinf(priced.mu):
        return Claim(epsilon=epsilon, delta=delta, mu=stated)
    if accountant.epsilon(event, delta) > epsilon * (
        1 + _ROUNDING
    ):  # another's claim, or parts that are priced together
        return Claim(epsilon=epsilon, delta=delta, mu=stated, tail=priced.tail)
    return Claim(epsilon=epsilon, delta=delta, mu=max(stated, priced.mu), tail=priced.tail)
