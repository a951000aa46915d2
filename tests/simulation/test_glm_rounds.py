""""""

from __future__ import annotations

import math
import tracemalloc
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from bandanna.errors import InvalidArgument, InvalidStatistic
from bandanna.numeric.rng import Streams
from bandanna.policies.glm.baselines import GLMUCB, GLOC, ECOLog
from bandanna.policies.glm.glm_jdp import GLMJDPConstants
from bandanna.policies.glm.rs_glinucb import RSGLinUCB
from bandanna.policies.registry import make
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.glm import GeneralisedLinear, PublishedGLM
from bandanna.simulation.environments.recorded import ArrayEnvironment
from bandanna.simulation.players import reference, round_by_round
from bandanna.simulation.result import Tally, checkpoints_for
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


@pytest.mark.often(when=lambda kind, preset: (preset == "published") == (kind is GLOC))
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
    with pytest.raises(InvalidArgument, match=r"kappa must be at least 4, which is 1/sup mu', got 3.9"):
        GLOC(dim=2, horizon=10, kappa=3.9)
    assert GLOC(dim=2, horizon=10, kappa=4.0).curvature == 4.0
    assert GLOC(dim=2, horizon=10, link="linear", kappa=1.0).curvature == 1.0


# Accelerated players of generalised linear policies beside the plain one, which knows nothing but the interface


PROBIT_GLM_PLAYERS = {
    "dim": 3,
    "horizon": 200,
    "link": "probit",
    "parameter_bound": 2.5,
    "kappa": 56.44,
    "failure": 0.02,
}
LOGISTIC_GLM_PLAYERS = {"dim": 4, "horizon": 120, "link": "logistic", "parameter_bound": 2.0}
BUSY = GLMJDPConstants(
    share=0.4,
    steps=3,
    calls_o=4,
    calls_tau=5,
    regulariser_v=6.0,
    regulariser_h=1.0,
    ridge=1.0,
    threshold=1 / 8,
    elimination=9.0,
    bonus=1.0,
)
JOINT = PROBIT_GLM_PLAYERS | {"epsilon": 8.0, "delta": 1e-2, "constants": BUSY}
RUNS: dict[str, tuple[str, dict[str, Any], str]] = {
    "RS-GLinUCB as published": ("RS-GLinUCB", PROBIT_GLM_PLAYERS | {"preset": "published"}, "law"),
    "RS-GLinUCB": ("RS-GLinUCB", PROBIT_GLM_PLAYERS | {"constants": "published"}, "law"),
    "RS-GLinUCB, fresh contexts": ("RS-GLinUCB", LOGISTIC_GLM_PLAYERS | {"constants": "published"}, "law"),
    "GLM-JDP by law": ("GLM-JDP", JOINT, "law"),
    "GLM-JDP by messages": ("GLM-JDP", JOINT, "messages"),
    "GLM-JDP, the lemma's steps": ("GLM-JDP", JOINT | {"preset": "paper", "constants": None}, "law"),
    "GLM-UCB": ("GLM-UCB", LOGISTIC_GLM_PLAYERS, "law"),
    "GLOC": ("GLOC", LOGISTIC_GLM_PLAYERS, "law"),
    "ECOLog": ("ECOLog", LOGISTIC_GLM_PLAYERS, "law"),
    "B-GLinUCB": ("B-GLinUCB", LOGISTIC_GLM_PLAYERS | {"width": 0.1, "warmup": 30}, "law"),
}


OFTEN = {"RS-GLinUCB as published", "RS-GLinUCB", "GLM-JDP by messages", "GLM-JDP, the lemma's steps"}


@pytest.mark.often(when=lambda run: run in OFTEN)  # others: tests/policies/conformance/test_simulation.py
@pytest.mark.parametrize("run", list(RUNS))
def test_accelerated_players_decide_as_the_reference_player(run: str) -> None:
    name, arguments, path = RUNS[run]
    policy = make(name, **arguments)
    env = PublishedGLM(norm=2.5, rounds=200) if policy.dim == 3 else GeneralisedLinear(dim=4, n_arms=6, norm=2.0)
    fast = simulate(policy, env, n_seeds=2, seed=1, path=path, checkpoints=50)
    tally = Tally(checkpoints=checkpoints_for(policy.horizon, 50), n_seeds=2)
    slow = reference.play_reference(
        policy, env.begin(Streams([1, 2])), tally, policy.horizon, path=path, counterfactual=True
    )
    np.testing.assert_array_equal(fast.regret, tally.regret)
    np.testing.assert_array_equal(fast.rewards, tally.rewards)
    for count, values in slow.counts.items():
        np.testing.assert_array_equal(fast.repairs if count == "repairs" else fast.counts[count], values)
    if name in ("RS-GLinUCB", "GLM-JDP") and arguments.get("preset") != "paper":
        assert np.all(fast.counts["switches"] > 0)
        assert np.all(fast.counts["explorations"] > 0)


# glm_worlds


@dataclass(frozen=True)
class Broken:
    """Rewards of which one is wrong."""

    value: float
    both: bool = False  # arms
    binary: bool = False

    def draw(self, means: np.ndarray, streams: object) -> np.ndarray:
        """The means, and one wrong number."""
        rewards = np.array(means)
        middle = 0, len(rewards[0]) // 2
        if rewards.ndim == 2:  # of the arms that were played
            rewards[middle] = self.value
        else:
            rewards[(*middle, slice(None if self.both else 1))] = self.value
        return rewards


@pytest.mark.parametrize("name", ["GLM-JDP", "GLM-SDP", "RS-GLinUCB", "B-GLinUCB", "GLM-UCB", "GLOC", "ECOLog"])
def test_fixed_arms_and_rewards_that_are_not_numbers(name: str) -> None:
    budget = {"epsilon": 4.0, "delta": 1e-3} if name in ("GLM-JDP", "GLM-SDP") else {}
    policy = make(name, dim=2, horizon=80, link="logistic", parameter_bound=1.0, **budget)
    arms, theta = np.array([[1.0, 0.0], [0.6, 0.8]]), [0.5, 0.4]
    fixed = simulate(policy, ArrayEnvironment(arms=arms, theta=theta), n_seeds=3)
    same = simulate(policy, ArrayEnvironment(arms=np.tile(arms, (80, 1, 1)), theta=theta), n_seeds=3)
    np.testing.assert_allclose(fixed.regret, same.regret)
    np.testing.assert_array_equal(fixed.rewards, same.rewards)
    for value in (math.nan, math.inf):
        broken = ArrayEnvironment(arms=np.tile(arms, (80, 1, 1)), theta=theta, reward=Broken(value))
        with pytest.raises(InvalidStatistic, match="rewards"):
            simulate(policy, broken, n_seeds=1)


@pytest.mark.parametrize("name", ["GLM-JDP", "GLM-SDP", "GLOC"])
def test_rewards_out_of_range_are_clipped_and_counted(name: str) -> None:
    budget = {} if name == "GLOC" else {"epsilon": 4.0, "delta": 1e-3}
    policy = make(name, dim=2, horizon=80, link="logistic", parameter_bound=1.0, **budget)
    arms = np.tile([[0.6, 0.8], [0.6, 0.8]], (80, 1, 1))
    results = [
        simulate(
            policy, ArrayEnvironment(arms=arms, means=np.ones((80, 2)), reward=Broken(value, both=True)), n_seeds=1
        )
        for value in (1.0, 7.0)
    ]
    batches = len(getattr(policy, "sizes", ()))
    released = batches - 1 if batches else 1  # batches, or all rounds at once: one wrong reward in each
    assert [int(result.clipped[0]) for result in results] == [0, released]
    earned = [80.0, 80.0 + 6.0 * batches]  # the reference counts rewards when earned, others when learned
    np.testing.assert_array_equal([result.rewards[0] for result in results], earned)


@pytest.mark.often(when=lambda name, path: (path == "messages") == (name == "GLM-JDP"))  # others send nothing
@pytest.mark.parametrize("name", ["GLM-JDP", "RS-GLinUCB", "GLOC"])
@pytest.mark.parametrize("path", ["law", "messages"])
def test_reading_a_generalised_linear_world_in_parts_changes_nothing(
    name: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"epsilon": 8.0, "delta": 0.01} if name == "GLM-JDP" else {"preset": "published"}
    policy = make(name, dim=3, horizon=400, link="logistic", parameter_bound=2.0, **options)
    env = GeneralisedLinear(dim=3, n_arms=4, link="logistic", norm=2.0)
    whole = simulate(policy, env, n_seeds=3, path=path)
    monkeypatch.setattr(round_by_round, "_BYTES", 8 * 3 * 4 * 5 * 37)  # 37 rounds of 3 seeds, without noise
    parts = simulate(policy, env, n_seeds=3, path=path)
    np.testing.assert_allclose(parts.regret, whole.regret, rtol=1e-9)
    for count, values in whole.counts.items():
        np.testing.assert_array_equal(parts.counts[count], values)


def test_noise_is_held_for_some_rounds_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(round_by_round, "_BYTES", 1 << 19)
    policy = make("GLM-JDP", dim=8, horizon=4000, link="logistic", parameter_bound=1.0, epsilon=8.0, delta=0.01)
    _ = policy.guarantee
    env = GeneralisedLinear(dim=8, n_arms=2, link="logistic", norm=1.0)
    tracemalloc.start()
    simulate(policy, env, n_seeds=4)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 0.7 * 8 * 4 * 4000 * 72  # the noise of all rounds


@pytest.mark.parametrize("preset", ["tuned", "greedy", "paper"])
def test_an_arm_of_zeros_is_an_arm(preset: str) -> None:
    rng = np.random.default_rng(0)
    arms = rng.uniform(-0.5, 0.5, (300, 3, 2))
    arms[:, 0] = 0.0
    policy = make("GLM-JDP", dim=2, horizon=300, parameter_bound=1.0, epsilon=50.0, delta=0.1, preset=preset)
    result = simulate(policy, ArrayEnvironment(arms=arms, means=np.tile([0.0, 1.0, 1.0], (300, 1))), n_seeds=2)
    assert np.all(result.regret[:, -1] < 299)
