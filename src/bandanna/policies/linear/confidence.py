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

As printed (`PaperConfidence`), with sigma the largest standard deviation of an entry and two constants left open,

    Sigma = c1 sigma (sqrt d + sqrt(log(M/a))),  nu = c2 sqrt(sigma (sqrt d + sqrt(log(M/a)))),
    beta_m = sqrt(2 log(2/a) + d log(1 + t_m / (d lambda_min))) + S sqrt(lambda_max) + nu          [000, Lemma A.4]

and for concurrent shufflers over n users, with a = 1/n, s the rewards' standard deviation, and sigma' an error that no
entry of a running sum exceeds but with probability 1/(n^2 (d^2 + d)), the d_low - 1 users included whose batch is open,

    sigma' = c1 (d_low - 1 + sigma sqrt(2 log(2 n^2 (d^2 + d)))),     lambda = 2 sigma' d,
    beta_t = s sqrt(2 log(2/a) + d log(3 + 2 t/(d lambda))) + S sqrt(3 lambda/2) + c2 sqrt(lambda/2)  [002, Theorem C.3]

where [002] gives the order of sigma' only, k^{3/2} n^{1/(2k+1)}/epsilon (Corollary 3.5): ours is the sub-Gaussian
bound of its proof for the noise in use. A radius belongs to a release: t is the time of the release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.core.linalg import positive_inverse
from bandanna.core.sizes import Sizes
from bandanna.kernels.optimism import Optimism
from bandanna.storage.declared import stored_as
from bandanna.theory.contextual import linucb_lemma

_DRAWN = 32  # dimensions of the largest matrices whose mean norm is simulated: 4000 draws take 0.3 s


@dataclass(frozen=True, kw_only=True)
class Confidence:
    """Regulariser and radius before the first batch and after each, computed for the batch that is asked for.

    Parts of the radius of which every batch has its own are tables; others take no memory for their repetitions.
    """

    dim: int
    sizes: Sizes
    smallest: float  # lambda_min
    slope: float  # s
    level: float  # 2 log(3/a)
    ridge: Floats  # (M + 1,)
    biases: Floats  # (M + 1,): S sqrt(lambda_max)
    first: float  # nu before the first batch
    noises: Floats  # (M,): nu after each
    ratio: float = 1.0  # of eigenvalues inside the logarithm: lambda_max/lambda_min in Theorem C.2 of [002]

    def at(self, batches: int) -> tuple[float, float]:
        """Regulariser and radius after so many batches."""
        noise = self.noises[batches - 1] if batches else self.first
        growth = self.slope * np.sqrt(self._log_det(self.sizes.before(batches)))
        return float(self.ridge[batches]), float(growth + self.biases[batches] + noise)

    def ahead(self, first: int, count: int) -> Optimism:
        """What `estimate` takes after first, first + 1, ... batches, so many of them, where a batch is one user."""
        after = np.arange(first, first + count)
        noise = np.where(after > 0, self.noises[np.maximum(after - 1, 0)], self.first)
        radii = self.slope * np.sqrt(self._log_det(after.astype(float))) + self.biases[after] + noise
        return Optimism(scale=0.0, floors=np.zeros(count), weights=self.ridge[after], radii=radii)

    @property
    def radius(self) -> Floats:
        """The table of radii, (M + 1,)."""
        users = np.concatenate([[0.0], np.cumsum(self.sizes.each(size for size, _ in self.sizes.runs))])
        noise = np.concatenate([[self.first], self.noises])
        return np.asarray(self.slope * np.sqrt(self._log_det(users)) + self.biases + noise)

    def _log_det(self, users: float | Floats) -> Floats:
        growth = np.log1p(users / (self.dim * self.smallest * self.ratio)) + math.log(self.ratio)
        return np.asarray(self.level + self.dim * growth)

    def estimate(self, vector: Floats, gram: Floats, batches: int) -> tuple[Floats, Floats, float, NDArray[np.int64]]:
        """theta (*R, d), V^{-1} (*R, d, d), the radius, and whether V had to be made positive (*R)."""
        ridge, radius = self.at(batches)
        inverse, repaired = positive_inverse(gram + ridge * self._identity, floor=1e-3 * ridge)  # V_m^{-1}
        theta = (inverse @ np.ascontiguousarray(vector)[..., None])[..., 0]
        return theta, inverse, radius, repaired

    @cached_property
    def _identity(self) -> Floats:
        return np.eye(self.dim)

    def facts(self, width: float) -> dict[str, float]:
        """The numbers of Lemma A.2 [000]."""
        return {"radius": width * self.at(len(self.sizes))[1], "smallest": self.smallest}

    def bound(self, *, horizon: int, batch: int, dim: int, width: float = 1.0) -> float:
        """What Lemma A.2 of [000] promises with the last radius."""
        radius = width * self.at(len(self.sizes))[1]
        return float(linucb_lemma(horizon=horizon, dim=dim, batch=batch, radius=radius, smallest=self.smallest))


@stored_as("PaperConfidence")
@dataclass(frozen=True, kw_only=True)
class PaperConfidence:
    """Regulariser and radius as printed, with the constants c1 `matrix` and c2 `vector` that the paper leaves open."""

    matrix: float = 1.0
    vector: float = 1.0

    def __post_init__(self) -> None:
        require.store(self, require.positive, "matrix", "vector")

    def radii(
        self, prefix_std: Floats, sizes: Sizes, *, dim: int, failure: float, ridge: float, parameter_bound: float
    ) -> Confidence:
        """Regulariser and radius for batches of these sizes [000, Lemma A.4]."""
        sigma = float(np.max(prefix_std, initial=0.0))
        spread = sigma * (math.sqrt(dim) + math.sqrt(math.log(max(1, len(prefix_std)) / failure)))
        matrix, vector = self.matrix * spread, self.vector * math.sqrt(spread)  # Sigma, nu
        regulariser = max(ridge, 2 * matrix)
        smallest = regulariser - matrix
        bias = parameter_bound * math.sqrt(regulariser + matrix)
        return Confidence(
            dim=dim,
            sizes=sizes,
            smallest=smallest,
            slope=1.0,
            level=2 * math.log(2 / failure),
            ridge=np.broadcast_to(regulariser, len(sizes) + 1),
            biases=np.broadcast_to(bias, len(sizes) + 1),
            first=vector,
            noises=np.broadcast_to(vector, len(sizes)),
        )

    def concurrent_radii(
        self,
        prefix_std: Floats,
        sizes: Sizes,
        *,
        dim: int,
        horizon: int,
        delay: int,
        ridge: float,
        parameter_bound: float,
        reward_std: float,
    ) -> Confidence:
        """Regulariser and radius for running sums that miss up to `delay` users [002, Theorem C.3]; a is 1/n."""
        sigma, entries = float(np.max(prefix_std, initial=0.0)), dim**2 + dim
        error = delay + sigma * math.sqrt(2 * math.log(2 * entries) + 4 * math.log(horizon))
        regulariser = max(ridge, 2 * self.matrix * error * dim)  # lambda
        vector = self.vector * math.sqrt(regulariser / 2)  # gamma
        return Confidence(
            dim=dim,
            sizes=sizes,
            smallest=regulariser / 2,
            slope=reward_std,
            level=2 * math.log(2 * horizon),
            ridge=np.broadcast_to(regulariser, len(sizes) + 1),
            biases=np.broadcast_to(parameter_bound * math.sqrt(1.5 * regulariser), len(sizes) + 1),
            first=vector,
            noises=np.broadcast_to(vector, len(sizes)),
            ratio=3.0,
        )


@lru_cache(maxsize=256)
def mean_norm(dim: int) -> float:
    """At least E |N|, N symmetric with standard normal diagonal and N(0, 1/2) above it.

    Up to 32 dimensions of 4000 fixed draws, plus 4 s.e. Above, sqrt 2 E|g| + E|xi| with g in R^d and xi standard normal
    (Sudakov-Fernique): e x^T N x, e = +-1, moves from x to y by 2 - 2 <x, y>^2 <= 4 - 4 <x, y> in the mean square, and
    by 2 + 2 <x, y>^2 <= 8 - 4 <x, y> if e changes too; sqrt 2 <g, x> + e xi moves by as much as stands on the right.
    """
    if dim > _DRAWN:
        log_mean = special.gammaln((dim + 1) / 2) - special.gammaln(
            dim / 2
        )  # E|g| = sqrt 2 Gamma((d+1)/2) / Gamma(d/2)
        return 2 * math.exp(float(log_mean)) + math.sqrt(2 / math.pi)
    raw = np.random.default_rng(0).standard_normal((4000, dim, dim))
    norms = np.max(np.abs(np.linalg.eigvalsh((raw + np.swapaxes(raw, 1, 2)) / 2)), axis=1)
    return float(np.mean(norms) + 4 * np.std(norms) / math.sqrt(len(norms)))


def matrix_quantile(dim: int, tail: float) -> float:
    """|N| stays below this, in units of the packed coordinates' standard deviation, except with probability `tail`."""
    return mean_norm(dim) + math.sqrt(2 * math.log(1 / tail))


def vector_quantile(dim: int, tail: float) -> float:
    """|h| stays below this except with probability `tail`: the chi quantile, exactly."""
    return math.sqrt(2 * float(special.gammainccinv(dim / 2, tail)))


def noise_bounds(
    prefix_std: Floats, dim: int, failure: float, *, independent: bool, growing: bool, matrix_std: float = 1.0
) -> tuple[Floats, Floats]:
    """Bounds on |N_m| and |h_m|, m = 1..M, simultaneously, each except with probability failure/3.

    matrix_std is that of u^T N u, |u| = 1, in units of `prefix_std`.
    Flat (one bound for all m) unless `growing`: then dyadic blocks of m, each with its own share of the failure.
    """
    batches = len(prefix_std)
    if not batches or not prefix_std[-1] > 0:  # noise stays in a running sum
        return _table(np.zeros(1), np.array([batches])), _table(np.zeros(1), np.array([batches]))
    first = 2 ** np.arange(batches.bit_length()) - 1 if growing else np.zeros(1, dtype=np.int64)  # of every block
    lengths = np.diff(first, append=batches)
    worst = np.maximum.reduceat(prefix_std, first)
    share = failure / 3 / len(first)
    tails = np.full(len(first), share / 2) if independent else share / lengths
    matrix = np.array([matrix_std * matrix_quantile(dim, tail) for tail in tails])
    vector = np.array([vector_quantile(dim, tail) for tail in tails])
    return _table(worst * matrix, lengths), _table(worst * vector, lengths)


def _table(values: Floats, lengths: NDArray[np.int64]) -> Floats:
    """Each value as often as said; a single one without memory for its repetitions."""
    if len(values) == 1:
        return np.broadcast_to(values[0], (int(lengths[0]),))
    return np.repeat(values, lengths)


def radii(
    prefix_std: Floats,
    sizes: Sizes,
    *,
    dim: int,
    failure: float,
    ridge: float,
    parameter_bound: float,
    reward_std: float,
    independent: bool,
    growing: bool,
    matrix_std: float = 1.0,
) -> Confidence:
    """Regulariser and radius for batches of these sizes; entry 0 is before the first."""
    matrix, vector = noise_bounds(
        prefix_std, dim, failure, independent=independent, growing=growing, matrix_std=matrix_std
    )
    first = matrix[:1] if len(matrix) else np.zeros(1)
    sigma = np.concatenate([first, matrix]) if growing else first  # (M + 1,), or one bound for all: (1,)
    regulariser = np.maximum(ridge, 2 * sigma)
    smallest = regulariser - sigma
    parts = 3 if np.any(sigma > 0) else 1
    return Confidence(
        dim=dim,
        sizes=sizes,
        smallest=float(np.min(smallest)),
        slope=reward_std,
        level=2 * math.log(parts / failure),
        ridge=np.broadcast_to(regulariser, len(sizes) + 1),
        biases=np.broadcast_to(parameter_bound * np.sqrt(regulariser + sigma), len(sizes) + 1),
        first=0.0,
        noises=vector / np.sqrt(smallest[1:])
        if growing
        else np.broadcast_to(vector[:1] / np.sqrt(smallest), len(sizes)),
    )
