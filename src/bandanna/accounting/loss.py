"""Numerical composition of privacy loss distributions, for what is not Gaussian (with dp-accounting).

Each event is replaced by a pair that dominates it; the pairs' loss distributions are discretised upwards and convolved:

* everything with a Gaussian price mu: one Gaussian of standard deviation 1/mu, its tail beside;
* Laplace noise on one real coordinate: itself; on a grid or several coordinates, and caps: randomized response of their
  epsilon;
* shuffled Gaussians: a report among mixtures, at the local epsilon that leaves a total-variation mass within the tail.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import lru_cache, reduce
from typing import Any

from bandanna.accounting import amplification, events, gdp
from bandanna.accounting.gdp import Price
from bandanna.accounting.prices import gaussian_price, pure_price
from bandanna.core import search

_INTERVAL = 1e-4
_LEAST = 1e-5  # eps0 of reports so noisy that their tail would allow 0, which has no mixture


def composed_delta(counts: Counter[events.Event], epsilon: float, tail: float) -> float:
    """delta at `epsilon` of all events together, spending about `tail` of total-variation mass."""
    rounded = 10.0 ** math.floor(math.log10(tail))  # neighbouring epsilons share one composition
    total, spent = _compose(tuple(counts.items()), rounded)
    if total is None:
        return 1.0
    return min(1.0, float(total.get_delta_for_epsilon(epsilon)) + spent * (1 + math.exp(min(epsilon, 700.0))))


@lru_cache(maxsize=64)
def _compose(counts: tuple[tuple[events.Event, int], ...], tail: float) -> tuple[Any, float]:
    """The composed loss distribution (None where it is infinite) and the total-variation mass beyond it."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    share = tail / sum(times for _, times in counts)
    gaussian = Price(mu=0.0)
    parts, spent = list[Any](), 0.0
    for event, times in counts:
        if isinstance(event, events.LaplaceEvent | events.DiscreteLaplaceEvent | events.CapEvent):
            parts.append(_pure(event, times))
        elif isinstance(event, events.ShuffledGaussianEvent):
            distribution, mass = _shuffled(event, share)
            parts.append(_repeated(distribution, times))
            spent += times * mass
        else:
            gaussian = gaussian + gaussian_price(event, share).repeated(times)
    if math.isinf(gaussian.mu):
        return None, 1.0
    if gaussian.mu > 0:
        parts.append(_gaussian(gaussian.mu))
    total = reduce(lambda one, other: one.compose(other), parts) if parts else pld.identity(_INTERVAL)
    return total, spent + gaussian.tail


def _repeated(distribution: Any, times: int) -> Any:
    """So many of them; of one there is nothing to convolve."""
    return distribution if times == 1 else distribution.self_compose(times)


@lru_cache(maxsize=16)  # for several tails the same
def _gaussian(mu: float) -> Any:
    from dp_accounting.pld import privacy_loss_distribution as pld

    return pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=_INTERVAL)


@lru_cache(maxsize=16)
def _pure(event: events.LaplaceEvent | events.DiscreteLaplaceEvent | events.CapEvent, times: int) -> Any:
    """So many of them: for several tails the same."""
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    if isinstance(event, events.LaplaceEvent) and event.dim == 1 and event.grid == 0.0:
        one = pld.from_laplace_mechanism(
            event.scale, sensitivity=event.sensitivity, value_discretization_interval=_INTERVAL
        )
        return _repeated(one, times)
    pure = common.DifferentialPrivacyParameters(pure_price(event), 0.0)
    return _repeated(pld.from_privacy_parameters(pure, value_discretization_interval=_INTERVAL), times)


def _shuffled(event: events.ShuffledGaussianEvent, tail: float) -> tuple[Any, float]:
    """A report among mixtures at the least eps0 that leaves `tail` beyond it, and the total-variation mass beyond."""
    mu = event.sensitivity / event.std

    def left(local: float) -> float:
        return (event.users - 1) * math.exp(-local) * float(gdp.delta(local, mu))  # B.1

    most = max(gdp.epsilon(tail / event.users, mu), _LEAST)
    local = search.least(lambda local: left(local) <= tail, most / 1000, most, relative=1e-6)
    distribution = amplification.blanket_pld(users=event.users, local_epsilon=local, mu=mu, discretization=_INTERVAL)
    return distribution, left(local) + amplification.REPORT_TAILS * event.users * event.tail
