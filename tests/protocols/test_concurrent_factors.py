"""Where the noise of concurrent shufflers begins, by hand: found by `make mutants`, which lost factors of it unseen."""

from __future__ import annotations

import math

import pytest

from bandanna.device.domain import Ball, Bits, Box, Domain
from bandanna.privacy import accountant, gdp
from bandanna.privacy.budgets import ApproxDP, Budget
from bandanna.privacy.events import BinomialEvent, CompositionEvent, Event
from bandanna.protocols import batch_tree
from bandanna.protocols.batch_tree import BatchTree, _shortlist

BUDGET = ApproxDP(epsilon=1.0, delta=1e-3)
TREE = BatchTree(horizon=16, degrees=(4, 4))  # three batches of level 1 and one of level 2 at most
SHARES = (math.sqrt(3) / (1 + math.sqrt(3)), 1 / (1 + math.sqrt(3)))  # sqrt(m_j), m = (3, 1)


@pytest.mark.parametrize("domain", [Bits(), Ball(dim=3), Box(dim=2, low=0.0, high=0.5)])
def test_the_first_noise_that_is_tried_is_that_of_gaussians(domain: Domain, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Event] = []

    def satisfies(event: Event, budget: Budget) -> bool:
        tried.append(event)
        return True  # whatever it is

    monkeypatch.setattr(accountant, "satisfies", satisfies)
    noises = batch_tree.calibrate_levels(domain, BUDGET, TREE, averaging=False, calibration="tight")
    assert len(tried) == 1
    for noise, share in zip(noises, SHARES, strict=True):
        ideal = domain.sensitivity / (gdp.mu(1.0, 1e-3) * math.sqrt(share))
        assert noise.std() == pytest.approx(ideal, rel=0.01)


def test_a_step_of_the_search_is_what_is_missing() -> None:
    noises = batch_tree.calibrate_levels(Ball(dim=3), BUDGET, TREE, averaging=False, calibration="tight")
    composed = batch_tree.all_levels_event(Ball(dim=3), noises)
    assert accountant.satisfies(composed, BUDGET)
    less = [
        BinomialEvent(trials=math.floor(each.trials * 0.995), shift=each.shift, reach=each.reach, dim=each.dim)
        for each in composed.events
        if isinstance(each, BinomialEvent)
    ]
    assert len(less) == 2
    assert not accountant.satisfies(CompositionEvent(events=tuple(less)), BUDGET)


def test_the_lattice_of_a_level_is_the_first_of_theorem_a4() -> None:
    box = Box(dim=400, low=0.0, high=0.5)  # Delta = 10
    assert (
        batch_tree._level_noise_for_std(box, 50.0, 4).scale == 10.0
    )  # 5 sqrt(400) / 10; 5 sqrt(4) / 50 and sqrt(375) / 50 are less
    ball = Ball(dim=2, bound=4.0)  # Delta = 8
    assert batch_tree._level_noise_for_std(ball, 50.0, 4).scale == 30.0
    wide = Ball(dim=10_000, bound=0.5)  # Delta = 1
    assert batch_tree._level_noise_for_std(wide, 50.0, 4).scale == 500.0


def test_trees_are_tried_in_the_order_of_their_bounds() -> None:
    found = list(_shortlist(10**6, 2, 1.0, 0.0, averaging=False, lowest=10))
    assert len(found) > 5
    bounds = [math.sqrt(tree.degrees[1] - 1) + math.sqrt(tree.batches[1]) for tree in found]
    assert bounds == sorted(bounds)
    assert bounds[0] == pytest.approx(min(math.sqrt(d - 1) + math.sqrt(10**5 // d) for d in range(2, 2000)), rel=1e-3)


def test_trees_are_compared_by_their_noise_and_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    assert batch_tree._error(TREE, 2.0, 0.5, averaging=False) == pytest.approx(2.0 * math.sqrt(3 / SHARES[0]) + 3 * 0.5)
    asked: dict[str, float] = {}

    def best_tree(horizon: int, shufflers: int | str, **given: float) -> BatchTree:
        asked.update(given)
        return TREE

    monkeypatch.setattr(batch_tree, "best_tree", best_tree)
    assert batch_tree.plan_tree(Ball(dim=3), BUDGET, 16, shufflers=2) == TREE
    assert asked["noise"] == pytest.approx(2.0 / gdp.mu(1.0, 1e-3))
