"""Confidence radii and ellipsoids."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bandanna import validation
from bandanna.numeric.compiled import OptimismTables
from bandanna.numeric.exact_sums import RunLengthSizes
from bandanna.numeric.linalg import positive_inverse
from bandanna.policies.contextual_bounds import linucb_ellipsoid, linucb_lemma
from bandanna.storage.encoding import stored_as
from bandanna.types import Floats

# The noise law is known, so its quantiles are computed. With N_m and h_m the noise of the running Gram matrix and
# vector after batch m, except with probability a (a third each for rewards, matrix and vector),
#
#     Sigma >= |N_m| for all m,   lambda = max(ridge, 2 Sigma),   lambda_min, lambda_max = lambda -+ Sigma,
#     nu >= |h_m| / sqrt(lambda_min),
#     beta_m = s sqrt(2 log(3/a) + d log(1 + t_m / (d lambda_min))) + S sqrt(lambda_max) + nu        [000, Lemma A.2]
#
# |N|, the supremum of x^T N x over |x| = 1 and both signs, exceeds its mean by more than sqrt(2 log(1/p)) with
# probability at most p (Borell-TIS), and |h| is chi-distributed. For sums of independent symmetric batches, Levy's
# inequality P(max_m |N_m| > x) <= 2 P(|N_M| > x) lets one quantile serve all m; continual releases take a union over m.


_DRAWN = 32  # dimensions of the largest matrices whose mean norm is simulated: 4000 draws take 0.3 s


@dataclass(frozen=True, kw_only=True)
class Confidence:
    """Regulariser and radius before the first batch and after each: beta_m above, or as printed."""

    dim: int
    sizes: RunLengthSizes
    smallest: float  # lambda_min
    slope: float  # s
    level: float  # 2 log(3/a)
    ridge: Floats  # (M + 1,)
    biases: Floats  # (M + 1,): S sqrt(lambda_max)
    first: float  # nu before the first batch
    noises: Floats  # (M,): nu after each
    ratio: float = 1.0  # of eigenvalues inside the logarithm: lambda_max/lambda_min in Theorem C.2 of [002]

    def at(self, batches: int) -> tuple[float, float]:
        """Return regulariser and radius after so many batches."""
        noise = self.noises[batches - 1] if batches else self.first
        growth = self.slope * np.sqrt(self._log_det(self.sizes.before(batches)))
        return float(self.ridge[batches]), float(growth + self.biases[batches] + noise)

    def ahead(self, first: int, count: int) -> OptimismTables:
        """Return the tables for `count` batches of one user each after `first`."""
        after = np.arange(first, first + count)
        noise = np.where(after > 0, self.noises[np.maximum(after - 1, 0)], self.first)
        radii = self.slope * np.sqrt(self._log_det(after.astype(float))) + self.biases[after] + noise
        return OptimismTables(scale=0.0, floors=np.zeros(count), weights=self.ridge[after], radii=radii)

    @property
    def radius(self) -> Floats:
        users = np.concatenate([[0.0], np.cumsum(self.sizes.each(size for size, _ in self.sizes.runs))])
        noise = np.concatenate([[self.first], self.noises])
        return np.asarray(self.slope * np.sqrt(self._log_det(users)) + self.biases + noise)

    def _log_det(self, users: float | Floats) -> Floats:
        growth = np.log1p(users / (self.dim * self.smallest * self.ratio)) + math.log(self.ratio)
        return np.asarray(self.level + self.dim * growth)

    def estimate(self, vector: Floats, gram: Floats, batches: int) -> tuple[Floats, Floats, float, NDArray[np.int64]]:
        """Return theta (*R, d), the inverse (*R, d, d), the radius, and which matrices were repaired (*R)."""
        ridge, radius = self.at(batches)
        inverse, repaired = positive_inverse(gram + ridge * self._identity, floor=1e-3 * ridge)  # V_m^{-1}
        theta = (inverse @ np.ascontiguousarray(vector)[..., None])[..., 0]
        return theta, inverse, radius, repaired

    @cached_property
    def _identity(self) -> Floats:
        return np.eye(self.dim)

    def facts(self, width: float) -> dict[str, float]:
        return {"radius": width * self.at(len(self.sizes))[1], "smallest": self.smallest}

    def bound(self, *, horizon: int, batch: int, dim: int, width: float = 1.0) -> float:
        """Return the regret that Lemma A.2 of [000] promises with this radius."""
        radius = width * self.at(len(self.sizes))[1]
        return float(linucb_lemma(horizon=horizon, dim=dim, batch=batch, radius=radius, smallest=self.smallest))


@stored_as("PaperConfidence")
@dataclass(frozen=True, kw_only=True)
class PaperConfidence:
    """Regulariser and radius as printed in [000] and [002].

    With sigma the largest standard deviation of an entry,

        Sigma = c1 sigma (sqrt d + sqrt(log(M/a))),  nu = c2 sqrt(sigma (sqrt d + sqrt(log(M/a)))),
        beta_m = sqrt(2 log(2/a) + d log(1 + t_m / (d lambda_min))) + S sqrt(lambda_max) + nu          [000, Lemma A.4]

    For concurrent shufflers over n users, with a = 1/n, lambda = 2 sigma' d and an error sigma' of any entry of a sum:

        sigma' = c1 (d_low - 1 + sigma sqrt(2 log(2 n^2 (d^2 + d))))
        beta_t = s sqrt(2 log(2/a) + d log(3 + 2 t/(d lambda))) + S sqrt(3 lambda/2) + c2 sqrt(lambda/2)
                                                                                                 [002, Theorem C.3]

    Parameters
    ----------
    matrix, vector
        The constants c1 and c2, which the papers leave open.
    """

    matrix: float = 1.0
    vector: float = 1.0

    def __post_init__(self) -> None:
        validation.set_validated(self, validation.positive, "matrix", "vector")

    def radii(
        self,
        prefix_std: Floats,
        sizes: RunLengthSizes,
        *,
        dim: int,
        failure: float,
        ridge: float,
        parameter_bound: float,
    ) -> Confidence:
        """Return regulariser and radius for batches of these sizes [000, Lemma A.4]."""
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
        sizes: RunLengthSizes,
        *,
        dim: int,
        horizon: int,
        delay: int,
        ridge: float,
        parameter_bound: float,
        reward_std: float,
    ) -> Confidence:
        """Return regulariser and radius for running sums that miss up to `delay` users [002, Theorem C.3]."""
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
    """Bound E |N| from above, N symmetric with standard normal diagonal and N(0, 1/2) above it."""
    # Up to 32 dimensions: the mean of 4000 fixed draws, plus 4 s.e. Above: sqrt 2 E|g| + E|xi| with g in R^d and xi
    # standard normal (Sudakov-Fernique): e x^T N x, e = +-1, moves from x to y by 2 - 2 <x, y>^2 <= 4 - 4 <x, y> in the
    # mean square, and by 2 + 2 <x, y>^2 <= 8 - 4 <x, y> if e changes too; sqrt 2 <g, x> + e xi moves by as much as
    # stands on the right.
    if dim > _DRAWN:
        log_mean = special.gammaln((dim + 1) / 2) - special.gammaln(
            dim / 2
        )  # E|g| = sqrt 2 Gamma((d+1)/2) / Gamma(d/2)
        return 2 * math.exp(float(log_mean)) + math.sqrt(2 / math.pi)
    raw = np.random.default_rng(0).standard_normal((4000, dim, dim))
    norms = np.max(np.abs(np.linalg.eigvalsh((raw + np.swapaxes(raw, 1, 2)) / 2)), axis=1)
    return float(np.mean(norms) + 4 * np.std(norms) / math.sqrt(len(norms)))


def matrix_quantile(dim: int, tail: float) -> float:
    """Bound |N| except with probability `tail`, in standard deviations of a coordinate."""
    return mean_norm(dim) + math.sqrt(2 * math.log(1 / tail))


def vector_quantile(dim: int, tail: float) -> float:
    """Bound |h| except with probability `tail`: the chi quantile."""
    return math.sqrt(2 * float(special.gammainccinv(dim / 2, tail)))


def noise_bounds(
    prefix_std: Floats, dim: int, failure: float, *, independent: bool, growing: bool, matrix_std: float = 1.0
) -> tuple[Floats, Floats]:
    """Bound |N_m| and |h_m|, m = 1..M, simultaneously, each except with probability failure/3.

    `matrix_std` is that of u^T N u, |u| = 1, in units of `prefix_std`. One bound holds for all m, or if `growing`, for
    each dyadic block with its own share of the failure.
    """
    batches = len(prefix_std)
    if not batches or not prefix_std[-1] > 0:  # noise stays in a running sum
        return _repeat_values(np.zeros(1), np.array([batches])), _repeat_values(np.zeros(1), np.array([batches]))
    first = 2 ** np.arange(batches.bit_length()) - 1 if growing else np.zeros(1, dtype=np.int64)  # of every block
    lengths = np.diff(first, append=batches)
    worst = np.maximum.reduceat(prefix_std, first)
    share = failure / 3 / len(first)
    tails = np.full(len(first), share / 2) if independent else share / lengths
    matrix = np.array([matrix_std * matrix_quantile(dim, tail) for tail in tails])
    vector = np.array([vector_quantile(dim, tail) for tail in tails])
    return _repeat_values(worst * matrix, lengths), _repeat_values(worst * vector, lengths)


def _repeat_values(values: Floats, lengths: NDArray[np.int64]) -> Floats:
    if len(values) == 1:
        return np.broadcast_to(values[0], (int(lengths[0]),))
    return np.repeat(values, lengths)


def compute_confidence(
    prefix_std: Floats,
    sizes: RunLengthSizes,
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
    """Return regulariser and radius for batches of these sizes [000, Lemma A.2]."""
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


_MOST = 1e4  # c S^2 / beta^2: beyond, arms would be told apart by the last digits of their index
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)


@dataclass(frozen=True, kw_only=True)
class Ellipsoid:
    """The summed ellipsoid: where theta must be, given released sums of known noise (docs/appendix/proofs.md, G).

    After m of M batches, t users, with standard deviations s of rewards, sigma of noise and k sigma of u^T N u for |u|
    = 1, |theta| <= S and |N| <= Sigma:

        omega = sigma^2 (1 + k^2 S^2/2) + s^2 ridge,    R = (omega + s^2 Sigma) I + s^2 G,    rho = omega / s^2,
        beta = sqrt(2 log(3 J/a) + d log(1 + t/(d rho_j))) + q(a/(3 M)) sqrt(1 - s^2 ridge / omega),
        |theta* - theta|_P^2 <= beta^2 + c S^2,    P = G R^{-1} G + c I,    theta = P^{-1} G R^{-1} v,
        c S^2 = 1 + beta^2 (u + (6 u)^3),    u = beta^2 / (S^2 q),    q = (t/d)^2 / (omega + s^2 Sigma + s^2 t/d)

    except with probability a, for all m at once; rho_j is rho, rounded down to one of J powers of 2. The methods are
    those of `Confidence`.
    """

    dim: int
    sizes: RunLengthSizes
    failure: float  # a
    ridge: float
    parameter_bound: float  # S
    reward_std: float  # s
    stds: Floats  # (M,): sigma
    independent: bool  # whether batches have noise of their own
    matrix_std: float = 1.0  # k
    shrinks: bool = True  # False: c = 1/S^2, for radii that are made narrower (docs/appendix/proofs.md)

    @cached_property
    def matrix(self) -> Floats:
        """Sigma after each batch, (M,); it grows with the noise, in dyadic blocks of batches."""
        return noise_bounds(
            self.stds, self.dim, self.failure, independent=self.independent, growing=True, matrix_std=self.matrix_std
        )[0]

    @cached_property
    def _noisy(self) -> bool:
        return bool(len(self.stds) and self.stds[-1] > 0)  # noise stays in a running sum

    @cached_property
    def _levels(self) -> tuple[float, float, float]:
        """The least rho, 2 log(3 J/a) and q(a/(3 M)), in units of sigma sqrt(1 + k^2 S^2/2)."""
        if not self._noisy:
            return self.ridge, 2 * math.log(1 / self.failure), 0.0
        least, most = (float(self._omega(end(self.stds))) / self.reward_std**2 for end in (np.min, np.max))
        blocks = math.floor(math.log2(most / least)) + 1
        stretch = (1 + self._shift) / (1 + self._shift / 2)
        quantile = stretched_quantile(self.dim, self.failure / 3 / len(self.stds), stretch)
        return least, 2 * math.log(3 * blocks / self.failure), quantile

    def _omega(self, std: float | Floats) -> Floats:
        return self._noise(std) + self.reward_std**2 * self.ridge

    def _noise(self, std: float | Floats) -> Floats:
        return np.asarray(std**2 * (1 + self._shift / 2))

    @property
    def _shift(self) -> float:
        return (self.matrix_std * self.parameter_bound) ** 2

    def _of(self, std: Floats, matrix: Floats, users: Floats) -> tuple[Floats, Floats, Floats]:
        d, s2 = self.dim, self.reward_std**2
        least, level, quantile = self._levels
        noise, omega = self._noise(std), self._omega(std)
        rho = least * 2.0 ** np.floor(np.log2(np.maximum(omega / s2 / least, 1.0)))
        rewards = np.sqrt(level + d * np.log1p(users / (d * rho)))  # Abbasi-Yadkori, Pal and Szepesvari 2011
        beta2 = (rewards + quantile * np.sqrt(noise / omega)) ** 2
        floor, each = omega + s2 * matrix, users / d
        unknown = beta2 * (floor + s2 * each) / np.maximum(self.parameter_bound * each, 1e-100) ** 2
        return (
            floor,
            beta2,
            (1 + self.shrinks * beta2 * np.minimum(unknown + (6 * np.minimum(unknown, _MOST)) ** 3, _MOST))
            / self.parameter_bound**2,
        )

    def _after(self, batches: int) -> tuple[float, float, float]:
        d, s2, bound2, users = self.dim, self.reward_std**2, self.parameter_bound**2, self.sizes.before(batches)
        least, level, quantile = self._levels
        std, matrix = (float(self.stds[batches - 1]), float(self.matrix[batches - 1])) if batches else (0.0, 0.0)
        noise, own = std**2 * (1 + self._shift / 2), s2 * self.ridge
        rho = least * 2.0 ** math.floor(math.log2(max((noise + own) / s2 / least, 1.0)))
        rewards = math.sqrt(level + d * math.log1p(users / (d * rho)))
        beta2 = (rewards + quantile * math.sqrt(noise / (noise + own))) ** 2
        floor, each = noise + own + s2 * matrix, users / d
        weight = _MOST if self.shrinks else 0.0
        if self.shrinks and each and (unknown := beta2 * (floor + s2 * each) / (bound2 * each**2)) < _MOST:
            weight = min(unknown + (6 * unknown) ** 3, _MOST)
        return floor, beta2, (1 + beta2 * weight) / bound2

    def at(self, batches: int) -> tuple[float, float]:
        _, beta2, weight = self._after(batches)
        return weight, math.sqrt(beta2 + weight * self.parameter_bound**2)

    def ahead(self, first: int, count: int) -> OptimismTables:
        last = np.arange(first, first + count) - 1
        std, matrix = (np.where(last < 0, 0.0, table[np.maximum(last, 0)]) for table in (self.stds, self.matrix))
        floors, beta2, weights = self._of(std, matrix, np.arange(first, first + count, dtype=float))
        radii = np.sqrt(beta2 + weights * self.parameter_bound**2)
        return OptimismTables(scale=self.reward_std**2, floors=floors, weights=weights, radii=radii)

    @property
    def radius(self) -> Floats:
        return np.array([self.at(batches)[1] for batches in range(len(self.sizes) + 1)])

    def estimate(self, vector: Floats, gram: Floats, batches: int) -> tuple[Floats, Floats, float, NDArray[np.int64]]:
        floor, beta2, weight = self._after(batches)
        gram = np.ascontiguousarray(gram)
        covariance = self.reward_std**2 * gram + floor * self._identity
        inverse, repaired = positive_inverse(covariance, floor=1e-3 * floor)  # R^{-1}
        gain = gram @ inverse
        inverse, _ = positive_inverse(gain @ gram + weight * self._identity, floor=weight)  # P^{-1}
        theta = (inverse @ (gain @ np.ascontiguousarray(vector)[..., None]))[..., 0]
        return theta, inverse, math.sqrt(beta2 + weight * self.parameter_bound**2), repaired

    @cached_property
    def _identity(self) -> Floats:
        return np.eye(self.dim)

    @cached_property
    def potential(self) -> tuple[float, float]:
        """Gamma and b with radius |x|_{P^{-1}} <= Gamma |x|_{(A + b I)^{-1}} after every batch, A = sum x x^T."""
        if self._noisy:
            users = np.cumsum(self.sizes.each(size for size, _ in self.sizes.runs))
            std, matrix = self.stds, self.matrix
        else:  # the last radius is the largest
            users, std, matrix = np.array([float(self.sizes.users)]), np.zeros(1), np.zeros(1)
        floor, beta2, weight = self._of(std, matrix, users)
        s2 = self.reward_std**2
        point = weight * floor / 2 / (np.sqrt(matrix**2 + weight * floor / 2) + matrix)  # g_0, without cancellation
        slope = (2 * point * floor + s2 * point**2) / (floor + s2 * point) ** 2
        largest = np.max((beta2 + weight * self.parameter_bound**2) / slope)
        return math.sqrt(float(largest)), float(np.min(weight / (2 * slope)))

    def bound(self, *, horizon: int, batch: int, dim: int, width: float = 1.0) -> float:
        radius, smallest = self.potential
        return float(
            linucb_ellipsoid(horizon=horizon, dim=dim, batch=batch, ellipsoid=width * radius, smallest=smallest)
        )

    def facts(self, width: float) -> dict[str, float]:
        radius, smallest = self.potential
        return {"ellipsoid": width * radius, "smallest": smallest}


@lru_cache(maxsize=256)
def stretched_quantile(dim: int, tail: float, stretch: float) -> float:
    """Bound sqrt(stretch g_1^2 + g_2^2 + ... + g_d^2) except with probability `tail`."""
    least, most = vector_quantile(dim, tail), math.sqrt(stretch) * vector_quantile(dim, tail)
    if dim == 1 or tail < 1e-200:
        return most
    from scipy import optimize  # here, since it is slow to load, and few policies query

    def excess(length: float) -> float:
        end = length / math.sqrt(stretch)  # of g_1; beyond, it is enough by itself
        first = end * (_NODES + 1) / 2
        rest = special.gammaincc((dim - 1) / 2, np.maximum(length**2 - stretch * first**2, 0.0) / 2)
        inside = float(np.sum(_WEIGHTS * np.exp(-(first**2) / 2) * rest)) * end / math.sqrt(2 * math.pi)
        return math.log(1.001 * (inside + math.erfc(end / math.sqrt(2))) / tail)  # 200 nodes: better than 1e-3

    return float(optimize.brentq(excess, least, 1.001 * most))
