"""Lower bounds from samples: how well one test tells two neighbours apart, with confidence.

A target is run under either of two neighbours, P and Q; every run gives some numbers that an observer sees. Some runs
are a pilot: on them the score (a linear discriminant of the numbers), its threshold and the kind of bound are chosen.
The rest count how often that one test is right. With k hits in n runs, Clopper and Pearson 1934 bound a probability by

    p >= B^-1(f; k, n - k + 1),     p <= B^-1(1 - f; k + 1, n - k),     each wrong with probability at most f,

without any approximation; B is the beta law's distribution function. There are two kinds of bounds:

* power and level by themselves, each with half of the failure: for any claim;
* how many of all 2n guesses are right, one number instead of two: for a Gaussian claim, whose neighbours are as hard to
  tell apart either way round. Guesses about P and about Q are right with different probabilities; the chance of k or
  more right ones among 2n is then at most that of a binomial with their mean, if k - 1 is at least its mean
  (Hoeffding 1956, Theorem 4), so that the bound of Clopper and Pearson holds for the mean, cut at (k - 1) / 2n.

**Sequential stopping.** The runs are looked at after an eighth, a quarter, a half and all of them. Each look has its
share of the failure. By the union bound all bounds hold together with probability at least 1 - failure, whichever look
one stops at and for whatever reason: so the audit ends as soon as the claim is refuted, and the confidence that it
states is that of the whole schedule. The last look has most of it, since it is what bounds a true claim.

Choosing the test on the pilot costs nothing: given the pilot, the test is fixed, and the other runs are independent.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field

import numpy as np
from scipy import special

from bandanna.audit.blocks import Drawn, Plan
from bandanna.audit.claims import Claim
from bandanna.core import require
from bandanna.core.arrays import Floats

_THRESHOLDS = 400
_RIDGE = 1e-10  # of numbers of unit variance: two that always agree are told apart by their difference
_CAREFUL = 1e-4  # failure of the bounds that a test is chosen by: of hundreds, rare outputs look best by chance
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


def right_at_least(hits: int, runs: int, failure: float) -> float:
    """The mean probability of independent guesses is at least this, but with probability `failure`; see above."""
    return min(float(at_least(hits, runs, failure)), max(hits - 1, 0) / runs)


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """Says "P" where the score is at least the threshold; `turned`: says "Q" where it is below.

    balanced: right guesses are counted, about P and about Q together.
    """

    direction: Floats  # (k,)
    threshold: float
    turned: bool = False
    balanced: bool = False

    def score(self, seen: Floats) -> Floats:
        """(runs, k) -> (runs,)."""
        return np.asarray(seen @ self.direction)

    def hits(self, scores: Floats) -> int:
        """How many runs it says yes to."""
        above = scores >= self.threshold
        return int(np.count_nonzero(~above if self.turned else above))

    def needed(self, one: Floats, two: Floats, claim: Claim, failure: float) -> float:
        """What the claim needs for so many hits among scores of P and of Q, but with probability `failure`."""
        yes, no = (two, one) if self.turned else (one, two)
        hits, false = self.hits(yes), self.hits(no)
        if self.balanced:
            return claim.needed_for(right_at_least(hits + len(no) - false, len(yes) + len(no), failure))
        power, level = at_least(hits, len(yes), failure / 2), at_most(false, len(no), failure / 2)
        return float(claim.needed(power, level))


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
    half = failure / 2
    straight = claim.needed(at_least(len(p) - below_p, len(p), half), at_most(len(q) - below_q, len(q), half))
    turned = claim.needed(at_least(below_q, len(q), half), at_most(below_p, len(p), half))
    best, other = int(np.argmax(straight)), int(np.argmax(turned))
    tests = [
        Threshold(direction=direction, threshold=float(thresholds[best])),
        Threshold(direction=direction, threshold=float(thresholds[other]), turned=True),
    ]
    if claim.gaussian:
        middle = float(p.mean() + q.mean()) / 2
        tests.insert(0, Threshold(direction=direction, threshold=middle, balanced=True))
    return max(tests, key=lambda test: test.needed(p, q, claim, failure))


def sampled(
    drawn: Drawn,
    claim: Claim,
    *,
    trials: int,
    confidence: float,
    scored: bool = False,
    chunk: int = 20_000,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Found:
    """Run a target `trials` times in all, half of them under either neighbour; stop as soon as the claim is refuted.

    scored: what is drawn is one number by which the neighbours are told apart best, so that less is to be learned.
    """
    plan = Plan.of(trials, quick=scored and claim.gaussian, chunk=chunk)
    failure = 1 - require.chance("confidence", confidence)
    test: Threshold | None = None
    waiting: tuple[list[Floats], list[Floats]] = ([], [])
    scores: tuple[Floats, Floats] = (np.empty(0), np.empty(0))
    needed, done = 0.0, 0
    blocks = drawn(plan.blocks)
    try:
        for both in blocks:
            for kept, seen in zip(waiting, both, strict=True):
                kept.append(seen if test is None else test.score(seen))
            done += len(both[0])
            progress(2 * done, trials)
            if test is None and done == plan.pilot:
                test = chosen(np.concatenate(waiting[0]), np.concatenate(waiting[1]), claim, min(failure, _CAREFUL))
                waiting = ([], [])
            elif test is not None and done - plan.pilot in plan.looks:
                scores = (np.concatenate([scores[0], *waiting[0]]), np.concatenate([scores[1], *waiting[1]]))
                waiting = ([], [])
                needed = max(needed, test.needed(*scores, claim, failure * plan.looks[done - plan.pilot]))
                if claim.refuted_by(needed):
                    break
    finally:
        if isinstance(blocks, Generator):
            blocks.close()  # the rest is not needed
    return Found(needed=needed, confidence=confidence, trials=2 * done, curve=measured(*scores))


def measured(one: Floats, two: Floats) -> Curve:
    """The trade-off of all thresholds, as it was counted."""
    p, q = np.sort(one[:_KEPT]), np.sort(two[:_KEPT])
    thresholds = np.quantile(np.concatenate([p, q]), np.linspace(0, 1, 201))
    level = 1 - np.searchsorted(q, thresholds, side="left") / len(q)
    return Curve(level=level, missed=np.searchsorted(p, thresholds, side="left") / len(p))
