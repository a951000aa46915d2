"""Exact privacy of reports with a constant and of reports of one arm among several, shuffled: enumerated, end to end.

The law of a batch's totals is read off the code (see `test_exact_privacy`), coordinate by coordinate. Losses of the
independent coordinates are added on a grid, once rounded up and once down: a bound on the true divergence from above
for what is promised, and from below for noise whose standard deviation is 20 % smaller.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import signal

from bandanna.device.linear_report import InterceptReport, PerArmReport, RegressionReport
from bandanna.privacy.budgets import ApproxDP
from bandanna.protocols.gaussian import CentralGaussian
from bandanna.protocols.shuffle_binomial import ShuffleBinomial

from .test_exact_privacy import Array, Pair, view, weaker

STEP = 2e-4  # of the losses' grid


def losses(pair: Pair, up: bool) -> tuple[int, Array]:
    """The least loss on the grid, in steps, and the masses from there on, of p's point; q = 0 counts as 60."""
    p, q = pair
    kept = p > 0
    with np.errstate(divide="ignore"):
        loss = np.minimum(np.log(p[kept]) - np.log(q[kept]), 60.0) / STEP
    grid = (np.ceil(loss) if up else np.floor(loss)).astype(np.int64)
    least = int(grid.min())
    return least, np.bincount(grid - least, weights=p[kept])


def divergence(pairs: list[Pair], epsilon: float, *, up: bool) -> float:
    """sum (1 - e^{epsilon - loss})+ p(loss): from above, or from below."""
    first, *others = (losses(pair, up) for pair in pairs)
    least, mass = first
    for more, other in others:
        least, mass = least + more, np.maximum(signal.fftconvolve(mass, other), 0.0)
    loss = STEP * (least + np.arange(len(mass)))
    return float(np.sum(mass * np.maximum(-np.expm1(epsilon - loss), 0.0)))


def worst(protocol: ShuffleBinomial, epsilon: float, reports: Array, *, up: bool) -> float:
    """Of any two users beside a third, whose report is nothing."""
    nothing = np.broadcast_to(protocol.domain.nothing.values[0], reports.shape)
    laws = view(protocol, np.stack([reports, nothing], axis=1))
    found: dict[tuple[bytes, ...], float] = {}  # what differs in the order or the sign of coordinates alone, once
    for i, j in itertools.permutations(range(len(reports)), 2):
        pairs = [(law[i], law[j]) for law in laws if not np.array_equal(law[i], law[j])]
        which = tuple(sorted(p.tobytes() + q.tobytes() for p, q in pairs))
        if which not in found:
            found[which] = divergence(pairs, epsilon, up=up)
    return max(found.values())


def corners(domain: RegressionReport) -> Array:
    """Reports of people: rewards and features at both ends, every arm."""
    z, y = np.meshgrid([-1.0, 1.0], [-0.5, 0.5])
    z, y = z.reshape(-1, 1), y.ravel()
    if isinstance(domain, PerArmReport):
        arms = np.arange(len(z)) % domain.n_arms
        both = [domain.statistic(z, y, arms=(arms + shift) % domain.n_arms).values for shift in range(domain.n_arms)]
        return np.concatenate(both)
    return np.asarray(domain.statistic(np.hstack([z, np.ones_like(z)]), y).values)


DOMAINS: list[Any] = [InterceptReport(features=2), PerArmReport(features=1, n_arms=2)]


CASES = [(domain, *budget) for budget in ((1.0, 1e-2), (3.0, 1e-3)) for domain in DOMAINS]


@pytest.mark.parametrize(("domain", "epsilon", "delta"), CASES)
@pytest.mark.often(of=lambda domain, epsilon: epsilon == 1.0 or domain is DOMAINS[0])
def test_a_batch_is_as_private_as_promised(domain: RegressionReport, epsilon: float, delta: float) -> None:
    protocol = ShuffleBinomial.calibrate(domain=domain, budget=ApproxDP(epsilon=epsilon, delta=delta), batch=2)
    stated, reports = protocol.guarantee, corners(domain)
    assert stated.epsilon <= epsilon
    assert worst(protocol, stated.epsilon, reports, up=True) <= delta
    assert worst(weaker(protocol), epsilon, reports, up=False) > delta


@pytest.mark.parametrize(
    "domain",
    [InterceptReport(features=d) for d in (2, 3, 6)] + [PerArmReport(features=p, n_arms=3) for p in (1, 2, 5)],
    ids=repr,
)
def test_no_two_reports_are_further_apart(domain: RegressionReport) -> None:
    rng, slopes = np.random.default_rng(0), domain.features - isinstance(domain, InterceptReport)
    pairs: list[tuple[Array, Array, float, float, list[int]]] = []
    for inner in (*np.linspace(-1, 1, 73), 5 / 18):  # <z, z'>
        for short in (1.0, 0.7):
            one, two = np.zeros((2, slopes))
            one[0] = 1.0
            two[0] = inner if slopes > 1 else math.copysign(1.0, inner)
            two[1:2] = math.sqrt(max(0.0, 1 - inner**2))
            for y, other in itertools.product([-0.5, 0.5], repeat=2):
                pairs += [(one, short * two, y, other, arms) for arms in ([0, 0], [0, 1])]
    for _ in range(2000):
        z = rng.normal(size=(2, slopes))
        y, other = rng.uniform(-0.5, 0.5, 2)
        pairs.append((*z / np.linalg.norm(z, axis=1, keepdims=True), y, other, [0, 0]))
    largest = float(np.max(apart(domain, pairs)))
    assert largest <= domain.sensitivity * (1 + 1e-12)
    reached = domain.sensitivity if slopes > 1 else 0.9 * domain.sensitivity  # on a line <z, z'> is 1 or -1
    assert largest >= reached * (1 - 1e-4)
    noise = CentralGaussian.calibrate(domain=domain, budget=ApproxDP(epsilon=1.0, delta=1e-5)).noise_std
    mu = largest / noise  # of the pair, exactly; of 20 % less noise it would be 1.25 times that
    assert mu <= ApproxDP(epsilon=1.0, delta=1e-5).mu() < 1.25 * mu


def apart(domain: RegressionReport, pairs: list[tuple[Array, Array, float, float, list[int]]]) -> Array:
    """The distances of pairs of reports."""
    x = np.concatenate([np.stack(pair[:2]) for pair in pairs])  # two rows for each
    if isinstance(domain, InterceptReport):
        x = np.hstack([x, np.ones((len(x), 1))])
    y, arms = (np.concatenate(each) for each in ([pair[2:4] for pair in pairs], [pair[4] for pair in pairs]))
    reports = domain.statistic(x, y, arms=arms).values
    return np.asarray(np.linalg.norm(reports[::2] - reports[1::2], axis=1))
