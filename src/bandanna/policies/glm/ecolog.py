"""ECOLog: constant work a round, logistic rewards only (ada-OFU-ECOLog; Faury, Abeille, Jun and Calauzenes 2022).

    theta'    = argmin_{|v| <= S} w |v - theta|^2_W + l(v; x, r),       theta'' = the same with l(.; x, 0) + l(.; x, 1),
    C        += 2 (1 + S) (l(theta'') - l(theta')) - n(theta' - theta'')/2,
    W        += s'(<x, theta'>) x x^T,      theta <- theta',
    radius^2  = 2 lambda S^2 + (1 + S)^2 gamma + C,
    gamma     = sqrt(lambda)/2 + (2/sqrt lambda) log( (2/failure) sqrt(1 + t/(4 lambda)) ),   W_0 = lambda I,
    lambda    = 10,
    action    = argmax_x s(<x, theta>) + radius |x|_{W^{-1}}.

Presets: `published`, as run by the authors of [003]: w = 1/2, theta'' regularised at theta', n the norm |.|_W;
`corrected`: w = 1/(2 + 2S), theta'' regularised at theta, n the squared norm; the index <x, theta> + radius |x|.
Deviations: both minima are found exactly - without the constraint they lie on the line theta - a W^{-1} x, a one-
dimensional equation - where the published run makes a number of gradient steps towards them; C is kept >= 0; the stop
with an error when s'(theta'')/s'(theta') > 2 is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass

import numpy as np
from scipy import special

from bandanna.core.arrays import Floats
from bandanna.core.coins import Coins
from bandanna.core.estimate import Estimate
from bandanna.core.linalg import inner
from bandanna.device.choice import Choice
from bandanna.errors import InvalidArgument
from bandanna.policies.base import Ask, Frozen
from bandanna.policies.glm.base import EveryRound, along, optimistic, quadratic, rank_one
from bandanna.policies.named import algorithm
from bandanna.storage.declared import stored_as

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


@algorithm("ECOLog", paper="003")
@stored_as("ECOLog")
@dataclass(frozen=True, kw_only=True)
class ECOLog(EveryRound[ECOLogState]):
    """ECOLog with the constants of a preset; the logistic link only."""

    player = "every round"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model.name != "logistic":
            raise InvalidArgument("link", self.link, "logistic: ECOLog is made for it alone")

    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> ECOLogState:
        """W = lambda I."""
        eye = np.broadcast_to(np.eye(self.dim), (*replicates, self.dim, self.dim))
        zero = np.zeros((*replicates, self.dim))
        return ECOLogState(
            rounds=0, matrix=_LAMBDA * eye, inverse=eye / _LAMBDA, theta=zero, correction=np.zeros(replicates)
        )

    def radius(self, state: ECOLogState) -> Floats:
        """From C and the number of rounds, (*R)."""
        s, root = self.parameter_bound, math.sqrt(_LAMBDA)
        inside = math.log(2 / self.failure) + 0.5 * math.log(1 + (state.rounds + 1) / (4 * _LAMBDA))
        gamma = root / 2 + 2 / root * inside
        return np.asarray(np.sqrt(2 * _LAMBDA * s**2 + (1 + s) ** 2 * gamma + state.correction))

    def act(self, snapshot: ECOLogState, contexts: Floats, coins: Coins) -> Choice:
        """Optimism around the iterate."""
        z = along(contexts, snapshot.theta)
        values = special.expit(z) if self.preset == "published" else z
        spread = np.sqrt(quadratic(contexts, snapshot.inverse[..., None, :, :]))
        return optimistic(values, self.radius(snapshot)[..., None, None] * spread)

    def learn(self, state: ECOLogState, episode: Frozen) -> Generator[Ask, Estimate, ECOLogState]:
        """One implicit step."""
        features, rewards = self.row((yield self.ask))
        published, s = self.preset == "published", self.parameter_bound
        weight = 0.5 if published else 1 / (2 + 2 * s)
        theta = _proximal(state.theta, state.matrix, state.inverse, features, rewards, 1.0, weight, s)
        centre = theta if published else state.theta
        other = _proximal(centre, state.matrix, state.inverse, features, np.full(rewards.shape, 0.5), 2.0, weight, s)
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
            inverse=rank_one(state.inverse, features, slope),
            theta=theta,
            correction=correction,
        )


def _proximal(
    centre: Floats,
    matrix: Floats,
    inverse: Floats,
    x: Floats,
    r: Floats,
    copies: float,
    weight: float,
    bound: float,
) -> Floats:
    """argmin_{|v| <= S} w |v - c|^2_W + k (log(1 + e^z) - r z), z = <x, v>, k = `copies`: all (*R, d).

    Free minimum: v = c - a W^{-1} x k/(2w), a = s(z) - r, with z the root of z + (k q/2w) (s(z) - r) = <x, c>,
    q = |x|^2_{W^{-1}}. Beyond the ball: the multiplier nu of |v|^2 <= S^2, the matrix w W + nu I.
    """
    found = _on_line(centre, inverse, x, r, copies / (2 * weight))
    outside = np.sum(found**2, axis=-1) > bound**2
    if not outside.any():
        return found
    values, vectors = np.linalg.eigh(matrix[outside])
    c = (centre[outside][..., None, :] @ vectors)[..., 0, :] * values * weight  # w W c in the eigenvectors
    rotated, rewards = (x[outside][..., None, :] @ vectors)[..., 0, :], r[outside]

    def excess(nu: Floats) -> tuple[Floats, Floats]:
        """The minimum with the matrix w W + nu I, and 1/S - 1/|y|, nearly linear in nu: positive outside."""
        diagonal = 1 / (weight * values + nu[:, None])
        y = _diagonal_line(c * diagonal, diagonal, rotated, rewards, copies / 2)
        return y, 1 / bound - 1 / np.sqrt(np.maximum(np.sum(y**2, axis=-1), 1e-300))

    y = _onto_sphere(excess, len(c), 1e-11 / bound)
    length = np.sqrt(np.sum(y**2, axis=-1, keepdims=True))
    found[outside] = (vectors @ (y * np.minimum(1.0, bound / length))[..., None])[..., 0]
    return found


def _onto_sphere(excess: Callable[[Floats], tuple[Floats, Floats]], count: int, tolerance: float) -> Floats:
    """The points where the falling function `excess` of nu >= 0 vanishes: false position, ends halved (Illinois)."""
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


def _on_line(centre: Floats, inverse: Floats, x: Floats, r: Floats, scale: float) -> Floats:
    direction = (inverse @ x[..., None])[..., 0]
    residual = _residual(inner(x, centre), scale * inner(x, direction), r)
    return np.asarray(centre - scale * residual[..., None] * direction)


def _diagonal_line(centre: Floats, diagonal: Floats, x: Floats, r: Floats, scale: float) -> Floats:
    residual = _residual(np.sum(x * centre, axis=-1), scale * np.sum(x * x * diagonal, axis=-1), r)
    return np.asarray(centre - scale * residual[..., None] * diagonal * x)


def _residual(base: Floats, spread: Floats, r: Floats) -> Floats:
    """s(z) - r at the root of z + spread (s(z) - r) = base: Newton's method, monotone and convex by halves."""
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
