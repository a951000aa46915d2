"""The public schedule: computed batch by batch, and the same as if all batches were written down."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import bandanna as bd
from bandanna.agent.plan import Batch, Plan, channel_of
from bandanna.policies.linear.anytime import Anytime


def written_down(policy: bd.LinUCB | bd.Anytime, phases: int) -> list[Batch]:
    """All batches of so many phases, one after the other."""
    batches: list[Batch] = []
    begun: dict[object, int] = {}
    for phase in range(phases):
        channel = channel_of(policy, phase)
        if channel.continual is not None:
            begun[channel.continual.event] = begun.get(channel.continual.event, 0) + 1
        for size in channel.sizes:
            event = channel.protocols[size].event
            begin = batches[-1].end if batches else 0
            streams = begun.get(event, 1)
            batches.append(Batch(number=len(batches), begin=begin, users=size, event=event, streams=streams))
    last = batches[-1]
    if policy.horizon is not None and last.end < policy.horizon:
        rest = Batch(
            number=last.number + 1, begin=last.end, users=policy.horizon - last.end, event=last.event, released=False
        )
        batches.append(rest)
    return batches


BUDGET = {"epsilon": 1.0, "delta": 1e-5}


@pytest.mark.parametrize(
    ("privacy", "batch"),
    [
        (bd.none(), 1),
        (bd.none(), 7),
        (bd.central(**BUDGET), 10),
        (bd.shuffle(**BUDGET), bd.geometric(first=10, ratio=1.5)),
        (bd.concurrent(**BUDGET, shufflers=2, degrees=(5, 4)), 5),
    ],
)
@pytest.mark.parametrize("anytime", [False, True])
def test_batches_are_those_written_down(privacy: bd.Privacy, batch: object, anytime: bool) -> None:
    """A batch lacks the number, decisions, event or stream that it would have in a list of all of them."""
    policy = bd.LinUCB(dim=2, horizon=100, privacy=privacy, batch=batch)
    run = Anytime(first=policy) if anytime else policy
    plan, expected = Plan(run), written_down(run, 3 if anytime else 1)
    assert [plan.batch(number) for number in range(len(expected))] == expected
    assert (plan.batch(len(expected)) is None) == (not anytime)
    fresh = Plan(run)
    assert fresh.batch(len(expected) - 1) == expected[-1]  # in any order


def test_a_decision_without_privacy_costs_the_same_at_any_horizon(tmp_path: Path) -> None:
    """Making an agent for 10^9 rounds, deciding, learning, saving and loading take memory that grows with them."""
    warm = bd.Agent(policy=bd.LinUCB(dim=2, horizon=10))
    arms = np.eye(2)
    warm.observe(warm.act(arms).id, 1.0)
    tracemalloc.start()
    try:
        agent = bd.Agent(policy=bd.LinUCB(dim=2, horizon=10**9))
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
    """An agent with a release in each of 200,000 rounds holds a few bytes for each of them, not an object."""
    rounds = 200_000
    bd.Agent(policy=bd.LinUCB(dim=2, horizon=10, privacy=bd.central(**BUDGET)), test=True, seed=0)
    policy = bd.LinUCB(dim=2, horizon=rounds, privacy=bd.central(**BUDGET))
    _ = policy.channel
    tracemalloc.start()
    try:
        agent = bd.Agent(policy=policy, test=True, seed=0)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert agent.releases == 0
    assert held / rounds < 22
