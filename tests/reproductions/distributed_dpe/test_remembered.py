"""Clients who are remembered answer as those who are drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.simulation.environments.population import ClientBlocks, Population
from bandanna.simulation.result import Result
from reproductions import remembered
from reproductions.remembered import RememberedPopulation

USERS: dict[str, Any] = {"dim": 4, "n_arms": 12, "sigma": 0.4}  # so far apart that some means leave the range


def _runs(env: Population) -> list[Result]:
    """Policies that ask the same at first, and one that has every report."""
    budgets = [
        ("DPE", {}),
        *((name, {"epsilon": e, "delta": 0.1}) for e in (20.0, 5.0) for name in ("CDP-DPE", "SDP-DPE")),
    ]
    shared: dict[str, Any] = {"dim": 4, "sigma": 0.4, "alpha": 0.9}
    return [
        bd.simulate(bd.make(name, horizon=horizon, **shared, **budget), env, n_seeds=3)
        for horizon in (4000, 9000)
        for name, budget in budgets
    ]


@pytest.mark.parametrize("room", [1 << 20, 20_000])
def test_answers_are_those_of_fresh_draws(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "_FEW", 100)
    monkeypatch.setattr(remembered, "_KEPT", room)  # not enough for all, the second time
    for kept, drawn in zip(_runs(RememberedPopulation(**USERS)), _runs(Population(**USERS)), strict=True):
        assert np.array_equal(kept.regret, drawn.regret)
        assert np.array_equal(kept.clipped, drawn.clipped)
        assert np.all(kept.clipped > 0)
        assert all(np.array_equal(kept.counts[name], drawn.counts[name]) for name in drawn.counts)


def test_clients_are_drawn_once_and_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "_FEW", 1)
    drawn, plain = list[int](), ClientBlocks.counts
    monkeypatch.setattr(ClientBlocks, "counts", lambda asked: drawn.append(asked.count) or plain(asked))
    env = RememberedPopulation(**USERS)
    policy = bd.make("DPE", dim=4, horizon=4000, sigma=0.4)
    for _ in range(3):
        bd.simulate(policy, env, n_seeds=2)
    assert len(drawn) == len(env._kept) > 10
    monkeypatch.setattr(remembered, "_KEPT", 32_000)
    bd.simulate(policy, env, n_seeds=1, seed=7)
    assert 0 < sum(counts.nbytes for counts, _, _ in env._kept.values()) <= 32_000
