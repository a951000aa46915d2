"""LinUCB for users who come back: what they pay together stays within the budget."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from bandanna.errors import InvalidArgument
from bandanna.policies.linear.base import geometric
from bandanna.policies.linear.linucb import LinUCB
from bandanna.privacy import accountant
from bandanna.privacy.events import RepetitionEvent
from bandanna.privacy.factorisation import BLT
from bandanna.protocols.privacy_model import Privacy, central, local, shuffle

BUDGET = {"epsilon": 1.0, "delta": 1e-5}


@pytest.mark.parametrize(
    "privacy",
    [
        central(**BUDGET, participations=4),
        central(**BUDGET, participations=4, mechanism="tree"),
        local(**BUDGET, participations=4),
        shuffle(**BUDGET, participations=4),
        shuffle(**BUDGET, participations=4, protocol="gaussian"),
    ],
)
def test_all_participations_together_keep_the_budget(privacy: Privacy) -> None:
    policy = LinUCB(dim=3, horizon=2000, privacy=privacy, batch=200)
    event = policy._channel.protocols[200].event
    whole = event if privacy.model == "central" else RepetitionEvent(event=event, times=4)
    spent = accountant.delta_near(whole, 1.0, 1e-5)
    assert 0.97e-5 <= spent <= 1e-5
    assert policy.guarantee.participations == 4
    assert policy.guarantee.epsilon <= 1.0


def released_by_ones(horizon: int) -> np.ndarray:
    """C of the stream's factorisation, column by column, from what it says of one element: (C x)_t."""
    factors = BLT.optimal(horizon=horizon)
    theta, weights = np.asarray(factors.theta), factors.weights
    column = [1.0, *(float(weights @ theta**k) for k in range(horizon - 1))]
    return np.array([[column[t - j] if t >= j else 0.0 for j in range(horizon)] for t in range(horizon)])


def test_user_level_noise_is_that_of_m0_participations() -> None:
    once, four = ((central(**BUDGET, participations=m), local(**BUDGET, participations=m)) for m in (1, 4))
    stds = [
        [LinUCB(dim=3, horizon=2000, privacy=privacy, batch=200)._channel.prefix_std()[-1] for privacy in both]
        for both in (once, four)
    ]
    columns = np.linalg.norm(released_by_ones(10)[:, :4].sum(axis=1)), np.linalg.norm(released_by_ones(10)[:, 0])
    assert stds[1][0] / stds[0][0] == pytest.approx(columns[0] / columns[1], rel=1e-3)
    assert 3.0 < columns[0] / columns[1] < 4.0  # [000, E.7] has 4
    assert stds[1][1] / stds[0][1] == pytest.approx(2.0, rel=1e-3)


def test_the_dearest_batches_of_a_growing_schedule_are_priced() -> None:
    growing = geometric(first=200, ratio=1.5)
    policy = LinUCB(dim=3, horizon=2000, privacy=shuffle(**BUDGET, participations=3), batch=growing)
    batches = Counter(policy._channel.protocols[size].event for size in policy._channel.sizes)
    assert len(batches) > 1
    assert accountant.compute_spent({"task": batches}, 3, 1e-5) <= policy.guarantee.epsilon <= 1.0
    with pytest.raises(InvalidArgument, match="one size"):
        _ = LinUCB(
            dim=3, horizon=2000, privacy=shuffle(**BUDGET, participations=3, protocol="gaussian"), batch=growing
        )._channel


def test_paper_batches_for_returning_users() -> None:
    assert LinUCB(dim=2, horizon=1000, privacy=shuffle(**BUDGET, participations=2))._channel.sizes[0] == 100
