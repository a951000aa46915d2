"""Models of rewards: learned privately from some people, and used for others."""

from __future__ import annotations

import math

import numpy as np
import pytest

import bandanna as bd
from bandanna.errors import BandannaError

from .worlds import bold, clinic, means, worth_of_bold


def short(log: bd.Log) -> bd.Log:
    """Features of norm at most 1, as reports have them."""
    scale = 3.0
    return bd.Log(contexts=log.contexts / scale, arms=log.arms, rewards=log.rewards, propensities=log.propensities,
                  names=log.names, floor=log.floor)  # fmt: skip


def test_a_model_is_the_regression_of_each_arm() -> None:
    log = short(clinic(4000, 1))
    model = bd.ope.reward_model(log)
    seen = log.contexts / np.maximum(np.linalg.norm(log.contexts, axis=1, keepdims=True), 1.0)
    for arm in range(3):
        rows = log.arms == arm
        x = np.column_stack([seen[rows], np.ones(rows.sum())])
        prior = np.diag([8.0, 8.0, 12.0]) * 0.25  # s^2 / (prior^2 second moment) of slopes and constant
        theta = np.linalg.solve(x.T @ x + prior, x.T @ (log.rewards[rows] - 0.5))
        np.testing.assert_allclose(model.theta[arm], theta, rtol=1e-6)
    assert model.guarantee.trust == "none"
    assert np.corrcoef(model(log.contexts).ravel(), means(log.contexts * 3).ravel())[0, 1] > 0.9


def test_everybody_pays_once() -> None:
    """A model from one half and a value from the other promise more than their budget, or share people."""
    one, two = short(clinic(3000, 2)).split(0.5, seed=1)
    privacy = bd.shuffle(epsilon=1.0, delta=1e-5)
    model = bd.ope.reward_model(one, privacy=privacy, seed=1)
    value = bd.ope.dr(two, lambda x: bold(3 * x), q=model, privacy=privacy, seed=1)
    assert max(model.guarantee.epsilon, value.guarantee.epsilon) <= 1.0
    assert (model.people, value.people) == (1500, 1500)
    low, high = value.interval(0.9999)
    assert low <= worth_of_bold() <= high
    predicted = model(two.contexts)
    assert predicted.shape == (1500, 3)
    assert 0 <= predicted.min() <= predicted.max() <= 1


def test_models_of_arms_with_features_and_without_any() -> None:
    """Features of arms have no model, or arms without features another one than their means."""
    rng = np.random.default_rng(0)
    contexts = rng.uniform(-0.5, 0.5, (3000, 2, 2))
    arms = rng.integers(0, 2, 3000)
    truth = contexts @ np.array([0.6, -0.2])
    log = bd.Log(contexts=contexts, arms=arms, propensities=np.full(3000, 0.5), names=(0, 1),
                 rewards=np.clip(truth[np.arange(3000), arms], 0, 1))  # fmt: skip
    model = bd.ope.reward_model(log)
    assert model(contexts).shape == (3000, 2)
    plain = bd.Log.from_frame({"a": [0, 0, 1, 1] * 500, "r": [5, 5, 10, 0] * 500}, arm="a", reward="r", propensity=0.5,
                              reward_range=(0, 10))  # fmt: skip
    np.testing.assert_allclose(bd.ope.reward_model(plain)(plain.contexts)[0], [5.0, 5.0], atol=0.01)
    direct = bd.ope.dm(plain, "arm:1", q=bd.ope.reward_model(plain))
    assert direct.estimate == pytest.approx(5.0, abs=0.01)
    with pytest.raises(BandannaError, match="shape of contexts"):
        model(np.zeros((3, 2)))


@pytest.mark.parametrize(
    "q", [None, "x", [0.1], lambda x: 1 / 0, lambda x: np.full((20, 3), math.nan), np.zeros((3, 3))]
)
def test_what_is_no_model_is_refused(q: object) -> None:
    with pytest.raises(BandannaError):
        bd.ope.dr(clinic(20, 0), bold, q=q)
