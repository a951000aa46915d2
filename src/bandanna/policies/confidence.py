"""Confidence of the private linear estimate: how large noise can get, the regulariser against it, and the radius.

With N_m and h_m the noise of the running Gram matrix and vector after batch m, H = lambda I + N_m,

    Sigma >= |N_m| for all m,  lambda = max(ridge, 2 Sigma),  lambda_min = lambda - Sigma,  lambda_max = lambda + Sigma,
    nu >= |h_m| / sqrt(lambda_min),
    beta_m = s sqrt(2 log(3/a) + d log(1 + t_m / (d lambda_min))) + S sqrt(lambda_max) + nu        [000, Lemma A.2]

except with probability a (`failure`), a third each for rewards, matrix and vector. The noise law is known, so its
quantiles are computed, not bounded by constants: an isotropic symmetric matrix whose packed coordinates have standard
deviation 1 has sup_x x^T N x with variance 1 in every direction, so |N|, the supremum over x and both signs, exceeds
its mean by more than sqrt(2 log(1/p)) with probability at most p (Borell-TIS), and |h| is chi-distributed. For sums
of independent symmetric batches, Levy's inequality P(max_m |N_m| > x) <= 2 P(|N_M| > x) lets one quantile serve all
m; continual releases take a union over m.

As printed (`PaperConfidence`), with sigma the noise's largest standard deviation and two constants left open,

    Sigma = c1 sigma (sqrt d + sqrt(log(M/a))),  nu = c2 sqrt(sigma (sqrt d + sqrt(log(M/a)))),
    beta_m = sqrt(2 log(2/a) + d log(1 + t_m / (d lambda_min))) + S sqrt(lambda_max) + nu          [000, Lemma A.4]
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bandanna.core import require
from bandanna.theory.contextual import linucb_lemma

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Confidence:
    """Regulariser and radius before the first batch and after each: arrays of length M + 1."""

    ridge: Floats
    radius: Floats
    smallest: float  # lambda_min

    def bound(self, *, horizon: int, batch: int, dim: int, width: float = 1.0) -> float:
        """What Lemma A.2 of [000] promises with the last radius."""
        radius = width * float(self.radius[-1])
        return float(linucb_lemma(horizon=horizon, dim=dim, batch=batch, radius=radius, smallest=self.smallest))


@dataclass(frozen=True, kw_only=True)
class PaperConfidence:
    """Regulariser and radius as printed, with the constants c1 `matrix` and c2 `vector` that the paper leaves open."""

    matrix: float = 1.0
    vector: float = 1.0

    def __post_init__(self) -> None:
        require.positive("matrix", self.matrix)
        require.positive("vector", self.vector)

    def radii(
        self, prefix_std: Floats, users: Floats, *, dim: int, failure: float, ridge: float, parameter_bound: float
    ) -> Confidence:
        """Regulariser and radius for `users` t_0 = 0, t_1, ..., t_M [000, Lemma A.4]."""
        sigma = float(np.max(prefix_std, initial=0.0))
        spread = sigma * (math.sqrt(dim) + math.sqrt(math.log(max(1, len(prefix_std)) / failure)))
        matrix, vector = self.matrix * spread, self.vector * math.sqrt(spread)  # Sigma, nu
        regulariser = max(ridge, 2 * matrix)
        smallest = regulariser - matrix
        log_det = 2 * math.log(2 / failure) + dim * np.log1p(users / (dim * smallest))
        radius = np.sqrt(log_det) + parameter_bound * math.sqrt(regulariser + matrix) + vector
        return Confidence(ridge=np.full(len(users), regulariser), radius=radius, smallest=smallest)


@lru_cache(maxsize=256)
def mean_norm(dim: int) -> float:
    """E |N|, N symmetric with standard normal diagonal and N(0, 1/2) above it: 4000 fixed draws, plus 4 s.e."""
    rng = np.random.default_rng(0)
    raw = rng.standard_normal((4000, dim, dim))
    norms = np.max(np.abs(np.linalg.eigvalsh((raw + np.swapaxes(raw, 1, 2)) / 2)), axis=1)
    return float(np.mean(norms) + 4 * np.std(norms) / math.sqrt(len(norms)))


def matrix_quantile(dim: int, tail: float) -> float:
    """|N| stays below this, in units of the packed coordinates' standard deviation, except with probability `tail`."""
    return mean_norm(dim) + math.sqrt(2 * math.log(1 / tail))


def vector_quantile(dim: int, tail: float) -> float:
    """|h| stays below this except with probability `tail`: the chi quantile, exactly."""
    return math.sqrt(2 * float(special.gammainccinv(dim / 2, tail)))


def noise_bounds(
    prefix_std: Floats, dim: int, failure: float, *, independent: bool, growing: bool
) -> tuple[Floats, Floats]:
    """Bounds on |N_m| and |h_m|, m = 1..M, simultaneously, each except with probability failure/3.

    Flat (one bound for all m) unless `growing`: then dyadic blocks of m, each with its own share of the failure.
    """
    batches = len(prefix_std)
    if not batches or not np.any(prefix_std > 0):
        return _table(np.zeros(1), np.array([batches])), _table(np.zeros(1), np.array([batches]))
    first = 2 ** np.arange(batches.bit_length()) - 1 if growing else np.zeros(1, dtype=np.int64)  # of every block
    lengths = np.diff(first, append=batches)
    worst = np.maximum.reduceat(prefix_std, first)
    share = failure / 3 / len(first)
    tails = np.full(len(first), share / 2) if independent else share / lengths
    matrix = np.array([matrix_quantile(dim, tail) for tail in tails])
    vector = np.array([vector_quantile(dim, tail) for tail in tails])
    return _table(worst * matrix, lengths), _table(worst * vector, lengths)


def _table(values: Floats, lengths: NDArray[np.int64]) -> Floats:
    """Each value as often as said; a single one without memory for its repetitions."""
    if len(values) == 1:
        return np.broadcast_to(values[0], (int(lengths[0]),))
    return np.repeat(values, lengths)


def radii(
    prefix_std: Floats,
    users: Floats,
    *,
    dim: int,
    failure: float,
    ridge: float,
    parameter_bound: float,
    reward_std: float,
    independent: bool,
    growing: bool,
) -> Confidence:
    """Regulariser and radius for `users` t_0 = 0, t_1, ..., t_M; entry 0 is before the first batch."""
    matrix, vector = noise_bounds(prefix_std, dim, failure, independent=independent, growing=growing)
    first = matrix[:1] if len(matrix) else np.zeros(1)
    sigma = np.concatenate([first, matrix]) if growing else first  # (M + 1,), or one bound for all: (1,)
    noise = np.concatenate([np.zeros(1), vector])
    regulariser = np.maximum(ridge, 2 * sigma)
    smallest = regulariser - sigma
    parts = 3 if np.any(sigma > 0) else 1
    log_det = 2 * math.log(parts / failure) + dim * np.log1p(users / (dim * np.min(smallest)))
    radius = reward_std * np.sqrt(log_det) + parameter_bound * np.sqrt(regulariser + sigma) + noise / np.sqrt(smallest)
    table = np.broadcast_to(regulariser, radius.shape)
    return Confidence(ridge=table, radius=radius, smallest=float(np.min(smallest)))
