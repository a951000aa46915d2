"""What is audited: a claim, how the target is run under two neighbours, and what is known exactly."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from bandanna.audit.blocks import Draw, Drawn, in_turn
from bandanna.audit.claims import Claim
from bandanna.audit.exact import Pair
from bandanna.audit.lower import Found, sampled
from bandanna.audit.result import CONSISTENT, NEVER, REFUTED, Row, gaussian_curve

TRIALS, CONFIDENCE = 40_000, 0.95
SINGLE = 8192  # runs at most, where they are made one by one
Progress = Callable[[int, int, str], None]


def silent(done: int, total: int, what: str) -> None:
    """Nobody looks on."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Target:
    """A claim and the ways to attack it.

    draw     (swapped, runs, rng) -> numbers that an observer sees, (runs, k)
    scored   these are one number, the larger the more it speaks for the first neighbour
    mu       the exact separation of the neighbours, where all noise is Gaussian; `pure`: the exact loss of Laplace's
    leaks    epsilon is infinite: with the same releases, the two neighbours are told apart by something else; with
             this confidence (`audit.replay`). 1: by a release that has no noise
    why      a sentence about that
    through  of a policy: the protocols that release something of the person
    most     at most so many runs are made, where each takes long
    looked   what the audit looks at, in words
    unseen   what this kind of audit does not look at, in words
    pairs    exact laws under both neighbours of independent parts of what is seen (`audit.exact`)
    """

    name: str
    claim: Claim
    known: str | None = None
    draw: Draw | None = None
    scored: bool = False
    chunk: int = 20_000
    mu: float | None = None
    pure: float | None = None
    pairs: tuple[Pair, ...] = ()
    leaks: float | None = None
    why: str = ""
    through: tuple[str, ...] = ()
    most: int | None = None
    looked: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()


def key_of(target: Target, seed: int) -> list[int]:
    """What the random streams of a target's blocks have in common: they depend on no other target."""
    return [seed, *target.name.encode()]


def attacked(
    target: Target,
    *,
    trials: int = TRIALS,
    confidence: float = CONFIDENCE,
    seed: int = 0,
    drawn: Drawn | None = None,
    progress: Progress = silent,
) -> Row:
    """All that is known of a target, and the best bound of it: exact ones hold surely, sampled ones with confidence.

    drawn: who else runs its blocks (`audit.spread`); the numbers are the same.
    """
    claim = target.claim
    if math.isinf(claim.epsilon):
        return _row(target, 0.0, 1.0, 0, "nothing claimed")
    if target.leaks is not None:
        return _row(target, math.inf, target.leaks, 0, "exact" if target.leaks == 1 else "replay")
    known = claim.needs(mu=target.mu, pure=target.pure)
    if known is None and target.pairs:
        known = claim.needed_by(target.pairs)
    best = _row(target, known or 0.0, 1.0, 0, "exact")
    if target.draw is None or best.refuted:
        return best
    found = sampled(
        in_turn(target.draw, key_of(target, seed)) if drawn is None else drawn,
        claim,
        trials=trials if target.most is None else min(trials, target.most),
        confidence=confidence,
        scored=target.scored,
        chunk=target.chunk,
        progress=lambda done, total: progress(done, total, target.name),
    )
    by_samples = _row(target, found.needed, confidence, found.trials, "sampled", found)
    if by_samples.refuted or by_samples.lower_bound >= best.lower_bound:
        return by_samples
    return _row(target, known or 0.0, 1.0, found.trials, "exact", found)


def _row(target: Target, needed: float, confidence: float, trials: int, attack: str, found: Found | None = None) -> Row:
    """The verdict on what a test needs."""
    claim = target.claim
    refuted = claim.refuted_by(needed)
    curve = None if found is None else found.curve
    if curve is None and claim.mu is not None and target.mu is not None:
        curve = gaussian_curve(target.mu)
    return Row(
        target=target.name,
        known=target.known,
        claim=claim,
        lower_bound=claim.epsilon_of(needed),
        confidence=confidence,
        trials=trials,
        verdict=REFUTED if refuted else CONSISTENT,
        attack=attack,
        why=target.why if refuted else "",
        looked_at="; ".join(target.looked),
        not_looked_at="; ".join((*target.unseen, *NEVER)) if target.looked else "",
        reached=(needed if refuted else min(needed, claim.stated)) / claim.stated if claim.epsilon > 0 else 0.0,
        curve=curve,
    )
