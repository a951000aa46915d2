"""What the noise of paper 000's published simulations really promises, beside the (epsilon, delta) it was given.

The data of one user are the features x = (u, 1), |u| <= 1, of the chosen arm and a reward y in [0, 1]; a neighbour
replaces them by x' = (u', 1) and y'. Everything is about one release, which holds a user's only participation.

Symmetrised Gaussian noise (LDP, Amp). (N + N^T)/2 has std sigma on the diagonal and sigma/sqrt 2 beside it, so in units
of sigma the matrix is seen in the Frobenius norm, and the squared distance of two reports is

    |x y - x' y'|^2 + |x x^T - x' x'^T|_F^2,

convex in (y, y'), so largest at corners. With r = |u|, s = |u'| and z = <u, u'> it is, at y = y' = 1,
r^2 + s^2 - 2 z + (1 + r^2)^2 + (1 + s^2)^2 - 2 (1 + z)^2, which falls in z >= -r s, where it is 3 (r + s)^2 +
(r^2 - s^2)^2 <= 12, reached for u' = -u with |u| = 1; at y' = 0 it is at most 2 + 8. So Delta_2 = sqrt 12.

Upper triangle (Vec). Only one of two equal entries is sent, with the same noise as the others: the distance is at most
2 |u - u'|^2 + |u u^T - u' u'^T|_F^2 at y = y' = 1, and by the same argument at most 8, reached for u' = -u; at y' = 0
it is below 7. So Delta_2 = sqrt 8.

    LinUCB-LDP      exact: sqrt(12)/sigma in Gaussian DP, of a user's own report.
    LinUCB-JDP      none: two releases in a row carry the same draws, so their difference is the raw report, except at
                    the few rounds at which a new draw joins (and there the noise is that of one draw).
    LinUCB-SDP-Amp  lower bound: shuffled reports, one of x' among those of x, or all of x; see `shuffled_delta`. A
                    user's vector and matrix are shuffled as one report. Shuffled apart, the matrices alone (Delta_2 =
                    sqrt 8) still give 0.047 / 0.936 / 1.00 at epsilon 0.2 / 1 / 10 instead of 0.085 / 0.988 / 1.00.
    LinUCB-SDP-Vec  upper bound: Theorem A for Bin(B floor(b), 1/4) in steps of L/g, random rounding included; where it
                    proves no epsilon at the nominal delta (epsilon = 10), the lower bound of `binomial_delta` instead.
                    None at all where b < 1, at large epsilon: no bit is added. (The bias is no matter of privacy.)

References: Balle and Wang 2018 (Gaussian noise); Chowdhury and Zhou 2022 [000], section 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import fft, special

from bandanna import validation
from bandanna.numeric import search
from bandanna.privacy import accountant, gdp
from bandanna.privacy.events import BinomialEvent
from bandanna.privacy.prices import binomial_law
from bandanna.types import Floats
from reproductions.shuffle_linucb.published import LENGTH, Setting

SYMMETRISED = math.sqrt(12)  # Delta_2 of a report under symmetrised noise
TRIANGLE = math.sqrt(8)  # Delta_2 of a report whose matrix is sent as its upper triangle
_MOST = 12.0  # epsilon up to which sums of likelihood ratios are looked at; beyond, the closed form
_LEAST = 1e-6  # an epsilon below this is reported as 0
_CELLS = 80_000  # values of the sum of likelihood ratios
_SLACK = 1e-12  # rounding errors of probabilities computed by Fourier transforms (measured below 1e-14)


@dataclass(frozen=True, kw_only=True)
class TruePrivacy:
    """epsilon at the nominal delta and delta at the nominal epsilon; the truth is equal, below or above as `kind` says.

    kind   "exact"; "upper": the truth is at most this; "lower": at least this; "none": nothing is protected
    """

    epsilon: float
    delta: float
    kind: str


def true_privacy(setting: Setting) -> TruePrivacy | None:
    """What the noise of a published setting promises to one user; None for LinUCB, which promises nothing."""
    epsilon, delta = setting.epsilon, setting.delta
    if setting.algorithm == "LinUCB":
        return None
    if setting.algorithm == "LinUCB-JDP" or (setting.algorithm == "LinUCB-SDP-Vec" and setting.bits < 1):
        return TruePrivacy(epsilon=math.inf, delta=1.0, kind="none")
    if setting.algorithm == "LinUCB-SDP-Vec":
        event = binomial_event(setting)
        proven = accountant.epsilon(event, delta)
        if math.isfinite(proven):
            return TruePrivacy(epsilon=proven, delta=accountant.delta(event, epsilon), kind="upper")
        return TruePrivacy(
            epsilon=_greatest(lambda e: binomial_delta(setting, e) > delta, 600.0),
            delta=binomial_delta(setting, epsilon),
            kind="lower",
        )
    mu = SYMMETRISED / setting.std
    if setting.algorithm == "LinUCB-LDP":
        return TruePrivacy(epsilon=gdp.epsilon(delta, mu), delta=float(gdp.delta(epsilon, mu)), kind="exact")
    return TruePrivacy(
        epsilon=shuffled_epsilon(mu, setting.batch, delta),
        delta=shuffled_delta(mu, setting.batch, epsilon),
        kind="lower",
    )


def binomial_event(setting: Setting) -> BinomialEvent:
    """Vec's totals of one batch, in steps of L/g: the truncated number of bits is what was added."""
    scale = setting.steps / LENGTH
    return BinomialEvent(
        trials=setting.batch * math.floor(setting.bits),
        shift=scale * TRIANGLE,
        reach=math.ceil(2 * scale),
        dim=setting.dim + setting.dim * (setting.dim + 1) // 2,
        probability=0.25,
        rounded=True,
    )


def binomial_delta(setting: Setting, epsilon: float) -> float:
    """Vec's exact delta for one pair of neighbours, so a delta that it certainly does not go below at `epsilon`.

    x = (e_1, 1) against x' = (-e_1, 1), both with reward 1: two entries, x_1 y and x_1 x_d, go from 1 to -1, the rest
    stays; the other users' entries are lattice points there, so that only the person's own rounding is random.
    """
    one, other = (_count_law(setting, value) for value in (1.0, -1.0))
    return max(_twice(one, other, epsilon), _twice(other, one, epsilon))


def _count_law(setting: Setting, value: float) -> Floats:
    """Law of floor((value + L) g/L + U) + Bin(B floor(b), 1/4) on 0, 1, 2, ..."""
    exact, trials = (value + LENGTH) * setting.steps / LENGTH, setting.batch * math.floor(setting.bits)
    noise = np.exp(binomial_law(trials, 0.25).log_mass(np.arange(trials + 1.0)))
    low = math.floor(exact)
    law = np.zeros(trials + math.ceil(2 * setting.steps) + 3)
    law[low : low + trials + 1] += (1 - (exact - low)) * noise
    law[low + 1 : low + trials + 2] += (exact - low) * noise
    return law


def _twice(p: Floats, q: Floats, epsilon: float) -> float:
    """Hockey-stick divergence of p x p from q x q: sum_i p_i HS_{epsilon - l_i}(p, q), l = log p/q."""
    seen = p > 0
    p, q = p[seen], q[seen]
    with np.errstate(divide="ignore"):
        loss = np.log(p) - np.log(q)
    order = np.argsort(loss)
    tails = np.array([np.append(np.cumsum(law[order][::-1])[::-1], 0.0) for law in (p, q)])  # sums over larger losses
    left = np.clip(epsilon - loss, -700.0, 700.0)  # what is left of epsilon for the second entry
    above = np.searchsorted(loss[order], left, side="right")
    return float(p @ np.maximum(tails[0][above] - np.exp(left) * tails[1][above], 0.0))


def shuffled_delta(mu: float, users: int, epsilon: float) -> float:
    """A delta that `users` shuffled reports N(x_i, 1), |x - x'| = mu, certainly do not go below at `epsilon`.

    The pair is P: one report around mu and n - 1 around 0, Q: all n around 0 (on the line through x and x'). The
    largest of three bounds, each the exact or a smaller value of a test or of a function of the reports:

    * some report is above tau: delta >= Phi(mu - tau) - e^epsilon n Phi(-tau), for every tau;
    * their sum, N(mu, n) against N(0, n): delta >= delta_G(epsilon; mu / sqrt n);
    * the likelihood ratio (1/n) sum_i L_i, L = e^{mu y - mu^2/2}, each L_i cut off and rounded down to a grid.
    """
    epsilon = validation.non_negative("epsilon", epsilon)
    taus = _cuts(mu)
    with np.errstate(over="ignore"):
        some = special.ndtr(mu - taus) - np.exp(epsilon + math.log(users) + special.log_ndtr(-taus))
    bounds = [0.0, float(np.max(some)), float(gdp.delta(epsilon, mu / math.sqrt(users)))]
    if epsilon <= _MOST:
        bounds.append(_likelihood_delta(mu, users, epsilon))
    return max(bounds)


def shuffled_epsilon(mu: float, users: int, delta: float) -> float:
    """An epsilon that the same reports certainly do not go below at `delta`, from the same bounds."""
    delta = validation.delta(delta)
    taus = _cuts(mu)
    gain = special.ndtr(mu - taus) - delta
    with np.errstate(divide="ignore", invalid="ignore"):
        some = np.where(gain > 0, np.log(gain), -np.inf) - math.log(users) - special.log_ndtr(-taus)
    known = max(0.0, float(np.max(some)))  # at epsilon just below this, the first test has more than delta
    if known >= _MOST:
        return known
    return max(known, _greatest(lambda e: shuffled_delta(mu, users, e) > delta, _MOST))


def _greatest(exceeds: Callable[[float], bool], most: float) -> float:
    """Largest epsilon up to `most` at which delta is exceeded, 0 where it is not; epsilon must be at least that."""
    if not exceeds(_LEAST):
        return 0.0
    return most if exceeds(most) else search.find_greatest(exceeds, _LEAST, most, relative=1e-6)


def _cuts(mu: float) -> Floats:
    """Thresholds tau between the two means and beyond."""
    return np.linspace(0.0, mu + 10.0, 20_001)


def _likelihood_delta(mu: float, users: int, epsilon: float) -> float:
    """Tests {S >= s} and {S < s} on S = sum_i floor(min(L_i, cap) / h), cap = n e^epsilon: any more decides alone."""
    cells = max(256, _CELLS // users)
    levels = users * math.exp(epsilon) * np.arange(1, cells + 1) / cells  # h, 2h, ..., cap
    edges = np.concatenate([[-np.inf], np.log(levels) / mu + mu / 2, [np.inf]])  # L(y) = level
    zero, moved = np.diff(special.ndtr(edges)), np.diff(special.ndtr(edges - mu))  # (cells + 1,)
    size = fft.next_fast_len(users * cells + 1, real=True)
    spectrum = fft.rfft(zero, size)
    others = spectrum ** (users - 1)
    below_q = np.cumsum(fft.irfft(others * spectrum, size))
    below_p = np.cumsum(fft.irfft(others * fft.rfft(moved, size), size))
    ratio = math.exp(epsilon)
    above = (1 - below_p) - ratio * (1 - below_q)
    under = below_q - ratio * below_p
    return float(max(np.max(above), np.max(under))) - (1 + ratio) * _SLACK
