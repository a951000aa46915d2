"""Simulated users of a deployment account for everybody who reported nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

import bandanna as bd
from bandanna.deployment.client.load_simulation import SimulatedUsers, describe_missing_users, world_for_task

from ..deployment.inside import Inside, a_task


@pytest.mark.parametrize("dropout", [0.0, 0.4, 1.0])
def test_every_user_without_a_report_has_a_reason(dropout: float, tmp_path: Path) -> None:
    policy = bd.LinTS(dim=2, horizon=60, batch=20, privacy=bd.local(epsilon=4.0, delta=1e-4))
    task, secrets = a_task(policy, seed=None, close="grace")
    inside = Inside(task, secrets, tmp_path)
    inside.collector._answered = False
    crowd = SimulatedUsers(task, inside, world_for_task(task), rounds=50, concurrency=1, dropout=dropout)
    account = crowd.run()
    assert (account.users, account.unbatched) == (50, 10)
    assert account.dropped == (40 if dropout == 1.0 else 0 if dropout == 0.0 else pytest.approx(16, abs=10))
    reasons = f"{account.dropped} by --dropout, " * (account.dropped > 0) + "10 because the last batch did not fill"
    assert describe_missing_users(account) == f"{account.dropped + 10} of 50 users reported nothing: {reasons}."
    account.dropped = account.unbatched = 0
    assert describe_missing_users(account) == ""
