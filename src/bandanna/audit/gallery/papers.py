"""The published noise of papers 000 and 003, drawn as it was published, at the (epsilon, delta) that it was given.

Paper 000: a report of features (u, 1) and a reward, whose matrix has symmetrised noise, so that it is seen in the
Frobenius norm; u' = -u with both rewards 1 are sqrt 12 apart (`papers.p000.privacy`). Reports are drawn whole.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from bandanna.audit.claims import Claim
from bandanna.audit.targets import Target
from bandanna.core.arrays import Floats
from bandanna.core.report import LinearReport
from bandanna.glm.links import link_of
from bandanna.papers.p000.settings import Setting
from bandanna.papers.p003.privacy import call_rho, calls_as_run
from bandanna.papers.p003.settings import DELTA, FAILURE, TABLE2


def _reports(setting: Setting) -> Floats:
    """Two reports that are sqrt 12 apart, stacked isometrically, (2, d + d(d+1)/2)."""
    x = np.zeros((2, setting.dim))
    x[:, 0], x[:, -1] = (1.0, -1.0), 1.0
    return LinearReport(features=setting.dim).pack(x, np.ones(2))


def _claim(setting: Setting) -> Claim:
    return Claim(epsilon=setting.epsilon, delta=setting.delta)


def printed_local(epsilon: float) -> Target:
    """LinUCB-LDP: noise of sqrt(ln(2.5/delta))/epsilon on a report that a neighbour moves by sqrt 12."""
    setting = Setting(algorithm="LinUCB-LDP", epsilon=epsilon)
    reports = _reports(setting)
    move = reports[0] - reports[1]

    def draw(swapped: bool, runs: int, rng: np.random.Generator) -> Floats:
        report = reports[int(swapped)] + rng.normal(0.0, setting.std, (runs, len(move)))
        return np.asarray(report @ move[:, None])

    return Target(name="", claim=_claim(setting), draw=draw)


def reused_tree(epsilon: float) -> Target:
    """LinUCB-JDP: two releases in a row carry the same draws, so that their difference is a report without noise."""
    setting = Setting(algorithm="LinUCB-JDP", epsilon=epsilon)
    reports = _reports(setting)
    move = reports[0] - reports[1]

    def draw(swapped: bool, runs: int, rng: np.random.Generator) -> Floats:
        before = rng.normal(0.0, setting.std, (runs, len(move)))  # everybody else's reports are known
        after = before + reports[int(swapped)]
        return np.stack([before @ move, after @ move], axis=-1)

    return Target(name="", claim=_claim(setting), draw=draw)


def amplified(epsilon: float) -> Target:
    """LinUCB-SDP-Amp: 20 shuffled reports, one of which may be another; seen by the likelihood that some one is."""
    setting = Setting(algorithm="LinUCB-SDP-Amp", epsilon=epsilon)
    reports = _reports(setting)
    length = float(np.linalg.norm(reports[0] - reports[1]))

    def draw(swapped: bool, runs: int, rng: np.random.Generator) -> Floats:
        # along the line through both reports, which is all that tells them apart
        along = rng.normal(0.0, setting.std, (runs, setting.batch))
        along[:, 0] += 0.0 if swapped else length
        return np.asarray(special.logsumexp(along * length / setting.std**2, axis=-1))[:, None]

    return Target(name="", claim=_claim(setting), draw=draw)


def optimiser() -> Target:
    """Paper 003's first fit: its noise is accounted for half of what a replaced user moves the gradients by.

    At nominal epsilon 8 the fit's share is (epsilon/3, delta/3), over the calls as run. All of its steps are Gaussian,
    together a Gaussian pair of separation 2 sqrt(2 rho) for the rho that was accounted (`papers.p003.privacy`, K2).
    """
    panel, nominal = TABLE2[0], 8.0
    calls, _, _ = calls_as_run(
        epsilon=nominal,
        delta=DELTA,
        dim=panel.dim,
        horizon=panel.horizon,
        parameter_bound=panel.norm,
        kappa=panel.environment(panel.horizon).kappa,
        link=link_of(panel.link),
        failure=FAILURE,
    )
    epsilon, delta = nominal / 3, DELTA / 3
    separation = 2 * math.sqrt(2 * calls * call_rho(epsilon, delta, calls))

    def draw(swapped: bool, runs: int, rng: np.random.Generator) -> Floats:
        return rng.normal(0.0 if swapped else separation, 1.0, (runs, 1))

    return Target(name="", claim=Claim(epsilon=epsilon, delta=delta), draw=draw, mu=separation)
