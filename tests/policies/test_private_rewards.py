"""LinTS that protects rewards alone: what is private, what is public, and what is made of both."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna import environments as worlds
from bandanna.errors import InvalidArgument, InvalidBudget
from bandanna.numeric.rng import GeneratorRandomness, Streams
from bandanna.policies.base import PlayedRounds
from bandanna.privacy import accountant
from bandanna.privacy.events import NothingEvent
from bandanna.protocols.randomized_response import LocalSigns
from bandanna.simulation.players.reference import ReferenceRun
from bandanna.simulation.result import Tally

DP: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}
MODELS = {"central": bd.central(**DP), "local": bd.local(**DP), "shuffle": bd.shuffle(**DP), "none": bd.none()}
PRIVATE = ("central", "local", "shuffle")


def made(model: str, **given: Any) -> bd.policies.LinTSRewards:
    """A small one; contexts are public unless it is said otherwise."""
    usual: dict[str, Any] = {"dim": 3, "horizon": 400, "privacy": MODELS[model], "public_contexts": True}
    return bd.policies.LinTSRewards(**usual | given)


def coins() -> GeneratorRandomness:
    rng = np.random.default_rng(0)
    return GeneratorRandomness(lambda name: rng)


def queries(policy: bd.policies.LinTSRewards) -> list[Any]:
    state = policy.init()
    episode = policy.episode(state)
    assert episode is not None
    steps = policy.learn(state, episode)
    private = next(steps)
    public = steps.send(_nothing(private))
    return [private, public]


def _nothing(query: Any) -> Any:
    return bd.protocols.Clear(domain=query.protocol.domain).release(
        query.protocol.domain.nothing, bd.device.FastNoise(np.random.default_rng())
    )


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("model", PRIVATE)
def test_one_reward_moves_the_private_sum_by_at_most_one(model: str, intercept: bool) -> None:
    policy = made(model, intercept=intercept)
    private, _ = queries(policy)
    corners = [np.array(signs, dtype=float) for signs in product((-1, 0, 1), repeat=3 - intercept) if any(signs)]
    features = np.array([scale * x / np.linalg.norm(x) for x in corners for scale in (0.5, 1.0, 7.0)])
    if intercept:
        features = np.concatenate([features, np.ones((len(features), 1))], axis=1)
    rewards = (-3.0, 0.0, 1.0, 9.0)
    reports = np.array(
        [
            policy.report(private, PlayedRounds(rewards=np.full(len(features), r), features=features), coins()).values
            for r in rewards
        ]
    )
    same = np.linalg.norm(reports[:, None] - reports[None, :], axis=-1)  # (4, 4, n): another reward, the same features
    flat = reports.reshape(-1, 3)
    any_two = np.linalg.norm(flat[:, None] - flat[None, :], axis=-1)
    domain = private.protocol.domain
    assert domain.sensitivity == 1.0
    assert 0.999 < same.max() <= 1.0
    assert any_two.max() <= 1.0
    np.testing.assert_array_equal(domain.check(flat), flat)


@pytest.mark.parametrize("model", PRIVATE)
def test_the_public_sum_has_no_reward_in_it_and_no_price(model: str) -> None:
    policy, rng = made(model), np.random.default_rng(1)
    private, public = queries(policy)
    features = rng.normal(size=(5, 3)) / 3
    one, two = (
        policy.report(public, PlayedRounds(rewards=rng.random(5), features=features), coins()).values for _ in range(2)
    )
    assert one.tobytes() == two.tobytes()
    assert public.protocol.event == NothingEvent()
    assert not isinstance(private.protocol.event, NothingEvent)
    assert accountant.epsilon(private.protocol.event, policy.guarantee.delta) <= 1.0


def test_bits_of_answers_are_rounded_without_bias() -> None:
    policy, users = made("local", intercept=True), 20_000
    private, _ = queries(policy)
    assert isinstance(private.protocol, LocalSigns)
    played = PlayedRounds(rewards=np.full(users, 0.3), features=np.tile([0.0, 0.6, 1.0], (users, 1)))
    values = policy.report(private, played, coins()).values
    assert len(np.unique(values, axis=0)) == 2
    share = values.mean(axis=0)[1] / np.abs(values[0, 1])  # 2 r - 1
    assert abs(share + 0.4) < 5 / math.sqrt(users)


@pytest.mark.parametrize("model", PRIVATE)
def test_contexts_that_were_not_declared_public_are_refused(model: str) -> None:
    policy = made(model, public_contexts=False)
    fresh, fixed = (worlds.LinearContextual(dim=3, n_arms=4, fixed=fixed) for fixed in (False, True))
    for run in (policy.init, lambda: bd.simulate(policy, fresh), lambda: bd.Agent(policy=policy, test=True, seed=0)):
        with pytest.raises(
            InvalidArgument, match=r"public_contexts must be True, got False.* bd\.LinTS, which protects contexts too"
        ):
            run()
    assert bd.simulate(policy, fixed).releases
    agent = bd.Agent(policy=policy, test=True, seed=0, arms=np.eye(3) / 2)
    with pytest.raises(InvalidArgument, match="This agent has fixed arms"):
        agent.act(np.eye(3))
    assert agent.act().arm in range(3)


def test_other_arguments_that_are_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"protects must be left out, got 'rewards'.*bd\.policies\.LinTSRewards"):
        bd.LinTS(dim=3, horizon=100, protects="rewards", privacy=bd.none())  # type: ignore[call-arg]
    for model in (bd.central, bd.shuffle):
        with pytest.raises(InvalidBudget, match=r"Only bd.local can have delta = 0"):
            made("none", privacy=model(epsilon=1.0, delta=0.0))
    with pytest.raises(InvalidArgument, match="calibration"):
        made("none", privacy=bd.local(**DP, calibration="paper"))
    with pytest.raises(InvalidArgument, match="A reward is reported as one random bit"):
        made("none", privacy=bd.local(**DP, protocol="gaussian"))
    for name, wrong in {"batch": "often", "alpha": -1.0, "intercept": 2, "dim": 0, "horizon": 0}.items():
        with pytest.raises(InvalidArgument, match=name):
            made("local", **{name: wrong})
    with pytest.raises(InvalidArgument, match="batch"):
        made("local", batch=401)


@pytest.mark.parametrize("model", PRIVATE)
def test_the_guarantee_is_for_rewards_and_names_the_public_data(model: str) -> None:
    stated = made(model).guarantee
    assert stated.protects == "a user's reward"
    assert stated.adjacency == "replacement of one user's reward"
    assert stated.trust == model
    assert "Everybody sees every user's features and arm, and whether a reward arrived." in str(stated)
    assert 0.99 < stated.epsilon <= 1.0
    assert stated.delta == (0.0 if model == "local" else 1e-5)
    by_name = bd.make("LinTS-LDP-rewards", dim=3, horizon=50, epsilon=1.0)  # pure
    assert by_name.guarantee.epsilon <= 1.0
    assert by_name._bits_per_user == 1


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("fixed", [False, True])
def test_without_noise_it_is_lints(intercept: bool, fixed: bool) -> None:
    env = worlds.LinearContextual(dim=3, n_arms=5, fixed=fixed)
    own = made("none", intercept=intercept, batch=40)
    usual = bd.LinTS(dim=3, horizon=400, intercept=intercept, batch=40, privacy=bd.none())
    one, two = (bd.simulate(each, env, n_seeds=3, path="messages", seed=2) for each in (own, usual))
    np.testing.assert_allclose(one.regret, two.regret, rtol=0, atol=1e-9)


def misses(model: str, *, intercept: bool) -> float:
    """Mean chi^2/d of the true parameter under the last posterior of 40 runs: 1 where it is as sure as it should be."""
    policy = made(model, intercept=intercept, horizon=300, alpha=1.0)
    env, found = worlds.LinearContextual(dim=3, n_arms=8), []
    for seed in range(40):
        tally = Tally(checkpoints=np.array([300]), n_seeds=1)
        run = ReferenceRun(policy, env.begin(Streams([seed])), tally, 0, "law", counterfactual=False)
        run.run(300)
        truth = run.world.theta[0] * (math.sqrt(0.5) if intercept else 1.0)  # type: ignore[attr-defined]
        z = np.linalg.solve(run.state.snapshot.root, policy._theta(run.state.snapshot) - truth)
        found.append(z @ z / 3)
    return float(np.mean(found))


@pytest.mark.often(when=lambda model, intercept: intercept == (model != "central"))
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("model", PRIVATE)
def test_the_posterior_is_calibrated(model: str, intercept: bool) -> None:
    assert 0.5 < misses(model, intercept=intercept) < 1.5


@pytest.mark.parametrize("model", [pytest.param("central", marks=pytest.mark.full), "local"])
def test_a_posterior_that_forgets_the_noise_is_noticed(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert made("local")._reward_std == pytest.approx(0.5 / math.tanh(0.5))
    monkeypatch.setattr(bd.policies.LinTSRewards, "_reward_std", 0.5)
    monkeypatch.setattr(bd.policies.LinTSRewards, "_noise", np.zeros(100))
    assert misses(model, intercept=True) > 1.5


@pytest.mark.parametrize("model", PRIVATE)
def test_an_agent_pays_for_rewards_alone_and_survives_a_save(model: str, tmp_path: Path) -> None:
    policy = made(model, intercept=True, batch=20, public_contexts=False, horizon=100)
    arms = np.concatenate([np.eye(2), np.ones((2, 1))], axis=1)
    agent, rng = bd.Agent(policy=policy, arms=arms), np.random.default_rng(3)
    for number in range(70):
        decision = agent.act()
        if number % 5:
            agent.observe(decision.id, float(rng.random()))
        if number == 45:
            agent.save(tmp_path / "agent")
            agent = bd.Agent.load(tmp_path / "agent")
    assert agent.releases == 3
    ledger = agent._runner.ledger
    assert ledger is not None
    delta = policy.guarantee.delta if model != "local" else 1e-5
    (batches,) = ledger.store.tasks().values()
    assert max(accountant.epsilon(event, delta) for event in batches) <= policy.guarantee.epsilon * (1 + 1e-9)
    snapshot = agent.policy.publish(agent._runner.now.state)
    assert np.all(np.isfinite(snapshot.theta))
    gram = policy.public.protocol.domain.unpack(agent._runner.now.state.public)[1] / policy._scale**2  # type: ignore[attr-defined]
    assert gram[-1, -1] == pytest.approx(48)  # who did not answer is not counted


@pytest.mark.parametrize("model", PRIVATE)
def test_returning_users_pay_for_all_their_batches(model: str) -> None:
    privacy = replace(MODELS[model], participations=3)
    policy = made(model, privacy=privacy, batch=100)
    assert policy.guarantee.epsilon <= 1.0 + 1e-9
    assert policy.guarantee.participations == 3
    assert bd.simulate(policy, worlds.LinearContextual(dim=3, n_arms=4)).releases
