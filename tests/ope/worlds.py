"""Logs whose truth is known, for tests of estimates and intervals."""

from __future__ import annotations

import csv
import importlib.util
from collections.abc import Callable
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
    return softmax(2 * contexts @ SLOPES.T)


def means(contexts: Floats) -> Floats:
    return np.asarray(0.8 / (1 + np.exp(-contexts @ SLOPES.T)))


def model(contexts: Floats) -> Floats:
    return np.asarray(0.05 + 0.9 * means(contexts))


# How rewards are drawn: their mean is a + b means(x); of 0 and 1, or of a beta law with this concentration.
REWARDS: dict[str, tuple[float, float, float | None]] = {
    "binary": (0.0, 1.0, None),
    "graded": (0.0, 1.0, 5.0),
    "narrow": (0.85, 0.1, 40.0),  # 0.9 +- 0.05
    "skewed": (0.0, 0.15, 3.0),
    "rare": (0.0, 0.03, None),
    "common": (1.0, -0.03, None),
}


def mean_rewards(rewards: str, contexts: Floats) -> Floats:
    least, slope, _ = REWARDS[rewards]
    return least + slope * means(contexts)


def clinic(n: int, seed: int, *, floor: float | None = 0.1, rewards: str = "binary") -> bd.Log:
    """Three arms, two features; the log prefers what the target does not."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    chances = 0.1 + 0.7 * softmax(-0.5 * x @ SLOPES.T)
    arms = np.minimum((rng.random((n, 1)) > np.cumsum(chances, axis=1)).sum(axis=1), 2)
    rows = np.arange(n)
    expected, size = mean_rewards(rewards, x)[rows, arms], REWARDS[rewards][2]
    earned = (rng.random(n) < expected).astype(float)
    if size is not None:
        earned = rng.beta(size * expected, size * (1 - expected))
    return bd.Log(contexts=x, arms=arms, rewards=earned, propensities=chances[rows, arms], names=(0, 1, 2), floor=floor)


def worth(target: Callable[[Floats], Floats], reward: Callable[[Floats], Floats] = means) -> float:
    """The mean over people of what a target earns, by a fine grid of both features."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    grid = np.stack(np.meshgrid(nodes, nodes), axis=-1).reshape(-1, 2)
    share = np.outer(weights, weights).ravel() / weights.sum() ** 2
    return float(share @ np.sum(target(grid) * reward(grid), axis=1))


@lru_cache(maxsize=1)
def worth_of_bold() -> float:
    return worth(bold)


def trial(n: int, seed: int, chances: tuple[float, ...] = (0.436, 0.653, 0.555, 0.556)) -> bd.Log:
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


@lru_cache(maxsize=1)
def visits() -> tuple[NDArray[np.int64], Floats]:
    """Of the RAND health insurance experiment: coinsurance, as one of five arms, and visits to a doctor, up to 20."""
    file = Path(str(importlib.util.find_spec("statsmodels").origin)).parent / "datasets" / "randhie" / "randhie.csv"  # type: ignore[union-attr]
    with file.open(newline="") as text:
        rows = [(round(float(row["lncoins"]), 3), min(float(row["mdvis"]), 20.0)) for row in csv.DictReader(text)]
    arms = np.unique([coinsurance for coinsurance, _ in rows], return_inverse=True)[1]
    return arms, np.array([visits for _, visits in rows])


def insured(n: int, seed: int) -> bd.Log:
    """Rows of that experiment drawn again: the truth of an arm is the mean of its rows."""
    arms, counts = visits()
    drawn = np.random.default_rng(seed).integers(0, len(arms), n)
    shares = np.bincount(arms) / len(arms)
    return bd.Log(
        contexts=np.zeros((n, 0)), arms=arms[drawn], rewards=counts[drawn], reward_range=(0.0, 20.0),
        propensities=shares[arms[drawn]], names=(0, 1, 2, 3, 4), floor=float(shares.min()),
    )  # fmt: skip
