"""Where theta must be, given released sums whose noise is known: the summed ellipsoid (docs/bounds.md).

After m batches of t users v = sum x y + h and G = sum x x^T + N are released, so v - G theta* = e + h - N theta* with
the rewards' e = sum x eta. With s the rewards' and sigma the noise's standard deviation, |theta*| <= S, |N| <= Sigma,
and k sigma that of u^T N u for |u| = 1 (k = 1, or sqrt 2 for reports that are not isometric),

    omega = sigma^2 (1 + k^2 S^2/2) + s^2 ridge,    R = (omega + s^2 Sigma) I + s^2 G,    rho = omega / s^2,
    beta = sqrt(2 log(3 J/a) + d log(1 + t/(d rho_j))) + q(a/(3 M)) sqrt(1 - s^2 ridge / omega),
    |v - G theta*|_{R^{-1}} <= beta   and   c |theta*|^2 <= c S^2                              for any c > 0: so

    |theta* - theta|_P^2 <= beta^2 + c S^2,    P = G R^{-1} G + c I,    theta = P^{-1} G R^{-1} v,
    c S^2 = 1 + beta^2 (u + (6 u)^3),    u = beta^2 / (S^2 q),    q = (t/d)^2 / (omega + s^2 Sigma + s^2 t/d)

except with probability a (`failure`), for all of M batches at once; rho_j is rho, rounded down to one of J powers of 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bandanna.core.arrays import Floats
from bandanna.core.linalg import positive_inverse
from bandanna.core.sizes import Sizes
from bandanna.kernels.optimism import Optimism
from bandanna.policies.linear.confidence import noise_bounds, vector_quantile
from bandanna.theory.contextual import linucb_ellipsoid

_MOST = 1e4  # c S^2 / beta^2: beyond, arms would be told apart by the last digits of their index
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)


@dataclass(frozen=True, kw_only=True)
class Ellipsoid:
    """Regulariser and radius before the first batch and after each, computed for the batch that is asked for."""

    dim: int
    sizes: Sizes
    failure: float  # a
    ridge: float
    parameter_bound: float  # S
    reward_std: float  # s
    stds: Floats  # (M,): sigma
    matrix: Floats  # (M,): Sigma
    matrix_std: float = 1.0  # k
    shrinks: bool = True  # False: c = 1/S^2, for radii that are made narrower (docs/bounds.md)

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
        """k^2 S^2: that of N theta along theta, in units of sigma^2."""
        return (self.matrix_std * self.parameter_bound) ** 2

    def _of(self, std: Floats, matrix: Floats, users: Floats) -> tuple[Floats, Floats, Floats]:
        """omega + s^2 Sigma, beta^2 and c after so many users, elementwise."""
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
        """As `_of`, after so many batches: in plain numbers, since it is called in every round."""
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
        """c, the regulariser, and the radius after so many batches."""
        _, beta2, weight = self._after(batches)
        return weight, math.sqrt(beta2 + weight * self.parameter_bound**2)

    def ahead(self, first: int, count: int) -> Optimism:
        """What `estimate` takes after first, first + 1, ... batches, so many of them, where a batch is one user."""
        last = np.arange(first, first + count) - 1
        std, matrix = (np.where(last < 0, 0.0, table[np.maximum(last, 0)]) for table in (self.stds, self.matrix))
        floors, beta2, weights = self._of(std, matrix, np.arange(first, first + count, dtype=float))
        radii = np.sqrt(beta2 + weights * self.parameter_bound**2)
        return Optimism(scale=self.reward_std**2, floors=floors, weights=weights, radii=radii)

    @property
    def radius(self) -> Floats:
        """The table of radii, (M + 1,)."""
        return np.array([self.at(batches)[1] for batches in range(len(self.sizes) + 1)])

    def estimate(self, vector: Floats, gram: Floats, batches: int) -> tuple[Floats, Floats, float, NDArray[np.int64]]:
        """theta (*R, d), P^{-1} (*R, d, d), the radius, and whether R had to be made positive (*R)."""
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
        """Gamma and b with radius |x|_{P^{-1}} <= Gamma |x|_{(A + b I)^{-1}} after every batch, A = sum x x^T.

        g^2/(k + s^2 g) is convex: its tangent at g_0 = sqrt(Sigma^2 + c k/2) - Sigma, of slope alpha, is below it, so
        P >= alpha (G + Sigma I) + c/2 I >= alpha (A + c/(2 alpha) I), and Gamma = radius / sqrt(alpha).
        """
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
        """The regret that Lemma A.2 of [000] promises for this ellipsoid (docs/bounds.md)."""
        radius, smallest = self.potential
        return float(
            linucb_ellipsoid(horizon=horizon, dim=dim, batch=batch, ellipsoid=width * radius, smallest=smallest)
        )

    def facts(self, width: float) -> dict[str, float]:
        """The numbers of that bound."""
        radius, smallest = self.potential
        return {"ellipsoid": width * radius, "smallest": smallest}


def ellipsoid(
    prefix_std: Floats,
    sizes: Sizes,
    *,
    dim: int,
    failure: float,
    ridge: float,
    parameter_bound: float,
    reward_std: float,
    independent: bool,
    matrix_std: float = 1.0,
    shrinks: bool = True,
) -> Ellipsoid:
    """For noise of these standard deviations; Sigma grows with it, in dyadic blocks of batches."""
    matrix, _ = noise_bounds(prefix_std, dim, failure, independent=independent, growing=True, matrix_std=matrix_std)
    return Ellipsoid(
        dim=dim,
        sizes=sizes,
        failure=failure,
        ridge=ridge,
        parameter_bound=parameter_bound,
        reward_std=reward_std,
        stds=prefix_std,
        matrix=matrix,
        matrix_std=matrix_std,
        shrinks=shrinks,
    )


@lru_cache(maxsize=256)
def stretched_quantile(dim: int, tail: float, stretch: float) -> float:
    """sqrt(stretch g_1^2 + g_2^2 + ... + g_d^2) stays below this except with probability `tail`; stretch in [1, 2].

    h - N theta has variance sigma^2 (1 + |theta|^2) along theta and sigma^2 (1 + |theta|^2/2) across, for k = 1.
    """
    least, most = vector_quantile(dim, tail), math.sqrt(stretch) * vector_quantile(dim, tail)
    if dim == 1 or tail < 1e-200:
        return most
    from scipy import optimize  # here, since it is slow to load, and few policies ask

    def excess(length: float) -> float:
        end = length / math.sqrt(stretch)  # of g_1; beyond, it is enough by itself
        first = end * (_NODES + 1) / 2
        rest = special.gammaincc((dim - 1) / 2, np.maximum(length**2 - stretch * first**2, 0.0) / 2)
        inside = float(np.sum(_WEIGHTS * np.exp(-(first**2) / 2) * rest)) * end / math.sqrt(2 * math.pi)
        return math.log(1.001 * (inside + math.erfc(end / math.sqrt(2))) / tail)  # 200 nodes: better than 1e-3

    return float(optimize.brentq(excess, least, 1.001 * most))
