"""Alternatives of a task: a person is in one of them, and whoever moves between neighbouring worlds pays no more."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.agent.agent import Agent
from bandanna.device.domain import Ball, Box
from bandanna.device.noise import FastNoise
from bandanna.errors import BudgetExceeded, InvalidArgument
from bandanna.policies.base import RunnerState, SumQuery
from bandanna.policies.linear.oful import OFULJDP
from bandanna.privacy import accountant
from bandanna.privacy.events import CompositionEvent, DiscreteLaplaceEvent, GaussianEvent
from bandanna.privacy.ledger import Ledger
from bandanna.protocols.gaussian import CentralGaussian, LocalGaussian
from bandanna.protocols.shuffle_bits import ShuffleBits

EVENT = GaussianEvent(std=2.0, sensitivity=1.0)  # mu = 1/2


def spend(ledger: Ledger, batch: str, one_of: str | None, **more: Any) -> Any:
    how: dict[str, Any] = {"event": EVENT, "data": b"x", "draw": lambda: 0.0, "task": "kept", **more}
    return ledger.release(how.pop("event"), batch=batch, one_of=one_of, **how)


def test_the_dearest_alternative_counts_and_its_parts_compose() -> None:
    ledger = Ledger(budget=bd.privacy.ApproxDP(epsilon=20.0, delta=1e-5))
    for part in "abc":
        spend(ledger, part, "explored")
    spend(ledger, "a", "rest")
    assert ledger.spent() == pytest.approx(accountant.epsilon(CompositionEvent(events=(EVENT,) * 3), 1e-5), rel=1e-6)
    spend(ledger, "0", None, task="stream")
    assert ledger.spent() == pytest.approx(accountant.epsilon(CompositionEvent(events=(EVENT,) * 4), 1e-5), rel=1e-6)
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


def test_nobody_is_in_two_alternatives() -> None:
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
    ask, source = SumQuery(protocol=protocol, of="explored"), FastNoise(np.random.default_rng(0))
    if fine:
        assert RunnerState().release(ask, statistic, source, path="messages")[1].count == 0
    else:
        with pytest.raises(InvalidArgument, match="who is in a group is private"):
            RunnerState().release(ask, statistic, source, path="messages")


def test_kept_rows_are_of_people_who_come_once() -> None:
    with pytest.raises(InvalidArgument, match="participations"):
        OFULJDP(dim=2, horizon=100, privacy=bd.central(rho=1.0, participations=2))
    policy = OFULJDP(dim=2, horizon=100, privacy=bd.central(rho=1.0))
    object.__setattr__(policy, "privacy", bd.central(rho=1.0, participations=2))  # one's own may allow it
    with pytest.raises(InvalidArgument, match="keeps rows"):
        Agent(policy=policy)
