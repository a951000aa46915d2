"""The simulator at its edges: one arm, one dimension, short horizons, bad numbers from one's own world."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from bandanna.errors import ClippingWarning, InvalidArgument, InvalidStatistic
from bandanna.numeric.rng import Streams
from bandanna.policies.linear.linucb import LinUCB
from bandanna.protocols.privacy_model import Privacy, central, local, none, shuffle
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.base import Bounded, Environment, World
from bandanna.simulation.environments.linear import LinearContextual
from bandanna.simulation.environments.recorded import ArrayEnvironment

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}
MODELS = [none(), central(**BUDGET), local(**BUDGET), shuffle(**BUDGET), shuffle(**BUDGET, protocol="gaussian")]
models = pytest.mark.parametrize("privacy", MODELS, ids=lambda privacy: f"{privacy.model}-{privacy.protocol}")
paths = pytest.mark.parametrize("path", ["law", "messages"])


@models
@paths
@pytest.mark.parametrize("fixed", [True, False])
def test_one_arm_has_no_regret(privacy: Privacy, path: str, fixed: bool) -> None:
    policy = LinUCB(dim=3, horizon=40, privacy=privacy, batch=20)
    result = simulate(policy, LinearContextual(dim=3, n_arms=1, fixed=fixed), n_seeds=2, path=path)
    assert not np.any(result.regret)


@models
@pytest.mark.parametrize("fixed", [True, False])
def test_a_world_of_one_dimension_has_no_regret(privacy: Privacy, fixed: bool) -> None:
    policy = LinUCB(dim=1, horizon=40, privacy=privacy, batch=20)
    result = simulate(policy, LinearContextual(dim=1, n_arms=5, fixed=fixed), n_seeds=2)
    assert np.max(result.regret) < 1e-9


@models
def test_a_horizon_shorter_than_a_batch_is_refused_by_name(privacy: Privacy) -> None:
    with pytest.raises(InvalidArgument, match="horizon"):
        simulate(LinUCB(dim=2, horizon=19, privacy=privacy, batch=20), LinearContextual(dim=2, n_arms=3))
    assert (
        simulate(LinUCB(dim=2, horizon=20, privacy=privacy, batch=20), LinearContextual(dim=2, n_arms=3)).releases == 1
    )


class Broken(World):
    """Arms of which one has a feature that is not finite, in round 7."""

    def contexts(self, start: int, rounds: int) -> np.ndarray:
        """Zeros elsewhere."""
        features = np.zeros((len(self.streams.seeds), rounds, self.n_arms, 2))
        if start <= 7 < start + rounds:
            features[:, 7 - start, 2, 1] = BAD[0]
        return features

    def means(self, contexts: np.ndarray) -> np.ndarray:
        """All alike."""
        return np.full(contexts.shape[:-1], 0.5)


BAD = [np.nan]


@dataclass(frozen=True, kw_only=True)
class BrokenEnvironment(Environment):
    """Made of `Broken` worlds."""

    def begin(self, streams: Streams) -> World:
        """One per seed."""
        return Broken(environment=self, streams=streams)


@models
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_named(privacy: Privacy, bad: float) -> None:
    BAD[0] = bad
    with pytest.raises(InvalidStatistic, match=r"contexts\[0, 7, 2, 1\]"):
        simulate(LinUCB(dim=2, horizon=40, privacy=privacy, batch=20), BrokenEnvironment(dim=2, n_arms=4))


@dataclass(frozen=True, kw_only=True)
class Wild:
    """A law whose rewards are all `value`, whatever their mean."""

    value: float

    binary = False

    def draw(self, means: np.ndarray, streams: Streams) -> np.ndarray:
        """One value for all."""
        return np.full(means.shape, self.value)


@models
@paths
@pytest.mark.parametrize("fixed", [True, False])
def test_rewards_that_are_not_finite_are_refused_and_large_ones_clipped(
    privacy: Privacy, path: str, fixed: bool
) -> None:
    policy = LinUCB(dim=2, horizon=40, privacy=privacy, batch=20)
    for value in (np.nan, np.inf, -np.inf):
        env = LinearContextual(dim=2, n_arms=3, fixed=fixed, reward=Wild(value=value))
        with pytest.raises(InvalidStatistic, match=r"rewards\[0, 0\]"):
            simulate(policy, env, path=path)
    for value in (-1.0, 3.0):
        env = LinearContextual(dim=2, n_arms=3, fixed=fixed, reward=Wild(value=value))
        with pytest.warns(ClippingWarning, match="40 of 40"):
            assert int(simulate(policy, env, path=path).clipped[0]) == 40


@models
def test_features_out_of_range_are_clipped_and_counted(privacy: Privacy) -> None:
    for arms in (np.full((3, 2), 2.0), np.full((40, 3, 2), 2.0)):
        env = ArrayEnvironment(arms=arms, means=np.full(3, 0.5))
        with pytest.warns(ClippingWarning, match="40 of 40"):
            result = simulate(LinUCB(dim=2, horizon=40, privacy=privacy, batch=20), env)
        assert int(result.clipped[0]) == 40


def test_sums_plus_noise_are_the_released_sums() -> None:
    env = LinearContextual(dim=3, n_arms=6, fixed=True, reward=Bounded(width=0.1))
    for privacy in (none(), central(**BUDGET), central(**BUDGET, mechanism="tree"), local(epsilon=50.0, delta=1e-5)):
        policy = LinUCB(dim=3, horizon=100, privacy=privacy, batch=1, width=0.1)
        law = simulate(policy, env, n_seeds=3, path="law")
        messages = simulate(policy, env, n_seeds=3, path="messages")  # one user per batch: the same draws in one order
        np.testing.assert_allclose(law.regret, messages.regret, rtol=1e-9)


class Careless(World):
    """Contexts and means with a mistake."""

    def contexts(self, start: int, rounds: int) -> np.ndarray:
        """Without an axis for the seeds, if asked to."""
        features = self.streams.uniform("contexts", (rounds, self.n_arms, 2)) / 2
        return features[0] if MISTAKE[0] == "seeds" else features

    def means(self, contexts: np.ndarray) -> np.ndarray:
        """Of one arm, above 1, below 0 or not numbers, if asked to."""
        means = contexts.sum(axis=-1)
        wrong = {"arms": means[..., 0], "large": means + 1, "small": means - 1, "nan": means * np.nan}
        return wrong.get(MISTAKE[0], means)


MISTAKE = [""]


@dataclass(frozen=True, kw_only=True)
class CarelessEnvironment(Environment):
    """Made of `Careless` worlds."""

    fixed: bool = False

    def begin(self, streams: Streams) -> World:
        """One per seed."""
        return Careless(environment=self, streams=streams, fixed=self.fixed)


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize(
    ("mistake", "named"),
    [
        ("seeds", r"shape of Careless.contexts = \(.*, 4, 2\) .* \(S, rounds, K, d\) = \(3, .*, 4, 2\)"),
        ("arms", r"shape of Careless.means = .* \(S, rounds, K\) = \(3, .*, 4\)"),
        ("large", r"Careless.means = some outside .* means in \[0, 1\]"),
        ("small", r"Careless.means = some outside .* means in \[0, 1\]"),
        ("nan", r"Careless.means = some outside .* means in \[0, 1\]"),
    ],
)
def test_a_world_with_wrong_shapes_or_means_is_named(mistake: str, named: str, fixed: bool) -> None:
    MISTAKE[0] = mistake
    with pytest.raises(InvalidStatistic, match=named):
        simulate(
            LinUCB(dim=2, horizon=40, batch=20, privacy=none()),
            CarelessEnvironment(dim=2, n_arms=4, fixed=fixed),
            n_seeds=3,
        )


@pytest.mark.parametrize("seed", [-1, 1.5, np.random.default_rng(0)], ids=["negative", "fraction", "generator"])
def test_a_seed_is_a_whole_number(seed: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"seed must be a whole number"):
        simulate(LinUCB(dim=2, horizon=4, privacy=none()), LinearContextual(dim=2, n_arms=3), seed=seed)
