"""Lower bounds from samples: how well one test tells two neighbours apart, with confidence.

A target is run under either of two neighbours, P and Q; every run gives some numbers that an observer sees. A quarter
of the runs are a pilot: on them the score (a linear discriminant of the numbers) and its threshold are chosen. The rest
count how often that one test is right. With k hits in n runs, Clopper and Pearson 1934 bound a probability by

    p >= B^-1(f; k, n - k + 1),     p <= B^-1(1 - f; k + 1, n - k),     each wrong with probability at most f,

without any approximation; B is the beta law's distribution function.

**Sequential stopping.** The runs are looked at after an eighth, a quarter, a half and all of them. Each of the L looks
makes two bounds that are wrong with probability at most failure / (2 L). By the union bound all 2 L of them hold
together with probability at least 1 - failure, whichever look one stops at and for whatever reason: so the audit ends
as soon as the claim is refuted, and the confidence that it states is that of the whole schedule.

Choosing the test on the pilot costs nothing: given the pilot, the test is fixed, and the other runs are independent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy import special

from bandanna.audit.claims import Claim
from bandanna.core import require
from bandanna.core.arrays import Floats

Draw = Callable[[bool, int, np.random.Generator], Floats]  # (swapped, runs, rng) -> (runs, k)

LOOKS = (1 / 8, 1 / 4, 1 / 2, 1.0)
_LEAST = 64  # runs, of which a look can tell something
_THRESHOLDS = 400
_RIDGE = 1e-10  # of numbers of unit variance: two that always agree are told apart by their difference
_KEPT = 20_000  # scores of either world, for the curve


def at_least(hits: int | Floats, runs: int, failure: float) -> Floats:
    """A probability is at least this, but with probability `failure` (Clopper and Pearson 1934)."""
    hits = np.asarray(hits, dtype=float)
    return np.asarray(np.where(hits > 0, special.betaincinv(np.maximum(hits, 0.5), runs - hits + 1, failure), 0.0))


def at_most(hits: int | Floats, runs: int, failure: float) -> Floats:
    """A probability is at most this, but with probability `failure` (Clopper and Pearson 1934)."""
    hits = np.asarray(hits, dtype=float)
    left = np.maximum(runs - hits, 0.5)
    return np.asarray(np.where(hits < runs, special.betaincinv(hits + 1, left, 1 - failure), 1.0))


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """Says "P" where the score is at least the threshold; `turned`: says "Q" where it is below."""

    direction: Floats  # (k,)
    threshold: float
    turned: bool

    def score(self, seen: Floats) -> Floats:
        """(runs, k) -> (runs,)."""
        return np.asarray(seen @ self.direction)

    def hits(self, scores: Floats) -> int:
        """How many runs it says yes to."""
        above = scores >= self.threshold
        return int(np.count_nonzero(~above if self.turned else above))


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The measured trade-off: levels alpha and misses beta = 1 - power of the tests {score >= t}."""

    level: Floats
    missed: Floats


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a sampled attack has found: the parameter that the claim needs at least, and the runs that it took."""

    needed: float
    confidence: float
    trials: int
    curve: Curve | None = field(default=None, compare=False)


def direction_of(one: Floats, two: Floats) -> Floats:
    """Fisher's linear discriminant of (n, k) and (n, k), towards `one`; a number alone is its own score."""
    scale = np.sqrt((one.var(axis=0) + two.var(axis=0)) / 2)
    apart = one.mean(axis=0) - two.mean(axis=0)
    scale = np.where(scale > 0, scale, np.where(apart != 0, np.abs(apart), 1.0))
    centred = np.vstack([one - one.mean(axis=0), two - two.mean(axis=0)]) / scale
    spread = centred.T @ centred / max(1, len(centred) - 2) + _RIDGE * np.eye(one.shape[1])
    direction = np.linalg.solve(spread, apart / scale) / scale
    return np.asarray(direction if np.any(direction) else np.eye(one.shape[1])[0])


def chosen(one: Floats, two: Floats, claim: Claim, failure: float) -> Threshold:
    """The test that looks best on a pilot: its score, its threshold, and which neighbour it says."""
    direction = direction_of(one, two)
    p, q = np.sort(one @ direction), np.sort(two @ direction)
    both = np.unique(np.concatenate([p, q]))
    places = np.unique(np.linspace(0, len(both) - 1, _THRESHOLDS).astype(int))
    thresholds = both[places]
    below_p, below_q = (np.searchsorted(each, thresholds, side="left") for each in (p, q))
    straight = claim.needed(at_least(len(p) - below_p, len(p), failure), at_most(len(q) - below_q, len(q), failure))
    turned = claim.needed(at_least(below_q, len(q), failure), at_most(below_p, len(p), failure))
    best, other = int(np.argmax(straight)), int(np.argmax(turned))
    if turned[other] > straight[best]:
        return Threshold(direction=direction, threshold=float(thresholds[other]), turned=True)
    return Threshold(direction=direction, threshold=float(thresholds[best]), turned=False)


def sampled(
    draw: Draw,
    claim: Claim,
    *,
    trials: int,
    confidence: float,
    rng: np.random.Generator,
    chunk: int = 20_000,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Found:
    """Run a target `trials` times in all, half of them under either neighbour; stop as soon as the claim is refuted."""
    trials = require.whole("trials", trials, least=8 * _LEAST)
    each, failure = trials // 2, (1 - require.chance("confidence", confidence)) / (2 * len(LOOKS))
    done = 0

    def runs(count: int) -> tuple[Floats, Floats]:
        nonlocal done
        parts: tuple[list[Floats], list[Floats]] = ([], [])
        left = count
        while left > 0:
            now = min(left, chunk)
            for swapped in (False, True):
                parts[swapped].append(draw(swapped, now, rng))
            left, done = left - now, done + 2 * now
            progress(done, trials)
        return np.concatenate(parts[0]), np.concatenate(parts[1])

    pilot = max(_LEAST, each // 4)
    test = chosen(*runs(pilot), claim, failure)
    scores: tuple[Floats, Floats] = (np.empty(0), np.empty(0))
    needed = 0.0
    for look in LOOKS:
        wanted = max(_LEAST, round(look * (each - pilot))) - len(scores[0])
        if wanted <= 0:
            continue
        one, two = runs(wanted)
        scores = np.append(scores[0], test.score(one)), np.append(scores[1], test.score(two))
        yes, no = (scores[1], scores[0]) if test.turned else scores
        power = at_least(test.hits(yes), len(yes), failure)
        level = at_most(test.hits(no), len(no), failure)
        needed = max(needed, float(claim.needed(power, level)))
        if claim.refuted_by(needed):
            break
    return Found(needed=needed, confidence=confidence, trials=done, curve=measured(*scores))


def measured(one: Floats, two: Floats) -> Curve:
    """The trade-off of all thresholds, as it was counted."""
    p, q = np.sort(one[:_KEPT]), np.sort(two[:_KEPT])
    thresholds = np.quantile(np.concatenate([p, q]), np.linspace(0, 1, 201))
    level = 1 - np.searchsorted(q, thresholds, side="left") / len(q)
    return Curve(level=level, missed=np.searchsorted(p, thresholds, side="left") / len(p))
