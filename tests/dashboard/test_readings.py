"""What is read from publications: right where there is no noise, and off by as much as it says where there is."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.deployment.dashboard.readings import PublicationReading, ValueBand, band_between, reader_for
from bandanna.deployment.messages.canonical import loads
from bandanna.deployment.task.document import Task
from bandanna.deployment.task.query_plan import VerifiedPublication
from bandanna.device.noise import FastNoise
from bandanna.numeric.rng import NumberedRandomness, Streams
from bandanna.policies.base import PlayedRounds, RunnerState, drive_learning
from bandanna.policies.registry import ALGORITHMS, make_encoding

from ..deployment.inside import a_task
from ..deployment.simulated import RUNS as CATALOGUE
from ..deployment.simulated import case
from .town import Town

TEA = {"green": [0.9, 0.1, 1.0], "black": [0.1, 0.9, 1.0], "mint": [0.5, 0.2, 1.0]}
ROWS = np.array(list(TEA.values()))


def verified_publication(task: Task, state: Any, number: int, **more: Any) -> VerifiedPublication:
    encoding = make_encoding()
    content = {
        "number": number,
        "epoch": number,
        "state": encoding.dumps(state),
        "snapshot": encoding.dumps(task.policy.publish(state)),
        "batches": [],
    }
    return VerifiedPublication(content={**content, **more})


def played(policy: Any, *, seed: int, batches: int = 1, arms: int = 3) -> tuple[Any, float, np.ndarray[Any, Any]]:
    """A state after some batches, the sum of their rewards, and how often arms were played."""
    return stages(policy, seed=seed, batches=batches, arms=arms)[-1]


def stages(policy: Any, *, seed: int, batches: int, arms: int = 3) -> list[tuple[Any, float, np.ndarray[Any, Any]]]:
    found = []
    rng = np.random.default_rng(seed)
    source, desk = FastNoise(rng), RunnerState()
    state, total, counts = policy.init(), 0.0, np.zeros(arms)
    for _ in range(batches):
        episode = policy.episode(state)
        chosen = rng.integers(0, arms, episode.users)
        rewards = (rng.random(episode.users) < 0.3 + 0.2 * chosen).astype(float)
        own = policy.n_arms if getattr(policy, "n_arms", None) else None
        features = rng.uniform(-0.5, 0.5, (episode.users, policy.dim)) if own else ROWS[chosen]
        rows = PlayedRounds(rewards=rewards, features=features, arms=chosen)

        def answer(query: Any, rows: PlayedRounds = rows) -> Any:
            nonlocal desk
            statistic = policy.report(query, rows, NumberedRandomness(0, 0))
            desk, estimate = desk.release(query, statistic, source, path="messages")
            return estimate

        state = drive_learning(policy.learn(state, episode), answer)
        total += float(rewards.sum())
        counts = counts + np.bincount(chosen, minlength=arms)
        found.append((state, total, counts))
    return found


EXACT = {
    "intercept": bd.LinTS(dim=3, horizon=400, batch=100, intercept=True, privacy=bd.none()),
    "a constant in the span of arms": bd.LinTS(dim=3, horizon=400, batch=100, privacy=bd.none()),
    "LinUCB": bd.LinUCB(dim=3, horizon=400, batch=100, privacy=bd.none()),
    "LinUCB, centred": bd.LinUCB(dim=3, horizon=400, batch=100, reward_centre=0.5, privacy=bd.none()),
    "rewards alone": bd.policies.LinTSRewards(dim=3, horizon=400, batch=100, privacy=bd.none()),
    "rewards alone, intercept": bd.policies.LinTSRewards(
        dim=3, horizon=400, batch=100, intercept=True, privacy=bd.none()
    ),
}


@pytest.mark.parametrize("name", EXACT)
def test_without_noise_sums_are_exact(name: str) -> None:
    task, _ = a_task(EXACT[name], arms=TEA)
    arms = task.arms
    assert arms is not None
    policy = task.policy
    if isinstance(policy, bd.policies.LinTSRewards):
        state_of = bd.policies.LinTSRewards.init
        object.__setattr__(policy, "init", lambda *_: state_of(policy, arms.features))
    state, total, counts = played(policy, seed=1, batches=3)
    reading = reader_for(task).read(verified_publication(task, state, 3), None)
    assert reading.users == 300
    assert reading.reward is not None
    assert reading.reward.value == pytest.approx(total, rel=1e-9)
    assert reading.reward.half == pytest.approx(0.0, abs=1e-9)
    if reading.plays:
        assert [each.name for each in reading.plays] == list(TEA)
        assert [each.band.value for each in reading.plays] == pytest.approx(counts.tolist(), abs=1e-6)
    rows = (
        policy.clip_features(ROWS[None])[0]
        if isinstance(policy, bd.policies.LinTSRewards)
        else policy._domain.clip_features(ROWS)
    )
    means = (rows @ policy._theta(state.snapshot)).tolist()
    centre = getattr(task.policy, "reward_centre", 0.0)
    assert reading.regret is not None
    assert reading.regret.value == pytest.approx(300 * (max(means) + centre) - total, rel=1e-6)
    assert (reading.regret.half or 0) >= 2 * 0.5 * math.sqrt(300)


def test_arms_with_parameters_of_their_own_are_read_one_by_one() -> None:
    task, _ = a_task(bd.LinTS(n_arms=3, features=2, horizon=400, batch=100, privacy=bd.none()), arms=["a", "b", "c"])
    state, total, counts = played(task.policy, seed=2, batches=2)
    reading = reader_for(task).read(verified_publication(task, state, 2), None)
    assert reading.reward is not None
    assert reading.reward.value == pytest.approx(total)
    assert [each.band.value for each in reading.plays] == pytest.approx(counts.tolist())
    assert [each.name for each in reading.theta[:4]] == ["a: feature 1", "a: feature 2", "a: constant", "b: feature 1"]
    assert reading.regret is None


SIZES: dict[str, Any] = {"dim": 3, "horizon": 400, "batch": 100}
NOISY = {
    "shuffle": bd.LinTS(**SIZES, intercept=True, privacy=bd.shuffle(epsilon=2.0, delta=1e-4)),
    "central stream": bd.LinTS(**SIZES, intercept=True, privacy=bd.central(epsilon=2.0, delta=1e-4)),
    "LinUCB, local": bd.LinUCB(**SIZES, privacy=bd.local(epsilon=4.0, delta=1e-4)),
}
RUNS = 150


@pytest.mark.parametrize("name", NOISY)
def test_the_band_covers_two_standard_deviations_of_the_noise(name: str) -> None:
    """Inside with probability 0.954 each; fewer than 128 of 150 have probability below 2e-6."""
    task, _ = a_task(NOISY[name], arms=TEA)
    reader = reader_for(task)
    inside = {"reward": 0, "own": 0, "plays": 0}
    wide = []
    for seed in range(RUNS):
        (first, early, _), (state, total, counts) = stages(task.policy, seed=seed, batches=2)
        before, reading = (reader.read(verified_publication(task, each, 1), None) for each in (first, state))
        assert reading.reward is not None
        assert before.reward is not None
        assert reading.reward.half is not None
        wide.append(abs(reading.reward.value - total) / reading.reward.half)
        inside["reward"] += wide[-1] <= 1
        inside["plays"] += abs(reading.plays[0].band.value - counts[0]) <= (reading.plays[0].band.half or 0)
        own = band_between(reading.reward, before.reward, independent=reader.independent)
        inside["own"] += abs(own.value - (total - early)) <= (own.half or 0)
    assert min(inside.values()) >= 128, inside
    assert 0.3 < 2 * np.sqrt(np.mean(np.square(wide))) < 1.25  # and they are not needlessly wide


def test_sums_that_reports_do_not_hold_are_not_shown() -> None:
    task, _ = a_task(bd.LinTS(dim=3, horizon=400, batch=100, privacy=bd.none()))
    reader = reader_for(task)
    reading = reader.read(verified_publication(task, task.policy.init(), 0), None)
    assert (reading.reward, reading.regret, reading.plays) == (None, None, ())
    assert "do not determine" in reader.notes.reward
    assert "only the device sees" in reader.notes.regret
    intercept, _ = a_task(bd.LinTS(dim=3, horizon=400, batch=100, intercept=True, privacy=bd.none()))
    reading = reader_for(intercept).read(verified_publication(intercept, intercept.policy.init(), 0), None)
    assert reading.reward == ValueBand(value=0.0, half=0.0)
    assert reading.regret is None


def test_uncertainty_of_theta_is_the_posteriors_and_the_confidence_sets() -> None:
    halves = []
    for alpha in (0.25, 1.0):
        policy = bd.LinTS(dim=3, horizon=400, batch=100, alpha=alpha, privacy=bd.shuffle(epsilon=2.0, delta=1e-4))
        task, _ = a_task(policy)
        state, _, _ = played(task.policy, seed=3)
        halves.append(
            [each.band.half for each in reader_for(task).read(verified_publication(task, state, 1), None).theta]
        )
    assert halves[0] == pytest.approx(halves[1])
    for width in (0.2, 1.0):
        task, _ = a_task(bd.LinUCB(dim=3, horizon=400, batch=100, width=width, confidence="lemma", privacy=bd.none()))
        state, _, _ = played(task.policy, seed=3)
        halves.append(
            [each.band.half for each in reader_for(task).read(verified_publication(task, state, 1), None).theta]
        )
    assert halves[2] == pytest.approx(halves[3])


def history(task: Task, world: Any, number: int) -> list[PublicationReading]:
    """Readings of all publications of assigned arms, each with the one before it."""
    policy, state, reader = task.policy, task.policy.init(), reader_for(task)
    rng = np.random.default_rng(5)
    before: tuple[VerifiedPublication, PublicationReading] | None = None
    found = []
    for place in range(number):
        episode = policy.episode(state)
        assigned = {"arms": episode.arms.tolist(), "plays": episode.plays.tolist(), "in_turn": episode.in_turn}
        batch = {"epoch": place, "episode": place, "slots": episode.users, "rounds": [], "clients": False, **assigned}
        now = verified_publication(task, state, place, batches=[batch])
        found.append(reader.read(now, before))
        before = now, found[-1]
        arms = episode.arms_at(np.arange(episode.users))
        rewards = (rng.random(len(arms)) < np.asarray(world)[arms]).astype(float)
        desk, source = RunnerState(), FastNoise(rng)

        def answer(
            query: Any, arms: Any = arms, rewards: Any = rewards, desk: RunnerState = desk, source: Any = source
        ) -> Any:
            kept = slice(None) if query.arm is None else arms == query.arm
            rows = PlayedRounds(rewards=rewards[kept], arms=arms[kept])
            return desk.release(query, policy.report(query, rows, NumberedRandomness(0, 0)), source, path="messages")[1]

        state = drive_learning(policy.learn(state, episode), answer)
    return found


def test_arms_without_features_are_read_from_sums_and_plans() -> None:
    world = (0.2, 0.5, 0.8)
    task, _ = a_task(bd.make("AdaC-UCB", n_arms=3, horizon=2000, rho=1.0), arms=["a", "b", "c"])
    episodes = history(task, world, 20)
    last = episodes[-1]
    assert last.users == sum(each.band.value for each in last.plays)
    assert last.reward is not None
    assert abs(last.reward.value - 0.8 * (last.users or 0)) < 0.4 * (last.users or 0)
    assert [each.users for each in episodes] == sorted(each.users or 0 for each in episodes)
    assert max(last.theta, key=lambda each: each.band.value).name == "c"
    alone = reader_for(task).read(verified_publication(task, task.policy.init(), 5), None)
    assert alone.reward is None  # what was before it was not read
    for name, budget in (("UCB1", {}), ("LDP-UCB", {"epsilon": 3.0})):
        task, _ = a_task(bd.make(name, n_arms=3, horizon=300, **budget), arms=["a", "b", "c"])
        last = history(task, world, 200)[-1]
        assert last.users == 199
        assert last.regret is not None
        assert abs(last.regret.value) <= (last.regret.half or 0) + 0.6 * 199
        assert sum(each.band.value for each in last.plays) == 199


def test_elimination_shows_what_was_assigned_and_which_arms_are_left() -> None:
    task, _ = a_task(bd.make("DP-SE", n_arms=3, horizon=20_000, epsilon=2.0, failure=0.4), arms=["a", "b", "c"])
    found = history(task, (0.1, 0.5, 0.9), 4)
    assert found[0].left == ("a", "b", "c")
    assert found[-1].left == ("c",)
    assert found[1].users == sum(each.band.value for each in found[1].plays) > 0
    assert found[1].reward is None


def test_every_deployable_policy_can_be_read() -> None:
    unreadable, kinds = [], set()
    for name in CATALOGUE:
        if ALGORITHMS[name].kind in kinds:
            continue
        kinds.add(ALGORITHMS[name].kind)
        policy, env, arms, _ = case(name)
        try:
            features = arms if arms is not None else (env.begin(Streams([0])).contexts(0, 1)[0, 0] if env.dim else None)
            state = policy.init(features)
            task, _ = a_task(policy, arms=arms)
        except Exception:  # one that cannot be deployed
            continue
        try:
            reader_for(task).read(verified_publication(task, state, 0), None)
        except Exception as error:
            unreadable.append((name, repr(error)))
    assert unreadable == []


def test_a_task_with_a_schema_names_its_features(tmp_path: Path) -> None:
    policy = {"n_arms": 2, "features": 2, "horizon": 100, "epsilon": 5.0, "delta": 1e-3, "batch": 40}
    schema = {"age": [0, 110], "weight": [30, 160]}
    town = Town(tmp_path, arms={"names": ["a", "b"]}, schema=schema, policy=policy)
    reading = reader_for(town.task).read(VerifiedPublication(content=loads(town.processor.published.document)), None)
    wanted = [f"{arm}: {name}" for arm in "ab" for name in ("age", "weight", "constant")]
    assert [each.name for each in reading.theta] == wanted
