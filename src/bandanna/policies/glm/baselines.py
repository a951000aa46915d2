"""Baselines without privacy: GLM-UCB, GLOC and ECOLog."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from bandanna import validation
from bandanna.device.action_selection import Choice
from bandanna.device.domain import Estimate
from bandanna.errors import InvalidArgument
from bandanna.numeric.linalg import inner
from bandanna.numeric.rng import DeviceRandomness
from bandanna.policies.algorithm import register_algorithm
from bandanna.policies.base import FixedLength, SumQuery
from bandanna.policies.glm.base import (
    PerRoundGLMPolicy,
    choose_optimistic,
    compute_linear_scores,
    compute_squared_norms,
    update_inverse,
)
from bandanna.policies.glm.estimation import (
    Expansion,
    is_expandable,
    make_empty_expansion,
    maximum_likelihood,
    project_onto_ball,
    project_onto_ball_in_norm,
)
from bandanna.storage.encoding import stored_as
from bandanna.types import Floats

_TOLERANCE = 1e-6  # of an estimate


@stored_as("GLMUCBState")
@dataclass(frozen=True, kw_only=True)
class GLMUCBState:
    """M_t^{-1} and theta_t.

    Attributes
    ----------
    near
        Expansion of the loss around an earlier estimate, which saves passes over all rows.
    """

    rounds: int
    inverse: Floats  # (*R, d, d)
    theta: Floats  # (*R, d): before any projection
    near: Expansion | None = None


@register_algorithm("GLM-UCB", paper="003")
@stored_as("GLMUCB")
@dataclass(frozen=True, kw_only=True)
class GLMUCB(PerRoundGLMPolicy[GLMUCBState]):
    """GLM-UCB: an estimate from all data in every round, and a bonus that carries kappa (Filippi et al. 2010).

    1. The server publishes theta_t = argmin sum_{s < t} l_s + (ridge/2) |theta|^2 and M_t^{-1}, where
       M_t = lambda I + sum x x^T, lambda = d.
    2. The device plays argmax_x mu(<x, theta_t>) + rho_t |x|_{M_t^{-1}}, with c = sqrt(3 + 2 log(1 + 2/lambda))
       and rho_t = 2 L_mu kappa R c sqrt(2 d log(t) log(2 d T / failure)).
    3. The server queries the round's row and renews the estimate.

    Deviation from the published run: theta_0 = 0 instead of a normal draw. Further parameters: `GLMPolicy`.

    Parameters
    ----------
    preset
        "published", as run in [003]: ridge = 2 lambda, no factor sqrt(log t) for the logistic link, no projection.
        "corrected": ridge = lambda, sqrt(log t) for all links, theta projected onto |theta| <= S.
    refit
        Rounds between two estimates; 1 as published.
    """

    execution = replace(PerRoundGLMPolicy.execution, retained_groups=("everybody",), player="every round")

    refit: int = 1

    def act(self, snapshot: GLMUCBState, contexts: Floats, coins: DeviceRandomness) -> Choice:
        theta = (
            snapshot.theta if self.preset == "published" else project_onto_ball(snapshot.theta, self.parameter_bound)
        )
        spread = np.sqrt(compute_squared_norms(contexts, snapshot.inverse[..., None, :, :]))
        return choose_optimistic(
            self.model.mean(compute_linear_scores(contexts, theta)), self.bonus(snapshot.rounds) * spread
        )

    def learn(self, state: GLMUCBState, episode: FixedLength) -> Generator[SumQuery, Estimate, GLMUCBState]:
        features, rewards = self.row((yield self.query))
        theta, near = state.theta, state.near
        if near is not None:
            near = near.add(self.model, features.reshape(-1, self.dim), rewards.reshape(-1))
        if (state.rounds + 1) % self.refit == 0:
            theta, near = yield from self._estimate(theta, near)
        return GLMUCBState(
            rounds=state.rounds + 1, inverse=update_inverse(state.inverse, features), theta=theta, near=near
        )

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.set_validated(self, validation.integer, "refit")

    def bonus(self, rounds: int) -> float:
        link, d = self.model, self.dim
        c = math.sqrt(3 + 2 * math.log(1 + 2 / self.dim))
        rho = 2 * link.slope_bound * c * link.reward_bound * self.curvature
        rho *= math.sqrt(2 * d * math.log(2 * d * self.horizon / self.failure))  # Filippi et al. 2010, Theorem 2
        logarithmic = self.preset == "corrected" or link.name != "logistic"
        return rho * math.sqrt(math.log(rounds + 1)) if logarithmic else rho

    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> GLMUCBState:
        return GLMUCBState(
            rounds=0,
            inverse=np.broadcast_to(np.eye(self.dim) / self.dim, (*replicates, self.dim, self.dim)),
            theta=np.zeros((*replicates, self.dim)),
            near=make_empty_expansion(math.prod(replicates), self.dim) if is_expandable(self.model, self.dim) else None,
        )

    def _estimate(
        self, start: Floats, near: Expansion | None
    ) -> Generator[SumQuery, Estimate, tuple[Floats, Expansion | None]]:
        """Return theta_t, near the last one from the polynomial of its loss."""
        ridge, link = float(self.dim * (2 if self.preset == "published" else 1)), self.model
        theta = start.reshape(-1, self.dim)
        far = np.arange(len(theta))
        if near is not None:
            found, fine = near.minimise(link, theta, ridge, _TOLERANCE)
            theta, far = np.where(fine[:, None], found, theta), far[~fine]
        if len(far):
            released = yield self.query_rows("everybody", step=1)
            rows, results, _ = self.rows.parts(released.total.reshape(len(theta), -1, self.rows.dim)[far])
            theta = theta.copy()
            theta[far] = maximum_likelihood(
                link, rows, results, ridge=ridge, start=theta[far], tolerance=_TOLERANCE
            ).theta
            near = None if near is None else near.move(link, far, theta[far], rows, results)
        return theta.reshape(start.shape), near


@stored_as("GLOCState")
@dataclass(frozen=True, kw_only=True)
class GLOCState:
    """V and its inverse, the Newton iterate, z and the online regret bound B."""

    rounds: int
    matrix: Floats  # (*R, d, d)
    inverse: Floats  # (*R, d, d)
    theta: Floats  # (*R, d)
    vector: Floats  # (*R, d)
    bound: Floats  # (*R)


@register_algorithm("GLOC", paper="003")
@stored_as("GLOC")
@dataclass(frozen=True, kw_only=True)
class GLOC(PerRoundGLMPolicy[GLOCState]):
    """GLOC: an online Newton step in each round, turned into a confidence set (Jun et al. 2017).

    1. The server publishes V^{-1}, theta, z and B.
    2. The device plays the largest index, with radius^2 = 1 + (4/c) B + 8 (q/c)^2 log((2/failure) sqrt(1 + 2B/c
       + 4 (q/c)^4 / failure^2)) and c = 1/kappa.
    3. The server queries the round's row, and with g = (mu(<x, theta>) - r) x

           V += x x^T,   B += |g|^2_{V^{-1}} / (2c),   z += <x, theta> x,   theta <- Proj(theta - V^{-1} g / c)

       from V_0 = lambda I, B_0 = 2 c S^2 lambda, lambda = d.

    Further parameters: `GLMPolicy`.

    Parameters
    ----------
    preset
        "published", as run in [003]: index mu(<x, theta>) + radius |x|_{V^{-1}}, q = L_mu^2, theta rescaled to
        |theta| = S. "corrected": index <x, V^{-1} z> + radius |x|, q = R/2, projection onto the ball in the norm of V.
    """

    execution = replace(PerRoundGLMPolicy.execution, player="every round")

    def act(self, snapshot: GLOCState, contexts: Floats, coins: DeviceRandomness) -> Choice:
        inverse, radius = snapshot.inverse, self.radius(snapshot.bound)
        if self.preset == "published":
            values = self.model.mean(compute_linear_scores(contexts, snapshot.theta))
        else:
            values = compute_linear_scores(contexts, (inverse @ snapshot.vector[..., None])[..., 0])
        spread = np.sqrt(compute_squared_norms(contexts, inverse[..., None, :, :]))
        return choose_optimistic(values, radius[..., None, None] * spread)

    def learn(self, state: GLOCState, episode: FixedLength) -> Generator[SumQuery, Estimate, GLOCState]:
        features, rewards = self.row((yield self.query))
        z = inner(features, state.theta)
        inverse = update_inverse(state.inverse, features)
        residual = self.model.mean(z) - rewards
        step = (inverse @ features[..., None])[..., 0]  # V^{-1} x
        gained = residual**2 * inner(step, features)  # |g|^2_{V^{-1}}
        theta = state.theta - self.curvature * residual[..., None] * step
        matrix = state.matrix
        if self.preset == "published":
            length = np.sqrt(inner(theta, theta))[..., None]
            theta = self.parameter_bound * theta / np.maximum(length, 1e-300)
        else:
            matrix = matrix + features[..., :, None] * features[..., None, :]
            outside = inner(theta, theta) > self.parameter_bound**2
            if outside.any():
                theta[outside] = project_onto_ball_in_norm(theta[outside], matrix[outside], self.parameter_bound)
        return GLOCState(
            rounds=state.rounds + 1,
            matrix=matrix,
            inverse=inverse,
            theta=theta,
            vector=state.vector + z[..., None] * features,
            bound=state.bound + gained * self.curvature / 2,
        )

    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> GLOCState:
        eye = np.broadcast_to(np.eye(self.dim), (*replicates, self.dim, self.dim))
        first = 2 / self.curvature * self.parameter_bound**2 * self.dim  # B_0
        return GLOCState(
            rounds=0,
            matrix=self.dim * eye,
            inverse=eye / self.dim,
            theta=np.zeros((*replicates, self.dim)),
            vector=np.zeros((*replicates, self.dim)),
            bound=np.full(replicates, first),
        )

    def radius(self, bound: Floats) -> Floats:
        kappa = self.curvature
        q = self.model.slope_bound**2 if self.preset == "published" else self.model.reward_bound / 2
        inside = 1 + 2 * kappa * bound + 4 * (q * kappa) ** 4 / self.failure**2
        log = math.log(2 / self.failure) + 0.5 * np.log(inside)
        return np.asarray(np.sqrt(1 + 4 * kappa * bound + 8 * (q * kappa) ** 2 * log))  # Jun et al. 2017, Theorem 1


_LAMBDA = 10.0


@stored_as("ECOLogState")
@dataclass(frozen=True, kw_only=True)
class ECOLogState:
    """W and its inverse, the iterate, the correction C."""

    rounds: int
    matrix: Floats  # (*R, d, d)
    inverse: Floats  # (*R, d, d)
    theta: Floats  # (*R, d)
    correction: Floats  # (*R)


@register_algorithm("ECOLog", paper="003")
@stored_as("ECOLog")
@dataclass(frozen=True, kw_only=True)
class ECOLog(PerRoundGLMPolicy[ECOLogState]):
    """ECOLog: constant work in each round, logistic rewards only (Faury et al. 2022).

    1. The server publishes W^{-1}, theta and C.
    2. The device plays argmax_x s(<x, theta>) + radius |x|_{W^{-1}}, radius^2 = 2 lambda S^2 + (1 + S)^2 gamma + C and
       gamma = sqrt(lambda)/2 + (2/sqrt lambda) log((2/failure) sqrt(1 + t/(4 lambda))).
    3. The server queries the round's row and computes

           theta'  = argmin_{|v| <= S} w |v - theta|^2_W + l(v; x, r),   theta'' the same with l(.; x, 0) + l(.; x, 1)
           C      += 2 (1 + S) (l(theta'') - l(theta')) - n(theta' - theta'')/2
           W      += s'(<x, theta'>) x x^T,   theta <- theta'

       from W_0 = lambda I, lambda = 10.

    Deviations: both minima are exact, where the published run makes gradient steps; C is kept >= 0; the run does not
    stop when s'(theta'')/s'(theta') > 2. Further parameters: `GLMPolicy`.

    Parameters
    ----------
    preset
        "published", as run in [003]: w = 1/2, theta'' regularised at theta', n the norm |.|_W. "corrected":
        w = 1/(2 + 2S), theta'' regularised at theta, n the squared norm, index <x, theta> + radius |x|.
    """

    execution = replace(PerRoundGLMPolicy.execution, player="every round")

    def act(self, snapshot: ECOLogState, contexts: Floats, coins: DeviceRandomness) -> Choice:
        z = compute_linear_scores(contexts, snapshot.theta)
        values = special.expit(z) if self.preset == "published" else z
        spread = np.sqrt(compute_squared_norms(contexts, snapshot.inverse[..., None, :, :]))
        return choose_optimistic(values, self.radius(snapshot)[..., None, None] * spread)

    def learn(self, state: ECOLogState, episode: FixedLength) -> Generator[SumQuery, Estimate, ECOLogState]:
        features, rewards = self.row((yield self.query))
        published, s = self.preset == "published", self.parameter_bound
        weight = 0.5 if published else 1 / (2 + 2 * s)
        theta = _minimize_proximal(state.theta, state.matrix, state.inverse, features, rewards, 1.0, weight, s)
        centre = theta if published else state.theta
        other = _minimize_proximal(
            centre, state.matrix, state.inverse, features, np.full(rewards.shape, 0.5), 2.0, weight, s
        )
        z, z_other = inner(features, theta), inner(features, other)
        gain = np.logaddexp(0, z_other) - np.logaddexp(0, z) - rewards * (z_other - z)
        square = np.einsum("...i,...ij,...j->...", theta - other, state.matrix, theta - other)
        lost = np.sqrt(np.maximum(square, 0.0)) if published else square
        correction = np.maximum(state.correction + 2 * (1 + s) * gain - lost / 2, 0.0)
        slope = special.expit(z) * special.expit(-z)
        outer = features[..., :, None] * features[..., None, :]
        return ECOLogState(
            rounds=state.rounds + 1,
            matrix=state.matrix + slope[..., None, None] * outer,
            inverse=update_inverse(state.inverse, features, slope),
            theta=theta,
            correction=correction,
        )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model.name != "logistic":
            raise InvalidArgument("link", self.link, "the logistic link", "ECOLog has no other")

    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> ECOLogState:
        eye = np.broadcast_to(np.eye(self.dim), (*replicates, self.dim, self.dim))
        zero = np.zeros((*replicates, self.dim))
        return ECOLogState(
            rounds=0, matrix=_LAMBDA * eye, inverse=eye / _LAMBDA, theta=zero, correction=np.zeros(replicates)
        )

    def radius(self, state: ECOLogState) -> Floats:
        s, root = self.parameter_bound, math.sqrt(_LAMBDA)
        inside = math.log(2 / self.failure) + 0.5 * math.log(1 + (state.rounds + 1) / (4 * _LAMBDA))
        gamma = root / 2 + 2 / root * inside
        return np.asarray(np.sqrt(2 * _LAMBDA * s**2 + (1 + s) ** 2 * gamma + state.correction))


def _minimize_proximal(
    centre: Floats,
    matrix: Floats,
    inverse: Floats,
    x: Floats,
    r: Floats,
    copies: float,
    weight: float,
    bound: float,
) -> Floats:
    """Return argmin_{|v| <= S} w |v - c|^2_W + k (log(1 + e^z) - r z), z = <x, v>, k = `copies`: all (*R, d).

    Inside the ball, v = c - a W^{-1} x k/(2w) with a = s(z) - r. Beyond it, the matrix is w W + nu I.
    """
    scale, direction = copies / (2 * weight), (inverse @ x[..., None])[..., 0]
    residual = _solve_residual(inner(x, centre), scale * inner(x, direction), r)
    found = np.asarray(centre - scale * residual[..., None] * direction)
    outside = np.sum(found**2, axis=-1) > bound**2
    if not outside.any():
        return found
    values, vectors = np.linalg.eigh(matrix[outside])
    c = (centre[outside][..., None, :] @ vectors)[..., 0, :] * values * weight  # w W c in the eigenvectors
    rotated, rewards = (x[outside][..., None, :] @ vectors)[..., 0, :], r[outside]

    def excess(nu: Floats) -> tuple[Floats, Floats]:
        diagonal = 1 / (weight * values + nu[:, None])
        start, half = c * diagonal, copies / 2
        spread = half * np.sum(rotated * rotated * diagonal, axis=-1)
        residual = _solve_residual(np.sum(rotated * start, axis=-1), spread, rewards)
        y = np.asarray(start - half * residual[..., None] * diagonal * rotated)
        return y, 1 / bound - 1 / np.sqrt(np.maximum(np.sum(y**2, axis=-1), 1e-300))

    y = _solve_multiplier(excess, len(c), 1e-11 / bound)
    length = np.sqrt(np.sum(y**2, axis=-1, keepdims=True))
    found[outside] = (vectors @ (y * np.minimum(1.0, bound / length))[..., None])[..., 0]
    return found


def _solve_multiplier(excess: Callable[[Floats], tuple[Floats, Floats]], count: int, tolerance: float) -> Floats:
    """Return the zeros nu >= 0 of a falling function (false position, Illinois rule)."""
    low, high = np.zeros(count), np.ones(count)
    found, left = np.zeros((count, 0)), np.ones(count, dtype=bool)  # each stops by itself, in any company
    at_low, at_high = excess(low)[1], excess(high)[1]
    while np.any(far := at_high > 0):
        low, at_low, high = np.where(far, high, low), np.where(far, at_high, at_low), np.where(far, 8 * high, high)
        at_high = excess(high)[1]
    for _ in range(60):
        middle = (low * at_high - high * at_low) / np.minimum(at_high - at_low, -1e-300)
        y, value = excess(middle)
        found = np.where(left[:, None], y, found) if found.size else y
        left &= np.abs(value) > tolerance
        if not left.any():
            break
        far = value > 0
        low, high = np.where(far, middle, low), np.where(far, high, middle)
        at_low, at_high = np.where(far, value, at_low / 2), np.where(far, at_high / 2, value)
    return found


def _solve_residual(base: Floats, spread: Floats, r: Floats) -> Floats:
    """Return s(z) - r at the root of z + spread (s(z) - r) = base (Newton)."""
    z = base - spread * (special.expit(base) - r) / (1 + spread / 4)
    left = np.ones(z.shape, dtype=bool)  # each stops by itself, in any company
    for _ in range(50):
        s = special.expit(z)
        step = (z + spread * (s - r) - base) / (1 + spread * s * (1 - s))
        z = np.where(left, z - step, z)
        left &= np.abs(step) > 1e-8  # the next one would be below 1e-16
        if not left.any():
            break
    return np.asarray(special.expit(z) - r)
