from __future__ import annotations

import numpy as np
import pytest

from bandanna.errors import InvalidArgument
from bandanna.numeric.rng import Streams
from bandanna.policies.glm.baselines import GLMUCB, GLOC, ECOLog
from bandanna.policies.glm.rs_glinucb import RSGLinUCB
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.glm import GeneralisedLinear, PublishedGLM
from bandanna.simulation.environments.recorded import ArrayEnvironment
from tests.policies.answering import learn_from

from .glm_loops import learning_loop, rs_glinucb_loop

PROBIT = {"dim": 3, "horizon": 400, "link": "probit", "parameter_bound": 2.5, "kappa": 56.44, "failure": 0.02}
LOGISTIC = {"dim": 4, "horizon": 300, "link": "logistic", "parameter_bound": 2.0}


def outcomes_of(
    env: PublishedGLM | GeneralisedLinear, seed: int, rounds: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Arms, means and outcomes of one seed, as the simulator draws them."""
    world = env.begin(Streams([seed]))
    contexts = world.contexts(0, rounds)
    means = world.means(contexts)
    return contexts[0], means[0], world.rewards(means)[0]


@pytest.mark.parametrize("preset", ["published", "corrected"])
def test_rs_glinucb_in_blocks_decides_as_a_loop_over_rounds(preset: str) -> None:
    env = PublishedGLM(norm=2.5, rounds=400)
    policy = RSGLinUCB(**PROBIT, preset=preset, constants="published")
    result = simulate(policy, env, n_seeds=3, seed=1)
    for place, seed in enumerate(result.seeds):
        arms, means, outcomes = outcomes_of(env, seed, 400)
        played, explored, switches = rs_glinucb_loop(policy, arms, outcomes)
        losses = means.max(axis=1) - means[np.arange(400), played]
        assert result.regret[place, -1] == pytest.approx(losses.sum(), rel=1e-9)
        assert result.counts["explorations"][place] == explored
        assert result.counts["switches"][place] == switches
        assert switches > 0
        assert explored > 0


def test_rs_glinucb_in_blocks_decides_as_a_loop_with_fresh_contexts() -> None:
    env = GeneralisedLinear(dim=4, n_arms=6, link="logistic", norm=2.0)
    policy = RSGLinUCB(**LOGISTIC, constants="published")
    result = simulate(policy, env, n_seeds=2, seed=5)
    for place, seed in enumerate(result.seeds):
        arms, means, outcomes = outcomes_of(env, seed, 300)
        played, *_ = rs_glinucb_loop(policy, arms, outcomes)
        losses = means.max(axis=1) - means[np.arange(300), played]
        assert result.regret[place, -1] == pytest.approx(losses.sum(), rel=1e-9)


@pytest.mark.often(of=lambda kind, preset: (preset == "published") == (kind is GLOC))
@pytest.mark.parametrize("preset", ["published", "corrected"])
@pytest.mark.parametrize("kind", [GLMUCB, GLOC, ECOLog])
def test_seeds_side_by_side_are_single_seeds(kind: type, preset: str) -> None:
    env = GeneralisedLinear(dim=4, n_arms=6, link="logistic", norm=2.0)
    policy = kind(**LOGISTIC, preset=preset)
    result = simulate(policy, env, n_seeds=2, seed=5)
    for place, seed in enumerate(result.seeds):
        arms, means, outcomes = outcomes_of(env, seed, 300)
        played = learning_loop(policy, arms, outcomes)
        losses = means.max(axis=1) - means[np.arange(300), played]
        assert result.regret[place, -1] == pytest.approx(losses.sum(), rel=1e-6)


@pytest.mark.parametrize("preset", ["published", "corrected"])
def test_ecolog_steps_in_company_are_steps_alone(preset: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 5, 2)) / 3
    outcomes = (x[..., 0] > 0).astype(float)  # separable: the ball is met
    policy = ECOLog(dim=2, horizon=40, link="logistic", parameter_bound=0.3, preset=preset)
    rows = np.concatenate([x, outcomes[..., None], np.zeros((40, 5, 1))], axis=-1)[..., None, :]  # rows in the clear
    together, alone = policy.init(replicates=(5,)), [policy.init() for _ in range(5)]
    for t in range(40):
        episode = policy.episode(together)
        together = learn_from(policy, together, episode, rows[t])
        alone = [learn_from(policy, one, episode, rows[t, i]) for i, one in enumerate(alone)]
        found = np.stack([one.theta for one in alone])
        np.testing.assert_allclose(together.theta, found, rtol=0, atol=1e-14)
    assert np.any(np.linalg.norm(together.theta, axis=-1) > 0.299)


@pytest.mark.parametrize("rounds", [300, pytest.param(5000, marks=pytest.mark.full)])
def test_exploration_counts_are_the_published_ones(rounds: int) -> None:
    env = PublishedGLM(norm=2.0)
    policy = RSGLinUCB(
        dim=3, horizon=5000, link="probit", parameter_bound=2.0, kappa=env.kappa, failure=0.02, preset="published"
    )
    assert simulate(policy, env, n_seeds=1, horizon=rounds).counts["explorations"].tolist() == [13]


@pytest.mark.parametrize("kind", [GLMUCB, GLOC, ECOLog, RSGLinUCB])
@pytest.mark.parametrize("preset", ["published", "corrected"])
def test_equal_arms_and_certain_rewards_are_harmless(kind: type, preset: str) -> None:
    arms = np.tile([0.6, 0.8], (4, 1))
    for value in (0.0, 1.0):
        env = ArrayEnvironment(arms=np.tile(arms, (60, 1, 1)), means=np.full((60, 4), value))
        policy = kind(dim=2, horizon=60, link="logistic", parameter_bound=4.0, preset=preset)
        result = simulate(policy, env, n_seeds=2)
        np.testing.assert_allclose(result.regret, 0.0, atol=1e-12)
    mixed = ArrayEnvironment(arms=np.tile([[1.0, 0.0], [-1.0, 0.0]], (80, 1, 1)), means=np.tile([1.0, 0.0], (80, 1)))
    policy = kind(dim=2, horizon=80, link="logistic", parameter_bound=4.0, preset=preset)
    assert np.all(np.isfinite(simulate(policy, mixed, n_seeds=2).regret))


def test_a_kappa_below_every_slope_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"kappa must be at least 4, .*got 3.9"):
        GLOC(dim=2, horizon=10, kappa=3.9)
    assert GLOC(dim=2, horizon=10, kappa=4.0).curvature == 4.0
    assert GLOC(dim=2, horizon=10, link="linear", kappa=1.0).curvature == 1.0
