"""Estimators with a model of rewards: what it expects of a policy, corrected by what logged arms earned.

With w = pi/p of the logged arm, cut at M, and a model q, g = sum_a pi(a) q(a):

    dm       mean g
    dr       mean g + w (r - q)                     Dudik, Langford and Li 2011
    switch   mean g + w (r - q) [w <= M]            Wang, Agarwal and Dudik 2017

Without privacy they are the textbook's. With a trust model the sums of d = g - 1/2 + w (r - q), w and d^2 are released
(`core.corrections`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.core.calling import by_name
from bandanna.core.corrections import Corrections
from bandanna.errors import InvalidArgument
from bandanna.logs.log import Log
from bandanna.ope.estimators import finished, mean_of
from bandanna.ope.intervals import Hidden, Mean
from bandanna.ope.modelled import spread_of, tables_of
from bandanna.ope.release import release
from bandanna.ope.spread import Spread
from bandanna.ope.sums import cut_off, exact_sums, missing
from bandanna.ope.value import Value
from bandanna.ope.weighing import Weighed, checked_privacy, weighed
from bandanna.protocols.trust import Privacy, none


@by_name("bd.ope.dr")
def dr(
    log: Log,
    target: Any,
    *,
    q: Any,
    weight_bound: float | None = None,
    privacy: Privacy | None = None,
    spread: float | None = None,
    seed: int | None = None,
    path: str = "messages",
) -> Value:
    """Doubly robust: what a model q expects, corrected by what the logged arms earned.

    q       rewards that are expected of every arm: (arms,), (n, arms), a function of the log's contexts to them, or a
            `bd.ope.reward_model` that was learned from *other* people (`log.split()`): then everybody pays once
    spread  with privacy: how far q may be from the middle of the range of rewards, as a share of it, at most and by
            default 1/2; it is cut there, and less of it needs less noise

    The other arguments are those of `ips`.
    """
    return _robust("dr", log, target, q, weight_bound, privacy, spread, seed, path)


@by_name("bd.ope.switch")
def switch(
    log: Log,
    target: Any,
    *,
    q: Any,
    weight_bound: float,
    privacy: Privacy | None = None,
    spread: float | None = None,
    seed: int | None = None,
    path: str = "messages",
) -> Value:
    """Doubly robust where w <= `weight_bound`, and the model alone where the target is too far from the log."""
    return _robust("switch", log, target, q, weight_bound, privacy, spread, seed, path)


@by_name("bd.ope.dm")
def dm(
    log: Log,
    target: Any,
    *,
    q: Any,
    privacy: Privacy | None = None,
    spread: float | None = None,
    seed: int | None = None,
    path: str = "messages",
) -> Value:
    """Direct method: what the model expects. Its interval is for the model's opinion, not for what it gets wrong."""
    return _robust("dm", log, target, q, math.inf, privacy, spread, seed, path)


def _robust(
    method: str,
    log: Log,
    target: Any,
    q: Any,
    weight_bound: float | None,
    privacy: Privacy | None,
    spread: float | None,
    seed: Any,
    path: str,
) -> Value:
    trust = checked_privacy(privacy)
    cut = None if method == "dm" else weight_bound
    if method == "switch" and weight_bound is None:
        raise InvalidArgument("weight_bound", None, "a number: above it the model alone is believed")
    case = weighed(log, target, cut, none() if method == "dm" else trust)
    if trust.noisy:
        log.check_private()
    expected, logged = tables_of(case, q)
    half = spread_of(q, spread, case) if trust.noisy else 0.5
    if trust.noisy:
        expected, logged = (np.clip(each, 0.5 - half, 0.5 + half) for each in (expected, logged))
    weights = np.zeros(case.people) if method == "dm" else case.weights
    if method == "switch":
        weights = np.where(case.raw <= case.bound * (1 + 1e-12), case.raw, 0.0)
    model = np.sum(case.target.chances * expected, axis=1)
    corrections = model - 0.5 + weights * (case.rewards - logged)
    if trust.noisy:
        return _released(method, case, corrections, weights, half, trust, seed, path)
    worst, best = model - 0.5 - weights * logged, model - 0.5 + weights * (1 - logged)  # of rewards 0 and 1
    mean = np.mean(corrections)
    law = mean_of(corrections + 0.5, (float(mean - np.min(worst)), float(np.max(best) - mean)))
    share, error = (0.0, 0.0) if method == "dm" else cut_off(case.raw - weights)
    hidden = Hidden(share=share, stderr=error, below=1.0, above=1.0)
    return finished(method, case, law, hidden, seed, guarantee=None, size=exact_sums(case).size)


def _released(
    method: str, case: Weighed, corrections: Floats, weights: Floats, half: float, trust: Privacy, seed: Any, path: str
) -> Value:
    """By the sums of d, w and d^2."""
    n = case.people
    domain = Corrections(bound=0.0 if method == "dm" else case.bound, spread=half)
    released = release(trust, domain.statistic(corrections, weights), seed=seed, path=path)
    (total, weight, square), noise = domain.unpack(released.total), released.variance * domain.units**2
    mean, largest = float(total) / n, domain.largest
    centre = min(max(mean, -0.5), 0.5)
    spread = Spread(
        sampled=float(square) - n * centre**2,
        noise=float(noise[0]),
        error=math.sqrt(noise[2] + (2 * centre) ** 2 * noise[0]),
        laplace=released.laplace,
    )
    law = Mean(
        value=0.5 + mean,
        spread=spread.over(n),
        surprise=(max(largest + centre, 0.0) / n, max(largest - centre, 0.0) / n),
        inside=(0.0, 1.0),
    )
    share, error = 0.0, 0.0
    if method != "dm" and not case.safe:
        share, error = missing(float(weight), case.bound * max(float(weight), 0.0), float(noise[1]), n)
    hidden = Hidden(share=share, stderr=error, below=0.5 + half, above=0.5 + half)
    return finished(method, case, law, hidden, seed, guarantee=released.guarantee, size=None)
