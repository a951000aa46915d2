"""A state is a value of released or public numbers: it can be stored, and learning goes on from what was stored."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest

from bandanna.storage.encoding import Encoding

from .catalogue import OF_EVERY_CLASS, Case, every_case
from .driving import Way, bits, drive, usual


@pytest.mark.often(of=lambda case: case.key in OF_EVERY_CLASS)
@every_case
def test_learning_goes_on_from_a_stored_state(case: Case) -> None:
    policy = case.policy
    encoding = Encoding(policy._stored_classes())

    def stored(state: Any) -> Any:
        again = encoding.loads(encoding.dumps(state))
        assert type(again) is type(state)
        assert bits(again) == bits(state)
        assert bits(policy.publish(again)) == bits(policy.publish(state))
        return again

    at_once, through_files = usual(case.key), drive(policy, case, Way(stored=stored))
    assert [bits(state) for state in at_once.states] == [bits(state) for state in through_files.states]
    np.testing.assert_array_equal(at_once.regret, through_files.regret)
    assert len(at_once.states) > 0


@pytest.mark.often(of=lambda case: case.key in OF_EVERY_CLASS)
@every_case
def test_states_are_never_changed_in_place(case: Case) -> None:
    before = usual(case.key).noted
    assert all(bits(state) == then for state, then in before)
    state = before[0][0]
    assert is_dataclass(state)
    assert state.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert fields(state)
