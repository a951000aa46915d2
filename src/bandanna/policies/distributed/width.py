"""How wrong the estimated value of an action can be after a phase, from the design and the noise that were really used.

The estimate of action b is sum_x c_bx m_x, m_x the mean report on the played action x and c = gain of least squares.
Its error has three independent parts: rewards, who the clients are, and noise,

    v_b = tau^2/U sum_x c_bx^2/T(x) + sigma^2 |b|^2/U + s^2 sum_x c_bx^2,      W = max_b sqrt(2 v_b log(1/beta)),

a sub-Gaussian sum, since sum_x c_bx x = b. Laplace noise of scale l is not sub-Gaussian; by Chernoff's bound

    W = max_b min_t (log(1/beta) + t^2 v_b/2 + n_b f(t a_b)) / t,   f(y) = -log(1 - y^2),

with a_b = l max_x |c_bx| and n_b = l^2 sum_x c_bx^2 / a_b^2 (f is convex in y^2: equal terms are the worst case).
The estimate from a random direction u is (r/m) u. Its noise along c_b depends on the report: `std` is the mean over all
directions, and only `std_along` bounds it for every report. With a = (r/m) |c_b|, Y = (r/m) <u, c_b> <= a and
E Y^2 <= (std_along |c_b|)^2, so log E exp(t (Y - E Y)) <= E Y^2 (exp(t a) - 1 - t a) / a^2 (Bennett), and

    W = max_b min_t (log(1/beta) + t^2 v_b/2 + n (exp(t a_b) - 1 - t a_b)) / t,

a_b = a/U, n = U (std_along m/r)^2. For many clients this is sqrt(2 (v_b + std_along^2 |c_b|^2/U) log(1/beta)); for few
it is wider, because directions of few clients are not Gaussian: the left tail of <u, c> can be heavier.
As printed, for d features and phase parameter h: W = (sqrt(2 d tau^2/(U h)) + sigma/sqrt U + 2 s sqrt(S d)) sqrt(2
log(1/beta)), S = 4 d log log d + 16.

Symbols: U `clients`, T `plays`, tau `noise`, s std of the noise on a mean, beta `failure`, t multiplier, r radius of
the reports' ball, m `lean` of a direction.
Reference: Li, Zhou and Ji 2024 [001], (3) and Theorem 5.2. Deviation: three variances instead of three widths.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bandanna.core.arrays import Floats
from bandanna.protocols.base import BatchProtocol
from bandanna.protocols.local_unit import LocalUnit


@dataclass(frozen=True, kw_only=True)
class Uncertainty:
    """What a phase knows of its errors; K active actions, s of them played."""

    gain: Floats  # (K, s): c
    plays: NDArray[np.int64]  # (s,)
    lengths: Floats  # (K,): |b|
    played: Floats  # (s,): |x|
    clients: int
    sigma: float
    noise: float

    def averaged(self) -> Floats:
        """v_b without privacy, (K,): every client plays all actions and reports averages."""
        rewards = self.noise**2 * np.sum(self.gain**2 / self.plays, axis=1)
        return np.asarray((rewards + self.sigma**2 * self.lengths**2) / self.clients)

    def one_by_one(self) -> Floats:
        """v_b where every round has a client of its own: client and reward are one noise."""
        return np.asarray(np.sum(self.gain**2 / self.plays * (self.noise**2 + self.sigma**2 * self.played**2), axis=1))


def exact_width(known: Uncertainty, protocol: BatchProtocol, log: float) -> float:
    """W from the noise of the protocol; `log` is log(1/beta)."""
    variances = known.averaged()
    squares = np.sum(known.gain**2, axis=1)
    if protocol.laplace:
        scale = math.prod(protocol.laplace) / known.clients
        peaks = scale * np.maximum(np.max(np.abs(known.gain), axis=1), 1e-100)  # the action 0 has no error at all
        return _laplace_width(variances, peaks, scale**2 * squares / peaks**2, log)
    if isinstance(protocol, LocalUnit):
        peaks = protocol.length * np.maximum(np.sqrt(squares), 1e-100) / known.clients  # a_b
        terms = known.clients * (protocol.std_along(1) / protocol.length) ** 2
        return _direction_width(variances, peaks, terms, log)
    std = protocol.std(known.clients) / known.clients
    return math.sqrt(2 * float(np.max(variances + std**2 * squares)) * log)


def _laplace_width(variances: Floats, peaks: Floats, terms: Floats, log: float) -> float:
    """Chernoff's bound on a grid of multipliers t: each of them gives a valid width."""
    shares = np.linspace(0.02, 0.98, 49)  # t a_b
    t = shares / peaks[:, None]  # (K, 49)
    widths = (log + t**2 * variances[:, None] / 2 - terms[:, None] * np.log1p(-(shares**2))) / t
    return float(np.max(widths.min(axis=1)))


def _direction_width(variances: Floats, peaks: Floats, terms: float, log: float) -> float:
    """Bennett's bound on a grid of multipliers t: each gives a valid width; the best has y = t a_b <= `most`."""
    most = np.sqrt(2 * log / (terms + variances / peaks**2))  # (K,): the best y if exp(y) were 1 + y + y^2/2
    y = most[:, None] * np.geomspace(0.01, 1.0, 129)  # (K, 129)
    t = y / peaks[:, None]
    widths = (log + t**2 * variances[:, None] / 2 + terms * (np.expm1(y) - y)) / t
    return float(np.max(widths.min(axis=1)))


def printed_support(dim: int) -> float:
    """S = 4 d log log d + 16, as printed: not rounded, and below 16 for d = 2."""
    return 4 * dim * math.log(math.log(dim)) + 16


def printed_width(known: Uncertainty, protocol: BatchProtocol, log: float, *, dim: int, scale: float) -> float:
    """W as printed; `scale` is h."""
    std = protocol.std(known.clients) / known.clients
    private = 2 * std * math.sqrt(printed_support(dim) * dim) if std else 0.0  # [001, Thm 5.2]
    rewards = known.noise * math.sqrt(2 * dim / (known.clients * scale))
    return (rewards + known.sigma / math.sqrt(known.clients) + private) * math.sqrt(2 * log)  # [001, (3)]
