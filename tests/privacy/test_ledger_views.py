"""Public views of a ledger, and alternatives of a task."""

from __future__ import annotations

import gc
import math
import pickle
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.agent.agent import Agent
from bandanna.device.domain import Ball, Box, Estimate
from bandanna.device.noise import FastNoise
from bandanna.errors import BudgetExceeded, InvalidArgument
from bandanna.policies.base import RunnerState, SumQuery
from bandanna.policies.linear.oful import OFULJDP
from bandanna.privacy import accountant
from bandanna.privacy.events import CompositionEvent, DiscreteLaplaceEvent, GaussianEvent
from bandanna.privacy.ledger import Ledger
from bandanna.privacy.stores.base import LedgerStore
from bandanna.privacy.stores.sqlite import SQLiteStore
from bandanna.protocols.gaussian import CentralGaussian, LocalGaussian
from bandanna.protocols.shuffle_bits import ShuffleBits

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


HALF = GaussianEvent(std=2.0, sensitivity=1.0)  # mu = 1/2


def spend(ledger: Ledger, batch: str, one_of: str | None, **more: Any) -> Any:
    how: dict[str, Any] = {"event": HALF, "data": b"x", "draw": lambda: 0.0, "task": "kept", **more}
    return ledger.release(how.pop("event"), batch=batch, one_of=one_of, **how)


def test_the_dearest_alternative_counts_and_its_parts_compose() -> None:
    ledger = Ledger(budget=bd.privacy.ApproxDP(epsilon=20.0, delta=1e-5))
    for part in "abc":
        spend(ledger, part, "explored")
    spend(ledger, "a", "rest")
    assert ledger.spent() == pytest.approx(accountant.epsilon(CompositionEvent(events=(HALF,) * 3), 1e-5), rel=1e-6)
    spend(ledger, "0", None, task="stream")
    assert ledger.spent() == pytest.approx(accountant.epsilon(CompositionEvent(events=(HALF,) * 4), 1e-5), rel=1e-6)
    assert ledger.view().spent() == ledger.spent()


def test_parts_of_an_alternative_are_refused_beyond_the_budget() -> None:
    ledger = Ledger(budget=bd.privacy.ZCDP(rho=0.3))  # 0.125 for each
    spend(ledger, "a", "explored")
    spend(ledger, "b", "explored")
    spend(ledger, "a", "rest")
    with pytest.raises(BudgetExceeded):
        spend(ledger, "c", "explored")
    spend(ledger, "b", "rest")


@pytest.mark.parametrize("one", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("share", [0.0, 0.9, 0.999])
@pytest.mark.parametrize("grid", [0.0, 2.0**-20, 2.0**-8])
def test_to_move_costs_no_more_than_to_stay(one: float, share: float, grid: float) -> None:
    shared = [GaussianEvent(std=1 / math.sqrt(share), sensitivity=one, dim=3)] if share else []
    for other in (0.3 * one, one):
        stay = [GaussianEvent(std=math.sqrt(1 / (1 - share)), sensitivity=s, dim=3, grid=grid) for s in (one, other)]
        half = [GaussianEvent(std=each.std, sensitivity=each.sensitivity / 2, dim=3, grid=grid) for each in stay]
        tasks = {f"kept\x1f{name}\x1f0": accountant.EventCounts([each]) for name, each in zip("ab", stay, strict=True)}
        tasks |= {f"all {n}": accountant.EventCounts([each]) for n, each in enumerate(shared)}
        moved = accountant.epsilon(CompositionEvent(events=(*shared, *half)), 1e-5)
        assert moved <= accountant.compute_spent(tasks, 1, 1e-5) * (1 + 1e-9)


def test_a_user_is_in_one_alternative_only() -> None:
    ledger = Ledger(budget=bd.privacy.ZCDP(rho=1.0))
    spend(ledger, "a", "explored", members=["ann", "bob"])
    spend(ledger, "b", "explored", members=["ann", "bob"])
    with pytest.raises(InvalidArgument, match="got one who is in another"):
        spend(ledger, "a", "rest", members=["carl", "bob"])
    spend(ledger, "a", "rest", members=["carl"])
    spend(ledger, "a", "rest", members=["bob"], task="another")


def test_returning_users_and_other_noise_have_no_alternatives() -> None:
    with pytest.raises(InvalidArgument, match="participations"):
        spend(Ledger(budget=bd.privacy.ZCDP(rho=1.0), participations=2), "a", "explored")
    event = DiscreteLaplaceEvent(scale=10.0, shift=1.0)
    with pytest.raises(InvalidArgument, match="Gaussian"):
        spend(Ledger(budget=bd.privacy.PureDP(epsilon=1.0)), "a", "explored", event=event)


@pytest.mark.parametrize(
    ("protocol", "fine"),
    [
        (CentralGaussian(domain=Ball(dim=2), noise_std=1.0), True),
        (CentralGaussian(domain=Box(dim=2, low=-1.0, high=1.0), noise_std=1.0), True),
        (CentralGaussian(domain=Box(dim=1), noise_std=1.0), False),  # to move is as dear as to be replaced, twice
        (CentralGaussian(domain=Box(dim=1, low=5.0, high=6.0), noise_std=1.0), False),
        (LocalGaussian(domain=Ball(dim=2), noise_std=1.0), False),
        (ShuffleBits.calibrate(batch=3, budget=bd.privacy.ApproxDP(epsilon=1.0, delta=1e-2)), False),
    ],
)
def test_groups_are_summed_where_that_is_private(protocol: Any, fine: bool) -> None:
    statistic = protocol.domain.admit(np.zeros((4, protocol.domain.dim)))
    query, source = SumQuery(protocol=protocol, group="explored"), FastNoise(np.random.default_rng(0))
    if fine:
        assert RunnerState().release(query, statistic, source, path="messages")[1].count == 0
    else:
        with pytest.raises(InvalidArgument, match="must be CentralGaussian on reports in a ball around 0"):
            RunnerState().release(query, statistic, source, path="messages")


def test_policies_that_keep_rows_take_users_once() -> None:
    with pytest.raises(InvalidArgument, match="participations"):
        OFULJDP(dim=2, horizon=100, privacy=bd.central(rho=1.0, participations=2))
    policy = OFULJDP(dim=2, horizon=100, privacy=bd.central(rho=1.0))
    object.__setattr__(policy, "privacy", bd.central(rho=1.0, participations=2))  # one's own may allow it
    with pytest.raises(InvalidArgument, match="keeps rows"):
        Agent(policy=policy)
