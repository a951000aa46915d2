"""What may be shown of a ledger: enough to check it, and nothing from which data can be found."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.agent.agent import Agent
from bandanna.device.domain import Estimate
from bandanna.privacy.stores.base import LedgerStore
from bandanna.privacy.stores.sqlite import SQLiteStore

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}
SETS = np.random.default_rng(0).normal(size=(9, 3, 2)) / 3
USERS = [f"user {i}" for i in range(9)]
EVENT = bd.protocols.LocalGaussian.calibrate(domain=bd.device.Box(dim=1), budget=bd.privacy.ApproxDP(**BUDGET)).event
MODELS = {"central": bd.central, "local": bd.local, "shuffle": bd.shuffle}


def agent_of(model: str) -> Agent:
    agent = Agent(policy=bd.LinUCB(dim=2, horizon=60, batch=4, privacy=MODELS[model](**BUDGET)))
    agent.observe_many(agent.act_many(SETS[:8], users=USERS[:8]), [1.0] * 8)
    agent.act(SETS[8], user=USERS[8])  # which closes them
    return agent


def reached(value: Any) -> Iterator[Any]:
    """Everything that can be reached from a value, by whatever attribute, but through the code of the program."""
    seen, waiting = set(), [value]
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, type | ModuleType | FunctionType):
            continue
        seen.add(id(one))
        yield one
        waiting += gc.get_referents(one)


@pytest.mark.parametrize("model", MODELS)
def test_an_agent_shows_what_it_spent_and_released(model: str) -> None:
    agent = agent_of(model)
    shown, ledger = agent.ledger, agent._runner.ledger
    assert (shown.budget, shown.participations, shown.spent()) == (ledger.budget, 1, ledger.spent())
    for one, entry in zip(shown.releases, ledger.store.entries(), strict=True):
        assert (one.task, one.batch, one.event) == (entry.task, entry.batch, entry.event)
        np.testing.assert_array_equal(one.release.total, entry.release[0].total)
        one.release.total[:] = 0.0
    assert all(np.any(entry.release[0].total) for entry in ledger.store.entries())
    again = pickle.loads(pickle.dumps(shown))
    assert (again.spent(), len(again.releases)) == (shown.spent(), 2)


@pytest.mark.parametrize("model", MODELS)
def test_nothing_leads_to_the_key(model: str) -> None:
    agent = agent_of(model)
    ledger = agent._runner.ledger
    hidden: set[Any] = {ledger.store.secret(), ledger.store.secret().hex(), *USERS}
    for entry in ledger.store.entries():
        hidden |= {entry.fingerprint, *entry.members}
    for value in (agent.ledger, agent.ledger.releases, agent.guarantee):
        found = list(reached(value))
        assert not any(isinstance(one, LedgerStore | Agent) for one in found)
        assert not hidden & {one for one in found if isinstance(one, str | bytes)}
        assert not any(str(one) in repr(value) for one in hidden)
    stored = next(one for one in reached(ledger) if isinstance(one, LedgerStore))  # the search would find them
    assert hidden & {one for one in reached(stored) if isinstance(one, str | bytes)}


def test_any_ledger_has_a_view(tmp_path: Path) -> None:
    ledger = bd.Ledger(budget=bd.privacy.ApproxDP(**BUDGET), store=SQLiteStore(tmp_path / "l"))
    assert (ledger.view().spent(), ledger.view().releases) == (0.0, ())
    ledger.release(EVENT, task="t", batch=1, data=b"1", draw=lambda: Estimate(total=np.ones(1), count=1, variance=2.0))
    with pytest.raises(ZeroDivisionError):
        ledger.release(EVENT, task="t", batch=2, data=b"2", draw=lambda: 1 / 0)
    first, second = ledger.view().releases
    assert (first.release.variance, first.batch, second.release, second.batch) == (2.0, "1", None, "2")
    assert ledger.view().spent() == ledger.spent() > 0


def test_a_view_says_its_price() -> None:
    agent = bd.Agent(policy=bd.LinTS(dim=2, horizon=40, batch=20, privacy=bd.central(epsilon=1.0, delta=1e-5)))
    assert "epsilon = 0 at delta = 1e-05 spent in 0 releases" in str(agent.ledger)
    for _ in range(21):
        agent.act([[0.5, 0.5], [0.1, 0.2]])
    assert agent.ledger is not None
    said = str(agent.ledger)
    assert "spent in 1 release by a user who takes part once; the budget is ApproxDP(epsilon=1.0, delta=1e-05)" in said
    assert agent.ledger.spent() <= float(said.split()[2]) <= 1.0
