"""The everyday jobs read as `docs/tutorials/quickstart.md` shows them."""

from __future__ import annotations

import copy
import pickle
import re
from functools import partial
from typing import Any

import numpy as np
import pandas
import pytest

import bandanna as bd
from bandanna.errors import InvalidArgument, InvalidBudget

DRINKS = ["tea", "coffee", "milk"]


def make_policy() -> bd.LinTS:
    """A small private policy with a model for each of three arms."""
    return bd.LinTS(features=3, horizon=500, privacy=bd.central(1.0, 1e-5))


def make_agent() -> bd.Agent:
    """An agent for tests, with three named arms."""
    return bd.Agent(make_policy(), arms=DRINKS, test=True, seed=0)


def test_an_agent_takes_its_policy_without_a_name() -> None:
    policy = make_policy()
    same = bd.LinTS(n_arms=3, features=3, horizon=500, privacy=bd.central(1.0, 1e-5))
    assert bd.Agent(policy, arms=DRINKS).policy == bd.Agent(policy=policy, arms=DRINKS).policy == same


NAMES = ["LinTS", "UCB1", "Thompson", "AdaC-UCB", "AdaP-UCB", "DP-SE", "SDP-SE", "LDP-UCB"]


def make_without_arms(name: str) -> Any:
    """A policy that does not know its number of arms."""
    features = {"features": 2} if name == "LinTS" else {}
    delta = {"delta": 1e-5} if name in ("AdaC-UCB", "SDP-SE") else {}
    epsilon = {} if name in ("LinTS", "UCB1", "Thompson") else {"epsilon": 1.0}
    return bd.make(name, horizon=60, **features, **epsilon, **delta)


@pytest.mark.parametrize("name", NAMES)
def test_the_number_of_arms_follows_from_the_names_of_the_arms(name: str, tmp_path: Any) -> None:
    policy = make_without_arms(name)
    agent = bd.Agent(policy, arms=iter(DRINKS), test=True, seed=0)
    assert agent.policy == policy.with_arms(3) == policy.with_arms(3).with_arms(5)
    assert policy.n_arms is None
    decision = agent.act([0.3, 0.1]) if name == "LinTS" else agent.act()
    assert decision.arm in DRINKS
    agent.save(tmp_path / "saved")
    assert bd.Agent.load(tmp_path / "saved").policy == agent.policy


@pytest.mark.parametrize("name", NAMES)
def test_the_number_of_arms_follows_from_the_environment(name: str) -> None:
    policy, world = make_without_arms(name), bd.environments.FiniteArms(means=(0.2, 0.5, 0.8))
    if name == "LinTS":
        world = bd.environments.DisjointLinear(dim=2, n_arms=3)
    one, other = bd.simulate(policy, world, n_seeds=2), bd.simulate(policy.with_arms(3), world, n_seeds=2)
    np.testing.assert_array_equal(one.regret, other.regret)


@pytest.mark.parametrize("name", NAMES)
def test_without_a_number_of_arms_a_policy_says_what_is_missing(name: str) -> None:
    policy = make_without_arms(name)
    with pytest.raises(InvalidArgument, match=r"n_arms must be known .* bd.Agent\(policy, arms="):
        policy.init()
    with pytest.raises(InvalidArgument, match="arms must be a list with the names of all arms, got None"):
        bd.Agent(policy)
    if name == "LinTS":
        for read in ("guarantee", "batch_sizes"):
            with pytest.raises(InvalidArgument, match="n_arms must be known"):
                getattr(policy, read)


def test_budgets_are_epsilon_and_then_delta() -> None:
    makers: tuple[Any, ...] = (bd.central, bd.shuffle, bd.local, bd.concurrent)
    for make in makers:
        assert make(1.0, 1e-5) == make(epsilon=1.0, delta=1e-5)


def test_a_local_budget_needs_no_delta() -> None:
    assert bd.local(1.0) == bd.local(1.0, 0.0)
    guarantee = bd.LinTS(dim=3, horizon=500, privacy=bd.local(1.0)).guarantee
    assert guarantee.delta == 0.0
    assert 0.99 < guarantee.epsilon <= 1.0


@pytest.mark.parametrize("make", [bd.shuffle, bd.central, bd.concurrent])
def test_a_missing_delta_is_refused_with_a_value_to_try(make: Any) -> None:
    with pytest.raises(InvalidBudget, match=r"well below 1 / \(number of users\), .* got None") as caught:
        make(1.0)
    (call,) = re.findall(r"bd\.\w+\(.*?\)", str(caught.value))
    assert eval(call) == make(1.0, 1e-6)


def test_a_user_is_served_and_learned_from() -> None:
    agent = make_agent()
    decision = agent.act([0.2, 0.7, 0.1], user="u-17")
    assert decision.arm in DRINKS
    assert 0 < decision.probability <= 1
    assert isinstance(decision.id, str)
    assert agent.observe(decision, 1.0)
    assert agent.late == 0


def test_many_users_are_served_at_once() -> None:
    agent = make_agent()
    contexts = np.random.default_rng(0).uniform(0, 0.5, (20, 3))
    decisions = agent.act_many(contexts, users=[f"u-{number}" for number in range(20)])
    assert agent.observe_many(decisions, np.ones(20)) == [True] * 20


def test_rows_and_columns_of_tables_are_contexts_and_rewards() -> None:
    table = pandas.DataFrame({"x": [0.1, 0.2, 0.3], "y": [0.3, 0.2, 0.1], "z": [0.0, 0.1, 0.2]})
    one, other = make_agent(), make_agent()
    assert one.act(table.iloc[0]).arm == other.act(table.iloc[0].to_numpy()).arm
    decisions, same = one.act_many(table), other.act_many(table.to_numpy())
    assert [each.arm for each in decisions] == [each.arm for each in same]
    assert one.observe_many(decisions, pandas.Series([1.0, 0.0, 1.0])) == [True] * 3
    with pytest.raises(InvalidArgument, match=r"^contexts must be an array"):
        one.act_many(pandas.DataFrame({"x": ["a"], "y": ["b"], "z": ["c"]}))


def test_an_agent_is_saved_and_loaded(tmp_path: Any) -> None:
    agent = make_agent()
    agent.act([0.2, 0.7, 0.1], user="u-17")
    agent.save(tmp_path / "tea.agent")
    loaded = bd.Agent.load(tmp_path / "tea.agent")
    assert (loaded.policy, loaded.arms, loaded.decisions) == (agent.policy, tuple(DRINKS), 1)


def test_the_budget_says_what_is_spent_and_what_remains() -> None:
    agent = bd.Agent(bd.LinTS(dim=2, horizon=20, batch=5, privacy=bd.central(1.0, 1e-5)), test=True, seed=0)
    assert (agent.budget.spent, agent.budget.remaining, agent.budget.total) == (0.0, 1.0, 1.0)
    for _ in range(6):
        agent.observe(agent.act([[0.1, 0.2], [0.3, 0.4]]), 1.0)
    assert agent.releases == 1
    assert 0 < agent.budget.spent <= 1.0
    assert agent.budget.spent == agent.ledger.spent()
    assert agent.budget.remaining == 1.0 - agent.budget.spent
    assert str(agent.budget).endswith("spent at delta = 1e-05")


def test_a_budget_without_a_delta_is_stated_at_one() -> None:
    private = bd.Agent(bd.LinTS(dim=2, horizon=20, batch=5, privacy=bd.central(rho=0.5)), test=True, seed=0)
    assert private.budget.delta == 1e-6
    assert private.budget.total == bd.privacy.ZCDP(rho=0.5).to_approx(1e-6).epsilon
    assert bd.Agent(bd.LinTS(dim=2, horizon=20, privacy=bd.none()), test=True, seed=0).budget is None


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
def test_an_agent_is_saved_and_not_pickled(duplicate: Any) -> None:
    agent = make_agent()
    with pytest.raises(bd.BandannaError, match=r"use agent.save\(path\)"):
        duplicate(agent)
    assert pickle.loads(pickle.dumps(agent.policy)) == copy.deepcopy(agent.policy) == agent.policy


WORLD = bd.environments.LinearContextual(dim=3, n_arms=4)


def make_linear(privacy: Any) -> bd.LinTS:
    """A small policy for `WORLD`."""
    return bd.LinTS(dim=3, horizon=200, privacy=privacy)


def test_a_result_is_a_figure_and_frames(tmp_path: Any) -> None:
    result = bd.simulate(make_linear(bd.central(1.0, 1e-5)), WORLD, n_seeds=3)
    result.plot(tmp_path / "regret.png")
    bd.plot_regret(result, tmp_path / "same.png")
    assert (tmp_path / "same.png").read_bytes() == (tmp_path / "regret.png").read_bytes()
    rows = result.to_frame()
    assert set(rows["seed"]) == {0, 1, 2}
    summary = result.summary()
    assert (len(summary), summary["n_seeds"][0], summary["horizon"][0]) == (1, 3, 200)
    assert summary["regret"][0] == pytest.approx(rows[rows["round"] == 200]["regret"].mean())
    assert pickle.loads(pickle.dumps(result)) == copy.deepcopy(result) == result
    assert (summary["epsilon"][0], summary["delta"][0]) == (result.guarantee.epsilon, result.guarantee.delta)


def test_several_policies_are_simulated_at_once(tmp_path: Any) -> None:
    policies = {"central": make_linear(bd.central(1.0, 1e-5)), "local": make_linear(bd.local(1.0))}
    results = bd.simulate(policies, WORLD, n_seeds=2)
    assert list(results) == ["central", "local"]
    alone = bd.simulate(policies["local"], WORLD, n_seeds=2)
    np.testing.assert_array_equal(results["local"].regret, alone.regret)
    frame = results.to_frame(rounds="last")
    assert list(frame["label"]) == ["central", "central", "local", "local"]
    assert list(results.summary()["label"]) == ["central", "local"]
    results.plot(tmp_path / "both.png")
    assert (tmp_path / "both.png").stat().st_size > 0
    assert [line.partition(":")[0] for line in str(results).splitlines()] == ["central", "local"]


@pytest.mark.parametrize(
    ("wrong", "right"), [("seeds", "n_seeds"), ("checkpoint", "checkpoints"), ("horizn", "horizon")]
)
def test_a_wrong_argument_is_answered_with_the_right_one(wrong: str, right: str) -> None:
    with pytest.raises(bd.BandannaError, match=f"Did you mean '{right}'"):
        bd.simulate(make_linear(bd.none()), WORLD, **{wrong: 20})  # type: ignore[call-overload]


def test_a_policy_is_swept_over_budgets_and_privacy_models() -> None:
    policy = make_linear(bd.none())
    results = bd.sweep(policy, WORLD, privacy=[bd.shuffle, bd.local], epsilon=[0.5, 2], n_seeds=2)
    assert list(results) == [f"{trust}, epsilon = {size}" for trust in ("shuffle", "local") for size in ("0.5", "2")]
    alone = bd.simulate(make_linear(bd.shuffle(2.0, 1e-5)), WORLD, n_seeds=2)
    np.testing.assert_array_equal(results["shuffle, epsilon = 2"].regret, alone.regret)
    frame = results.to_frame(rounds="last")
    assert list(frame["asked_epsilon"]) == [0.5, 0.5, 2.0, 2.0] * 2
    assert list(results.summary()["asked_epsilon"]) == [0.5, 2.0] * 2
    assert (frame["epsilon"] <= frame["asked_epsilon"]).all()


def test_a_sweep_takes_functions_with_labels() -> None:
    policy = make_linear(bd.none())
    often = bd.sweep(policy, WORLD, privacy={"twice": partial(bd.central, participations=2)}, epsilon=1.0)
    assert list(often) == ["twice, epsilon = 1"]
    assert often["twice, epsilon = 1"].guarantee.participations == 2
    assert list(bd.sweep(policy, WORLD, privacy=bd.local, epsilon=1.0)) == ["local, epsilon = 1"]


@pytest.mark.parametrize(
    ("given", "argument"),
    [
        ({"epsilon": []}, "epsilon"),
        ({"epsilon": [1.0, 1.0]}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": 1.0, "privacy": "shuffle"}, "privacy"),
        ({"epsilon": 1.0, "privacy": []}, "privacy"),
        ({"epsilon": 1.0, "privacy": [bd.local, bd.local]}, "privacy"),
        ({"epsilon": 1.0, "privacy": bd.none}, "privacy"),
        ({"epsilon": 1.0, "seeds": 2}, "seeds"),
    ],
)
def test_a_sweep_without_sense_is_refused(given: dict[str, Any], argument: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        bd.sweep(make_linear(bd.none()), WORLD, **given)
    assert caught.value.argument == argument


def test_a_log_values_a_target() -> None:
    rng = np.random.default_rng(0)
    arms = rng.choice(["a", "b"], 400)
    rewards = np.clip(np.where(arms == "b", 0.7, 0.3) + rng.uniform(-0.2, 0.2, 400), 0, 1)
    frame = pandas.DataFrame({"age": rng.uniform(0, 1, 400), "arm": arms, "visits": rewards})
    log = bd.Log.from_frame(frame, context=["age"], arm="arm", arms=["a", "b"], reward="visits", propensity=0.5)
    value = bd.ope.snips(log, target="arm:b")
    low, high = value.interval(0.95)
    assert low < value.estimate < high
    assert value.estimate == pytest.approx(rewards[arms == "b"].mean())
