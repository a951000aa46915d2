"""Tables of products of fixed arms are bounded, and what is computed without them is the same."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from bandanna.numeric import compiled
from bandanna.numeric.rng import Streams
from bandanna.policies.linear import linucb
from bandanna.policies.linear.linucb import LinUCB
from bandanna.policies.registry import make
from bandanna.protocols.privacy_model import central, none
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.linear import LinearContextual
from bandanna.simulation.players import fixed_batches
from bandanna.simulation.players.fixed_batches import FixedArmsPlayer
from bandanna.simulation.result import Result
from benchmarks.clock import peak


def test_many_arms_of_many_features_have_no_tables() -> None:
    env, policy = LinearContextual(dim=50, n_arms=2000, fixed=True), LinUCB(dim=50, horizon=20, privacy=none())
    simulate(policy, env, horizon=2)  # what is made once
    assert peak(lambda: simulate(policy, env)) < 12 << 20
    arms = FixedArmsPlayer(policy, env.begin(Streams([0])))
    assert arms.arms.squares is None
    assert arms.reports is None


def test_tables_are_no_larger_than_stated() -> None:
    for n_arms in (600, 700):  # of 210 products: 0.96 and 1.12 MiB
        env, policy = LinearContextual(dim=20, n_arms=n_arms, fixed=True), LinUCB(dim=20, horizon=20, privacy=none())
        for seeds in ([0], [0, 1, 2]):
            table = FixedArmsPlayer(policy, env.begin(Streams(seeds))).arms.squares
            assert (table is None) == (n_arms == 700)
            assert table is None or table.nbytes <= len(seeds) * linucb.PRODUCTS


@pytest.mark.parametrize("name", ["LinUCB", "LinUCB-JDP-batched", "LinTS", "LinUCB-SDP-Vec"])
def test_runs_are_the_same_without_tables(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {} if name in ("LinUCB", "LinTS") else {"epsilon": 1.0, "delta": 1e-5}
    policy, env = make(name, dim=4, horizon=300, **options), LinearContextual(dim=4, n_arms=30, fixed=True)
    whole = simulate(policy, env, n_seeds=3)
    monkeypatch.setattr(linucb, "PRODUCTS", 0)
    monkeypatch.setattr(fixed_batches, "_TABLE", 0)
    _same(whole, simulate(policy, env, n_seeds=3))


@pytest.mark.parametrize("dim", [2, 5])
def test_the_kernel_has_no_table_of_many_arms(dim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    n_arms, results = (1 << 17) // (dim * (dim + 1) // 2) + 7, []
    policy = LinUCB(dim=dim, horizon=40, privacy=central(epsilon=1.0, delta=1e-5), batch=1)
    for least in (1, math.inf):
        monkeypatch.setattr(compiled, "BREAK_EVEN", least)
        results.append(simulate(policy, LinearContextual(dim=dim, n_arms=n_arms, fixed=True), n_seeds=2))
    _same(*results)


def _same(one: Result, two: Result) -> None:
    np.testing.assert_array_equal(one.plays, two.plays)
    np.testing.assert_allclose(one.regret, two.regret, rtol=1e-12, atol=1e-12)
