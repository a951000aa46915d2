"""Laplace noise by the textbook, in floating point: the set of outputs that are possible tells the value.

    noise = -scale s log(U),     U a multiple of 2^-53 in (0, 1], s a fair sign,     output = fl(value + noise)

Real Laplace noise reaches everything from everywhere. Of the floats only some are reached from 0, and others from 1:
an output that is possible from the one value only gives it away, whatever epsilon is (Mironov 2012).
"""

from __future__ import annotations

import numpy as np

from bandanna.audit.claims import Claim
from bandanna.audit.targets import Target
from bandanna.core.arrays import Bools, Floats

_STEP = 2.0**-53
_AROUND = 8  # uniforms on either side of the one that fits best


def textbook(value: float, scale: float, runs: int, rng: np.random.Generator) -> Floats:
    """value + Laplace(scale), as it is usually written."""
    uniform = 1.0 - rng.random(runs)
    return np.asarray(value + np.where(rng.random(runs) < 0.5, 1.0, -1.0) * (-scale * np.log(uniform)))


def reachable(outputs: Floats, value: float, scale: float) -> Bools:
    """Whether some uniform number gives exactly this output from the value, (runs,).

    Only the uniforms nearest to the inverse are tried; where U is above 1/2, all that round to the output are among
    them up to some steps. To miss one makes an output look impossible under both values alike, never under one by law.
    """
    noise = outputs - value
    best = np.rint(np.exp(-np.abs(noise) / scale) / _STEP)
    around = best[:, None] + np.arange(-_AROUND, _AROUND + 1)
    uniform = np.clip(around, 1.0, 2.0**53) * _STEP
    again = value + np.sign(noise)[:, None] * (-scale * np.log(uniform))
    return np.asarray(np.any(again == outputs[:, None], axis=1))


def float_laplace() -> Target:
    """Pure epsilon = 1 is claimed for a value that is 0 or 1."""

    def draw(swapped: bool, runs: int, rng: np.random.Generator) -> Floats:
        outputs = textbook(float(swapped), 1.0, runs, rng)
        from_zero, from_one = reachable(outputs, 0.0, 1.0), reachable(outputs, 1.0, 1.0)
        return np.asarray(from_zero.astype(float) - from_one.astype(float))[:, None]

    return Target(name="", claim=Claim(epsilon=1.0, delta=0.0), draw=draw)
