"""The laws are held against every algorithm: none may be left out."""

from __future__ import annotations

import pytest

import bandanna as bd
from bandanna.errors import InvalidArgument
from bandanna.policies.base import Policy
from bandanna.policies.registry import ALGORITHMS

from .catalogue import CASES, NAMED, Case, every_case

_MODELS = {
    "none": bd.none(),
    "central": bd.central(epsilon=1.0, delta=1e-6),
    "local": bd.local(epsilon=1.0, delta=1e-6),
    "shuffle": bd.shuffle(epsilon=1.0, delta=1e-6),
    "concurrent": bd.concurrent(epsilon=1.0, delta=1e-6),
}


def test_every_name_is_held_to_the_laws() -> None:
    assert [case.key for case in NAMED if case.key not in ALGORITHMS] == []
    assert sorted(set(ALGORITHMS) - set(CASES)) == []


@every_case
def test_it_is_a_policy_that_says_whom_it_trusts(case: Case) -> None:
    policy = case.policy
    assert isinstance(policy, Policy)
    own = policy.first if isinstance(policy, bd.policies.Anytime) else policy
    assert policy.privacy.model in own.trusts


@pytest.mark.parametrize("model", _MODELS)
@pytest.mark.parametrize("case", NAMED, ids=lambda case: case.key)
def test_trust_models_that_it_does_not_have_are_refused(case: Case, model: str) -> None:
    kind = ALGORITHMS[case.key].kind
    own = {name: value for name, value in case.arguments.items() if name not in ALGORITHMS[case.key].options}
    if model in kind.trusts:
        return
    with pytest.raises(InvalidArgument, match=rf"{kind.__name__} has no (private version\. |other privacy)") as refused:
        kind(**own, privacy=_MODELS[model])
    assert all(f"bd.{each}(" in refused.value.allowed for each in kind.trusts)
