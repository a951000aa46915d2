"""AdaC-OFUL-JDP, GLM-JDP and GLM-SDP: what one person's reports cost together, from the reports and from the noise.

Nothing here takes a price from the policy: mu^2 is the sum over the releases that hold a person of |move of the sum|^2
in units of the noise. It must stay below the budget for every pair of people and come near to it for the worst one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.errors import InvalidArgument
from bandanna.numeric.rng import NoRandomness
from bandanna.policies.base import PlayedRounds, SumQuery
from bandanna.policies.glm.glm_jdp import GLMJDP, GLMJDPConstants
from bandanna.policies.glm.glm_sdp import GLMSDP
from bandanna.policies.linear.oful import OFULJDP
from bandanna.privacy import accountant
from bandanna.privacy.budgets import ZCDP, ApproxDP

BUDGET = ApproxDP(epsilon=2.0, delta=1e-5)
MU2 = BUDGET.mu() ** 2
SHARES = [0.1, 0.3, 0.5, 0.8]
CONSTANTS: dict[str, Any] = {
    "steps": 2, "calls_o": 2, "calls_tau": 3, "regulariser_v": 4.0, "regulariser_h": 1.0, "ridge": 1.0,
    "threshold": 1 / 16, "elimination": 9.0, "bonus": 1.0,
}  # fmt: skip
Person = tuple[Any, float]


def people(cosine: float, reward: float = 1.0, dim: int = 2) -> tuple[Person, Person]:
    """Two people with full features at an angle, and the same reward."""
    one, two = np.zeros(dim), np.zeros(dim)
    one[0], two[0], two[1] = 1.0, -cosine, math.sqrt(1 - cosine**2)
    return (one, reward), (two, reward)


def anybody(count: int) -> Iterator[tuple[Person, Person]]:
    """Pairs of people, many of them with features and rewards outside of their bounds."""
    rng = np.random.default_rng(3)
    for _ in range(count):
        yield tuple((rng.normal(size=2) * rng.choice([0.3, 1.0, 30.0]), float(rng.normal() * 3)) for _ in range(2))


def row(person: Person, group: int | None = None) -> PlayedRounds:
    """What a runner holds of somebody."""
    x, y = person
    groups = None if group is None else np.array([group])
    return PlayedRounds(rewards=np.array([y]), features=np.asarray(x)[None], groups=groups)


def move(policy: Any, ask: SumQuery, rows: tuple[PlayedRounds | None, PlayedRounds | None]) -> float:
    """|report - report'|^2; of nobody it is 0."""
    reports = [0.0 if each is None else policy.report(ask, each, NoRandomness()).values for each in rows]
    return float(np.sum((reports[0] - reports[1]) ** 2))


def oful(share: float, **more: Any) -> tuple[OFULJDP, Callable[[Person, Person], float]]:
    """The policy, and what two people cost."""
    policy = OFULJDP(
        dim=2, horizon=60, batch=5, privacy=bd.central(budget=BUDGET), share=share, reward_range=(-1.0, 2.0), **more
    )
    column = policy.matrix.factorisation.sensitivity()
    matrix, vector = policy._queries

    def cost(one: Person, two: Person) -> float:
        rows = row(one), row(two)
        return move(policy, matrix, rows) * (column / policy.matrix.noise_std) ** 2 + move(policy, vector, rows) / (
            policy.vector.noise_std**2
        )

    return policy, cost


@pytest.mark.often(of=lambda share: share in (0.1, 0.5))  # on both sides of 1/5
@pytest.mark.parametrize("share", SHARES)
def test_nobody_costs_more_in_adac_oful_and_somebody_costs_all(share: float) -> None:
    policy, cost = oful(share)
    assert max(cost(*pair) for pair in anybody(300)) <= MU2
    worst = cost(*people(min(1.0, (1 - share) / (4 * share)), reward=2.0))
    assert 0.999 * MU2 < worst <= MU2
    assert worst / 0.8**2 > 1.5 * MU2
    assert cost(*people(0.0, reward=2.0)) <= MU2
    assert cost(*people(1.0, reward=-9.0)) <= MU2
    apart = oful(share, pricing="separate")[0]
    saved = (1 + share) / 2 + (1 - share) ** 2 / (16 * share) if share >= 0.2 else 1 - share
    assert policy.matrix.noise_std / apart.matrix.noise_std == pytest.approx(math.sqrt(saved), rel=1e-3)
    assert policy.vector.noise_std / apart.vector.noise_std == pytest.approx(math.sqrt(saved), rel=1e-3)


def glm(share: float, **more: Any) -> GLMJDP:
    """With few rounds, and calls of both kinds."""
    constants = GLMJDPConstants(share=share, **CONSTANTS)
    return GLMJDP(dim=2, horizon=60, privacy=bd.central(budget=BUDGET), constants=constants, **more)


def glm_cost(
    policy: GLMJDP, one: Person, two: Person, groups: tuple[int, int], thetas: Any, at: Any = (0.0, 0.0)
) -> float:
    """A leaf with theta_o = `at`, and all gradients of all calls, at the thetas in turn."""
    stream = policy.stream
    leaf = SumQuery(protocol=stream, at=np.asarray(at, dtype=float))
    rows = row(one, groups[0]), row(two, groups[1])
    total = move(policy, leaf, rows) * (stream.factorisation.sensitivity() / stream.noise_std) ** 2
    for group, optimiser in enumerate((policy.mechanisms.estimate_o, policy.mechanisms.estimate_tau)):
        mine = tuple(each if its == group else None for each, its in zip(rows, groups, strict=True))
        for step in range(optimiser.steps * optimiser.calls):
            ask = SumQuery(
                protocol=optimiser.protocol, at=thetas[step % len(thetas)], of=policy.execution.retained_groups[group]
            )
            total += move(policy, ask, mine) / optimiser.std**2
    return total


@pytest.mark.often(of=lambda share: share in (0.1, 0.5))  # on both sides of 1/5
@pytest.mark.parametrize("share", SHARES)
def test_nobody_costs_more_in_glm_jdp_and_somebody_costs_all(share: float) -> None:
    policy, rng = glm(share), np.random.default_rng(0)
    for pair in anybody(40):
        for groups in ((0, 0), (1, 1), (0, 1), (1, 0)):
            at, thetas = rng.normal(size=2) * 5, rng.normal(size=(4, 2)) * 20
            assert glm_cost(policy, *pair, groups, thetas, at) <= MU2
    pair = people(min(0.999, (1 - share) / (4 * share)), reward=0.0)
    steep = [1e6 * (pair[0][0] + pair[1][0])]  # mu is 1 at both
    joined = glm_cost(policy, *pair, (0, 0), steep)
    opposite = people(0.9999, reward=0.0)
    # whoever is not explored may choose a w near 0: theta_o is far along the other's features
    far, steep = 1e4 * np.array([1.0, -1e-2]), [1e9 * (opposite[0][0] + opposite[1][0])]
    unequal = glm_cost(policy, *opposite, (1, 1), steep, far)
    worst = max(joined, unequal)
    assert worst <= MU2
    if share in (0.5, 0.8):
        assert joined > 0.998 * MU2
        assert joined / 0.8**2 > 1.5 * MU2
    else:  # both weights are 0 or none is, with one theta_o; the price allows one of each
        assert worst > 0.6 * MU2
        assert not policy.mechanisms.satisfies(ApproxDP(epsilon=0.99 * BUDGET.epsilon, delta=BUDGET.delta))


@pytest.mark.parametrize("share", SHARES)
def test_separate_prices_of_glm_jdp_have_more_noise(share: float) -> None:
    joint, apart = (glm(share, pricing=each).mechanisms for each in ("joint", "separate"))
    saved = max((1 + share) / 2 + (1 - share) ** 2 / (16 * share) if share >= 0.2 else 1 - share, 1 - share / 2)
    for mine, other in (
        (joint.matrices.noise_std, apart.matrices.noise_std),
        (joint.estimate_o.std, apart.estimate_o.std),
        (joint.estimate_tau.std, apart.estimate_tau.std),
    ):
        assert mine / other == pytest.approx(math.sqrt(saved), rel=1e-3)


@pytest.mark.parametrize("batch", [0, 1])
def test_nobody_costs_more_in_glm_sdp_and_somebody_costs_all(batch: int) -> None:
    budget = ApproxDP(epsilon=1.0, delta=1e-5)
    shared: dict[str, Any] = {"dim": 2, "horizon": 400, "warmup": 60, "steps": 3, "privacy": bd.shuffle(budget=budget)}
    policy, rng = GLMSDP(**shared), np.random.default_rng(1)
    mechanisms = policy.mechanisms(batch)
    matrix, gradient = mechanisms.matrix, mechanisms.optimiser.protocol
    first = None
    if batch:
        first = policy.learn(policy.init(), policy.episode(policy.init()))
        asks = [next(first)]
        try:
            while True:
                asks.append(first.send(_nothing(asks[-1])))
        except StopIteration as learned:
            first = learned.value.estimates[0]

    def cost(one: Person, two: Person, thetas: Any) -> float:
        rows = row(one), row(two)
        asks = [SumQuery(protocol=matrix, at=first), *(SumQuery(protocol=gradient, at=theta) for theta in thetas)]
        return sum(move(policy, ask, rows) / ask.protocol.noise.std() ** 2 for ask in asks)

    priced = accountant.price(mechanisms.event, accountant.tail_for(1e-5, 1.0))
    assert max(cost(*pair, rng.normal(size=(3, 2)) * 20) for pair in anybody(200)) <= priced.mu**2
    pair = people(0.25, reward=0.0)
    worst = cost(*pair, [1e6 * (pair[0][0] + pair[1][0])] * 3)
    assert (0.98 if batch == 0 else 0.3) * priced.mu**2 < worst <= priced.mu**2  # later weights are below their bound
    apart = GLMSDP(**shared, pricing="separate").mechanisms(batch)
    for mine, other in ((matrix, apart.matrix), (gradient, apart.optimiser.protocol)):
        assert mine.noise.std() / other.noise.std() == pytest.approx(math.sqrt(0.78125), rel=5e-3)


def _nothing(ask: SumQuery) -> bd.device.Estimate:
    return bd.device.Estimate(total=np.zeros(ask.protocol.domain.dim), count=1, variance=1.0)


def test_an_unknown_pricing_is_refused() -> None:
    for make in (
        lambda: oful(0.5, pricing="none"),
        lambda: glm(0.5, pricing=""),
        lambda: GLMSDP(dim=2, horizon=80, privacy=bd.shuffle(budget=BUDGET), pricing="paper"),
    ):
        with pytest.raises(InvalidArgument, match="pricing"):
            make()


def test_zcdp_budgets_are_used_up() -> None:
    policy = OFULJDP(dim=3, horizon=200, privacy=bd.central(budget=ZCDP(rho=0.2)), share=0.4)
    assert 0.2 * (1 - 1e-4) < policy.guarantee.rho <= 0.2
    bandit = GLMJDP(dim=3, horizon=200, privacy=bd.central(budget=ZCDP(rho=0.2)))
    assert 0.2 * (1 - 1e-3) < bandit.guarantee.rho <= 0.2
