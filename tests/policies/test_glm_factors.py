"""Factors of generalised linear policies by hand: constants by theory and tuned, noise bounds, sizes of batches."""

from __future__ import annotations

import math
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from bandanna.policies.base import FixedLength
from bandanna.policies.glm.base import compute_designs
from bandanna.policies.glm.baselines import GLMUCB
from bandanna.policies.glm.batched import BatchEstimate, BGLinUCB
from bandanna.policies.glm.glm_jdp import (
    GLMJDP,
    SHARE,
    _bound_calls,
    _radius,
    noise_norms,
    paper_constants,
    tuned_constants,
)
from bandanna.policies.glm.glm_sdp import GLMSDP
from bandanna.policies.glm.links import Binomial, Linear, Link, Logistic, Probit, TruncatedPoisson
from bandanna.policies.glm.optimisers import ShuffledGradient
from bandanna.privacy.factorisation import factorise
from bandanna.protocols.privacy_model import central, shuffle

from .answering import learn_from

DIM, HORIZON, S, FAILURE, MU = 4, 5000, 1.5, 0.02, 0.7
LOGISTIC = Logistic()  # R = 1, L_mu = 1/4


def jdp() -> GLMJDP:
    return GLMJDP(
        dim=DIM,
        horizon=HORIZON,
        parameter_bound=S,
        kappa=9.0,
        failure=FAILURE,
        privacy=central(epsilon=1.0, delta=1e-5),
    )


def norm() -> float:
    """s (sqrt(2d) + sqrt(2 log(2T/z))), s = sqrt 2 times the worst prefix's noise at price sqrt(1/2) mu."""
    s = math.sqrt(2) * factorise("tree", horizon=HORIZON).unit_std() / (math.sqrt(0.5) * MU)
    return s * (math.sqrt(8) + math.sqrt(2 * math.log(2 * HORIZON / FAILURE)))


def test_noise_of_the_matrices_is_that_of_paper_003() -> None:
    found = noise_norms(jdp(), MU, "tree", SHARE)
    assert found == (pytest.approx(norm()), pytest.approx(norm() / 4 / math.e))


def excess(u: float, *, std: float, steps: int, failure: float, dim: int = DIM, s: float = S) -> float:
    """Lemma U.2 for the sum of the losses, u = t L: the value that it has except with probability `failure`."""
    log, root = math.log(2 / failure), math.sqrt(steps)
    size = dim + 2 * math.sqrt(dim * log / steps) + 2 * log / steps
    noise = std**2 * size / (2 * u * root) + std * (1 + 1 / root) * math.sqrt(2 * log / steps)
    return 2 * s * min(u, u / root + noise)


def test_constants_by_theory_are_those_of_paper_003() -> None:
    made = paper_constants(jdp(), MU, "tree")
    norms = [norm(), norm() / 4 / math.e]
    log, rho = math.log(HORIZON / FAILURE), MU**2 / 4
    ridge = max(DIM * log, 6 * norm())
    calls = []
    for each, weight in zip(norms, (1.0, 0.25 / math.e), strict=True):
        low, high = ridge - each, ridge + each
        outgrown = DIM * math.log(high / low + HORIZON * weight / (DIM * low)) / math.log(1.5)
        calls.append(max(1, math.floor(outgrown)))
    inside = math.log(1 / FAILURE) + DIM * math.log(2) + DIM / 2 * math.log(1 + HORIZON * 0.25 / (DIM * ridge))
    root = math.sqrt(ridge)
    radius = root / 2 + 2 / root * inside + S * root
    wider = [math.sqrt((ridge + each) / ridge) for each in norms]
    # N of Lemma U.4, of the rho of one call: far above the cap of 500
    steps = min(500, math.ceil(rho / max(calls) * HORIZON**2 / (2 * (DIM - math.log(FAILURE)))))
    stds = [1.01 * 2 * math.sqrt(steps * each) / (math.sqrt(0.5) * MU) for each in calls]
    losses = [
        max(excess(t + ridge * S, std=std, steps=steps, failure=FAILURE / HORIZON) for t in range(1, HORIZON + 1))
        for std in stds
    ]
    curved = 2 * (1 + 1.0 * S)  # M = 1
    gamma = wider[0] * (curved * radius + math.sqrt(curved * losses[0]))
    assert (made.calls_o, made.calls_tau, made.steps) == (*calls, steps)
    assert (made.regulariser_v, made.regulariser_h, made.ridge) == pytest.approx((ridge,) * 3)
    assert made.threshold == pytest.approx(1 / (gamma**2 * 9.0), rel=1e-3)
    assert made.elimination == pytest.approx(gamma * 3.0, rel=1e-3)
    assert made.bonus == pytest.approx(wider[1] * (4 * radius + 2 * math.sqrt(losses[1])), rel=1e-3)


@pytest.mark.parametrize(("horizon", "epsilon"), [(100_000, 1.0), (1000, 0.1), (5000, 4.0)])
def test_widths_by_theory_cover_the_excess_of_the_steps_that_run(horizon: int, epsilon: float) -> None:
    policy = GLMJDP(
        dim=3,
        horizon=horizon,
        parameter_bound=2.0,
        preset="paper",
        privacy=central(epsilon=epsilon, delta=1e-5, mechanism="tree"),
    )
    used = policy.used
    assert used.steps <= 500
    for optimiser, width in (
        (policy.mechanisms.estimate_o, used.elimination / math.sqrt(policy.curvature)),
        (policy.mechanisms.estimate_tau, used.bonus),
    ):
        assert optimiser.steps == used.steps
        loss = horizon * optimiser.excess_bound(count=horizon, ridge=used.ridge)
        curved = 4.0 if width == used.bonus else 2 * (1 + 1.0 * 2.0)
        assert width >= curved * _radius(policy, used.ridge) + math.sqrt(curved * loss)


def test_a_link_without_bends_needs_no_exploration() -> None:
    policy = GLMJDP(
        dim=3, horizon=50, link="linear", preset="paper", privacy=central(epsilon=1.0, delta=1e-5, mechanism="tree")
    )
    assert policy.used.threshold == math.inf


def test_the_lemma_s_steps_where_the_cap_does_not_rule() -> None:
    few = GLMJDP(
        dim=DIM, horizon=60, parameter_bound=S, kappa=9.0, failure=FAILURE, privacy=central(epsilon=1.0, delta=1e-5)
    )
    made = paper_constants(few, MU, "tree")
    per_call = MU**2 / 4 / max(made.calls_o, made.calls_tau)
    assert made.steps == math.ceil(per_call * 60**2 / (2 * (DIM - math.log(FAILURE))))
    assert 1 < made.steps < 500


def test_regularisers_of_many_features_follow_them() -> None:
    quiet = paper_constants(jdp(), 1e6, "tree")
    assert quiet.regulariser_v == pytest.approx(DIM * math.log(HORIZON / FAILURE))


def test_refits_and_radii_follow_the_dimension() -> None:
    low, high = 30.0 - 5.0, 30.0 + 5.0
    assert _bound_calls(7, 1000, 30.0, 5.0, 0.5) == math.floor(
        7 * math.log(high / low + 500 / (low * 7)) / math.log(1.5)
    )
    wide = cast(Any, SimpleNamespace(dim=7, model=SimpleNamespace(reward_bound=3.0, slope_bound=0.5)))
    wide.horizon, wide.failure, wide.parameter_bound = 1000, 0.1, 2.0
    log = math.log(10) + 7 * math.log(2) + 3.5 * math.log(1 + 1000 * 0.5 / (7 * 16.0))
    assert _radius(wide, 16.0) == pytest.approx(4.0 / 6.0 + 6.0 / 4.0 * log + 2.0 * 4.0)


def test_tuned_constants_are_two_roots_of_kappa_and_the_noise_s_bound() -> None:
    made = tuned_constants(jdp(), MU, "tree")
    assert made.elimination == 6.0
    assert (made.regulariser_v, made.regulariser_h) == pytest.approx((norm(), norm() / 4 / math.e))
    assert made.threshold == pytest.approx(1 / (norm() + 2.7))


def sdp(**changes: Any) -> GLMSDP:
    given: dict[str, Any] = {"dim": DIM, "horizon": HORIZON, "parameter_bound": S, "kappa": 9.0, "failure": FAILURE}
    return GLMSDP(**given | {"batches": 3, "warmup": 500} | changes, privacy=shuffle(epsilon=5.0, delta=1e-3))


def test_constants_of_shuffled_batches_are_those_of_the_docstring() -> None:
    tuned = sdp()
    mechanisms = tuned.mechanisms(0)
    gradient = mechanisms.optimiser.protocol.noise.std()
    batches = len(tuned.sizes)
    noise = mechanisms.matrix.noise.std() * (math.sqrt(2 * DIM) + math.sqrt(2 * math.log(2 * batches / FAILURE)))
    assert tuned.regulariser(0) == pytest.approx(2 * noise)
    assert tuned.gamma == pytest.approx(0.25 * 2.0)
    assert tuned._blur(mechanisms, 0) == pytest.approx(4 * gradient / math.sqrt(3))  # 1/L_mu = 4, 3 of 6 steps
    assert tuned._blur(mechanisms, 1) == pytest.approx(gradient / math.sqrt(3))
    theory = sdp(preset="paper", steps=6)
    ridge = max(2 * noise, 20 * DIM * math.log(HORIZON))
    assert theory.regulariser(0) == pytest.approx(ridge)
    released = range(batches - 1)
    losses = [
        excess(
            size + theory.regulariser(batch) * S,
            std=theory.mechanisms(batch).optimiser.protocol.noise.std(),
            steps=6,
            failure=FAILURE / batches,
        )
        for batch, size in enumerate(theory.sizes[:-1])
    ]
    gamma = 30 * S * math.sqrt(DIM * math.log(HORIZON)) + S * math.sqrt(max(map(theory.regulariser, released)))
    gamma += math.sqrt(2 * (1 + S) * max(losses))
    assert theory.gamma == pytest.approx(gamma)
    assert theory._blur(mechanisms, 0) == 0.0
    assert mechanisms.matrix.noise.users == 500


def test_newton_s_matrix_bounds_the_hessian(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[np.ndarray] = []

    def descend(self: ShuffledGradient, start: np.ndarray, **given: Any) -> Generator[Any, Any, np.ndarray]:
        used.append(given["matrix"])
        return start
        yield start

    monkeypatch.setattr(ShuffledGradient, "descend", descend)
    policy = sdp(batches=4)
    state = policy.init()
    for batch, scale in ((0, 0.25), (1, 2.0)):
        state = learn_from(policy, state, policy.episode(state), np.zeros(policy.mechanisms(batch).matrix.domain.dim))
        np.testing.assert_allclose(used[batch], scale * policy.regulariser(batch) * np.eye(DIM), rtol=1e-9)


def test_theory_s_regulariser_where_noise_is_small() -> None:
    loud = GLMSDP(
        dim=DIM,
        horizon=HORIZON,
        parameter_bound=1e-3,
        kappa=9.0,
        failure=FAILURE,
        warmup=500,
        batches=3,
        preset="paper",
        privacy=shuffle(epsilon=60.0, delta=1e-3),
    )
    assert loud.regulariser(0) == pytest.approx(20 * DIM * math.log(HORIZON))
    ridge = 20 * DIM * math.log(HORIZON)
    rest = loud.gamma - 0.03 * math.sqrt(DIM * math.log(HORIZON)) - 1e-3 * math.sqrt(ridge)
    losses = [
        excess(
            size + ridge * 1e-3,
            std=loud.mechanisms(batch).optimiser.protocol.noise.std(),
            steps=6,
            failure=FAILURE / len(loud.sizes),
            s=1e-3,
        )
        for batch, size in enumerate(loud.sizes[:-1])
    ]
    assert rest**2 == pytest.approx(2 * (1 + 1e-3) * max(losses), rel=1e-6)


def test_the_shuffled_radius_covers_lemma_u2() -> None:
    policy = GLMSDP(dim=3, horizon=1000, parameter_bound=2.0, preset="paper", privacy=shuffle(epsilon=0.1, delta=1e-5))
    users, ridge = policy.sizes[0], policy.regulariser(0)
    std = policy.mechanisms(0).optimiser.protocol.noise.std()
    nu = excess(users + 2.0 * ridge, std=std, steps=6, failure=0.05, dim=3, s=2.0)
    assert 3400 < nu < 3800
    parts = 60 * math.sqrt(3 * math.log(1000)) + 2 * math.sqrt(ridge)
    assert policy.gamma >= parts + math.sqrt(2 * (1 + 2.0) * nu)


def test_losses_of_the_theorem_have_the_regulariser_of_its_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[float] = []

    def descend(self: ShuffledGradient, start: np.ndarray, **given: Any) -> Generator[Any, Any, np.ndarray]:
        used.append(given["ridge"])
        return start
        yield start

    monkeypatch.setattr(ShuffledGradient, "descend", descend)
    for preset in ("tuned", "paper"):
        policy = sdp(preset=preset)
        state = policy.init()
        learn_from(policy, state, policy.episode(state), np.zeros(policy.mechanisms(0).matrix.domain.dim))
        assert used.pop() == pytest.approx(policy.regulariser(0) if preset == "paper" else 1.0)


@pytest.mark.parametrize(
    ("link", "m"),
    [(Logistic(), 1.0), (Probit(), 2.0), (Binomial(trials=10), 1.0), (TruncatedPoisson(most=5), 1.2316), (Linear(), 0)],
    ids=str,
)
def test_batched_policies_have_the_self_concordance_of_their_link(link: Link, m: float) -> None:
    given: dict[str, Any] = {"dim": 3, "horizon": 200, "link": link, "parameter_bound": 2.0}
    assert GLMSDP(**given, privacy=shuffle(epsilon=1.0, delta=1e-5)).concordance == pytest.approx(m, abs=2e-4)
    assert BGLinUCB(**given).concordance == pytest.approx(m, abs=2e-4)
    assert BGLinUCB(**given, preset="published").concordance == link.reward_bound


def test_a_polynomial_of_many_features_is_not_kept() -> None:
    few, many = (GLMUCB(dim=dim, horizon=10) for dim in (3, 7))
    near = few.init(replicates=(2,)).near
    assert near is not None
    assert near.anchor.shape == (2, 3)
    assert many.init().near is None


def test_batches_double_in_their_exponents() -> None:
    policy = BGLinUCB(dim=3, horizon=10_000, parameter_bound=1.0, warmup=100)
    alpha = 2 * 100.0  # 2 sqrt T
    sizes = [100, 200, math.ceil(alpha * math.sqrt(alpha))]
    assert policy.sizes[:3] == tuple(sizes)
    assert sum(policy.sizes) == 10_000
    few = BGLinUCB(dim=3, horizon=10_000, parameter_bound=1.0, warmup=100, batches=4)  # three after the warm-up
    assert few.sizes[1] == math.ceil(10_000 ** (1 / (2 * (1 - 2**-2))))
    state = policy.init()
    first = policy.episode(state)
    assert isinstance(first, FixedLength)
    assert first.users == 100
    second = policy.next_episode(first)
    assert second is not None
    assert second.users == 200


def test_constants_of_b_glinucb_are_those_of_its_docstring() -> None:
    policy = BGLinUCB(dim=DIM, horizon=HORIZON, parameter_bound=S, kappa=9.0, failure=FAILURE, width=2.0)
    ridge = DIM * math.log(HORIZON)
    assert policy.regulariser == pytest.approx(ridge)
    log = DIM * math.log(1 + HORIZON / DIM) + 2 * math.log(HORIZON / FAILURE)
    gamma = 2.0 * (0.5 * math.sqrt(log) / math.sqrt(0.25) + S * math.sqrt(ridge))
    assert policy.gamma == pytest.approx(gamma)
    small = BGLinUCB(dim=1, horizon=10**6, parameter_bound=0.5, kappa=4.0, failure=FAILURE, width=0.1)
    inside = math.sqrt(4.0) * math.exp(1.5) * small.gamma**2 * 2 * 1000.0 / 0.5
    assert small.first == math.ceil(inside ** (2 / 3))
    assert 2 < small.first < 10**6 // 4


def test_weights_of_arms_are_bounded_by_the_ball() -> None:
    policy = BGLinUCB(dim=2, horizon=100, parameter_bound=S)
    far = BatchEstimate(theta=np.zeros(2), inverse=np.eye(2), width=1e3, blur=0.0)
    near = BatchEstimate(theta=np.zeros(2), inverse=np.eye(2), width=0.5, blur=0.0)
    arms = np.array([[[1.0, 0.0]]])
    m = policy.concordance
    assert policy.arm_weights(arms, far)[0, 0] == pytest.approx(0.25 * math.exp(-m * 2 * S))
    assert policy.arm_weights(arms, near)[0, 0] == pytest.approx(0.25 * math.exp(-m * 0.5))


def test_designs_move_weight_to_the_worst_arm() -> None:
    arms = np.array([[[1.0, 0.0], [0.9, 0.1], [0.1, 0.05], [0.0, 0.1], [-1.0, 0.6]]])
    weights = compute_designs(arms, np.ones((1, 5), dtype=bool), factor=1.01)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    gram = (arms[0] * weights[0][:, None]).T @ arms[0]
    assert np.max(np.einsum("ki,ij,kj->k", arms[0], np.linalg.inv(gram), arms[0])) <= 2 * 1.01
    nothing = compute_designs(np.zeros((1, 3, 2)), np.array([[True, False, True]]))
    np.testing.assert_array_equal(nothing, [[0.5, 0.0, 0.5]])
