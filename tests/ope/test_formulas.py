"""Without privacy, estimates are the textbook's: the formulas are written out here once more, row by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bandanna as bd

from .worlds import bold, clinic, model

# Seven logged rounds, by hand: arm, reward, propensity, what the target gives to each arm, what a model expects of it.
SMALL = [
    (0, 1.0, 0.5, (0.2, 0.5, 0.3), (0.4, 0.3, 0.2)),
    (1, 0.0, 0.25, (0.1, 0.8, 0.1), (0.5, 0.1, 0.9)),
    (2, 0.6, 0.25, (0.0, 0.1, 0.9), (0.2, 0.2, 0.7)),
    (1, 1.0, 0.1, (0.3, 0.6, 0.1), (0.3, 0.8, 0.4)),
    (0, 0.3, 0.7, (1.0, 0.0, 0.0), (0.6, 0.5, 0.5)),
    (2, 0.0, 0.2, (0.5, 0.5, 0.0), (0.1, 0.9, 0.3)),
    (1, 0.9, 0.4, (0.25, 0.25, 0.5), (0.7, 0.6, 0.1)),
]
ROWS = list(range(len(SMALL)))


def stored() -> tuple[bd.Log, Any, Any]:
    """The log, the target and the model."""
    arms, rewards, chances, target, q = zip(*SMALL, strict=True)
    frame = {"arm": arms, "reward": rewards, "p": chances}
    log = bd.Log.from_frame(frame, arm="arm", reward="reward", propensity="p")
    return log, np.array(target), np.array(q)


def weight(row: int, cut: float = np.inf) -> float:
    """pi/p."""
    arm, _, chance, target, _ = SMALL[row]
    return min(target[arm] / chance, cut)


def expected(row: int) -> float:
    """sum_a pi(a) q(a)."""
    return sum(pi * q for pi, q in zip(SMALL[row][3], SMALL[row][4], strict=True))


def residual(row: int) -> float:
    """r - q of the logged arm."""
    return SMALL[row][1] - SMALL[row][4][SMALL[row][0]]


def average(of: Callable[[int], float]) -> float:
    """Over all rows."""
    return sum(of(row) for row in ROWS) / len(ROWS)


FORMULAS: dict[str, tuple[Callable[..., Any], dict[str, Any], float]] = {
    "ips": (bd.ope.ips, {}, average(lambda i: weight(i) * SMALL[i][1])),
    "ips, cut": (bd.ope.ips, {"weight_bound": 2.0}, average(lambda i: weight(i, 2.0) * SMALL[i][1])),
    "snips": (bd.ope.snips, {}, average(lambda i: weight(i) * SMALL[i][1]) / average(weight)),
    "snips, cut": (
        bd.ope.snips,
        {"weight_bound": 2.0},
        average(lambda i: weight(i, 2.0) * SMALL[i][1]) / average(lambda i: weight(i, 2.0)),
    ),
    "dm": (bd.ope.dm, {"q": None}, average(expected)),
    "dr": (bd.ope.dr, {"q": None}, average(lambda i: expected(i) + weight(i) * residual(i))),
    "dr, cut": (
        bd.ope.dr,
        {"q": None, "weight_bound": 2.0},
        average(lambda i: expected(i) + weight(i, 2.0) * residual(i)),
    ),
    "switch": (
        bd.ope.switch,
        {"q": None, "weight_bound": 2.0},
        average(lambda i: expected(i) + (weight(i) if weight(i) <= 2.0 else 0.0) * residual(i)),
    ),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_estimates_are_the_textbooks(name: str) -> None:
    """An estimate is not what its formula says, to nine digits."""
    estimate, options, wanted = FORMULAS[name]
    log, target, q = stored()
    options = options | ({"q": q} if "q" in options else {})
    value = estimate(log, target, **options)
    assert value.estimate == pytest.approx(wanted, abs=1e-9)
    assert any(weight(row) > 2.0 for row in ROWS)  # so that cutting changes something
    assert value.guarantee.trust == "none"
    assert value.noise_std == 0.0


@pytest.mark.parametrize("name", FORMULAS)
def test_rewards_on_another_scale(name: str) -> None:
    """Estimates of rewards in [-5, 15] are not those of the same formulas, or intervals leave the range of rewards.

    An estimate of IPS may be outside of the range: then it is an end of its interval.
    """
    estimate, options, _ = FORMULAS[name]
    log, target, q = stored()
    stretched = bd.Log(
        contexts=log.contexts, arms=log.arms, rewards=20 * log.rewards - 5, propensities=log.propensities,
        names=log.names, reward_range=(-5.0, 15.0),
    )  # fmt: skip
    options = options | ({"q": 20 * q - 5} if "q" in options else {})
    cut = options.get("weight_bound", np.inf)
    weights = np.array([weight(i, cut) for i in ROWS])
    if name == "switch":
        weights = np.array([weight(i) if weight(i) <= cut else 0.0 for i in ROWS])
    rewards, model_of, logged = (
        20 * log.rewards - 5,
        np.sum(target * (20 * q - 5), axis=1),
        (20 * q - 5)[ROWS, log.arms],
    )
    wanted = {
        "ips": np.mean(weights * rewards),
        "sni": np.sum(weights * rewards) / np.sum(weights),
        "dm": np.mean(model_of),
    }.get(name[:3], np.mean(model_of + weights * (rewards - logged)))
    value = estimate(stretched, target, **options)
    assert value.estimate == pytest.approx(float(wanted), abs=1e-9)
    low, high = value.interval()
    assert min(-5, value.estimate) <= low <= value.estimate <= high <= max(15, value.estimate)


def test_a_baseline_is_a_control_variate() -> None:
    log, target, _ = stored()
    for b in (0.0, 0.5, 0.9):
        value = bd.ope.ips(log, target, baseline=b)
        assert value.estimate == pytest.approx(average(lambda i, b=b: b + weight(i) * (SMALL[i][1] - b)), abs=1e-9)


def test_sizes_and_cut_probability() -> None:
    """Effective sample size or clipped mass are not (sum w)^2 / sum w^2 and mean (w - M)^+."""
    log, target, _ = stored()
    weights = np.array([weight(i) for i in ROWS])
    assert bd.ope.snips(log, target).effective_sample_size == pytest.approx(weights.sum() ** 2 / np.sum(weights**2))
    assert bd.ope.snips(log, target).clipped_mass == 0.0
    cut = bd.ope.snips(log, target, weight_bound=2.0)
    assert cut.clipped_mass == pytest.approx(np.mean(np.maximum(weights - 2.0, 0.0)))
    many = clinic(3000, 1)
    (low, high), (least, most) = (bd.ope.snips(many, bold, weight_bound=cut).interval() for cut in (2.0, 8.0))
    assert low < least < most < high


def test_intervals_of_means_have_the_usual_width() -> None:
    log = clinic(20_000, 1)
    for value in (bd.ope.ips(log, bold), bd.ope.dr(log, bold, q=model), bd.ope.snips(log, bold)):
        low, high = value.interval()
        assert (high - low) / 2 == pytest.approx(1.96 * value.stderr, rel=0.02)
        assert low < value.estimate < high
        assert value.interval(0.5)[0] > low


def test_infinite_epsilon_is_no_privacy() -> None:
    log = clinic(500, 2)
    free = bd.ope.snips(log, bold, privacy=bd.central(epsilon=np.inf, delta=1e-5))
    assert free.estimate == bd.ope.snips(log, bold).estimate
    assert not np.isfinite(free.guarantee.epsilon)
