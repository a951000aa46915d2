"""Environments whose mean reward is <x, theta>."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bandanna import validation
from bandanna.errors import InvalidArgument
from bandanna.numeric.rng import Streams
from bandanna.simulation.environments.base import Bernoulli, Bounded, Environment, RewardLaw, World
from bandanna.simulation.environments.finite import Levels, TwoPoint
from bandanna.types import Floats

_HALF = math.sqrt(0.5)
_TOGETHER = 4096  # vectors between draw and arm at a time: they stay in a cache
_FEW = 8  # entries: columns as long as `_TOGETHER` are quicker than so short rows


@dataclass(frozen=True, kw_only=True)
class LinearContextual(Environment):
    """Features and theta of norm 1: a uniform direction of norm 1/sqrt 2 in d-1 dimensions, and a last entry 1/sqrt 2.

    Means are (1 + cos angle)/2; in dim = 1 all arms are equal, with mean 1/2.

    Parameters
    ----------
    dim, n_arms : int
        Coordinates of a feature vector, and arms in a round.
    fixed : bool
        Draw the arms once per run instead of in every round.
    """

    fixed: bool = False

    def begin(self, streams: Streams) -> LinearWorld:
        theta = append_entry(
            normalize_directions(streams.normal("instance", (self.dim - 1,))), _HALF, scale=_HALF
        )  # (S, d)
        if not self.fixed:
            return FreshArms(environment=self, streams=streams, theta=theta)
        normals = streams.normal("arms", (self.n_arms, self.dim - 1))
        arms = append_entry(normalize_directions(normals), _HALF, scale=_HALF)  # (S, K, d)
        return FixedArms(environment=self, streams=streams, theta=theta, arms=arms)


class LinearWorld(World):
    """Worlds with one theta per seed; subclasses define the arms.

    Parameters
    ----------
    environment
        The world's environment.
    streams
        Random streams of S seeds, one world each.
    theta
        Parameters, (S, d); means <x, theta> are clipped to [0, 1].
    fixed
        Whether arms stay the same in every round.
    """

    def __init__(self, *, environment: Environment, streams: Streams, theta: Floats, fixed: bool = False) -> None:
        super().__init__(environment=environment, streams=streams, fixed=fixed)
        self.theta = theta  # (S, d)

    def means(self, contexts: Floats) -> Floats:
        means = np.asarray((contexts @ self.theta[:, None, :, None])[..., 0])
        return np.clip(means, 0.0, 1.0, out=means)


class FixedArms(LinearWorld):
    """Worlds with the same arms in every round.

    Parameters
    ----------
    environment
        The world's environment.
    streams
        Random streams of S seeds, one world each.
    theta
        Parameters, (S, d).
    arms
        Features of the arms, (S, K, d).
    """

    def __init__(self, *, environment: Environment, streams: Streams, theta: Floats, arms: Floats) -> None:
        super().__init__(environment=environment, streams=streams, theta=theta, fixed=True)
        self.arms = arms  # (S, K, d)

    def contexts(self, start: int, rounds: int) -> Floats:
        return self.arms[:, None]


class FreshArms(LinearWorld):
    """Worlds of `LinearContextual` with arms drawn in every round.

    Parameters
    ----------
    environment
        The `LinearContextual` of this world.
    streams
        Random streams of S seeds, one world each.
    theta
        Parameters of norm 1, (S, d).
    fixed
        False, the default, because arms are drawn in every round.
    """

    unit = True

    def contexts(self, start: int, rounds: int) -> Floats:
        normals = self.streams.normal("contexts", (rounds, self.n_arms, self.environment.dim - 1))
        return scale_directions(normals, _HALF, last=_HALF)


def normalize_directions(normals: Floats) -> Floats:
    """Scale Gaussian vectors to norm 1: uniform directions on the sphere."""
    return np.asarray(normals / _vector_lengths(normals)[..., None])


def _vector_lengths(normals: Floats) -> Floats:
    """Return the norms of vectors (..., d); a few squares are added in their order."""
    if normals.shape[-1] > _FEW:
        squares = np.einsum("...i,...i->...", normals, normals)
    else:
        squares = np.zeros(normals.shape[:-1])
        for place in range(normals.shape[-1]):
            squares += np.square(normals[..., place])
    return np.asarray(np.maximum(np.sqrt(squares, out=squares), 1e-300, out=squares))


def scale_directions(normals: Floats, length: float, *, kept: int | None = None, last: float | None = None) -> Floats:
    """Return `normalize_directions(normals)` times `length`, bit for bit, without large arrays in between.

    `kept` limits each direction to its first entries; `last` is appended.
    """
    *shape, dim = normals.shape
    full = np.empty((*shape, _width(dim, kept, last)))
    count = math.prod(shape)
    flat, out = normals.reshape(count, dim), full.reshape(count, full.shape[-1])
    for start in range(0, count, _TOGETHER):
        some = slice(start, start + _TOGETHER)
        _fill_directions(flat[some], length, out[some, :dim])
    if last is not None:
        full[..., -1] = last
    return full


def _width(dim: int, kept: int | None, last: float | None) -> int:
    return (dim if kept is None else kept) + (last is not None)


def _fill_directions(normals: Floats, length: float, out: Floats) -> None:
    norms, first = _vector_lengths(normals), normals[:, : out.shape[1]]
    if normals.shape[-1] > _FEW:
        np.multiply(first / norms[:, None], length, out=out)
        return
    for column, entries in zip(out.T, first.T, strict=True):
        np.divide(entries, norms, out=column)
        column *= length


def append_entry(vectors: Floats, last: float, *, scale: float = 1.0) -> Floats:
    """Return vectors times `scale` with `last` appended."""
    full = np.empty((*vectors.shape[:-1], vectors.shape[-1] + 1))
    np.multiply(vectors, scale, out=full[..., :-1])
    full[..., -1] = last
    return full


# Features of users


@dataclass(frozen=True, kw_only=True)
class DisjointLinear(Environment):
    """Each arm k has a parameter theta_k; a user with features z, a uniform direction, has the mean rewards

        (1 + c_k/2 + <z, theta_k>/2)/2,   c_k uniform in [-1, 1], theta_k a uniform direction.

    All rows of a context are z.

    Parameters
    ----------
    dim, n_arms : int
        Features of a user, and arms.
    """

    def begin(self, streams: Streams) -> DisjointWorld:
        theta = normalize_directions(streams.normal("instance", (self.n_arms, self.dim)))  # (S, K, d)
        constants = 2 * streams.uniform("constants", (self.n_arms,)) - 1  # (S, K)
        return DisjointWorld(environment=self, streams=streams, theta=theta, constants=constants)


class DisjointWorld(World):
    """World that `DisjointLinear` begins.

    Parameters
    ----------
    environment
        The `DisjointLinear` of this world.
    streams
        Random streams of S seeds, one world each.
    theta
        Directions of the arms, (S, K, d).
    constants
        Constants c_k in [-1, 1], (S, K).
    """

    def __init__(self, *, environment: Environment, streams: Streams, theta: Floats, constants: Floats) -> None:
        super().__init__(environment=environment, streams=streams)
        self.theta, self.constants = theta, constants

    def contexts(self, start: int, rounds: int) -> Floats:
        z = normalize_directions(self.streams.normal("contexts", (rounds, 1, self.environment.dim)))
        return np.repeat(z, self.n_arms, axis=2)

    def means(self, contexts: Floats) -> Floats:
        along = (contexts[..., None, :] @ self.theta[:, None, :, :, None])[..., 0, 0]
        return np.asarray((1 + self.constants[:, None] / 2 + along / 2) / 2)


# Means in [-1, 1]


def _require_signed(reward: RewardLaw) -> None:
    unit = isinstance(reward, Bernoulli | Bounded)
    if unit or (isinstance(reward, Levels) and not (reward.low <= -1 and reward.high >= 1)):
        raise InvalidArgument("reward", reward, "TwoPoint(...) or ClippedGaussian(...) with low=-1, high=1")


@dataclass(frozen=True, kw_only=True)
class SphereArms(Environment):
    """Arms and theta uniform on the unit sphere, drawn once per run; the mean of arm x is <x, theta>, in [-1, 1].

    Reference: Azize and Basu 2024 [004], section VII.

    Parameters
    ----------
    dim, n_arms : int
        Coordinates of a feature vector, and arms.
    reward : RewardLaw
        A law with means in [-1, 1]; -1 or 1 by default.
    """

    reward: RewardLaw = TwoPoint(low=-1.0, high=1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_signed(self.reward)

    def begin(self, streams: Streams) -> SphereWorld:
        theta = normalize_directions(streams.normal("instance", (self.dim,)))  # (S, d)
        arms = normalize_directions(streams.normal("arms", (self.n_arms, self.dim)))  # (S, K, d)
        return SphereWorld(environment=self, streams=streams, theta=theta, arms=arms)


class SphereWorld(World):
    """World that `SphereArms` begins.

    Parameters
    ----------
    environment
        The `SphereArms` of this world.
    streams
        Random streams of S seeds, one world each.
    theta, arms
        Unit vectors, (S, d) and (S, K, d); their products are means in [-1, 1].
    """

    def __init__(self, *, environment: Environment, streams: Streams, theta: Floats, arms: Floats) -> None:
        super().__init__(environment=environment, streams=streams, fixed=True)
        self.theta, self.arms = theta, arms

    def contexts(self, start: int, rounds: int) -> Floats:
        return self.arms[:, None]

    def means(self, contexts: Floats) -> Floats:
        return np.asarray(np.einsum("srkd,sd->srk", contexts, self.theta))


@dataclass(frozen=True, kw_only=True)
class SphereContexts(Environment):
    """Fresh contexts in every round, N((1, ..., 1)/sqrt d, variance I) scaled to norm 1; theta uniform on the sphere.

    Reference: Azize and Basu 2024 [004], section VII. The paper does not scale contexts (`scaled=False`); then |x| and
    means can exceed 1.

    Parameters
    ----------
    dim, n_arms : int
        Coordinates of a feature vector, and arms in a round.
    reward : RewardLaw
        A law with means in [-1, 1]; -1 or 1 by default.
    variance : float
        The variance of each coordinate before scaling.
    scaled : bool
        Scale contexts to norm 1.
    """

    reward: RewardLaw = TwoPoint(low=-1.0, high=1.0)
    variance: float = 0.1
    scaled: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_signed(self.reward)
        validation.positive("variance", self.variance)

    def begin(self, streams: Streams) -> SphereContextsWorld:
        return SphereContextsWorld(environment=self, streams=streams)


class SphereContextsWorld(World):
    """World that `SphereContexts` begins.

    Parameters
    ----------
    environment
        The `SphereContexts` of this world.
    streams
        Random streams of S seeds, one world each.
    """

    def __init__(self, *, environment: SphereContexts, streams: Streams) -> None:
        super().__init__(environment=environment, streams=streams)
        self.shape, self.scaled = (environment.n_arms, environment.dim), environment.scaled
        self.std, self.mean = math.sqrt(environment.variance), 1 / math.sqrt(environment.dim)
        self.theta = normalize_directions(streams.normal("instance", (environment.dim,)))  # (S, d)

    def contexts(self, start: int, rounds: int) -> Floats:
        drawn = self.streams.normal("contexts", (rounds, *self.shape))  # (S, rounds, K, d)
        drawn *= self.std
        drawn += self.mean
        if self.scaled:
            drawn /= np.sqrt(np.einsum("...i,...i->...", drawn, drawn))[..., None]
        return drawn

    def means(self, contexts: Floats) -> Floats:
        return np.asarray((contexts @ self.theta[:, None, :, None])[..., 0])


# Drifting contexts


_BEST = 0.75  # |theta|, the mean of the best arm


@dataclass(frozen=True, kw_only=True)
class DriftingContexts(Environment):
    """Arms on an arc through the best direction, at angles of every scale, in a plane that turns with the rounds.

    Every seed draws a uniform orthonormal frame g, b_1, ..., b_m, m = d - 1. In round t = 0, 1, ...

        x_k(t) = cos(a_k) g + sin(a_k) o(t),    theta = 3/4 g,    mean 3/4 cos(a_k)
        a_k    = h, -h, h/2, -h/2, h/4, -h/4, ...   and 0 for the last arm, which is the best
        h      = 2^{-U_t}, U_t uniform on [0, 1), fresh in every round
        o(t)   = cos(f pi/2) b_i + sin(f pi/2) b_{i+1},   i + f = m turns t / horizon,  i whole, indices modulo m

    Means lie in [0.4, 0.75]. One turn leads o(t) through all coordinate planes of the frame and back to b_1, so
    estimates along o(t) are stale after horizon / (m turns) rounds. For dim = 2 nothing turns; for dim = 1 the arms are
    cos(a_k) g.

    An arm at angle a costs ~ a^2 and adds ~ a^2 to the Gram matrix along o, so an optimistic policy of radius beta has
    regret of order beta sqrt T, as in the upper bounds of paper 000.

    Parameters
    ----------
    dim, n_arms : int
        Coordinates of a feature vector, and arms in a round.
    horizon : int
        The rounds in which o(t) makes `turns` turns.
    turns : float
        With 0 the arms are fixed, and h is drawn once.

    Examples
    --------
    >>> DriftingContexts(dim=4, n_arms=21, horizon=10_000)
    DriftingContexts(dim=4, n_arms=21, reward=Bernoulli(), horizon=10000, turns=1.0)
    """

    horizon: int
    turns: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "horizon", validation.integer("horizon", self.horizon))
        object.__setattr__(self, "turns", validation.non_negative("turns", self.turns))

    def begin(self, streams: Streams) -> LinearWorld:
        frame = _orthonormal_frame(streams.normal("instance", (self.dim, self.dim)))  # (S, d, d): rows g, b_1, ..., b_m
        world = DriftingWorld(environment=self, streams=streams, frame=frame)
        if self.turns > 0:
            return world
        return FixedArms(environment=self, streams=streams, theta=world.theta, arms=world.contexts(0, 1)[:, 0])

    def weights(self, rounds: NDArray[np.int64]) -> Floats:
        """Return o(t) in the basis b_1, ..., b_m: (rounds,) -> (rounds, m)."""
        m = self.dim - 1
        weights = np.zeros((len(rounds), m))
        if m < 2:
            weights[:] = 1.0
            return weights
        whole, part = np.divmod(m * self.turns * rounds / self.horizon, 1.0)  # i, f
        plane, rows = whole.astype(np.int64) % m, np.arange(len(rounds))
        weights[rows, plane] = np.cos(part * math.pi / 2)
        weights[rows, (plane + 1) % m] = np.sin(part * math.pi / 2)
        return weights

    @property
    def ladder(self) -> Floats:
        """The angles a_k of a round with h = 1, (K,)."""
        steps = np.arange(self.n_arms - 1)
        return np.append(np.where(steps % 2, -1.0, 1.0) * 0.5 ** (steps // 2), 0.0)


class DriftingWorld(LinearWorld):
    """World that `DriftingContexts` begins.

    Parameters
    ----------
    environment
        The `DriftingContexts` of this world.
    streams
        Random streams of S seeds, one world each.
    frame
        Orthonormal rows g, b_1, ..., b_m, (S, d, d); theta is 3/4 g.
    """

    def __init__(self, *, environment: DriftingContexts, streams: Streams, frame: Floats) -> None:
        super().__init__(environment=environment, streams=streams, theta=_BEST * frame[:, 0])
        self.drift = environment
        self.best, self.basis = frame[:, 0], frame[:, 1:]  # g: (S, d); b: (S, m, d)

    def contexts(self, start: int, rounds: int) -> Floats:
        towards = self.drift.weights(np.arange(start, start + rounds)) @ self.basis  # o(t): (S, rounds, d)
        height = 2.0 ** -self.streams.uniform("contexts", (rounds,))  # h: (S, rounds)
        angles = height[..., None] * self.drift.ladder  # a_k: (S, rounds, K)
        centre, side = np.cos(angles)[..., None], np.sin(angles)[..., None]
        return np.asarray(centre * self.best[:, None, None] + side * towards[:, :, None])


def _orthonormal_frame(normals: Floats) -> Floats:
    """Return a uniform orthonormal frame as rows: QR, with a positive diagonal, of Gaussian vectors."""
    q, r = np.linalg.qr(np.swapaxes(normals, -1, -2))
    signs = np.where(np.diagonal(r, axis1=-2, axis2=-1) < 0, -1.0, 1.0)  # (S, d)
    return np.asarray(signs[..., None] * np.swapaxes(q, -1, -2))


# Instances of paper 000


@dataclass(frozen=True, kw_only=True)
class PublishedLinear(Environment):
    """The instances on which the authors ran paper 000: arms x = (u, 1), theta = (v, 1/2).

    u is uniform on the unit sphere of R^{d-1}, v uniform with |v| = 1/2; both are drawn once per seed. The first d arms
    are e_1 + e_d, ..., e_{d-1} + e_d, and e_d. Means are <u, v> + 1/2.

    |x| = sqrt 2, while the paper's text says 1. `normalised=True` gives x / sqrt 2 and sqrt 2 theta with the same means
    and random numbers.

    Reference: Chowdhury and Zhou 2022 [000], section 5 and figures 1 and 2.

    Parameters
    ----------
    dim, n_arms : int
        Coordinates of a feature vector, and arms.
    normalised : bool
        Scale features to norm at most 1.

    Examples
    --------
    >>> PublishedLinear(dim=5, normalised=True)
    PublishedLinear(dim=5, n_arms=100, reward=Bernoulli(), normalised=True)
    """

    n_arms: int = 100
    normalised: bool = False

    def begin(self, streams: Streams) -> LinearWorld:
        scale = math.sqrt(2) if self.normalised else 1.0
        v, u = self.normals(streams)
        theta = append_entry(normalize_directions(v), 0.5, scale=0.5)  # (S, d)
        arms = append_entry(normalize_directions(u), 1.0)  # (S, K, d)
        basis = np.eye(self.dim)[: self.n_arms]
        basis[:, -1] = 1.0
        arms[:, : self.dim] = basis
        return FixedArms(environment=self, streams=streams, theta=scale * theta, arms=arms / scale)

    def normals(self, streams: Streams) -> tuple[Floats, Floats]:
        """Draw normal vectors in the directions of v and u."""
        return streams.normal("instance", (self.dim - 1,)), streams.normal("arms", (self.n_arms, self.dim - 1))
