"""A save that is moved: on another processor searches end in other digits, and a stream has one noise all the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import bandanna as bd
from bandanna.agent.agent import Agent
from bandanna.agent.preflight import continue_streams
from bandanna.errors import BandannaError
from bandanna.privacy import accountant, calibration_cache, factorisation
from bandanna.privacy.events import ContinualEvent, unwrap_record
from bandanna.privacy.factorisation import BLT, use_factorisations

from .test_several_asks import POLICIES, play


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Any:
    """From the call on, the search for factorisations ends as on another machine."""
    genuine = factorisation.search_blt

    def search(horizon: int, buffers: int) -> Any:
        theta, theta_hat = genuine(horizon, buffers)
        return tuple(each * (1 - 1e-10) for each in theta), tuple(each * (1 - 1e-9) for each in theta_hat)

    def move() -> None:
        monkeypatch.setattr(factorisation, "search_blt", search)
        monkeypatch.setenv("BANDANNA_CACHE", "")
        calibration_cache.clear_memory()

    yield move
    calibration_cache.clear_memory()


def streams(agent: Agent) -> set[Any]:
    """The factorisations of all that was released."""
    events = [entry.event for entry in agent._runner.journals.entries()]
    atoms = [unwrap_record(atom) for event in events for atom in accountant.count_atoms(event)]
    return {atom.factorisation for atom in atoms if isinstance(atom, ContinualEvent)}


@pytest.mark.parametrize("name", ["AdaC-OFUL-JDP", "GLM-JDP"])
def test_a_stream_goes_on_with_its_own_noise(name: str, tmp_path: Path, elsewhere: Any) -> None:
    arguments, rounds = POLICIES[name]
    agent = Agent(policy=bd.make(name, **arguments), test=True, seed=2)
    play(agent, rounds // 2)
    agent.save(tmp_path / "agent")
    (used,) = streams(agent)
    elsewhere()
    assert BLT.optimal(horizon=used.horizon) != used
    again = Agent.load(tmp_path / "agent")
    before = again.releases
    play(again, rounds)
    assert again.releases > before
    assert streams(again) == {used}
    assert again.ledger.spent() <= again.policy.guarantee.epsilon * (1 + 1e-6)


def test_half_a_stream_of_another_noise_is_refused() -> None:
    policy = bd.make("AdaC-OFUL-JDP", **POLICIES["AdaC-OFUL-JDP"][0])
    one = unwrap_record(policy.matrix.event)
    blt_ = one.factorisation
    moved = replace(one, factorisation=replace(blt_, theta=tuple(each * (1 - 1e-10) for each in blt_.theta)))
    assert continue_streams(policy, [one, one]) is policy
    for other in (moved, replace(one, std=one.std * (1 + 1e-15))):
        with pytest.raises(BandannaError, match="no price"):
            continue_streams(policy, [one, other])


def test_a_stream_that_was_begun_is_believed_inside_alone() -> None:
    found = BLT.optimal(horizon=50)
    other = BLT(horizon=50, theta=(0.9, 0.5), theta_hat=(0.7, 0.2))
    with use_factorisations([other]):
        assert BLT.optimal(horizon=50) is other
        assert BLT.optimal(horizon=50, buffers=1).buffers == 1
        assert BLT.optimal(horizon=51).horizon == 51
    assert BLT.optimal(horizon=50) == found
