"""Noise from the operating system's entropy, exact in law on integers; it cannot be seeded."""

from __future__ import annotations

import importlib
import math
import os
import threading
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandanna.core import require
from bandanna.device.inversion import binomials
from bandanna.device.noise import NoiseSource, Size, at_least, on_grid, parameter, shape
from bandanna.errors import InsecureSource, MissingExtra


class SecureNoise(NoiseSource):
    """Noise for people: no seed, no floating-point noise, nothing approximated.

    Gaussian and Laplace releases are grid * (round(value / grid) + discrete noise) with integers inside the bracket;
    the released float is a function of that integer alone, so floating point leaks nothing about the value.
    Discrete Gaussian and Laplace noise comes from OpenDP (extra `secure`), which draws from a cryptographic generator
    that the operating system seeds; binomials, uniforms and permutations come from os.urandom, which needs neither a
    key in this process nor care when it forks: a binomial takes 8 bytes, however many its trials.
    """

    secure = True

    def __init__(self, *arguments: Any, **named: Any) -> None:
        if arguments or named:
            raise InsecureSource(
                "SecureNoise() takes no argument: it draws from the operating system and cannot be seeded"
            )

    def gaussian(self, value: ArrayLike, *, std: float, grid: float) -> NDArray[np.float64]:
        """Multiples of the grid: the rounded value plus a discrete Gaussian of parameter std / grid."""
        return np.asarray(self.gaussian_steps(on_grid(value, grid), std=std, grid=grid) * grid)

    def laplace(self, value: ArrayLike, *, scale: float, grid: float) -> NDArray[np.float64]:
        """Multiples of the grid: the rounded value plus a discrete Laplace of parameter scale / grid."""
        steps = on_grid(value, grid)
        ratio = at_least("scale", require.positive("scale", scale), grid)
        return np.asarray((steps + self.discrete_laplace(scale=ratio, size=steps.shape)) * grid)

    def discrete_gaussian(self, *, std: float, size: Size) -> NDArray[np.int64]:
        """OpenDP's exact sampler (Canonne, Kamath and Steinke 2020), one call for the whole array."""
        opendp = _opendp("discrete Gaussian noise from SecureNoise")
        return _noise(_gaussian(opendp, parameter("std", std), threading.get_ident()), shape(size))

    def discrete_laplace(self, *, scale: float, size: Size) -> NDArray[np.int64]:
        """OpenDP's exact sampler, one call for the whole array."""
        parameter("scale", scale)
        opendp = _opendp("discrete Laplace noise from SecureNoise")
        space = opendp.vector_domain(opendp.atom_domain(T="i64")), opendp.l1_distance(T="i64")
        return _noise(opendp.m.make_laplace(*space, scale=float(scale)), shape(size))

    def binomial(self, *, trials: int, probability: float, size: Size) -> NDArray[np.int64]:
        """Exact for every probability that a float can have, by inversion (`inversion`)."""
        chance = Fraction(require.chance("probability", probability))
        wanted, trials = shape(size), require.whole("trials", trials, least=0)
        return binomials(trials, chance, math.prod(wanted), _words).reshape(wanted)

    def coins(self, counts: NDArray[np.int64], chances: NDArray[np.float64]) -> NDArray[np.int64]:
        """Refused: a deployment draws the coins of every message."""
        raise InsecureSource("coins of many users at once are a shortcut of simulations; a secure source draws each")

    def uniform(self, size: Size) -> NDArray[np.float64]:
        """The upper 53 of 64 random bits each, times 2^-53."""
        return np.asarray((_words(shape(size)) >> np.uint64(11)) * 2.0**-53)

    def permutation(self, n: int, size: Size = ()) -> NDArray[np.int64]:
        """The order of random 64-bit keys, drawn anew for a row with equal keys: given distinct keys it is uniform."""
        wanted = (*shape(size), require.whole("n", n))
        keys = _words(wanted).reshape(-1, n)
        while (again := (np.diff(np.sort(keys, axis=-1), axis=-1) == 0).any(axis=-1)).any():
            keys[again] = _words((int(again.sum()), n))
        return np.argsort(keys, axis=-1).astype(np.int64).reshape(wanted)


@dataclass(frozen=True)
class _OpenDP:
    """What is used of OpenDP's prelude, which as a whole takes two seconds to import: it looks for data frames."""

    m: Any
    vector_domain: Any
    atom_domain: Any
    l1_distance: Any
    l2_distance: Any


def _opendp(needed_for: str) -> _OpenDP:
    """OpenDP, imported on first use."""
    try:
        importlib.import_module("opendp")
        return _parts()
    except ImportError:
        raise MissingExtra("secure", needed_for) from None


@cache
def _parts() -> _OpenDP:
    """Looked up once: a release should not pay for it."""
    parts = ("opendp.mod", "opendp.measurements", "opendp.domains", "opendp.metrics")
    mod, m, domains, metrics = map(importlib.import_module, parts)
    mod.enable_features("contrib")
    return _OpenDP(m, domains.vector_domain, domains.atom_domain, metrics.l1_distance, metrics.l2_distance)


@lru_cache(maxsize=64)
def _gaussian(opendp: Any, std: float, thread: int) -> Any:
    """OpenDP's mechanism, kept for the thread that made it: a stream asks for the same one at every step."""
    space = opendp.vector_domain(opendp.atom_domain(T="i64")), opendp.l2_distance(T="i64")
    return opendp.m.make_gaussian(*space, scale=std)


def _noise(measurement: Any, wanted: tuple[int, ...]) -> NDArray[np.int64]:
    """Integer noise: the measurement's release of zeros."""
    if math.prod(wanted) == 0:
        return np.zeros(wanted, dtype=np.int64)
    return np.array(measurement([0] * math.prod(wanted)), dtype=np.int64).reshape(wanted)


def _words(wanted: tuple[int, ...]) -> NDArray[np.uint64]:
    """Random 64-bit words."""
    return np.frombuffer(bytearray(os.urandom(8 * math.prod(wanted))), dtype=np.uint64).reshape(wanted)
