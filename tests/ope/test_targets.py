"""Targets: words, probabilities, functions, policies and agents are the probabilities that they mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.data.ope.targets import load_learned_policy, to_target_policy
from bandanna.deployment.analyzer import publication
from bandanna.deployment.client.load_simulation import SimulatedUsers
from bandanna.deployment.messages.canonical import dumps, loads
from bandanna.errors import BandannaError

from ..deployment.inside import Inside, a_task
from .worlds import bold, clinic, trial


def test_words_and_lists_are_targets() -> None:
    """A word or a list of probabilities means other probabilities than it says."""
    log = trial(5, 0)
    assert to_target_policy(log, "uniform").chances.tolist() == [[0.25] * 4] * 5
    assert to_target_policy(log, "arm:2").chances.tolist() == [[0, 0, 1, 0]] * 5
    assert (to_target_policy(log, "arm:2").arm, to_target_policy(log, "uniform").arm) == (2, None)
    assert to_target_policy(log, [0.1, 0.2, 0.3, 0.4]).largest == 0.4
    per_row = np.eye(4)[[0, 1, 2, 3, 0]]
    assert to_target_policy(log, per_row).chances.tolist() == per_row.tolist()
    assert to_target_policy(log, per_row).largest == 1.0  # depends on who is in the log: not public


def test_targets_may_be_functions_of_contexts() -> None:
    """A function's probabilities are not taken as they are, or its arms are not."""
    log = clinic(30, 0)
    np.testing.assert_array_equal(to_target_policy(log, bold).chances, bold(log.contexts))
    chosen = to_target_policy(log, lambda x: (x[:, 0] > 0).astype(int))
    assert chosen.chances[:, 1].tolist() == (log.contexts[:, 0] > 0).astype(float).tolist()
    assert to_target_policy(log, bold).name == "bold"


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("unifrom", "Did you mean 'uniform'"),
        ("arm:9", "one of the arms 0, 1, 2"),
        ([0.5, 0.4, 0.0], "probabilities >= 0 that add up to 1, one for each arm"),
        ([1.5, -0.5, 0.0], "probabilities >= 0 that add up to 1, one for each arm"),
        (np.where(np.arange(30)[:, None] == 7, [2.0, 0.0, -1.0], [1.0, 0.0, 0.0]), "row 7 must be probabilities >= 0"),
        ([0.5, 0.5], "shape of target"),
        (lambda x: x, "shape of target(contexts) must be (30, 3): events, arms, got (30, 2)"),
        (lambda x: 1 / 0, "a function that raised ZeroDivisionError"),
        (lambda x: np.full(30, 7), "arms from 0 to 2"),
        (bd.LinTS(n_arms=3, features=2, horizon=10, privacy=bd.none()), "with what the policy has learned"),
        ((bd.make("UCB1", n_arms=3, horizon=10), None), "whose devices choose"),
        ((bd.LinTS(n_arms=2, features=2, horizon=10, privacy=bd.none()), None), "3 arms"),
        (None, '"uniform", "arm:NAME"'),
        ({}, '"uniform", "arm:NAME"'),
    ],
)
def test_values_that_are_no_targets_are_refused(target: Any, words: str) -> None:
    with pytest.raises(BandannaError) as caught:
        bd.ope.snips(clinic(30, 0), target)
    assert words in str(caught.value)


def learned(policy: Any, log: bd.Log) -> bd.Agent:
    agent = bd.Agent(policy=policy)
    for decision in agent.act_many(log.contexts / 5):
        agent.observe(decision.id, 1.0)
    agent.close()
    return agent


def test_an_agent_is_what_it_would_do() -> None:
    policy = bd.LinTS(n_arms=3, features=2, horizon=100, batch=50, alpha=2.0, privacy=bd.none())
    agent = learned(policy, clinic(100, 1))
    log = clinic(4, 2)
    chances = to_target_policy(log, agent).chances
    np.testing.assert_allclose(chances, to_target_policy(log, (policy, agent.snapshot)).chances)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    drawn = np.zeros((4, 3))
    for _ in range(300):
        for row, context in enumerate(log.contexts):
            drawn[row, agent.recommend(context, explore=True)] += 1
    error = np.sqrt(chances * (1 - chances) / 300)
    assert np.all(np.abs(drawn / 300 - chances) <= 5 * error + 0.02)  # of 12 shares, of which some are small


def test_tied_arms_share_the_probability() -> None:
    """A policy with ties, which states the probability of its choice only, has other ones of the rest."""
    policy = bd.LinUCB(dim=2, horizon=100, privacy=bd.none())
    rng = np.random.default_rng(0)
    contexts = np.zeros((6, 3, 2))
    contexts[:, :2] = [[0.5, 0.0], [0.0, 0.5]]  # of the same length: tied before anything is known
    contexts[3:, 2] = [[0.9, 0.0]]
    log = bd.Log(contexts=contexts, arms=rng.integers(0, 3, 6), rewards=rng.random(6), propensities=np.full(6, 1 / 3),
                 names=(0, 1, 2))  # fmt: skip
    chances = to_target_policy(log, (policy, policy.publish(policy.init()))).chances
    assert chances.tolist() == [[0.5, 0.5, 0.0]] * 3 + [[0.0, 0.0, 1.0]] * 3


def test_a_saved_agent_is_found(tmp_path: Path) -> None:
    agent = learned(bd.LinTS(n_arms=3, features=2, horizon=100, batch=50, privacy=bd.none()), clinic(100, 1))
    agent.save(tmp_path / "agent")
    log = clinic(200, 3)
    value = bd.ope.snips(log, load_learned_policy(str(tmp_path / "agent")))
    assert value.estimate == bd.ope.snips(log, agent).estimate
    with pytest.raises(BandannaError, match="or a saved agent"):
        load_learned_policy(str(tmp_path / "nothing"))
    with pytest.raises(BandannaError):
        load_learned_policy(str(tmp_path))


@pytest.mark.parametrize("order", [("none", "letter", "call"), ("call", "none", "letter")])
def test_arms_are_known_by_their_names(order: tuple[str, ...], tmp_path: Path) -> None:
    plain = clinic(150, 1)
    names = ("call", "letter", "none")
    log = bd.Log(contexts=plain.contexts / 5, arms=plain.arms, rewards=plain.rewards, propensities=plain.propensities,
                 names=names)  # fmt: skip
    policy = bd.LinTS(n_arms=3, features=2, horizon=100, batch=50, privacy=bd.none())
    agent = bd.Agent(policy=policy, arms=order, test=True, seed=0)
    agent.warm_start(log, privacy=bd.none())
    wanted = [[agent.recommend(x) == name for name in names] for x in log.contexts]
    chances = to_target_policy(log, agent).chances
    assert np.mean(np.argmax(chances, axis=1) == np.argmax(wanted, axis=1)) > 0.95  # but for near ties
    assert len({agent.recommend(x) for x in log.contexts}) > 1
    agent.save(tmp_path / "agent")
    saved = load_learned_policy(str(tmp_path / "agent"))
    assert saved.arms == order
    np.testing.assert_array_equal(to_target_policy(log, saved).chances, chances)
    with pytest.raises(BandannaError, match="in any order"):
        to_target_policy(log, bd.Agent(policy=policy, arms=["none", "letter", "visit"]))


def test_an_exported_task_is_found(tmp_path: Path) -> None:
    task, secrets = a_task(bd.make("LinTS-SDP", dim=2, horizon=60, epsilon=5.0, delta=1e-3, batch=20))
    (tmp_path / "roles").mkdir()
    inside = Inside(task, secrets, tmp_path / "roles")
    SimulatedUsers(task, inside, bd.environments.LinearContextual(dim=2, n_arms=3), rounds=20).run()
    inside.pump()
    with inside.processor._database.reading() as rows:
        published = [publication.read_publication_row(rows, number) for number in range(2)]
    folder = tmp_path / "exported"
    (folder / "publications").mkdir(parents=True)
    (folder / "task.json").write_bytes(task.document)
    for number, each in enumerate(published):
        plain = {"document": loads(each.document), "signature": each.signature, "cosignature": each.cosignature}
        (folder / "publications" / f"{number:06d}.json").write_text(dumps(plain).decode())
    found = load_learned_policy(str(folder))
    policy, snapshot = found.policy, found.snapshot
    assert policy == task.policy
    assert np.any(snapshot.theta != policy.publish(policy.init()).theta)  # the newest, which has learned something
    rng = np.random.default_rng(0)
    log = bd.Log(contexts=rng.uniform(-0.5, 0.5, (50, 3, 2)), arms=rng.integers(0, 3, 50), rewards=rng.random(50),
                 propensities=np.full(50, 1 / 3), names=(0, 1, 2))  # fmt: skip
    assert 0 < bd.ope.snips(log, found).estimate == bd.ope.snips(log, (policy, snapshot)).estimate < 1
    changed = (folder / "publications" / "000001.json").read_text().replace('"status"', '"statuS"')
    (folder / "publications" / "000001.json").write_text(changed)
    with pytest.raises(BandannaError):
        load_learned_policy(str(folder))


@pytest.mark.parametrize("arms", [3, 40, 100])
def test_a_users_weight_depends_on_no_other_user(arms: int) -> None:
    policy, n = bd.LinUCB(dim=2, horizon=100, batch=50, privacy=bd.central(epsilon=1.0, delta=1e-5)), 60
    tied, rng = np.tile([0.6, 0.0], (n, arms, 1)), np.random.default_rng(1)
    alone = tied.copy()
    alone[0, 1:] = 0.1  # nothing is tied with the first arm of the first person
    given, chances = rng.integers(0, arms, n), []
    for contexts in (tied, alone):
        log = bd.Log(contexts=contexts, arms=given, rewards=np.ones(n), propensities=np.full(n, 1 / arms),
                     names=tuple(range(arms)))  # fmt: skip
        chances.append(to_target_policy(log, (policy, policy.publish(policy.init()))).chances)
    np.testing.assert_allclose(chances[0], 1 / arms, rtol=1e-12)  # every arm of a tie is seen
    assert chances[1][0].tolist() == [1.0] + [0.0] * (arms - 1)
    np.testing.assert_array_equal(chances[0][1:], chances[1][1:])
