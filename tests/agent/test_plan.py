"""The public schedule: computed batch by batch, and the same as if all batches were written down."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.agent.episodes import next_span, to_span
from bandanna.policies.linear.anytime import Anytime


def written_down(policy: Any, phases: int) -> list[tuple[int, int, Any, int, bool]]:
    """All batches of so many phases, one after the other: first decision, users, event, begun streams, released."""
    batches: list[tuple[int, int, Any, int, bool]] = []
    begun: dict[object, int] = {}
    end = 0
    for _, phase in zip(range(phases), policy._iterate_phases(), strict=False):
        channel = phase._channel
        if channel.continual is not None:
            begun[channel.continual.event] = begun.get(channel.continual.event, 0) + 1
        for size in channel.sizes:
            event = channel.protocols[size].event
            batches.append((end, size, event, begun.get(event, 1), True))
            end += size
    if policy.horizon is not None and end < policy.horizon:
        batches.append((end, policy.horizon - end, None, 1, False))
    return batches


def planned(policy: Any, count: int) -> list[tuple[int, int, Any, int, bool]]:
    """The first batches as an agent sees them."""
    found, batch = [], to_span(policy.episode(policy.init()), 0)
    while batch is not None and len(found) < count:
        assert batch.number == len(found)
        released = batch.episode.released
        ask = policy._query(batch.episode) if released else None
        event, begun = (ask.protocol.event, ask.begun) if ask else (None, 1)
        found.append((batch.begin, batch.users, event, begun, released))
        batch = next_span(policy, batch)
    return found


BUDGET = {"epsilon": 1.0, "delta": 1e-5}


@pytest.mark.parametrize(
    ("privacy", "batch"),
    [
        (bd.none(), 1),
        (bd.none(), 7),
        (bd.central(**BUDGET), 10),
        (bd.shuffle(**BUDGET), bd.policies.geometric(first=10, ratio=1.5)),
        (bd.concurrent(**BUDGET, shufflers=2, degrees=(5, 4)), 5),
    ],
)
@pytest.mark.parametrize("anytime", [False, True])
def test_batches_are_those_written_down(privacy: bd.protocols.Privacy, batch: object, anytime: bool) -> None:
    policy = bd.LinUCB(dim=2, horizon=100, privacy=privacy, batch=batch)
    run = Anytime(first=policy) if anytime else policy
    expected = written_down(run, 3 if anytime else 1)
    assert planned(run, len(expected)) == expected
    assert len(planned(run, len(expected) + 1)) == len(expected) + anytime


def test_a_decision_without_privacy_costs_the_same_at_any_horizon(tmp_path: Path) -> None:
    warm = bd.Agent(policy=bd.LinUCB(dim=2, horizon=10, privacy=bd.none()))
    arms = np.eye(2)
    warm.observe(warm.act(arms).id, 1.0)
    tracemalloc.start()
    try:
        agent = bd.Agent(policy=bd.LinUCB(dim=2, horizon=10**9, privacy=bd.none()))
        for _ in range(3):
            agent.observe(agent.act(arms).id, 1.0)
        agent.save(tmp_path / "agent")
        agent = bd.Agent.load(tmp_path / "agent")
        agent.close()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert agent.releases == 3
    assert peak < 1_000_000  # a table of 10^9 numbers would be 8 GB


def test_many_releases_keep_tables_of_numbers_only() -> None:
    rounds = 200_000
    bd.Agent(policy=bd.LinUCB(dim=2, horizon=10, privacy=bd.central(**BUDGET)), test=True, seed=0)
    policy = bd.LinUCB(dim=2, horizon=rounds, privacy=bd.central(**BUDGET))
    _ = policy._channel
    tracemalloc.start()
    try:
        agent = bd.Agent(policy=policy, test=True, seed=0)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert agent.releases == 0
    assert held / rounds < 26  # three tables of 8 bytes a release
