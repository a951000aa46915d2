"""Reports that had to be clipped: counted once each, said, and a warning where they are most of all."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from bandanna.errors import ClippingWarning
from bandanna.numeric.rng import Streams
from bandanna.policies.glm.baselines import GLMUCB
from bandanna.policies.linear.anytime import Anytime
from bandanna.policies.linear.linucb import LinUCB
from bandanna.policies.linear.oful import OFUL, OFULJDP
from bandanna.protocols.privacy_model import central, none, shuffle
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.recorded import ArrayEnvironment


@dataclass(frozen=True, kw_only=True)
class Always:
    """All rewards are `value`."""

    value: float

    binary = False

    def draw(self, means: np.ndarray, streams: Streams) -> np.ndarray:
        """One value for all."""
        return np.full(means.shape, self.value)


def world(size: float, rounds: int | None, *, short: int = 0, **changes: Any) -> ArrayEnvironment:
    """Two equal arms of norm `size`, the same in all rounds or given for each; of norm 1/2 in the first `short`."""
    arms = np.tile(size * np.eye(2), (rounds or 1, 1, 1))
    arms[:short] /= 2 * size
    return ArrayEnvironment(arms=arms if rounds else arms[0], means=np.full(2, 0.5), **changes)


POLICIES = {
    "LinUCB": LinUCB(dim=2, horizon=40, batch=20, privacy=none()),
    "shuffle": LinUCB(dim=2, horizon=40, batch=20, privacy=shuffle(epsilon=1.0, delta=1e-5)),
    "OFUL": OFUL(dim=2, horizon=40, privacy=none()),
    "OFUL-JDP": OFULJDP(dim=2, horizon=40, batch=20, privacy=central(rho=1.0)),
    "GLM-UCB": GLMUCB(dim=2, horizon=40),
}
each = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)


@each
@pytest.mark.parametrize("rounds", [None, 40], ids=["fixed", "fresh"])
def test_it_is_said_when_most_reports_are_clipped(policy: Any, rounds: int | None) -> None:
    with pytest.warns(ClippingWarning, match="80 of 80 reports had to be clipped") as said:
        result = simulate(policy, world(3.0, rounds), n_seeds=2)
    assert len(said) == 1
    assert "80 clipped" in str(result)
    assert "80 clipped" in repr(result)


@each
def test_a_few_clipped_reports_are_counted_without_a_warning(policy: Any) -> None:
    result = simulate(policy, world(3.0, 40, short=20))
    assert int(result.clipped[0]) == 20
    assert ", 20 clipped," in str(result)
    assert "clipped" not in str(simulate(policy, world(0.9, 40)))


@each
@pytest.mark.parametrize("rounds", [None, 40], ids=["fixed", "fresh"])
@pytest.mark.parametrize("path", ["law", "messages"])
def test_a_report_is_counted_once(policy: Any, rounds: int | None, path: str) -> None:
    with pytest.warns(ClippingWarning, match="40 of 40"):
        assert int(simulate(policy, world(3.0, rounds, reward=Always(value=2.0)), path=path).clipped[0]) == 40


def test_rewards_alone_are_said_too() -> None:
    run = Anytime(first=LinUCB(dim=2, horizon=20, batch=10, privacy=none()))
    with pytest.warns(ClippingWarning, match="60 of 60"):
        simulate(run, world(0.5, None, reward=Always(value=7.0)), horizon=60)


def test_the_warning_travels_between_processes() -> None:
    again = pickle.loads(pickle.dumps(ClippingWarning.of(1960, 2000)))
    assert str(again) == str(ClippingWarning.of(1960, 2000))
    assert "1,960 of 2,000" in str(again)
    assert isinstance(again, UserWarning)
    assert ClippingWarning.of(1000, 2000) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulate(POLICIES["LinUCB"], world(1.0, None))
