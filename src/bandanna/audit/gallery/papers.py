"""The published noise of papers 000 and 003, drawn as it was published, at the (epsilon, delta) that it was given.

Paper 000: a report of features (u, 1) and a reward, whose matrix has symmetrised noise, so that it is seen in the
Frobenius norm; u' = -u with both rewards 1 are sqrt 12 apart (`reproductions/shuffle_linucb`). Reports are drawn whole.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from bandanna.accounting.budgets import ZCDP
from bandanna.audit.claims import Claim
from bandanna.audit.targets import Target
from bandanna.core import search
from bandanna.core.arrays import Floats
from bandanna.core.report import LinearReport
from bandanna.environments.glm import PublishedGLM
from bandanna.glm.links import Link, link_of

DIM, HORIZON, BATCH, DELTA = 5, 20_000, 20, 0.1  # of paper 000's figures


@dataclass(frozen=True, kw_only=True)
class PublishedNoise:
    """The noise of an algorithm of paper 000 at one nominal budget, and the claim that was made for it."""

    algorithm: str
    epsilon: float

    @property
    def std(self) -> float:
        """Standard deviation per entry and draw."""
        return published_std(self.algorithm, self.epsilon, DELTA, horizon=HORIZON, batch=BATCH)

    @property
    def claim(self) -> Claim:
        """The nominal budget."""
        return Claim(epsilon=self.epsilon, delta=DELTA)


def published_std(algorithm: str, epsilon: float, delta: float, *, horizon: int, batch: int) -> float:
    """Return sigma per entry and draw of LinUCB-LDP, -JDP or -SDP-Amp, as in the public code of paper 000's authors."""
    if algorithm == "LinUCB-LDP":
        return math.sqrt(math.log(2.5 / delta)) / epsilon
    if algorithm == "LinUCB-JDP":
        return math.sqrt(math.log(horizon)) * math.log(2.5 / delta) / epsilon
    return math.sqrt(math.log(2.5 * batch / delta)) / (epsilon * math.sqrt(batch))


def calls_as_run(
    *,
    epsilon: float,
    delta: float,
    dim: int,
    horizon: int,
    parameter_bound: float,
    kappa: float,
    link: Link,
    failure: float,
) -> tuple[int, int, float]:
    """M1, M2 and lambda as run."""
    r, log = link.reward_bound, math.log(4 * horizon / failure)
    spread = math.log(4 / delta) * log**2 * link.slope_bound / epsilon
    regulariser = 2 * spread + 0.75 * dim * log / r**2
    low, high = regulariser - 1.5 * spread, regulariser + 1.5 * spread
    gamma = r * parameter_bound * math.sqrt(dim * math.log(horizon / failure))
    first = dim * r**2 * kappa * gamma**2 * math.log(horizon) / 20_000
    second = 3 * math.log2(high / low + horizon * link.slope_bound**2 / (low * dim))
    return max(1, math.floor(first)), max(1, math.floor(second)), regulariser


def call_rho(epsilon: float, delta: float, calls: int) -> float:
    """The rho that one call was calibrated to, of `calls` that share (epsilon, delta)."""
    if calls <= 10:
        share, tail = epsilon / calls, delta / calls
    else:
        root, tail = math.sqrt(2 * calls * math.log(2 / delta)), delta / (2 * calls)
        share = search.greatest(lambda e: root * e + calls * e * math.expm1(e) <= epsilon, 1e-9, epsilon)
    return search.greatest(lambda rho: ZCDP(rho=rho).to_approx(tail).epsilon <= share, 1e-12, 50.0, relative=1e-6)


def _reports() -> Floats:
    """Two reports that are sqrt 12 apart, stacked isometrically, (2, d + d(d+1)/2)."""
    x = np.zeros((2, DIM))
    x[:, 0], x[:, -1] = (1.0, -1.0), 1.0
    return LinearReport(features=DIM).pack(x, np.ones(2))


def printed_local(epsilon: float) -> Target:
    """LinUCB-LDP: noise of sqrt(ln(2.5/delta))/epsilon on a report that a neighbour moves by sqrt 12."""
    noise = PublishedNoise(algorithm="LinUCB-LDP", epsilon=epsilon)
    reports = _reports()
    move = reports[0] - reports[1]

    def draw(swapped: bool, runs: int, rng: np.random.Generator) -> Floats:
        report = reports[int(swapped)] + rng.normal(0.0, noise.std, (runs, len(move)))
        return np.asarray(report @ move[:, None])

    return Target(name="", claim=noise.claim, draw=draw)


def reused_tree(epsilon: float) -> Target:
    """LinUCB-JDP: two releases in a row carry the same draws, so that their difference is a report without noise."""
    noise = PublishedNoise(algorithm="LinUCB-JDP", epsilon=epsilon)
    reports = _reports()
    move = reports[0] - reports[1]

    def draw(swapped: bool, runs: int, rng: np.random.Generator) -> Floats:
        before = rng.normal(0.0, noise.std, (runs, len(move)))  # everybody else's reports are known
        after = before + reports[int(swapped)]
        return np.stack([before @ move, after @ move], axis=-1)

    return Target(name="", claim=noise.claim, draw=draw)


def amplified(epsilon: float) -> Target:
    """LinUCB-SDP-Amp: 20 shuffled reports, one of which may be another; seen by the likelihood that some one is."""
    noise = PublishedNoise(algorithm="LinUCB-SDP-Amp", epsilon=epsilon)
    reports = _reports()
    length = float(np.linalg.norm(reports[0] - reports[1]))

    def draw(swapped: bool, runs: int, rng: np.random.Generator) -> Floats:
        # along the line through both reports, which is all that tells them apart
        along = rng.normal(0.0, noise.std, (runs, BATCH))
        along[:, 0] += 0.0 if swapped else length
        return np.asarray(special.logsumexp(along * length / noise.std**2, axis=-1))[:, None]

    return Target(name="", claim=noise.claim, draw=draw)


def optimiser() -> Target:
    """Paper 003's first fit: its noise is accounted for half of what a replaced user moves the gradients by.

    At nominal epsilon 8 the fit's share is (epsilon/3, delta/3), over the calls as run. All of its steps are Gaussian,
    together a Gaussian pair of separation 2 sqrt(2 rho) for the rho that was accounted (`reproductions/private_glm`).
    """
    nominal, delta, horizon, norm, link = 8.0, 0.02, 5000, 2.0, "probit"  # Table 2, S = 2
    calls, _, _ = calls_as_run(
        epsilon=nominal,
        delta=delta,
        dim=3,
        horizon=horizon,
        parameter_bound=norm,
        kappa=PublishedGLM(dim=3, n_arms=20, link=link, norm=norm, rounds=horizon).kappa,
        link=link_of(link),
        failure=0.02,
    )
    share, tail = nominal / 3, delta / 3
    separation = 2 * math.sqrt(2 * calls * call_rho(share, tail, calls))

    def draw(swapped: bool, runs: int, rng: np.random.Generator) -> Floats:
        return rng.normal(0.0 if swapped else separation, 1.0, (runs, 1))

    return Target(name="", claim=Claim(epsilon=share, delta=tail), draw=draw, mu=separation)
