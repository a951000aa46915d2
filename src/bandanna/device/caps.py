"""Directions: one of several random ones, chosen by whether it points as the statistic does; integers throughout.

Candidates are drawn before anybody looks at the data, by a fixed function of random words, so that no rounding of it
can tell anything. The one thing that depends on the data is which candidate is sent, and that is decided by integers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bandanna.core import require
from bandanna.core.arrays import Bools, Floats, Ints
from bandanna.device.base import Device
from bandanna.device.noise import NoiseSource
from bandanna.errors import InvalidArgument
from bandanna.storage.declared import stored_as

CAP_STEPS = 2**22  # of a candidate's coordinate to a standard deviation, at most
CAP_COORDINATES = 2**13  # so that squared lengths are 64-bit integers
CAP_CANDIDATES = 2**16
_AIM = 2.0**28  # steps of the direction that is aimed at
_RAREST = 2.0**-64  # probability beyond which a pair of Gaussians is cut
FARTHEST = math.sqrt(-2 * math.log(_RAREST))  # standard deviations: no coordinate of a candidate is larger
_AT_ONCE = 2**20  # random numbers held at a time


@stored_as("Direction")
@dataclass(frozen=True, kw_only=True)
class Direction(Device):
    """A direction that leans towards the statistic: the first of N `candidates` inside its cap, or the first outside.

        w = (x - centre) / radius,    u0 = w/|w| with probability (1 + |w|)/2, else -w/|w|      (unbiased: E u0 = w)
        message = the first g of g_1, ..., g_N with [<g, u0> >= cosine |g|] = [coin < chance]; g_1 where there is none

    Candidates are Gaussian vectors in whole steps, `steps` to a standard deviation. Which one is sent depends on
    integers alone: <g, a> and |g|^2, exact, for a = round(2^28 u0).

    Privacy: pure, whoever sees it (`mechanisms.priv_unit`). Random words, arithmetic and memory are as many for every
    statistic, however the coins fall: the number of tries is fixed, so there is none that time could tell.
    """

    cosine: float
    chance: float
    candidates: int
    steps: int = CAP_STEPS

    def __post_init__(self) -> None:
        require.store(self, require.share, "cosine", "chance")
        require.store(self, require.whole, "candidates", most=CAP_CANDIDATES)
        require.store(self, require.whole, "steps", most=CAP_STEPS)
        few_coordinates(self.domain.dim)

    def encode(self, values: Floats, source: NoiseSource) -> Ints:
        """(..., users, dim) -> (..., users, dim), some users at a time; each draws its numbers one after the other."""
        centre, radius = self.domain.ball
        pairs = (self.domain.dim + 1) // 2
        numbers = 3 + 3 * self.candidates * pairs
        block = max(1, _AT_ONCE // (numbers * max(1, math.prod(values.shape[:-2]))))
        sent = [np.zeros((*values.shape[:-2], 0, self.domain.dim), dtype=np.int64)]
        for begin in range(0, values.shape[-2], block):
            inside = (values[..., begin : begin + block, :] - centre) / radius
            drawn = source.uniform((*inside.shape[:-1], numbers))
            sent.append(self._send(inside, drawn))
        return np.concatenate(sent, axis=-2)

    def _send(self, inside: Floats, drawn: Floats) -> Ints:
        """One candidate for every point of the unit ball; where the search begins is random, or places would matter."""
        count, aims = self.candidates, aim(inside, drawn[..., 0])
        words = drawn[..., 3:].reshape(*aims.shape[:-1], count, 3, (self.domain.dim + 1) // 2)
        found = candidates(words, self.steps)[..., : self.domain.dim]  # (..., users, N, dim)
        fits = within(found, aims, self.cosine) == (drawn[..., 1] < self.chance)[..., None]
        begin = np.floor(drawn[..., 2] * count).astype(np.int64)
        order = (np.arange(count) - begin[..., None]) % count
        place = np.min(np.where(fits, order, count), axis=-1)  # argmax would stop at the first: time would tell
        place = (place % count + begin) % count
        return np.asarray(np.take_along_axis(found, place[..., None, None], axis=-2)[..., 0, :])


def aim(inside: Floats, rounding: Floats) -> Ints:
    """Points of the unit ball, rounded to its sphere at random, in steps of 2^-28: (..., dim) -> (..., dim)."""
    units, lengths = directions(inside)
    signs = np.where(rounding < (1 + np.minimum(lengths, 1.0)) / 2, _AIM, -_AIM)
    return np.asarray(np.rint(units * signs[..., None]), dtype=np.int64)


def directions(inside: Floats) -> tuple[Floats, Floats]:
    """Unit vectors and lengths, (..., dim) and (...); of 0 the first axis, which is public."""
    peaks = np.max(np.abs(inside), axis=-1, keepdims=True)
    units = np.divide(inside, peaks, out=np.zeros_like(inside), where=peaks > 0)
    units[..., 0] = np.where(peaks[..., 0] > 0, units[..., 0], 1.0)
    units = np.ascontiguousarray(units)
    norms = np.sqrt(np.einsum("...i,...i->...", units, units))
    return units / norms[..., None], peaks[..., 0] * norms


def candidates(words: Floats, steps: int) -> Ints:
    """Gaussian vectors in whole steps, from three uniform numbers for each pair of coordinates (Box and Muller).

    (..., 3, pairs) -> (..., 2 pairs). Each coordinate is within one step of an exact Gaussian's, but for a probability
    of 2^-64 a pair (calibration.md D.3): the second number continues the first beyond its 53 digits.
    """
    first, more, turn = (np.ascontiguousarray(words[..., k, :]) for k in range(3))
    share = np.maximum(first + (1 - more) * 2.0**-53, _RAREST)  # in (0, 1]
    lengths, angles = np.sqrt(-2 * np.log(share)), 2 * math.pi * turn
    pairs = np.stack([lengths * np.cos(angles), lengths * np.sin(angles)], axis=-1)
    return np.asarray(np.rint(pairs * steps), dtype=np.int64).reshape(*first.shape[:-1], 2 * first.shape[-1])


def within(found: Ints, aims: Ints, cosine: float) -> Bools:
    """Whether <g, a> >= cosine |g| |a|: (..., N, dim) and (..., dim) -> (..., N).

    The same for the same integers, whatever stands beside them: sums of integers are exact in any order, and what is
    left is four roundings of IEEE 754.
    """
    along = np.einsum("...ni,...i->...n", found, aims)
    squares = np.einsum("...ni,...ni->...n", found, found)
    bar = cosine * np.sqrt(np.einsum("...i,...i->...", aims, aims).astype(float))
    return np.asarray(along.astype(float) >= bar[..., None] * np.sqrt(squares.astype(float)))


def units(messages: Ints) -> Floats:
    """The directions of messages, g/|g|: (..., dim) -> (..., dim); of 0, which has none, 0."""
    squares = np.einsum("...i,...i->...", messages, messages).astype(float)
    return np.asarray(messages / np.sqrt(np.maximum(squares, 1.0))[..., None])


def few_coordinates(dim: Any) -> int:
    """Whether directions of so many coordinates can be drawn."""
    if not 2 <= (number := require.whole("dim", dim)) <= CAP_COORDINATES:
        raise InvalidArgument("dim", number, f"from 2 to {CAP_COORDINATES:,} coordinates for directions")
    return number
