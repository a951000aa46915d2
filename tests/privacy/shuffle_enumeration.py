"""Exact laws of shuffled reports, by enumeration: the second route to the amplification bounds, for n <= 8."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement, permutations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def k_ary_response(*, outputs: int, local_epsilon: float) -> Array:
    """Randomized response on `outputs` values: row x is the law of the report of input x."""
    table = np.ones((outputs, outputs)) + (np.exp(local_epsilon) - 1) * np.eye(outputs)
    return table / table.sum(axis=1, keepdims=True)


def random_randomizer(rng: np.random.Generator, *, inputs: int, outputs: int, spread: float) -> Array:
    """An arbitrary randomizer with some local epsilon (see `local_epsilon`)."""
    table = rng.dirichlet(np.ones(outputs)) * np.exp(spread * rng.random((inputs, outputs)))
    return np.asarray(table / table.sum(axis=1, keepdims=True))


def local_epsilon(randomizer: Array) -> float:
    """Largest log-ratio between two rows."""
    logs = np.log(randomizer)
    return float((logs.max(axis=0) - logs.min(axis=0)).max())


def add_user(law: Array, row: Array) -> Array:
    """Law of the counts of all outputs but the last (one axis each) after one more report with law `row`."""
    total = row[-1] * law
    for axis, probability in enumerate(row[:-1]):
        total = total + probability * np.roll(law, 1, axis=axis)
    return np.asarray(total)


def shuffled_law(randomizer: Array, data: tuple[int, ...], users: int) -> Array:
    """Exact law of the multiset of the reports of `data`, on a lattice that holds `users` reports."""
    law = np.zeros((users + 1,) * (randomizer.shape[1] - 1))
    law.flat[0] = 1.0
    for x in data:
        law = add_user(law, randomizer[x])
    return law


def neighbours(randomizer: Array, users: int) -> Iterator[tuple[Array, Array]]:
    """The laws of the shuffled reports for all pairs of batches that differ in one person (all, up to order)."""
    inputs = range(len(randomizer))
    for others in combinations_with_replacement(inputs, users - 1):
        law = shuffled_law(randomizer, others, users)
        for x, y in permutations(inputs, 2):
            yield add_user(law, randomizer[x]), add_user(law, randomizer[y])


def hockey_stick(p: Array, q: Array, epsilon: float) -> float:
    """sum (p - e^epsilon q)_+."""
    return float(np.maximum(p - np.exp(epsilon) * q, 0.0).sum())


def worst_delta(randomizer: Array, users: int, epsilons: Array) -> Array:
    """Exact delta of the shuffled randomizer at each epsilon."""
    pairs = list(neighbours(randomizer, users))
    return np.array([max(hockey_stick(p, q, e) for p, q in pairs) for e in epsilons])
