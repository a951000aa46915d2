"""Runners of finite arms, fixed arms and public contexts: exact in law, the same in any company, sound at the edges."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from bandanna.errors import InvalidArgument
from bandanna.policies.finite.elimination import Elimination
from bandanna.policies.finite.gope import GOPE
from bandanna.policies.finite.thompson import Thompson
from bandanna.policies.finite.ucb import LDPUCB, UCB1, UCBEpisodes
from bandanna.policies.linear.oful import OFUL, OFULJDP
from bandanna.protocols.privacy_model import Privacy, central, local, none, shuffle
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.base import Bounded
from bandanna.simulation.environments.finite import ClippedGaussian, FiniteArms
from bandanna.simulation.environments.linear import LinearContextual, SphereArms, SphereContexts

FEW = FiniteArms(means=(0.3, 0.7, 0.5))
SHUFFLE = shuffle(epsilon=1.0, delta=1e-2)
SPHERE, FRESH = SphereArms(dim=2, n_arms=4), SphereContexts(dim=2, n_arms=4)
POLICIES: list[tuple[Any, Any]] = [
    (UCB1(n_arms=3, horizon=300), FEW),
    (Thompson(n_arms=3, horizon=300), FEW),
    (LDPUCB(n_arms=3, horizon=300, privacy=local(epsilon=1.0, delta=0.0)), FEW),
    (UCBEpisodes(n_arms=3, horizon=300, privacy=none()), FEW),
    (UCBEpisodes(n_arms=3, horizon=300, privacy=central(rho=1.0)), FEW),
    (UCBEpisodes(n_arms=3, horizon=300, privacy=central(epsilon=1.0, delta=0.0)), FEW),
    (Elimination(n_arms=3, horizon=12_000, privacy=central(epsilon=1.0, delta=0.0), failure=0.1), FEW),
    (Elimination(n_arms=3, horizon=12_000, privacy=SHUFFLE, failure=0.1), FEW),
    (GOPE(dim=2, horizon=20_000, privacy=none()), SPHERE),
    (GOPE(dim=2, horizon=20_000, privacy=central(rho=0.1)), SPHERE),
    (GOPE(dim=2, horizon=20_000, privacy=central(rho=0.1), noise="beginning"), SPHERE),
    (OFUL(dim=2, horizon=300, privacy=none()), FRESH),
    (OFUL(dim=2, horizon=300, privacy=central(rho=0.1)), FRESH),
    (OFULJDP(dim=2, horizon=300, privacy=central(rho=1.0)), FRESH),
]


@pytest.mark.parametrize(("policy", "env"), POLICIES)
def test_a_seed_gives_the_same_run_in_any_company(policy: Any, env: Any) -> None:
    many, alone = simulate(policy, env, n_seeds=3, seed=5), simulate(policy, env, n_seeds=1, seed=6)
    assert np.array_equal(many.regret[1], alone.regret[0])
    assert many.rewards[1] == alone.rewards[0]
    assert many.horizon == policy.horizon
    assert np.all(np.diff(many.regret, axis=1) >= -1e-9)
    assert many.guarantee == policy.guarantee


SCALE = FiniteArms(means=(0.1, 0.5), reward=ClippedGaussian(std=0.5, low=-1.0, high=1.0, levels=21))


@pytest.mark.parametrize(
    ("policy", "env"),
    [
        (UCBEpisodes(n_arms=3, horizon=150, privacy=none()), FEW),
        (UCBEpisodes(n_arms=3, horizon=150, privacy=central(rho=1.0)), FEW),
        (UCBEpisodes(n_arms=2, horizon=150, privacy=central(epsilon=1.0, delta=0.0), reward_range=(-0.5, 0.7)), SCALE),
        (
            Elimination(
                n_arms=2, horizon=2_000, privacy=central(epsilon=0.5, delta=0.0), failure=0.5, reward_range=(-1, 1)
            ),
            SCALE,
        ),
        pytest.param(
            Elimination(n_arms=2, horizon=2_000, privacy=SHUFFLE, failure=0.5, reward_range=(-1, 1)),
            SCALE,
            marks=pytest.mark.full,
        ),
        (Elimination(n_arms=2, horizon=2_000, privacy=SHUFFLE, failure=0.5, reward_range=(-0.5, 0.7)), SCALE),
        pytest.param(GOPE(dim=2, horizon=6_000, failure=0.5, privacy=none()), SPHERE, marks=pytest.mark.full),
        pytest.param(
            GOPE(dim=2, horizon=6_000, privacy=central(rho=0.05), failure=0.5), SPHERE, marks=pytest.mark.full
        ),
        (GOPE(dim=2, horizon=6_000, privacy=central(rho=0.05), failure=0.5, noise="beginning"), SPHERE),
    ],
)
def test_episodes_in_one_draw_have_the_law_of_single_rounds(policy: Any, env: Any) -> None:
    law = simulate(policy, env, n_seeds=600)
    rounds = simulate(policy, env, n_seeds=200, seed=10_000, path="messages")  # 600 and 200 tell as much as 300 and 300
    for one, two in ((law.final_regret, rounds.final_regret), (law.rewards, rounds.rewards)):
        assert stats.ks_2samp(one, two, method="asymp").pvalue > 1e-4
    assert np.any(law.clipped) == np.any(rounds.clipped)
    if np.any(law.clipped):
        assert stats.ks_2samp(law.clipped, rounds.clipped, method="asymp").pvalue > 1e-4
    middle = law.regret.shape[1] // 3
    assert stats.ks_2samp(law.regret[:, middle], rounds.regret[:, middle], method="asymp").pvalue > 1e-4


@pytest.mark.often(of=lambda privacy, kind, horizon: horizon == 400 and privacy.noisy == (kind is SphereContexts))
@pytest.mark.parametrize("kind", [SphereContexts, SphereArms])
@pytest.mark.parametrize("privacy", [none(), central(rho=0.1)])
@pytest.mark.parametrize("horizon", [400, 1000])
def test_speculative_chunks_are_the_rounds_one_by_one(privacy: Privacy, kind: Any, horizon: int) -> None:
    """A chunk is cut at another round than the first crossing, or what follows, or an arm that stays, is not decided
    anew."""
    policy = OFUL(dim=3, horizon=horizon, ridge=0.1, privacy=privacy)
    env = kind(dim=3, n_arms=5, reward=ClippedGaussian(low=-1.0, high=1.0))
    chunks, rounds = simulate(policy, env, n_seeds=2), simulate(policy, env, n_seeds=2, path="messages")
    assert np.allclose(chunks.regret, rounds.regret)
    assert np.array_equal(chunks.counts["switches"], rounds.counts["switches"])
    assert np.array_equal(chunks.plays, rounds.plays)
    assert np.all(chunks.counts["switches"] > 5)


def test_a_trillion_rounds_are_as_many_steps_as_there_are_episodes() -> None:
    env = FiniteArms(means=(0.75, 0.625, 0.5))
    for policy in (
        UCBEpisodes(n_arms=3, horizon=10**12, privacy=central(rho=1.0)),
        Elimination(n_arms=3, horizon=10**12, privacy=central(epsilon=1.0, delta=0.0)),
    ):
        result = simulate(policy, env, n_seeds=5)
        assert result.horizon == 10**12
        assert np.all(result.final_regret < 20_000)
    linear = simulate(GOPE(dim=2, horizon=10**12, privacy=central(rho=1.0)), SPHERE, n_seeds=2)
    assert np.all(linear.final_regret < 10**6)


@pytest.mark.parametrize("means", [(0.5,), (0.4, 0.4, 0.4), (0.0, 1.0)])
@pytest.mark.parametrize("rho", [1e-9, math.inf])
def test_edge_cases_of_finite_arms_run_without_spurious_regret(means: tuple[float, ...], rho: float) -> None:
    env, k = FiniteArms(means=means), len(means)
    for policy in (
        UCB1(n_arms=k, horizon=100),
        Thompson(n_arms=k, horizon=100),
        UCBEpisodes(n_arms=k, horizon=1000, privacy=central(rho=rho)),
        Elimination(n_arms=k, horizon=1000, privacy=central(epsilon=1.0, delta=0.0)),
        GOPE(dim=k, horizon=1000, privacy=central(rho=rho), reward_range=(0, 1)),
        OFUL(dim=k, horizon=100, privacy=central(rho=rho), reward_range=(0, 1)),
    ):
        result = simulate(policy, env, n_seeds=2)
        assert np.all(np.isfinite(result.regret))
        if len(set(means)) == 1:
            assert np.all(result.final_regret == 0)


@pytest.mark.parametrize("means", [(0.5,), (0.4, 0.4, 0.4), (0.0, 1.0)])
@pytest.mark.parametrize("size", ["least", "most"])
def test_edge_cases_of_the_noisy_models_run(means: tuple[float, ...], size: str) -> None:
    env, k, least = FiniteArms(means=means), len(means), size == "least"
    shuffled = shuffle(epsilon=1e-6 if least else 1e6, delta=1e-5)
    for policy in (
        LDPUCB(n_arms=k, horizon=100, privacy=local(epsilon=1e-12 if least else 1e6, delta=0.0)),
        UCBEpisodes(n_arms=k, horizon=1000, privacy=central(epsilon=1e-9 if least else 1e9, delta=0.0)),
        Elimination(n_arms=k, horizon=5000, privacy=central(epsilon=1e-9 if least else 1e9, delta=0.0)),
        Elimination(n_arms=k, horizon=5000, privacy=shuffled),
        OFULJDP(dim=k, horizon=200, privacy=central(rho=1e-9 if least else 1e9), reward_range=(0, 1)),
    ):
        result = simulate(policy, env, n_seeds=2)
        assert np.all(np.isfinite(result.regret))
        if len(set(means)) == 1:
            assert np.all(result.final_regret == 0)
        assert result.guarantee.epsilon <= getattr(policy.privacy.budget, "epsilon", math.inf)


def test_a_large_epsilon_comes_close_to_no_noise() -> None:
    env = FiniteArms(means=(0.1, 0.9))
    bare = simulate(Elimination(n_arms=2, horizon=5000, privacy=none()), env, n_seeds=20).mean()[-1]
    for policy in (
        Elimination(n_arms=2, horizon=5000, privacy=central(epsilon=1e9, delta=0.0)),
        Elimination(n_arms=2, horizon=5000, privacy=shuffle(epsilon=1e6, delta=1e-5)),
    ):
        assert simulate(policy, env, n_seeds=20).mean()[-1] == pytest.approx(bare, rel=0.1)
    bare, answers = (
        simulate(policy, env, n_seeds=20).mean()[-1]
        for policy in (
            UCB1(n_arms=2, horizon=1000),
            LDPUCB(n_arms=2, horizon=1000, privacy=local(epsilon=1e6, delta=0.0)),
        )
    )
    assert answers == pytest.approx(bare, rel=0.1)
    joint = {rho: OFULJDP(dim=2, horizon=400, privacy=central(rho=rho), batch=4) for rho in (1.0, 1e9)}
    free = simulate(OFUL(dim=2, horizon=400, privacy=none()), FRESH, n_seeds=8).mean()[-1]
    regret = {rho: simulate(policy, FRESH, n_seeds=8).mean()[-1] for rho, policy in joint.items()}
    assert abs(regret[1e9] / free - 1) < 0.2 < regret[1.0] / free - 1


def test_infinite_rho_gives_the_very_runs_without_noise() -> None:
    for one, two, env in (
        (
            UCBEpisodes(n_arms=3, horizon=500, privacy=none()),
            UCBEpisodes(n_arms=3, horizon=500, privacy=central(rho=math.inf)),
            FEW,
        ),
        (
            GOPE(dim=2, horizon=20_000, privacy=none()),
            GOPE(dim=2, horizon=20_000, privacy=central(rho=math.inf)),
            SPHERE,
        ),
        (OFUL(dim=2, horizon=300, privacy=none()), OFUL(dim=2, horizon=300, privacy=central(rho=math.inf)), FRESH),
    ):
        assert np.array_equal(simulate(one, env, n_seeds=3).regret, simulate(two, env, n_seeds=3).regret)


def test_rewards_outside_of_the_declared_range_are_clipped_and_counted() -> None:
    env = FiniteArms(means=(0.0, 0.5), reward=ClippedGaussian(std=1.0, low=-2.0, high=2.0, levels=41))
    for policy in (
        UCBEpisodes(n_arms=2, horizon=500, privacy=central(rho=1.0)),
        UCB1(n_arms=2, horizon=500),
        LDPUCB(n_arms=2, horizon=500, privacy=local(epsilon=1.0, delta=0.0)),
        Elimination(n_arms=2, horizon=500, privacy=central(epsilon=1.0, delta=0.0)),
    ):
        assert np.all(simulate(policy, env, n_seeds=2).clipped > 100)
    inside = UCBEpisodes(n_arms=2, horizon=500, privacy=central(rho=1.0), reward_range=(-2, 2))
    assert np.all(simulate(inside, env, n_seeds=2).clipped == 0)
    assert np.all(simulate(UCB1(n_arms=2, horizon=50), FiniteArms(means=(0.2, 0.6), reward=Bounded())).clipped == 0)


def test_worlds_that_do_not_fit() -> None:
    fresh = LinearContextual(dim=3, n_arms=3)
    for policy in (
        UCB1(n_arms=3, horizon=10),
        UCBEpisodes(n_arms=3, horizon=10, privacy=none()),
        GOPE(dim=3, horizon=10, privacy=none()),
    ):
        with pytest.raises(InvalidArgument, match="whose arms stay"):
            simulate(policy, fresh)
    with pytest.raises(InvalidArgument, match="n_arms"):
        simulate(UCB1(n_arms=2, horizon=10), FEW)


def test_an_episode_that_the_end_cuts_short_is_not_released() -> None:
    policy = UCBEpisodes(n_arms=1, horizon=100, privacy=central(rho=1.0))
    for rounds, released in ((10, 4), (16, 4), (17, 5)):  # 1 + 1 + 2 + 4 = 8 rounds, then 8; the last decides nothing
        result = simulate(policy, FiniteArms(means=(0.5,)), n_seeds=2, horizon=rounds)
        assert result.counts["episodes"].tolist() == [released, released]
        assert result.users == 2 ** (released - 1)
