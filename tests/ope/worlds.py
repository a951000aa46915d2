"""Logs whose truth is known, for tests of estimates and intervals."""

from __future__ import annotations

import csv
import importlib.util
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import bandanna as bd

Floats = NDArray[np.float64]
SLOPES = np.array([[1.0, 0.0], [-0.5, 0.9], [-0.5, -0.9]])


def softmax(scores: Floats) -> Floats:
    """Rows that add up to 1."""
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def bold(contexts: Floats) -> Floats:
    """A target that prefers arms whose slope agrees with the context."""
    return softmax(2 * contexts @ SLOPES.T)


def means(contexts: Floats) -> Floats:
    """What arms earn."""
    return np.asarray(0.8 / (1 + np.exp(-contexts @ SLOPES.T)))


def model(contexts: Floats) -> Floats:
    """A model that is not quite right."""
    return np.asarray(0.05 + 0.9 * means(contexts))


def clinic(n: int, seed: int, *, floor: float | None = 0.1, graded: bool = False) -> bd.Log:
    """Three arms, two features; the log prefers what the target does not. Rewards of 0 and 1, or in between."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    chances = 0.1 + 0.7 * softmax(-0.5 * x @ SLOPES.T)
    arms = np.minimum((rng.random((n, 1)) > np.cumsum(chances, axis=1)).sum(axis=1), 2)
    rows = np.arange(n)
    expected = means(x)[rows, arms]
    rewards = rng.beta(5 * expected, 5 * (1 - expected)) if graded else (rng.random(n) < expected).astype(float)
    return bd.Log(
        contexts=x, arms=arms, rewards=rewards, propensities=chances[rows, arms], names=(0, 1, 2), floor=floor
    )


@lru_cache(maxsize=1)
def worth_of_bold() -> float:
    """The mean reward of the target, by a fine grid of both features."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    grid = np.stack(np.meshgrid(nodes, nodes), axis=-1).reshape(-1, 2)
    share = np.outer(weights, weights).ravel() / weights.sum() ** 2
    return float(share @ np.sum(bold(grid) * means(grid), axis=1))


def trial(n: int, seed: int, chances: tuple[float, ...] = (0.436, 0.653, 0.555, 0.556)) -> bd.Log:
    """A randomised trial without features."""
    rng = np.random.default_rng(seed)
    arms = rng.integers(0, len(chances), n)
    rewards = (rng.random(n) < np.array(chances)[arms]).astype(float)
    share = 1 / len(chances)
    return bd.Log(
        contexts=np.zeros((n, 0)), arms=arms, rewards=rewards, propensities=np.full(n, share),
        names=tuple(range(len(chances))), floor=share,
    )  # fmt: skip


@lru_cache(maxsize=1)
def actg() -> tuple[Floats, ...]:
    """Of ACTG 175, for each of its four arms whether the CD4 count of everybody in it has risen after 20 weeks."""
    found = importlib.util.find_spec("lifelines")
    file = None if found is None or found.origin is None else Path(found.origin).parent / "datasets" / "ACTG175.csv"
    if file is None or not file.is_file():
        pytest.skip("ACTG 175 comes with lifelines: pip install 'bandanna[data]'")
    with file.open(newline="") as text:
        rows = [(int(row["arms"]), float(float(row["cd420"]) > float(row["cd40"]))) for row in csv.DictReader(text)]
    return tuple(np.array([risen for arm, risen in rows if arm == wanted]) for wanted in range(4))


def bootstrapped(n: int, seed: int) -> bd.Log:
    """Patients of ACTG 175 drawn again, arms at random: the truth of an arm is the mean of its patients."""
    rng, people = np.random.default_rng(seed), actg()
    arms, draws = rng.integers(0, 4, n), rng.random(n)
    rewards = np.choose(arms, [people[arm][(draws * len(people[arm])).astype(int)] for arm in range(4)])
    return bd.Log(
        contexts=np.zeros((n, 0)), arms=arms, rewards=rewards, propensities=np.full(n, 0.25), names=(0, 1, 2, 3),
        floor=0.25,
    )  # fmt: skip
