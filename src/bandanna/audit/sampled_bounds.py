"""Claims as bounds on tests, and lower bounds of epsilon from sampled runs.

A target is run under either of two neighbours, P and Q; every run gives numbers to an observer. The score (a linear
discriminant), its threshold and the kind of bound are chosen on pilot runs. The other runs count how often that one
test is right. There are two kinds of bounds (Clopper and Pearson 1934):

* power and level separately, each with half of the failure: for any claim;
* the number of right guesses among all runs: for a Gaussian claim, which is the same in both directions.

Looks are taken after an eighth, a quarter, a half and all of the runs. Each has its share of the failure, so by the
union bound the confidence holds for the whole schedule, and the audit may stop as soon as the claim is refuted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from scipy import special, stats

from bandanna import validation
from bandanna.audit import exact
from bandanna.audit.exact import LawPair
from bandanna.errors import UnknownEvent
from bandanna.numeric import search
from bandanna.privacy import accountant, gdp
from bandanna.privacy.events import Event
from bandanna.types import Floats

# Claims


_ROUNDING = 1e-6  # relative: by how much a stated epsilon may lie below the price of what was asked


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A promise (epsilon, delta), and `mu` and `tail` where the release has a Gaussian price.

    A test says "P" for some outputs, with probability alpha (level) under Q. A promise bounds its probability under P
    (power), for every test and every pair of neighbours:

        (epsilon, delta)             power <= e^epsilon alpha + delta                        (Wasserman and Zhou 2010)
        mu-GDP up to a mass tail     power <= Phi(Phi^-1(alpha + tail) + mu) + tail          (Dong, Roth and Su 2022)

    Far fewer runs refute a Gaussian claim, because it also bounds frequent outputs.

    Parameters
    ----------
    epsilon, delta
        The promise.
    mu, tail
        Its Gaussian price; None without one.
    """

    epsilon: float
    delta: float
    mu: float | None = None
    tail: float = 0.0

    @property
    def gaussian(self) -> bool:
        return self.mu is not None

    def power(self, level: Floats) -> Floats:
        level = np.asarray(level, dtype=float)
        if self.mu is not None:
            moved = special.ndtr(special.ndtri(np.minimum(level + self.tail, 1.0)) + self.mu)
            return np.asarray(np.minimum(moved + self.tail, 1.0))
        ratio = math.exp(min(self.epsilon, 700.0))
        complement = 1 - np.maximum(1 - self.delta - level, 0.0) / ratio  # the same, of the complement of the test
        return np.asarray(np.minimum(np.minimum(ratio * level + self.delta, complement), 1.0))

    def needed(self, power: Floats, level: Floats) -> Floats:
        """Return the least mu or epsilon that allows this power at a level."""
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
        return self.epsilon if self.mu is None else self.mu

    @property
    def stated(self) -> float:
        """The parameter for the stated epsilon alone; bounds are reported as its share."""
        return self.epsilon if self.mu is None else gdp.mu(self.epsilon, self.delta)

    def is_refuted_by(self, needed: float) -> bool:
        """Return whether a test needs more than is claimed, beyond rounding errors."""
        return needed > self.parameter * (1 + 1e-9)

    def needs(self, *, mu: float | None, pure: float | None) -> float | None:
        """Return the parameter for an exact Gaussian separation or pure loss, None without either."""
        if mu is not None and self.mu is not None:
            return mu
        if mu is not None and self.delta > 0:
            return gdp.epsilon(self.delta, mu)
        return pure if self.mu is None and self.delta == 0.0 else None

    def parameter_for_pairs(self, pairs: Sequence[LawPair]) -> float:
        """Return the parameter for the exact laws of independent releases."""
        if self.delta == 0.0 and self.mu is None:
            return exact.pure_loss(pairs)
        p, q = exact.compose_pairs(pairs)
        if self.mu is None:
            return exact.least_epsilon(p, q, self.delta + exact.ROUNDING)
        power, level = exact.best_tests(p, q)
        return float(np.max(self.needed(power - exact.ROUNDING, level + exact.ROUNDING)))

    def needed_for(self, right: float) -> float:
        """Return the least mu that allows guesses to be right so often, for equally likely neighbours.

        power - level <= 2 Phi(mu / 2) - 1 + 2 tail, and (1 + power - level) / 2 of the guesses are right.
        """
        return max(0.0, 2 * float(special.ndtri(min(max(right - self.tail, 0.0), 1.0))))

    def to_epsilon(self, needed: float) -> float:
        """Return the epsilon at delta for `needed`, above the stated one iff the claim is refuted."""
        found = float(needed)
        if self.mu is not None and math.isfinite(needed):
            found = gdp.epsilon(self.delta, found)
        if self.is_refuted_by(needed):
            return max(found, math.nextafter(self.epsilon, math.inf))
        return min(found, self.epsilon)


def make_claim(event: Event | None, *, epsilon: float, delta: float) -> Claim:
    """Return the claim that a release with this event is (epsilon, delta)-private.

    A Gaussian price gives the Gaussian claim whose epsilon at delta is the stated one, or the price itself where that
    is a little larger but keeps the statement. Any other event is held to epsilon and delta alone.

    Parameters
    ----------
    event : Event or None
        The event of the release; None if it is unknown.
    epsilon, delta : float
        The stated budget.

    Returns
    -------
    Claim
        The bound on tests.
    """
    if event is None or delta == 0.0 or math.isinf(epsilon):
        return Claim(epsilon=epsilon, delta=delta)
    try:
        counts = accountant.count_atoms(event)
    except UnknownEvent:
        return Claim(epsilon=epsilon, delta=delta)
    if not counts or not accountant.is_gaussian(counts):
        return Claim(epsilon=epsilon, delta=delta)
    stated = gdp.mu(epsilon, delta)
    priced = accountant.price(event, accountant.tail_for(delta, epsilon))
    if math.isinf(priced.mu):
        return Claim(epsilon=epsilon, delta=delta, mu=stated)
    if accountant.epsilon(event, delta) > epsilon * (1 + _ROUNDING):  # a claim for parts that are priced together
        return Claim(epsilon=epsilon, delta=delta, mu=stated, tail=priced.tail)
    return Claim(epsilon=epsilon, delta=delta, mu=max(stated, priced.mu), tail=priced.tail)


# Blocks of runs


DrawRuns = Callable[[bool, int, np.random.Generator], Floats]  # (swapped, runs, rng) -> (runs, k)
RunBlock = tuple[Floats, Floats]  # runs of P and of Q, (runs, k) each
DrawBlocks = Callable[[Sequence[int]], Iterator[RunBlock]]  # blocks of these sizes, in their order

LOOK_SCHEDULE = {
    1 / 8: 1 / 16,
    1 / 4: 1 / 16,
    1 / 2: 1 / 8,
    1.0: 3 / 4,
}  # after which share of the runs: share of the failure
_LEAST = 64  # runs: with fewer a look is useless


@dataclass(frozen=True, kw_only=True)
class SamplingPlan:
    """The numbers of runs of either neighbour in the pilot and at each look, in `blocks` blocks.

    It follows from the number of trials alone.
    """

    pilot: int
    looks: dict[int, float]  # runs beside the pilot: share of the failure
    blocks: tuple[int, ...]

    @classmethod
    def of(cls, trials: int, *, quick: bool, chunk: int) -> SamplingPlan:
        """Make the plan; with `quick` the pilot is a sixteenth instead of a quarter."""
        each = validation.integer("trials", trials, least=8 * _LEAST) // 2
        pilot = max(_LEAST, each // (16 if quick else 4))
        looks: dict[int, float] = {}
        for look, share in LOOK_SCHEDULE.items():
            runs = min(each - pilot, max(_LEAST, round(look * (each - pilot))))
            looks[runs] = looks.get(runs, 0.0) + share
        size, blocks = max(_LEAST, min(chunk, each // 16)), list[int]()
        for begin, end in pairwise([0, pilot, *(pilot + runs for runs in looks)]):
            blocks += [min(size, end - start) for start in range(begin, end, size)]
        return cls(pilot=pilot, looks=looks, blocks=tuple(blocks))


def draw_block(draw: DrawRuns, key: Sequence[int], number: int, runs: int) -> RunBlock:
    """Draw one block of runs of both neighbours from streams of its own."""
    one, two = (draw(swapped, runs, np.random.default_rng([*key, number, int(swapped)])) for swapped in (False, True))
    return one, two


def draw_blocks_here(draw: DrawRuns, key: Sequence[int]) -> DrawBlocks:
    """Draw blocks one after the other in this process."""

    def drawn(sizes: Sequence[int]) -> Iterator[RunBlock]:
        for number, runs in enumerate(sizes):
            yield draw_block(draw, key, number, runs)

    return drawn


# Bounds


_THRESHOLDS = 400
_RIDGE = 1e-10  # of numbers of unit variance: two that always agree are distinguished by their difference
_CAREFUL = 1e-4  # failure of the bounds that a test is chosen by: of hundreds, rare outputs look best by chance
_KEPT = 20_000  # scores of either world, for the curve


def lower_confidence_bound(hits: int | Floats, runs: int, failure: float) -> Floats:
    """Bound a probability from below; wrong with probability at most `failure`."""
    hits = np.asarray(hits, dtype=float)
    return np.asarray(np.where(hits > 0, special.betaincinv(np.maximum(hits, 0.5), runs - hits + 1, failure), 0.0))


def upper_confidence_bound(hits: int | Floats, runs: int, failure: float) -> Floats:
    """Bound a probability from above; wrong with probability at most `failure`."""
    hits = np.asarray(hits, dtype=float)
    left = np.maximum(runs - hits, 0.5)
    return np.asarray(np.where(hits < runs, special.betaincinv(hits + 1, left, 1 - failure), 1.0))


def lower_bound_of_guesses(hits: int, runs: int, failure: float) -> float:
    """Bound the mean probability of independent guesses from below; wrong with probability at most `failure`.

    If hits - 1 is at least the mean, `hits` or more are at most as likely as for a binomial with that mean (Hoeffding
    1956, Theorem 4). So the bound is cut at (hits - 1) / runs.
    """
    return min(float(lower_confidence_bound(hits, runs, failure)), max(hits - 1, 0) / runs)


@dataclass(frozen=True, kw_only=True)
class ThresholdTest:
    """A test that says "P" where the score is at least the threshold; if `turned`, "Q" where it is below.

    If `balanced`, right guesses about P and about Q are counted together.
    """

    direction: Floats  # (k,)
    threshold: float
    turned: bool = False
    balanced: bool = False

    def score(self, seen: Floats) -> Floats:
        return np.asarray(seen @ self.direction)

    def hits(self, scores: Floats) -> int:
        """Return how many runs the test says yes to."""
        above = scores >= self.threshold
        return int(np.count_nonzero(~above if self.turned else above))

    def needed(self, one: Floats, two: Floats, claim: Claim, failure: float) -> float:
        """Return a lower bound of the parameter that `claim` needs, too high with probability at most `failure`."""
        yes, no = (two, one) if self.turned else (one, two)
        hits, false = self.hits(yes), self.hits(no)
        if self.balanced:
            return claim.needed_for(lower_bound_of_guesses(hits + len(no) - false, len(yes) + len(no), failure))
        power = lower_confidence_bound(hits, len(yes), failure / 2)
        return float(claim.needed(power, upper_confidence_bound(false, len(no), failure / 2)))


@dataclass(frozen=True, kw_only=True)
class TradeOffCurve:
    """The measured levels alpha and misses beta = 1 - power of the tests {score >= t}."""

    level: Floats
    missed: Floats


@dataclass(frozen=True, kw_only=True)
class SampledBound:
    """The least parameter that the claim needs by sampling, and the number of runs."""

    needed: float
    confidence: float
    trials: int
    curve: TradeOffCurve | None = field(default=None, compare=False)


def fisher_direction(one: Floats, two: Floats) -> Floats:
    """Return Fisher's linear discriminant towards `one`; a single number is its own score."""
    scale = np.sqrt((one.var(axis=0) + two.var(axis=0)) / 2)
    apart = one.mean(axis=0) - two.mean(axis=0)
    scale = np.where(scale > 0, scale, np.where(apart != 0, np.abs(apart), 1.0))
    centred = np.vstack([one - one.mean(axis=0), two - two.mean(axis=0)]) / scale
    spread = centred.T @ centred / max(1, len(centred) - 2) + _RIDGE * np.eye(one.shape[1])
    direction = np.linalg.solve(spread, apart / scale) / scale
    return np.asarray(direction if np.any(direction) else np.eye(one.shape[1])[0])


def choose_test(one: Floats, two: Floats, claim: Claim, failure: float) -> ThresholdTest:
    """Choose the best score, threshold and direction of a test on a pilot."""
    direction = fisher_direction(one, two)
    p, q = np.sort(one @ direction), np.sort(two @ direction)
    both = np.unique(np.concatenate([p, q]))
    places = np.unique(np.linspace(0, len(both) - 1, _THRESHOLDS).astype(int))
    thresholds = both[places]
    below_p, below_q = (np.searchsorted(each, thresholds, side="left") for each in (p, q))
    half = failure / 2
    straight = claim.needed(
        lower_confidence_bound(len(p) - below_p, len(p), half), upper_confidence_bound(len(q) - below_q, len(q), half)
    )
    turned = claim.needed(lower_confidence_bound(below_q, len(q), half), upper_confidence_bound(below_p, len(p), half))
    best, other = int(np.argmax(straight)), int(np.argmax(turned))
    tests = [
        ThresholdTest(direction=direction, threshold=float(thresholds[best])),
        ThresholdTest(direction=direction, threshold=float(thresholds[other]), turned=True),
    ]
    if claim.gaussian:
        middle = float(p.mean() + q.mean()) / 2
        tests.insert(0, ThresholdTest(direction=direction, threshold=middle, balanced=True))
    return max(tests, key=lambda test: test.needed(p, q, claim, failure))


def bound_by_sampling(
    drawn: DrawBlocks,
    claim: Claim,
    *,
    trials: int,
    confidence: float,
    scored: bool = False,
    chunk: int = 20_000,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> SampledBound:
    """Run a target up to `trials` times, half of them under either neighbour; stop as soon as the claim is refuted.

    `scored`: a run gives one number that is the best score, so the pilot is smaller.
    """
    plan = SamplingPlan.of(trials, quick=scored and claim.gaussian, chunk=chunk)
    failure = 1 - validation.open_probability("confidence", confidence)
    test: ThresholdTest | None = None
    waiting: tuple[list[Floats], list[Floats]] = ([], [])
    scores: tuple[Floats, Floats] = (np.empty(0), np.empty(0))
    needed, done = 0.0, 0
    blocks = drawn(plan.blocks)
    try:
        for both in blocks:
            for held, numbers in zip(waiting, both, strict=True):
                held.append(numbers if test is None else test.score(numbers))
            done += len(both[0])
            progress(2 * done, trials)
            if test is None and done == plan.pilot:
                test = choose_test(
                    np.concatenate(waiting[0]), np.concatenate(waiting[1]), claim, min(failure, _CAREFUL)
                )
                waiting = ([], [])
            elif test is not None and done - plan.pilot in plan.looks:
                scores = (np.concatenate([scores[0], *waiting[0]]), np.concatenate([scores[1], *waiting[1]]))
                waiting = ([], [])
                needed = max(needed, test.needed(*scores, claim, failure * plan.looks[done - plan.pilot]))
                if claim.is_refuted_by(needed):
                    break
    finally:
        if isinstance(blocks, Generator):
            blocks.close()  # the rest is not needed
    return SampledBound(needed=needed, confidence=confidence, trials=2 * done, curve=measure_trade_off(*scores))


def measure_trade_off(one: Floats, two: Floats) -> TradeOffCurve:
    """Return the counted trade-off of all thresholds."""
    p, q = np.sort(one[:_KEPT]), np.sort(two[:_KEPT])
    thresholds = np.quantile(np.concatenate([p, q]), np.linspace(0, 1, 201))
    level = 1 - np.searchsorted(q, thresholds, side="left") / len(q)
    return TradeOffCurve(level=level, missed=np.searchsorted(p, thresholds, side="left") / len(p))


# One run with many canaries


_MOST = 100.0


def probability_of_guesses(right: int, *, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """Bound the probability of `right` or more right guesses, if the claim is true.

    m users toss a fair coin each, which decides between two statistics. From the one output r coins are guessed, a
    number fixed in advance, v of them rightly. With q = e^epsilon / (1 + e^epsilon),

        P(v or more right) <= beta + 2 m delta alpha,     W ~ Bin(r, q),
        beta = P(W >= v),     alpha = max over i >= 1 of P(v > W >= v - i) / i.

    Reference: Steinke, Nasr and Jagielski 2023, Theorem 5.2, where a canary is in or out; here it has either statistic.
    """
    q = 1 / (1 + math.exp(-epsilon))
    beta = float(stats.binom.sf(right - 1, guesses, q))
    if delta == 0.0 or right == 0:
        return min(1.0, beta)
    below = np.cumsum(stats.binom.pmf(np.arange(right - 1, -1, -1), guesses, q))  # P(v > W >= v - i), i = 1, 2, ...
    alpha = float(np.max(below / np.arange(1, right + 1)))
    return min(1.0, beta + 2 * canaries * delta * alpha)


def one_run_bound(right: int, *, guesses: int, canaries: int, delta: float, confidence: float) -> float:
    """Return the least epsilon at delta that is consistent with so many right guesses.

    Parameters
    ----------
    right, guesses, canaries : int
        The numbers of right guesses, of guesses, and of coins.
    delta : float
        The delta of the claim.
    confidence : float
        The probability with which the bound is right.

    Returns
    -------
    float
        A lower bound of epsilon.
    """
    right = validation.integer("right", right, least=0, most=guesses)
    validation.integer("guesses", guesses, most=canaries)
    failure = 1 - validation.open_probability("confidence", confidence)

    def refuted(epsilon: float) -> bool:
        chance = probability_of_guesses(right, guesses=guesses, canaries=canaries, epsilon=epsilon, delta=delta)
        return chance <= failure

    if not refuted(1e-9):
        return 0.0
    return _MOST if refuted(_MOST) else search.find_greatest(refuted, 1e-9, _MOST, relative=1e-6)
