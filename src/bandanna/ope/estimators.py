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

from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.core.calling import by_name
from bandanna.core.weights import Weights
from bandanna.errors import InvalidArgument
from bandanna.logs.log import Log
from bandanna.ope.intervals import Hidden, Law, Mean, Ratio
from bandanna.ope.overlap import details_of
from bandanna.ope.release import nothing_promised, release
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
    return read_sums(case, domain.unpack(released.total)[0], released.variance * domain.units**2, released.guarantee)


def value_of(method: str, case: Weighed, sums: Sums, seed: Any, *, baseline: Any = None) -> Value:
    """IPS or SNIPS of sums. Clipping hides a share of the probability, on which rewards may be 0 or 1."""
    if method == "snips":
        ratio = _snips_law(case, sums)
        return finished("snips", case, sums, ratio, ratio.estimate, 1 - ratio.estimate, seed)
    low, high = case.log.reward_range
    middle = 0.5 if sums.private else -low / (high - low)
    b = middle if baseline is None else (_reward("baseline", baseline, low, high) - low) / (high - low)
    return finished("ips", case, sums, _ips_law(case, sums, b), b, 1 - b, seed)


def _reward(argument: str, value: Any, low: float, high: float) -> float:
    allowed = f"a reward in [{low:g}, {high:g}]"
    number = require.finite(argument, value, allowed)
    if not low <= number <= high:
        raise InvalidArgument(argument, value, allowed)
    return number


def _ips_law(case: Weighed, sums: Sums, b: float) -> Mean:
    """b + mean w (rho - beta), beta = b - 1/2."""
    n, beta = case.people, b - 0.5
    mean = (sums.value - beta * sums.weight) / n
    spread = max(sums.at(beta) / n - mean**2, 0.0)
    noise = sums.added(beta) / n**2
    return Mean(
        estimate=b + mean,
        stderr=math.sqrt(spread / (n if sums.private else max(n - 1, 1)) + noise),
        noise=math.sqrt(noise),
        skew=sums.skew(beta) if sums.private else skew_of(case.weights * (case.rewards - b)),
        freedom=sums.freedom(beta),
    )


def _snips_law(case: Weighed, sums: Sums) -> Ratio:
    """1/2 + U/V, with the noise of both in the variance of U - theta V."""
    theta = min(max(sums.value / sums.weight, -0.5), 0.5) if sums.weight > 0 else 0.0
    a, b, c = sums.squares
    return Ratio(
        value=sums.value,
        weight=sums.weight,
        spread=(a + sums.noise[0], b, c + sums.noise[1]),
        noise=math.sqrt(sums.added(theta)) / sums.weight if sums.weight > 0 else math.inf,
        skew=sums.skew(theta) if sums.private else skew_of(case.weights * (case.rewards - 0.5 - theta)),
        freedom=sums.freedom(theta),
    )


def skew_of(terms: Floats) -> float:
    """Of the mean: third moment by the cube of the deviation, by sqrt n."""
    apart = terms - terms.mean()
    square = float(np.mean(apart**2))
    return float(np.mean(apart**3)) / square**1.5 / math.sqrt(len(terms)) if square > 1e-300 else 0.0


def finished(method: str, case: Weighed, sums: Sums, law: Law, below: float, above: float, seed: Any) -> Value:
    """A value of which a hidden share of the probability may pull so far to either side."""
    (low, high), (share, error) = case.log.reward_range, sums.hidden
    return Value(
        method=method,
        target=case.target.name,
        estimate=low + (high - low) * law.estimate,
        people=case.people,
        weight_bound=math.inf if method == "dm" else case.bound,
        clipped_mass=share,
        effective_sample_size=sums.size,
        guarantee=sums.guarantee or nothing_promised(Weights(bound=1.0)),
        reward_range=(low, high),
        seeded=sums.private and seed is not None,
        law=law,
        hidden=Hidden(share=share, stderr=error, below=below, above=above),
        details={} if sums.private else details_of(case),
    )
