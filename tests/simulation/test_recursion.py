"""NumPy's rank-one recursion plays what every batch by its protocol plays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandanna.core.linalg import favoured
from bandanna.core.streams import Streams
from bandanna.environments import LinearContextual
from bandanna.environments.base import Environment
from bandanna.kernels import SWITCH
from bandanna.policies.linear.anytime import Anytime
from bandanna.policies.linear.linucb import LinUCB
from bandanna.protocols.trust import local, none
from bandanna.simulation.engine import simulate
from bandanna.simulation.players import alone, frozen, optimists, recursion
from bandanna.simulation.result import Result
from tests.drawn import examples
from tests.kernels.test_optimist import Copies, same


def both(policy: Any, env: Environment, rounds: int, seeds: int = 3) -> list[Result]:
    """By the recursion, and by what it accelerates."""
    results = []
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv(SWITCH, "off")
        results.append(simulate(policy, env, n_seeds=seeds, checkpoints=rounds, horizon=rounds))
        monkeypatch.setattr(frozen, "recursion_for", lambda *_: None)
        results.append(simulate(policy, env, n_seeds=seeds, checkpoints=rounds, horizon=rounds))
    return results


@examples(12, full=50)
@given(
    dim=st.integers(1, 7),
    distinct=st.integers(1, 9),
    copies=st.integers(0, 6),
    confidence=st.sampled_from(["exact", "lemma", "paper"]),
    fixed=st.booleans(),
    coarse=st.booleans(),
    length=st.sampled_from([1.0, 1.7]),
    ties=st.sampled_from(["random", "first"]),
    width=st.sampled_from([1.0, 0.2]),
    seeds=st.sampled_from([1, 3]),
)
@pytest.mark.filterwarnings("ignore::bandanna.errors.ClippingWarning")
def test_the_same_arms_are_taken(
    dim: int, distinct: int, copies: int, confidence: str, ties: str, width: float, seeds: int, **world: Any
) -> None:
    """An arm, a coin between copies or a clip differs from the run whose inverses are computed in every round."""
    env = Copies(dim=dim, n_arms=distinct + copies, distinct=distinct, **world)
    policy = LinUCB(dim=dim, horizon=60, batch=1, confidence=confidence, ties=ties, width=width, privacy=none())
    assert recursion.recursion_for(policy, env.begin(Streams([0])), 60) is not None
    same(*both(policy, env, 60, seeds))


@pytest.mark.often(
    of=lambda confidence, fixed, seeds, rounds: rounds == 1000 and seeds == 1 and (confidence == "exact") == fixed
)
@pytest.mark.parametrize("confidence", ["exact", "lemma"])
@pytest.mark.parametrize("fixed", [True, False])
@pytest.mark.parametrize("seeds", [1, 2])
@pytest.mark.parametrize("rounds", [1000, 2500])
def test_rounding_errors_do_not_add_up(
    confidence: str, fixed: bool, seeds: int, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After thousands of updates, or between two blocks of rounds, the inverse is another one."""
    env = LinearContextual(dim=5, n_arms=20, fixed=fixed)
    policy = LinUCB(dim=5, horizon=rounds, batch=1, confidence=confidence, privacy=none())
    one, two = both(policy, env, rounds, seeds)
    np.testing.assert_array_equal(one.plays, two.plays)
    monkeypatch.setattr(optimists, "_ROUNDS", 123)
    monkeypatch.setenv(SWITCH, "off")
    again = simulate(policy, env, n_seeds=seeds, checkpoints=rounds, horizon=rounds)
    np.testing.assert_array_equal(again.plays, two.plays)


@pytest.mark.parametrize("fixed", [True, False])
def test_a_seed_is_the_same_run_in_any_company(fixed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A seed that is alone is played otherwise than among others."""
    monkeypatch.setenv(SWITCH, "off")
    env = Copies(dim=3, n_arms=6, distinct=3, coarse=True, fixed=fixed)
    policy = LinUCB(dim=3, horizon=80, batch=1, privacy=none())
    together, single = (simulate(policy, env, n_seeds=n, seed=seed) for n, seed in ((4, 0), (1, 2)))
    np.testing.assert_array_equal(together.plays[2], single.plays[0])
    np.testing.assert_array_equal(together.regret[2], single.regret[0])


@pytest.mark.parametrize("size", [1.0, 1e60])
@pytest.mark.parametrize("values", [[1.0, 2.0], [2.0, 1.0, 2.0], [3.0, 3.0 + 1e-9, 1.0], [-1.0]])
def test_ties_of_one_seed_are_those_of_the_rule(values: list[float], size: float) -> None:
    """A seed that is alone has another rule for ties than `linalg.favoured`, or takes coins without need."""
    index, used = size * np.array(values), np.zeros(1, dtype=np.int64)
    first, tied = favoured(index)
    allowed = [int(first)] if tied is None else np.flatnonzero(tied).tolist()
    with np.errstate(over="ignore"):
        found = {alone.pick(index, np.array([coin]), np.zeros(1, dtype=np.int64)) for coin in (0.0, 0.4, 0.6, 0.99)}
        assert found == set(allowed)
        alone.pick(index, np.array([0.5]), used)
        assert used[0] == (len(allowed) > 1)
        assert alone.pick(index, np.empty(0), used) == allowed[0]


def test_phases_of_an_unknown_horizon_begin_anew() -> None:
    """A phase begins with the sums of the last one."""
    policy = Anytime(first=LinUCB(dim=3, horizon=20, batch=1, privacy=none()))
    same(*both(policy, LinearContextual(dim=3, n_arms=6, fixed=True), 100))


def test_noise_and_long_batches_are_left_to_others() -> None:
    """Sums with noise, or of several users, are taken for exact sums of single rounds."""
    world = LinearContextual(dim=3, n_arms=6, fixed=True).begin(Streams([0]))
    for policy in (
        LinUCB(dim=3, horizon=64, privacy=local(epsilon=1.0, delta=1e-5), batch=1),
        LinUCB(dim=3, horizon=64, batch=2, privacy=none()),
        LinUCB(dim=100, horizon=64, batch=1, privacy=none()),
    ):
        assert recursion.recursion_for(policy, world, 64) is None
