"""Totals of shuffled counts: their exact laws under both neighbours, coordinate by coordinate.

Whoever counts sees, in each coordinate of each batch,

    total = sum_i floor(s x_i) + sum_i coin(rest of s x_i) + Bin(n b, p)          (`device.counts`)

with independent coins throughout: three laws that are convolved. Coordinates and levels are independent of each other.
The lattice, the coins and who draws them are read off the device and the mixer that run, not off the price.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import stats

from bandanna.audit.exact import Pair
from bandanna.core.arrays import Floats, Ints
from bandanna.device import Copies, Counts, Device, Rounded, lattice
from bandanna.protocols import ConcurrentShuffle
from bandanna.protocols.base import BatchProtocol, Protocol
from bandanna.protocols.roles import Counting

_FAR = 10.0  # standard deviations: what is farther away has a probability below 1e-22
_LONGEST = 4_000_000  # numbers of one total


def count_pairs(protocol: Protocol, one: Floats, two: Floats) -> list[Pair] | None:
    """Of all users' statistics in their order, (users, dim) each: the laws of every total that holds the person.

    None where other things than counts are released.
    """
    pairs: list[Pair] = []
    for device, mixer, mine, other in _batches(protocol, one, two):
        found = _totals(device, mixer, mine, other)
        if found is None:
            return None
        pairs += found
    return pairs or None


def _batches(protocol: Protocol, one: Floats, two: Floats) -> Iterator[tuple[Device, Any, Floats, Floats]]:
    """Device, mixer and statistics of every batch in which something differs."""
    if isinstance(protocol, ConcurrentShuffle):
        moved = np.flatnonzero(np.any(one != two, axis=-1))
        for device, mixer in zip(protocol.device.levels, protocol.mixer.levels, strict=True):
            for begin in sorted({int(place) // mixer.least * mixer.least for place in moved}):
                batch = slice(begin, begin + mixer.least)
                if begin + mixer.least <= len(one):  # batches that are not full are never released
                    yield device, mixer, one[batch], two[batch]
    elif isinstance(protocol, BatchProtocol):
        yield protocol.device, protocol.mixer, one, two


def _totals(device: Device, mixer: Any, one: Floats, two: Floats) -> list[Pair] | None:
    if not isinstance(mixer, Counting) or not isinstance(device, Counts | Rounded | Copies):
        return None
    trials = len(one) * (mixer.noise.trials if isinstance(device, Rounded) else device.trials)
    chance = mixer.noise.probability if isinstance(device, Rounded) else getattr(device, "probability", 0.5)
    pairs = []
    for column in np.flatnonzero(np.any(one != two, axis=0)):
        (low, mine), (other_low, other) = (_law(*_encoded(device, each, int(column))) for each in (one, two))
        noise = _binomial(trials, chance)
        if noise.size > _LONGEST:
            return None
        first = min(low, other_low)
        laws = [np.convolve(noise, law) for law in (mine, other)]
        length = max(low - first + laws[0].size, other_low - first + laws[1].size)
        placed = np.zeros((2, length))
        for row, begin, law in zip(placed, (low, other_low), laws, strict=True):
            row[begin - first : begin - first + law.size] = law
        pairs.append((placed[0], placed[1]))
    return pairs


def _encoded(device: Counts | Rounded | Copies, values: Floats, column: int) -> tuple[Ints, Floats]:
    """Of one coordinate of everybody: what is sent surely, and the chance that it is one more."""
    if isinstance(device, Copies):
        return device.copies * values[:, column].astype(np.int64), np.zeros(len(values))
    scaled = device.scale * np.maximum(values - device.domain.lower, 0.0)[:, column]
    whole = np.floor(scaled)
    largest = lattice.largest(device.scale, device.domain)[column]
    return np.minimum(whole, largest).astype(np.int64), np.where(whole < largest, scaled - whole, 0.0)


def _law(whole: Ints, rests: Floats) -> tuple[int, Floats]:
    """The least that the sum of everybody is, and its law from there on."""
    law = np.ones(1)
    for rest in rests[rests > 0]:
        law = np.append(law * (1 - rest), 0.0) + np.append(0.0, law * rest)
    kept = np.flatnonzero(law > 1e-30)
    return int(whole.sum() + kept[0]), law[kept[0] : kept[-1] + 1]


def _binomial(trials: int, chance: float) -> Floats:
    """Bin(trials, chance) around its mean, from a place that is the same in both worlds."""
    far = math.ceil(_FAR * math.sqrt(trials * chance * (1 - chance))) + 10
    middle = round(trials * chance)
    law = stats.binom.pmf(np.arange(max(0, middle - far), min(trials, middle + far) + 1), trials, chance)
    return np.asarray(law / law.sum())
