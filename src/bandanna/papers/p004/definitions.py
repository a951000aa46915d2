"""Paper 004, Proposition 1(e): a policy that is (0.95, 0.17)-View DP and not (0.95, 0.17)-Table DP.

Three rounds, two arms, rewards 0 and 1. The paper prints the probability of arm 0 for every history
(a_1, r_1, a_2, r_2), read as a binary number; the chance of arm 1 is the rest.

Reference: Azize and Basu 2024 [004], appendix B-A.
"""

from __future__ import annotations

import math

from bandanna.accounting.definitions import ExplicitPolicy
from bandanna.core import require
from bandanna.errors import InvalidBudget
from bandanna.papers.common.curve import finite

EPSILON, DELTA = 0.95, 0.17

_FIRST_ARM = (
    (2 / 3,),  # pi_1
    (1 / 2, 1 / 3, 1 / 4, 1 / 3),  # pi_2: histories 00, 01, 10, 11
    (1 / 2, 1 / 3, 1 / 4, 1 / 5, 1 / 2, 2 / 3, 1 / 4, 0, 1 / 3, 1 / 7, 3 / 4, 2 / 5, 1 / 2, 1, 1 / 4, 2 / 3),  # pi_3
)


def printed_policy() -> ExplicitPolicy:
    """The policy of Proposition 1(e)."""
    return ExplicitPolicy.from_rules([[(first, 1 - first) for first in rule] for rule in _FIRST_ARM])


def definitions(*, epsilon: float = EPSILON, delta: float = DELTA) -> dict[str, float | None]:
    """The least delta at `epsilon` and the least epsilon at `delta` that the policy has; None where there is none."""
    if not 0 <= epsilon < math.inf:
        raise InvalidBudget("epsilon", epsilon, "a finite number >= 0")
    require.delta(delta)
    policy = printed_policy()
    return {
        "view_delta_at_epsilon": policy.view.delta(epsilon),
        "table_delta_at_epsilon": policy.table.delta(epsilon),
        "view_epsilon_at_delta": finite(policy.view.epsilon(delta)),
        "table_epsilon_at_delta": finite(policy.table.epsilon(delta)),
    }
