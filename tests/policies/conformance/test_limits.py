"""Without noise a private policy is the clear one: epsilon = infinity is `bd.none()`, and a huge one nearly so."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.policies.base import Policy
from bandanna.protocols.privacy_model import Privacy

from .catalogue import BY_MESSAGES, CASES, OF_EVERY_CLASS, every_path
from .driving import Way, arrays, drive

PRIVATE = [key for key, case in CASES.items() if case.policy.privacy.noisy and key != "Anytime"]
WITH_NONE = [key for key in PRIVATE if "none" in CASES[key].policy.trusts and key != "SDP-SE"]  # its bits are finite


def spending(privacy: Privacy, size: float) -> Privacy:
    """The same trust with rho or epsilon of this size."""
    assert privacy.budget is not None
    name = "rho" if isinstance(privacy.budget, bd.privacy.ZCDP) else "epsilon"
    return replace(privacy, budget=replace(privacy.budget, **{name: size}))  # type: ignore[arg-type]


def with_privacy(policy: Policy[Any], privacy: Privacy) -> Policy[Any]:
    """The same policy on the same schedule."""
    own = {each.name: getattr(policy, each.name) for each in fields(policy) if each.init}  # type: ignore[arg-type]
    if isinstance(policy, bd.LinUCB):
        own["batch"] = policy._schedule
    return type(policy)(**own | {"privacy": privacy})


@pytest.mark.often(of=lambda key, path: key in (OF_EVERY_CLASS if path == "law" else BY_MESSAGES))
@every_path
@pytest.mark.parametrize("key", WITH_NONE)
def test_an_infinite_epsilon_is_no_privacy(key: str, path: str) -> None:
    case = CASES[key]
    infinite = with_privacy(case.policy, spending(case.policy.privacy, math.inf))
    clear = with_privacy(case.policy, bd.none())
    assert infinite.guarantee.epsilon == math.inf
    one, two = (bd.simulate(each, case.env, n_seeds=2, path=path) for each in (infinite, clear))
    np.testing.assert_allclose(one.regret, two.regret, rtol=0, atol=1e-9)


def test_a_finite_epsilon_is_not_the_limit_without_noise() -> None:
    case = CASES["LinUCB-LDP"]
    one, two = (bd.simulate(with_privacy(case.policy, each), case.env) for each in (case.policy.privacy, bd.none()))
    assert not np.allclose(one.regret, two.regret)


@pytest.mark.parametrize("key", ["AdaC-OFUL-JDP", "GLM-JDP"])
def test_noise_for_a_huge_rho_changes_no_action(key: str) -> None:
    case = CASES[key]
    policy = with_privacy(case.policy, replace(case.policy.privacy, budget=bd.privacy.ZCDP(rho=1e12)))
    noisy, exact = drive(policy, case), drive(policy, case, Way(exact=True))
    np.testing.assert_allclose(noisy.regret, exact.regret, rtol=0, atol=1e-9)
    assert len(noisy.asks) == len(exact.asks) > 0


@pytest.mark.parametrize("key", ["SDP-SE", "GLM-SDP"])
def test_shuffled_noise_for_a_large_epsilon_hardly_changes_the_state(key: str) -> None:
    case = CASES[key]
    policy = with_privacy(case.policy, spending(case.policy.privacy, 600.0))
    noisy, exact = drive(policy, case).states[0], drive(policy, case, Way(exact=True)).states[0]
    for one, two in zip(arrays(noisy), arrays(exact), strict=True):
        np.testing.assert_allclose(one, two, rtol=0.1, atol=0.1)


def test_bits_without_lies_make_ldp_ucb_act_as_ucb1() -> None:
    case = CASES["LDP-UCB"]
    truthful = with_privacy(case.policy, spending(case.policy.privacy, 40.0))
    clear = bd.policies.UCB1(n_arms=3, horizon=case.rounds)
    one, two = (bd.simulate(each, case.env, n_seeds=3) for each in (truthful, clear))
    np.testing.assert_allclose(one.regret, two.regret, rtol=0, atol=1e-9)
