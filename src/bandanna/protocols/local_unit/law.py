"""Law of the local sum of directions, without steps: an angle and a uniform direction across it, for every user.

A sum of such vectors has no law of its own that could be drawn at once: users are drawn one by one, some at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy import special

from bandanna.accounting import caps
from bandanna.accounting.events import CapEvent
from bandanna.core.arrays import Floats
from bandanna.core.domain import Domain, Statistic
from bandanna.device.caps import directions
from bandanna.mechanisms.sources import NoiseSource

_AT_ONCE = 2**20  # numbers held at a time


def leaning(statistic: Statistic, event: CapEvent, source: NoiseSource) -> Floats:
    """sum_i u_i, (..., users, dim) -> (..., dim).

        u = T u0 + sqrt(1 - T^2) v,     v uniform among the unit vectors across u0

    T is drawn by inversion of its law given that it is inside the cap, or outside. Steps of candidates are left out:
    as the fast Gaussian's grid, they change no probability by more than the share that `caps.masses` allows.
    """
    drawn = (_leaning(rows, statistic.domain, event, source) for part in statistic.parts() for rows in _blocks(part))
    return np.asarray(sum(drawn))


def _leaning(rows: Floats, domain: Domain, event: CapEvent, source: NoiseSource) -> Floats:
    """Of some users, (..., some, dim) -> (..., dim)."""
    centre, radius = domain.ball
    units, lengths = directions((rows - centre) / radius)
    coins = source.uniform((*lengths.shape, 2))
    signs = np.where(coins[..., 0] < (1 + np.minimum(lengths, 1.0)) / 2, 1.0, -1.0)
    cosines = cosine_of(coins[..., 1], event)[..., None]
    drawn = source.gaussian(np.zeros(rows.shape), std=1.0, grid=0.0)
    across = drawn - np.sum(drawn * units, axis=-1, keepdims=True) * units
    across /= np.sqrt(np.sum(across * across, axis=-1, keepdims=True))
    along = cosines * signs[..., None] * units
    return np.asarray(np.sum(along + np.sqrt(1 - cosines**2) * across, axis=-2))


def cosine_of(uniform: Floats, event: CapEvent) -> Floats:
    """T of a message by inversion: below p inside the cap, where P(T >= t) runs from 0 to q; beyond it from q to 1."""
    q, p = caps.cap(event.dim, event.cosine).mass, caps.share_inside(event)
    inside = uniform < p
    beyond = np.where(inside, uniform / p * q, q + (uniform - p) / (1 - p) * (1 - q))  # P(T >= t)
    smaller = np.minimum(beyond, 1 - beyond)
    sizes = np.sqrt(1 - special.betaincinv((event.dim - 1) / 2, 0.5, np.clip(2 * smaller, 0.0, 1.0)))
    return np.asarray(np.where(beyond <= 0.5, sizes, -sizes))


def _blocks(statistic: Statistic) -> Iterator[Floats]:
    """Rows of some users at a time, (..., some, dim); a row that several share is repeated."""
    values, lead = statistic.values, statistic.values.shape[:-2]
    some = max(1, _AT_ONCE // (statistic.domain.dim * max(1, math.prod(lead))))
    if statistic.counts is None:
        for begin in range(0, values.shape[-2], some):
            yield values[..., begin : begin + some, :]
        return
    ends = np.cumsum(statistic.counts, axis=-1)  # (..., groups): where in the batch each group ends
    for begin in range(0, statistic.users, some):
        places = np.arange(begin, min(begin + some, statistic.users))
        group = np.sum(places[:, None] >= ends[..., None, :], axis=-1)  # (..., some)
        yield np.take_along_axis(values, group[..., None], axis=-2)
