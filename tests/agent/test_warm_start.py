"""Warm starts: what a log teaches an agent before its first user is one private sum, which the policy holds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.errors import BandannaError, InvalidArgument
from bandanna.policies.linear.base import WarmStart

ARMS = ("a", "b")
TRUSTS = [bd.none(), bd.central(epsilon=1.0, delta=1e-5), bd.shuffle(epsilon=1.0, delta=1e-5)]


def log_of(n: int, seed: int = 0) -> bd.Log:
    """Arm b is right where the feature is positive."""
    rng = np.random.default_rng(seed)
    x, arms = rng.choice([-1.0, 1.0], size=(n, 1)), rng.integers(0, 2, n)
    wins = rng.random(n) < np.where(arms == (x[:, 0] > 0), 0.9, 0.1)
    frame = {"x": x[:, 0], "arm": [ARMS[k] for k in arms], "win": wins.astype(float)}
    return bd.Log.from_frame(frame, context=["x"], arm="arm", reward="win", propensity=0.5, arms=ARMS)


def policy(privacy: bd.protocols.Privacy) -> bd.LinTS:
    """For one feature and two arms."""
    return bd.LinTS(n_arms=2, features=1, horizon=1000, privacy=privacy)


@pytest.mark.parametrize("privacy", TRUSTS, ids=lambda each: each.model)
def test_an_agent_knows_what_the_log_says(privacy: bd.protocols.Privacy) -> None:
    agent = bd.Agent(policy=policy(privacy), arms=["b", "a"])
    agent.warm_start(log_of(4000))
    assert [agent.recommend([x]) for x in (-1.0, 1.0)] == ["a", "b"]
    start = agent.policy.start  # type: ignore[attr-defined]
    assert (start.users, start.trust) == (4000, privacy.model)
    assert start.epsilon <= (1.0 if privacy.noisy else np.inf)
    assert agent.guarantee.epsilon == pytest.approx(policy(privacy).guarantee.epsilon)  # of its own users, as before


def test_it_is_saved_with_the_policy(tmp_path: Path) -> None:
    agent = bd.Agent(policy=policy(TRUSTS[1]), arms=ARMS, test=True, seed=3)
    agent.warm_start(log_of(500))
    for decision in agent.act_many(log_of(200, 1).contexts):
        agent.observe(decision.id, 1.0)
    agent.save(tmp_path / "agent")
    again = bd.Agent.load(tmp_path / "agent")
    assert again.policy == agent.policy
    np.testing.assert_array_equal(again.snapshot.theta, agent.snapshot.theta)


def test_it_is_the_same_as_having_seen_them() -> None:
    log = log_of(300)
    cold = bd.LinTS(n_arms=2, features=1, horizon=1000, batch=300, privacy=bd.none())
    state = cold.init()
    report = cold._form_statistic(log.contexts, log.rewards, log.arms)
    learned = cold._update(state, bd.device.Estimate(total=report.total(), count=300, variance=0.0))
    warm = replace(cold, start=log.start(cold))
    np.testing.assert_allclose(warm.init().snapshot.theta, learned.snapshot.theta, rtol=1e-12)
    np.testing.assert_allclose(warm.init().snapshot.root, learned.snapshot.root, rtol=1e-12)


def test_its_noise_is_known_to_the_policy() -> None:
    log = log_of(400)
    spreads = []
    for privacy in (bd.none(), bd.central(epsilon=1.0, delta=1e-5), bd.central(epsilon=0.1, delta=1e-5)):
        begun = replace(policy(bd.none()), start=log.start(policy(bd.none()), privacy=privacy, seed=1))
        spreads.append(float(np.linalg.norm(begun.init().snapshot.root)))
    assert spreads[0] < spreads[1] < spreads[2]


def test_a_warm_start_after_a_decision_or_a_save_is_refused(tmp_path: Path) -> None:
    agent = bd.Agent(policy=policy(TRUSTS[0]), arms=ARMS)
    agent.act([1.0])
    with pytest.raises(BandannaError, match="before the first decision"):
        agent.warm_start(log_of(50))
    saved = bd.Agent(policy=policy(TRUSTS[1]), arms=ARMS)
    saved.save(tmp_path / "agent")
    with pytest.raises(BandannaError, match="before the first decision"):
        saved.warm_start(log_of(50))
    begun = bd.Agent(policy=policy(TRUSTS[1]), arms=ARMS)
    begun.warm_start(log_of(50))
    with pytest.raises(BandannaError, match="spend the log's budget again"):
        begun.warm_start(log_of(50))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda: (bd.LinUCB(dim=1, horizon=10, privacy=bd.none()), None, {}), "a bd.LinTS"),
        (lambda: (policy(TRUSTS[0]), ["x", "y"], {}), "the arms a, b, those of the log"),
        (lambda: (bd.LinTS(n_arms=2, features=2, horizon=10, privacy=bd.none()), ARMS, {}), "1 features"),
        (
            lambda: (policy(TRUSTS[0]), ARMS, {"privacy": bd.concurrent(epsilon=1.0, delta=1e-5)}),
            "one sum over everybody",
        ),
    ],
)
def test_what_cannot_begin_so_is_refused(change: Any, words: str) -> None:
    chosen, arms, options = change()
    agent = bd.Agent(policy=chosen, arms=arms)
    with pytest.raises(BandannaError) as caught:
        agent.warm_start(log_of(50), **options)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "parts", [{"total": (0.0,)}, {"users": 0}, {"variance": -1.0}, {"total": (np.nan,) * 10}, {"total": (1e40,) * 10}]
)
def test_a_start_that_is_none_is_refused(parts: dict[str, Any]) -> None:
    whole: dict[str, Any] = {"total": (0.0,) * 10, "users": 5, "variance": 1.0, "epsilon": 1.0, "delta": 0.0,
                             "trust": "central"}  # fmt: skip
    assert policy(bd.none())._domain.dim == 10
    replace(policy(bd.none()), start=WarmStart(**whole))
    with pytest.raises(InvalidArgument):
        replace(policy(bd.none()), start=WarmStart(**whole | parts))
    with pytest.raises(InvalidArgument, match="start"):
        replace(policy(bd.none()), start=3)  # type: ignore[arg-type]


def test_a_ledger_of_the_log_draws_once(tmp_path: Path) -> None:
    people = bd.Ledger(
        budget=bd.privacy.ApproxDP(epsilon=1.0, delta=1e-5), store=bd.privacy.SQLiteStore(tmp_path / "log.ledger")
    )
    starts = []
    for _ in range(2):
        agent = bd.Agent(policy=policy(TRUSTS[1]), arms=ARMS)
        agent.warm_start(log_of(500), ledger=people)
        starts.append(agent.policy.start)  # type: ignore[attr-defined]
    assert starts[0] == starts[1]
    with pytest.raises(BandannaError, match="other data"):
        bd.Agent(policy=policy(TRUSTS[1]), arms=ARMS).warm_start(log_of(500, 1), ledger=people)
    bare = bd.Agent(policy=policy(TRUSTS[1]), arms=ARMS)
    bare.warm_start(log_of(500))
    assert bare.policy.start != starts[0]  # type: ignore[attr-defined]
