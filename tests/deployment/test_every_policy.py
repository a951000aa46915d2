"""Every algorithm of the catalogue through collector, mixers and learner: it learns what the simulator learns."""

from __future__ import annotations

from pathlib import Path

import pytest

from bandanna.deployment.client.load_simulation import SimulatedUsers
from bandanna.errors import InvalidArgument
from bandanna.policies.registry import ALGORITHMS, make_encoding

from .inside import Inside, a_task
from .simulated import EVERY_ROUND, case, simulated

NOT_DEPLOYABLE = {"RS-OFUL", "AdaC-OFUL"}  # devices would have to act one after the other
SLOW = {"LinUCB", "LinUCB-JDP", "LinUCB-LDP", "UCB1", "Thompson", "LDP-UCB", "GLM-UCB", "GLOC", "ECOLog", "RS-GLinUCB"}


LONG = SLOW | {"GLM-JDP", "GLOC", "DP-SE", "LinTS-JDP-rewards", "LinUCB-SDP-Vec", "LinUCB-JDP-batched", "Laplace-DPE"}
LONG |= {"AdaC-GOPE-early", "DPE-FixedU", "GOPE", "LinTS-LDP-rewards", "PE", "UCB-episodes"}  # as others of their class
LONG |= {"LinTS-SDP", "LinUCB-CSDP"}  # test_processes.py has them
EACH = [
    pytest.param(name, marks=[pytest.mark.full] if name in LONG - {"LinUCB-JDP", "Thompson"} else [])
    for name in sorted(set(ALGORITHMS) - NOT_DEPLOYABLE)
]


@pytest.mark.parametrize("name", EACH)
def test_the_deployment_learns_what_the_simulator_learns(name: str, tmp_path: Path) -> None:
    policy, env, arms, rounds = case(name)
    rounds = min(rounds, EVERY_ROUND) if name in SLOW else rounds
    expected = simulated(policy, env, rounds)
    task, secrets = a_task(policy, arms=arms)
    inside = Inside(task, secrets, tmp_path)
    crowd = SimulatedUsers(task, inside, env, rounds=rounds, concurrency=1, wait=20.0)
    account = crowd.run()
    assert make_encoding().dumps(inside.learner.progress.state) == expected.state
    assert account.actions == expected.actions
    assert crowd.regret == expected.regret
    assert not account.refused
    view = inside.learner.ledger_view()
    if policy.privacy.noisy and policy.privacy.budget is not None:
        assert view is not None
        assert len(view["entries"]) >= min(expected.releases, 1)
        assert view["spent"] is None or view["spent"] <= getattr(policy.privacy.budget, "epsilon", 1e9) * (1 + 1e-9)
    else:
        assert view is None


@pytest.mark.parametrize("name", sorted(NOT_DEPLOYABLE))
def test_policies_that_look_at_every_round_are_refused(name: str, tmp_path: Path) -> None:
    policy, _, arms, _ = case(name)
    task, secrets = a_task(policy, arms=arms)
    with pytest.raises(InvalidArgument, match=r"bandanna\.Agent"):
        Inside(task, secrets, tmp_path)
