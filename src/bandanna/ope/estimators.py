"""Off-policy estimators: what a policy would have earned, from what another one did.

With w = pi/p of the logged arm, cut at M:

    ips      b + mean w (r - b)                     Horvitz and Thompson 1952; b = 0 is the textbook's
    snips    sum w r / sum w                        Swaminathan and Joachims 2015

Without privacy they are the textbook's. With a trust model one sum over everybody in the log is released, of the
numbers that estimate and interval are made of (`core.weights`): everybody is in it once, and what is made of it costs
nothing more.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bandanna.accounting.guarantee import Guarantee
from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.core.calling import by_name
from bandanna.core.weights import Weights
from bandanna.errors import InvalidArgument
from bandanna.logs.log import Log
from bandanna.ope.intervals import Hidden, Law, Mean, Ratio
from bandanna.ope.overlap import details_of
from bandanna.ope.release import nothing_promised, release
from bandanna.ope.spread import Spread
from bandanna.ope.sums import Sums, exact_sums, read_sums
from bandanna.ope.value import Value
from bandanna.ope.weighing import Weighed, checked_privacy, weighed
from bandanna.protocols.trust import Privacy


@by_name("bd.ope.ips")
def ips(
    log: Log,
    target: Any,
    *,
    weight_bound: float | None = None,
    privacy: Privacy | None = None,
    baseline: float | None = None,
    seed: int | None = None,
    path: str = "messages",
) -> Value:
    """Inverse propensity scores: b + mean w (r - b).

    target        "uniform", "arm:NAME", an agent, (policy, snapshot), probabilities (arms,) or (n, arms), or a function
                  of the log's contexts to them
    weight_bound  M, at which weights are cut: public. By default 1/floor of the log, where nothing is cut; without
                  privacy none
    privacy       a trust model with its budget, or None
    baseline      b, a reward: 0 by default, which is the textbook's; with privacy the middle of the range, from which
                  rewards are told with the least noise, and half the bias of clipping on either side
    seed          of noise, in tests and simulations only: it protects nobody. `path` as in `bd.simulate`, with a seed
    """
    trust = checked_privacy(privacy)
    case = weighed(log, target, weight_bound, trust)
    return value_of("ips", case, _sums(case, trust, seed, path), seed, baseline=baseline)


@by_name("bd.ope.snips")
def snips(
    log: Log,
    target: Any,
    *,
    weight_bound: float | None = None,
    privacy: Privacy | None = None,
    seed: int | None = None,
    path: str = "messages",
) -> Value:
    """Self-normalised: sum w r / sum w; the one to take unless there is a reason. Arguments as of `ips`."""
    trust = checked_privacy(privacy)
    case = weighed(log, target, weight_bound, trust)
    return value_of("snips", case, _sums(case, trust, seed, path), seed)


def _sums(case: Weighed, trust: Privacy, seed: Any, path: str) -> Sums:
    """What one release tells of a target, or what is exact without privacy."""
    if not trust.noisy:
        return exact_sums(case)
    domain = Weights(bound=case.bound, moments=True)
    statistic = domain.statistic(case.weights[:, None], case.rewards)
    released = release(trust, statistic, seed=seed, path=path)
    return read_sums(case, domain.unpack(released.total)[0], released, domain.units)


def value_of(method: str, case: Weighed, sums: Sums, seed: Any, *, baseline: Any = None) -> Value:
    """IPS or SNIPS of sums. Clipping hides a share of the probability, on which rewards may be 0 or 1."""
    law: Law = Ratio(sums=sums)
    below = law.estimate
    if method == "ips":
        low, high = case.log.reward_range
        middle = 0.5 if sums.private else -low / (high - low)
        below = middle if baseline is None else (_reward("baseline", baseline, low, high) - low) / (high - low)
        law = _ips_law(sums, below)
    share, error = sums.hidden
    hidden = Hidden(share=share, stderr=error, below=below, above=1 - below)
    return finished(method, case, law, hidden, seed, guarantee=sums.guarantee, size=sums.size)


def _reward(argument: str, value: Any, low: float, high: float) -> float:
    allowed = f"a reward in [{low:g}, {high:g}]"
    number = require.finite(argument, value, allowed)
    if not low <= number <= high:
        raise InvalidArgument(argument, value, allowed)
    return number


def _ips_law(sums: Sums, b: float) -> Mean:
    """b + mean w (rho - beta), beta = b - 1/2."""
    n, beta = sums.people, b - 0.5
    mean = (sums.value - beta * sums.weight) / n
    inside = (0.0, 1.0) if sums.private else (-math.inf, math.inf)
    centre = min(max(b + mean, inside[0]), inside[1]) - b
    square, noise = sums.at(beta), float(sums.added(beta))
    spread = square - n * centre**2
    if not sums.private:
        spread *= n / max(n - 1, 1)
    third = float(sums.third(beta, square)) - 3 * centre * square + 2 * n * centre**3
    wobble = sums.wobble(beta) + (2 * centre) ** 2 * noise
    below, above = max(sums.largest * b + centre, 0.0), max(sums.largest * (1 - b) - centre, 0.0)
    steepest = (_steepest(spread, below, n), _steepest(spread, above, n)) if sums.private else None
    return Mean(
        value=b + mean,
        spread=Spread(
            sampled=spread, noise=noise, error=math.sqrt(wobble), third=third, steepest=steepest, laplace=sums.laplace
        ).over(n),
        surprise=(below / n, above / n),
        inside=inside,
    )


def _steepest(square: float, most: float, n: int) -> float:
    """An upper bound of the third cumulant of n numbers: of mean 0, at most `most`, and with this sum of squares."""
    return max(square, 0.0) * (most - max(square, 0.0) / (n * most)) if most > 0 else 0.0


def mean_of(terms: Floats, surprise: tuple[float, float]) -> Mean:
    """Of numbers that are known, (n,); one unseen person may be so far below and above them."""
    n, apart = len(terms), terms - terms.mean()
    sampled = float(np.sum(apart**2)) * n / (n - 1) if n > 1 else math.inf
    spread = Spread(sampled=sampled, third=float(np.sum(apart**3))).over(n)
    return Mean(value=float(np.mean(terms)), spread=spread, surprise=(surprise[0] / n, surprise[1] / n))


def finished(
    method: str,
    case: Weighed,
    law: Law,
    hidden: Hidden,
    seed: Any,
    *,
    guarantee: Guarantee | None,
    size: float | None,
) -> Value:
    """A value, with what clipping hides; without a guarantee it was computed without noise."""
    low, high = case.log.reward_range
    return Value(
        method=method,
        target=case.target.name,
        estimate=low + (high - low) * law.estimate,
        people=case.people,
        weight_bound=math.inf if method == "dm" else case.bound,
        clipped_mass=max(hidden.share, 0.0),
        effective_sample_size=size,
        guarantee=guarantee or nothing_promised(Weights(bound=1.0)),
        reward_range=(low, high),
        seeded=guarantee is not None and seed is not None,
        law=law,
        hidden=hidden,
        details={} if guarantee is not None else details_of(case),
    )
