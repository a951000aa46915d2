"""Linear worlds: the mean reward of an arm with features x is <x, theta>, in [0, 1]."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.core.streams import Streams
from bandanna.environments.base import Environment, World

_HALF = math.sqrt(0.5)
_TOGETHER = 4096  # vectors between draw and arm at a time: they stay in a cache
_FEW = 8  # entries: columns as long as `_TOGETHER` are quicker than so short rows


@dataclass(frozen=True, kw_only=True)
class LinearContextual(Environment):
    """Features and theta of norm 1: a uniform direction of norm 1/sqrt 2 in d-1 dimensions and a last entry 1/sqrt 2.

    Means are (1 + cos angle)/2. With `fixed`, arms are drawn once per run; otherwise anew in every round. In dim = 1
    only the last entry is left: all arms are equal, with mean 1/2.
    """

    fixed: bool = False

    def begin(self, streams: Streams) -> LinearWorld:
        """theta from the stream "instance", fixed arms from "arms", fresh ones from "contexts"."""
        theta = appended(directions(streams.normal("instance", (self.dim - 1,))), _HALF, scale=_HALF)  # (S, d)
        if not self.fixed:
            return FreshArms(environment=self, streams=streams, theta=theta)
        normals = streams.normal("arms", (self.n_arms, self.dim - 1))
        arms = appended(directions(normals), _HALF, scale=_HALF)  # (S, K, d)
        return FixedArms(environment=self, streams=streams, theta=theta, arms=arms)


class LinearWorld(World):
    """Worlds with one theta per seed; subclasses say what the arms are."""

    def __init__(self, *, environment: Environment, streams: Streams, theta: Floats, fixed: bool = False) -> None:
        super().__init__(environment=environment, streams=streams, fixed=fixed)
        self.theta = theta  # (S, d)

    def means(self, contexts: Floats) -> Floats:
        """<x, theta>; rounding errors beyond [0, 1] are cut off."""
        means = np.asarray((contexts @ self.theta[:, None, :, None])[..., 0])
        return np.clip(means, 0.0, 1.0, out=means)


class FixedArms(LinearWorld):
    """The same arms in every round."""

    def __init__(self, *, environment: Environment, streams: Streams, theta: Floats, arms: Floats) -> None:
        super().__init__(environment=environment, streams=streams, theta=theta, fixed=True)
        self.arms = arms  # (S, K, d)

    def contexts(self, start: int, rounds: int) -> Floats:
        """The arms, once."""
        return self.arms[:, None]


class FreshArms(LinearWorld):
    """Arms drawn anew in every round, as `LinearContextual` says."""

    unit = True

    def contexts(self, start: int, rounds: int) -> Floats:
        """Uniform directions from the stream "contexts"."""
        normals = self.streams.normal("contexts", (rounds, self.n_arms, self.environment.dim - 1))
        return pointing(normals, _HALF, last=_HALF)


def directions(normals: Floats) -> Floats:
    """Uniform on the unit sphere: normalised Gaussian vectors."""
    return np.asarray(normals / _lengths(normals)[..., None])


def _lengths(normals: Floats) -> Floats:
    """Of vectors (..., d); squares of a few entries are added up in their order."""
    if normals.shape[-1] > _FEW:
        squares = np.einsum("...i,...i->...", normals, normals)
    else:
        squares = np.zeros(normals.shape[:-1])
        for place in range(normals.shape[-1]):
            squares += np.square(normals[..., place])
    return np.asarray(np.maximum(np.sqrt(squares, out=squares), 1e-300, out=squares))


def pointing(normals: Floats, length: float, *, kept: int | None = None, last: float | None = None) -> Floats:
    """`directions(normals)` times `length`: of each the first `kept` entries (None: all), or all and one more, `last`.

    The same numbers bit for bit, without large arrays in between.
    """
    *shape, dim = normals.shape
    full = np.empty((*shape, _width(dim, kept, last)))
    count = math.prod(shape)
    flat, out = normals.reshape(count, dim), full.reshape(count, full.shape[-1])
    for start in range(0, count, _TOGETHER):
        some = slice(start, start + _TOGETHER)
        _fill(flat[some], length, out[some, :dim])
    if last is not None:
        full[..., -1] = last
    return full


def _width(dim: int, kept: int | None, last: float | None) -> int:
    return (dim if kept is None else kept) + (last is not None)


def _fill(normals: Floats, length: float, out: Floats) -> None:
    """The first entries of vectors (n, d): (n, kept)."""
    norms, first = _lengths(normals), normals[:, : out.shape[1]]
    if normals.shape[-1] > _FEW:
        np.multiply(first / norms[:, None], length, out=out)
        return
    for column, entries in zip(out.T, first.T, strict=True):
        np.divide(entries, norms, out=column)
        column *= length


def appended(vectors: Floats, last: float, *, scale: float = 1.0) -> Floats:
    """The vectors times `scale`, with one more entry."""
    full = np.empty((*vectors.shape[:-1], vectors.shape[-1] + 1))
    np.multiply(vectors, scale, out=full[..., :-1])
    full[..., -1] = last
    return full
