"""Anytime policies: phases of doubling length."""

from __future__ import annotations

import numpy as np
import pytest

from bandanna.errors import InvalidArgument
from bandanna.policies.linear.anytime import Anytime
from bandanna.policies.linear.linucb import LinUCB
from bandanna.protocols.privacy_model import Privacy, central, local, none, shuffle
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.linear import LinearContextual

from .answering import Teacher

BUDGET = {"epsilon": 1.0, "delta": 1e-5}


def test_phases_double_and_begin_from_nothing() -> None:
    policy = Anytime(first=LinUCB(dim=2, horizon=40, batch=20, failure=0.04, privacy=none()))
    teacher, rng, seen = Teacher(policy), np.random.default_rng(1), []
    for _ in range(6):  # 2 + 4 batches
        seen.append((teacher.state.phase, policy.episode(teacher.state).users))
        state = teacher.learn(rng.random((20, 2)) / 2, rng.random(20))
    assert seen == [(0, 20), (0, 20), (1, 20), (1, 20), (1, 20), (1, 20)]
    assert state.phase == 2
    assert not np.any(state.inner.total)
    assert state.inner.batches == 0
    assert [policy.phase(j).horizon for j in range(3)] == [40, 80, 160]
    assert sum(policy.phase(j).failure for j in range(47)) <= 0.04


@pytest.mark.parametrize("privacy", [none(), central(**BUDGET), local(**BUDGET), shuffle(**BUDGET)])
def test_every_phase_keeps_the_budget(privacy: Privacy) -> None:
    policy = Anytime(first=LinUCB(dim=2, horizon=100, batch=20, privacy=privacy))
    for j in range(4):
        assert policy.phase(j).guarantee.epsilon <= policy.guarantee.epsilon
    assert policy.guarantee.epsilon <= 1.0 or privacy.model == "none"


@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize("privacy", [none(), central(**BUDGET), shuffle(**BUDGET)])
def test_it_can_be_stopped_at_any_time(fixed: bool, privacy: Privacy) -> None:
    policy = Anytime(first=LinUCB(dim=3, horizon=64, batch=16, privacy=privacy))
    env = LinearContextual(dim=3, n_arms=7, fixed=fixed)
    long = simulate(policy, env, n_seeds=2, seed=3, horizon=400, checkpoints=400)
    short = simulate(policy, env, n_seeds=2, seed=3, horizon=150, checkpoints=150)
    np.testing.assert_allclose(long.regret[:, :150], short.regret, rtol=1e-9)
    assert long.releases == 25  # 4 + 8 batches of phases 0 and 1, 13 of phase 2


def test_a_horizon_must_be_given_and_may_not_be_exceeded() -> None:
    env = LinearContextual(dim=3, n_arms=7)
    with pytest.raises(InvalidArgument, match="horizon"):
        simulate(Anytime(first=LinUCB(dim=3, horizon=64, privacy=none())), env)
    with pytest.raises(InvalidArgument, match=r"first must be .*LinUCB\(\.\.\.\), got"):
        Anytime(first=LinUCB)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="at most 64, the policy's horizon"):
        simulate(LinUCB(dim=3, horizon=64, privacy=none()), env, horizon=65)
    assert simulate(LinUCB(dim=3, horizon=64, privacy=none()), env, horizon=30).horizon == 30


def test_returning_users_where_their_price_covers_one_phase_only() -> None:
    for privacy in (central(**BUDGET, participations=2), shuffle(**BUDGET, participations=2, protocol="gaussian")):
        with pytest.raises(InvalidArgument, match="participations"):
            Anytime(first=LinUCB(dim=2, horizon=100, batch=20, privacy=privacy))
    Anytime(first=LinUCB(dim=2, horizon=100, batch=20, privacy=local(**BUDGET, participations=2)))
