"""One user's context must not reach another's action or report: alone and in any company the bits are the same."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bandanna.device.domain import Ball, Estimate, clip_norm
from bandanna.device.linear_report import LinearReport
from bandanna.device.noise import FastNoise, ReplicatedNoise
from bandanna.numeric.linalg import first_best, round_to_single
from bandanna.numeric.rng import NoRandomness, StreamRandomness, Streams
from bandanna.policies.base import PlayedRounds, SumQuery, drive_learning
from bandanna.policies.finite.thompson import Thompson
from bandanna.policies.glm.baselines import GLMUCB, GLOC, ECOLog
from bandanna.policies.glm.batched import BatchEstimate, BGLinUCB
from bandanna.policies.glm.estimation import maximum_likelihood, project_onto_intersection
from bandanna.policies.glm.rs_glinucb import RSGLinUCB, compute_norms
from bandanna.policies.linear.linucb import LinUCB, OptimisticSnapshot, score_contexts
from bandanna.policies.linear.oful import OFUL, OFULJDP
from bandanna.protocols.privacy_model import central, none
from bandanna.simulation.players.reference import QueryAnswerer

from ..drawn import examples
from .answering import Teacher

Floats = NDArray[np.float64]


def near_tied(rng: np.random.Generator, users: int, arms: int, dim: int, size: float) -> Floats:
    """Contexts (users, arms, dim) with many arms that differ in their last digits only; some users' times `size`."""
    contexts = rng.normal(size=(users, arms, dim)) / np.sqrt(dim)
    copies = contexts[:, rng.integers(arms, size=arms)] * (1 + rng.integers(-2, 3, size=(users, arms, 1)) * 2.0**-25)
    contexts = np.where(rng.random((users, arms, 1)) < 0.5, copies, contexts)
    return contexts * np.where(rng.random((users, 1, 1)) < 0.3, size, 1.0)


def in_company(decide: Callable[[Floats], Any], everybody: Floats, rng: np.random.Generator) -> None:
    """`decide`, of the rows of an array, gives each row what it gives the row alone, and among some of the others."""
    together = np.asarray(decide(everybody))
    users = len(everybody)
    for user in rng.permutation(users)[:3]:
        some = rng.permutation(np.unique(np.append(rng.integers(users, size=rng.integers(1, users + 1)), user)))
        for rows, order in ((np.array([user]), np.asfortranarray), (some, np.asarray)):
            alone = np.asarray(decide(order(everybody[rows])))
            assert alone[int(np.flatnonzero(rows == user)[0])].tobytes() == together[user].tobytes()


def linear_snapshot(rng: np.random.Generator, dim: int) -> OptimisticSnapshot:
    rows = rng.normal(size=(20, dim))
    return OptimisticSnapshot(
        theta=rng.normal(size=dim), inverse=np.linalg.inv(rows.T @ rows + np.eye(dim)), radius=2.0
    )


def linucb(rng: np.random.Generator, dim: int) -> Callable[[Floats], Any]:
    policy, snapshot = LinUCB(dim=dim, horizon=10, privacy=none()), linear_snapshot(rng, dim)

    def decide(contexts: Floats) -> Floats:
        index = score_contexts(snapshot, clip_norm(contexts, 1.0))
        choice = policy.act(snapshot, contexts, NoRandomness())
        return np.concatenate([index, choice.actions[:, None], choice.probabilities[:, None]], axis=1)

    return decide


def oful(rng: np.random.Generator, dim: int) -> Callable[[Floats], Any]:
    """AdaC-OFUL after some rounds, with features clipped to norm 2."""
    policy = OFUL(dim=dim, horizon=100, feature_bound=2.0, privacy=none())
    snapshot = policy.publish(Teacher(policy).learn(rng.normal(size=(10, dim)), rng.random(10)))
    return lambda contexts: policy.act(snapshot, contexts, NoRandomness()).actions


def oful_jdp(rng: np.random.Generator, dim: int) -> Callable[[Floats], Any]:
    policy = OFULJDP(dim=dim, horizon=100, privacy=central(rho=1.0))
    snapshot = policy.publish(policy.init())
    return lambda contexts: policy.act(snapshot, contexts, NoRandomness()).actions


class Brought(NoRandomness):
    """Coins that users bring along, one each."""

    def __init__(self, coins: Floats) -> None:
        self.coins = coins

    def uniform(self, shape: tuple[int, ...], name: str) -> Floats:
        return self.coins.reshape(shape)


def batched(rng: np.random.Generator, dim: int) -> Callable[[Floats], Any]:
    """A batched generalised linear policy with two earlier batches; a user's coin comes with the context."""
    policy = BGLinUCB(dim=dim, horizon=1000)
    first, second = linear_snapshot(rng, dim), linear_snapshot(rng, dim)
    earlier = (
        BatchEstimate(theta=first.theta, inverse=first.inverse, width=0.3, blur=0.1),
        BatchEstimate(theta=second.theta, inverse=second.inverse, width=0.3, blur=0.0),
    )

    def decide(contexts: Floats) -> Any:
        inside = policy.clip_features(contexts)
        choice = policy.act(earlier, inside, Brought(np.abs(inside[:, 0, 0])))
        return np.stack([choice.actions, choice.probabilities], axis=1)

    return decide


def rarely_switching(rng: np.random.Generator, dim: int) -> Callable[[Floats], Any]:
    """RS-GLinUCB: whether it explores, by norms; what it does then, and what it does else."""
    policy = RSGLinUCB(dim=dim, horizon=1000, constants="published")
    v, h = linear_snapshot(rng, dim), linear_snapshot(rng, dim)
    snapshot = replace(policy.init(), v_inverse=v.inverse, next_o=v.theta, next_tau=h.theta, h_inverse=h.inverse)

    def decide(contexts: Floats) -> Any:
        inside = policy.clip_features(contexts)
        choice = policy.act(snapshot, inside, NoRandomness())
        norms = compute_norms(inside, v.inverse[None])
        actions = policy.choose(inside, norms, v.theta, h.theta, h.inverse)
        return np.concatenate([norms, actions[:, None], choice.actions[:, None], choice.groups[:, None]], axis=1)

    return decide


POLICIES = [linucb, oful, oful_jdp, batched, rarely_switching]


@pytest.mark.parametrize("policy", POLICIES)
@given(
    seed=st.integers(0, 2**32 - 1),
    users=st.integers(1, 200),
    arms=st.integers(1, 30),
    dim=st.sampled_from([1, 2, 3, 5, 8, 13]),
    size=st.sampled_from([1.0, 1e-30, 1e3, 1e50, 1e100]),
)
@examples(10, full=25)
@example(seed=0, users=200, arms=2, dim=2, size=1e100)
def test_a_decision_is_the_same_beside_any_other_users(
    policy: Callable[..., Callable[[Floats], Any]], seed: int, users: int, arms: int, dim: int, size: float
) -> None:
    rng = np.random.default_rng(seed)
    in_company(policy(rng, dim), near_tied(rng, users, arms, dim, size), rng)


@given(
    seed=st.integers(0, 2**32 - 1),
    users=st.integers(1, 200),
    dim=st.sampled_from([1, 2, 3, 5, 8, 13]),
    size=st.sampled_from([1.0, 1e-30, 1e3, 1e50, 1e100, 1e200, 1e307]),
)
@settings(max_examples=50)
def test_a_report_is_the_same_beside_any_other_users(seed: int, users: int, dim: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    features = near_tied(rng, users, 1, dim, size)[:, 0]
    policy, report, ball = LinUCB(dim=dim, horizon=10, privacy=none()), LinearReport(features=dim), Ball(dim=dim)
    in_company(lambda rows: clip_norm(rows, 1.0), features, rng)
    in_company(lambda rows: ball.admit(rows).values, features, rng)
    in_company(lambda rows: policy._form_statistic(rows, np.full(len(rows), 0.7)).values, features, rng)
    stacked = rng.normal(size=(users, report.dim)) * np.where(rng.random((users, 1)) < 0.3, size, 1.0)
    in_company(lambda rows: report.admit(rows).values, stacked, rng)


@given(seed=st.integers(0, 2**32 - 1), seeds=st.integers(2, 60), dim=st.sampled_from([1, 2, 3, 5, 8, 13]))
@settings(max_examples=25)
def test_a_seed_decides_the_same_beside_any_other_seeds(seed: int, seeds: int, dim: int) -> None:
    rng = np.random.default_rng(seed)
    policy = LinUCB(dim=dim, horizon=10_000, privacy=none())
    features = near_tied(rng, seeds, 20, dim, 1.0)
    totals = np.sum(policy._form_statistic(features, rng.random((seeds, 20))).values, axis=1)
    packed = np.concatenate([totals, features.reshape(seeds, -1)], axis=1)

    def decide(rows: Floats) -> Any:
        snapshot, _ = policy._estimate(rows[:, : totals.shape[1]], 20)
        arms = policy._tabulate_arms(rows[:, totals.shape[1] :].reshape(-1, 20, dim))
        first, tied = policy._favoured_arms(snapshot, arms)
        several = np.arange(20) == first[:, None] if tied is None else tied
        return np.concatenate([snapshot.theta, several], axis=1)

    in_company(decide, packed, rng)


@pytest.mark.parametrize("policy", [GLMUCB, GLOC, ECOLog])
def test_a_seed_of_a_generalised_policy_decides_the_same_beside_any_other_seeds(policy: Any) -> None:
    rng = np.random.default_rng(3)
    made = policy(dim=3, horizon=20, parameter_bound=3.0)
    contexts = clip_norm(rng.normal(size=(20, 30, 10, 3)), 1.0)
    rewards = np.asarray(rng.random((20, 30, 10)) < 0.5, dtype=float)

    def play(rows: Floats) -> Any:
        who = rows.astype(int)
        state, actions, source = made.init(replicates=(len(who),)), [], FastNoise(np.random.default_rng(0))
        features, earned = np.zeros((len(who), 20, 3)), np.zeros((len(who), 20))
        for t in range(20):
            actions.append(made.act(made.publish(state), contexts[t, who][:, None], NoRandomness()).actions[:, 0])
            chosen = np.arange(len(who)), actions[-1]
            features[:, t], earned[:, t] = contexts[t, who][chosen], rewards[t, who][chosen]

            def answer(query: SumQuery, end: int = t + 1) -> Estimate:
                held = slice(end - 1 if query.group == "episode" else 0, end)
                rows = PlayedRounds(features=features[:, held], rewards=earned[:, held])
                return query.protocol.release(made.report(query, rows, NoRandomness()), source, path="law")

            state = drive_learning(made.learn(state, made.episode(state)), answer)
        return np.stack(actions, axis=1)

    in_company(play, np.arange(30.0), rng)


def test_a_far_estimate_moves_no_other() -> None:
    rng = np.random.default_rng(0)
    x, theta = clip_norm(rng.normal(size=(12, 40, 3)), 1.0), rng.normal(size=(12, 3))
    x[::3] *= 30.0
    y = np.asarray(rng.random((12, 40)) < 0.5, dtype=float)
    for place in range(12):
        alone = maximum_likelihood("logistic", x[place], y[place], ridge=1e-3, start=theta[place] * 5).theta
        together = maximum_likelihood("logistic", x, y, ridge=1e-3, start=theta * 5).theta[place]
        assert alone.tobytes() == together.tobytes()
    matrices = np.swapaxes(x, 1, 2) @ x / 40 + 0.01 * np.eye(3)

    def project(rows: Floats) -> Floats:
        who = rows.astype(int)
        return project_onto_intersection(
            theta[who], ball=1.0, centre=0.3 * theta[::-1][who], matrix=matrices[who], radius=0.2
        )

    in_company(project, np.arange(12.0), rng)


def test_a_seed_of_thompson_sampling_draws_the_same_beside_any_other_seeds() -> None:
    policy = Thompson(n_arms=2, horizon=10)
    rewards = np.array([[1.0, 0.5], [0.0, 0.3], [0.5, 0.5], [0.4, 0.2]])  # (rounds, seeds)
    sums = []
    for seeds in ([0], [0, 1]):
        streams, state = Streams(seeds), policy.init(replicates=(len(seeds),))
        answers = QueryAnswerer(policy, ReplicatedNoise(streams), StreamRandomness(streams), "law")
        for row in rewards:
            rows = PlayedRounds(rewards=row[: len(seeds), None], arms=np.zeros((len(seeds), 1), dtype=np.int64))
            state = answers.learn(state, policy.episode(state), rows)
        sums.append(state.sums[0])
    np.testing.assert_array_equal(*sums)


def test_an_index_beyond_single_precision_is_decided_by_itself() -> None:
    tied = np.array([1.0, 1.0 + 2.0**-30, 0.5])
    with np.errstate(over="ignore"):
        for other in (1e38, 1e39, 1e100, 1e308, -1e300, math.inf):
            assert first_best(np.stack([tied, tied * other]))[0] == 0
            assert first_best(np.stack([tied * 2.0**200, tied]))[0] == 0
    np.testing.assert_array_equal(
        first_best(np.array([[-math.inf, 1e300, 1.1e300], [-1e300, -math.inf, -1e301]])), [2, 0]
    )


@pytest.mark.parametrize("large", [1e38, -1e38, -3e38, -3.4e38, -3.5e38])
def test_a_row_near_the_end_of_single_precision_is_decided_by_itself(large: float) -> None:
    row, beyond = np.array([large, 1e-30, 1.1e-30]), np.array([1e50, 0.0, 0.0])
    alone, in_company = round_to_single(row[None])[0], round_to_single(np.stack([row, beyond]))[0]
    np.testing.assert_array_equal(alone, in_company)


@given(
    st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 3, 7, 50, 400]), st.floats(1e-3, 1e200), st.floats(1e-200, 1e300)
)
def test_clipping_twice_is_clipping_once(seed: int, dim: int, bound: float, size: float) -> None:
    x = np.random.default_rng(seed).normal(size=(20, dim)) * size
    once = clip_norm(x, bound)
    assert clip_norm(once, bound).tobytes() == once.tobytes()
    lengths = np.array([math.hypot(*row) for row in (x / bound).tolist()])
    assert all(math.hypot(*row) <= 1 + (dim + 8) * 2.0**-51 for row in (once / bound).tolist())
    assert once[lengths <= 1].tobytes() == x[lengths <= 1].tobytes()
