"""Saves of before all policies had one interface: LinUCB's states held the state of their channel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bandanna.core.estimate import Estimate
from bandanna.policies.base import Ints, Policy, RunningSums
from bandanna.storage.checks import demand

RENAMED = {  # what these values were called
    "linucb.LinUCB": "LinUCB",
    "anytime.Anytime": "Anytime",
    "confidence.PaperConfidence": "PaperConfidence",
    "schedules.FixedBatches": "FixedBatches",
    "schedules.GeometricBatches": "GeometricBatches",
}


@dataclass(frozen=True, kw_only=True)
class Running:
    """A channel: batches released, the estimate so far, the state of a stream."""

    batches: int
    estimate: Estimate
    stream: Any = None


@dataclass(frozen=True, kw_only=True)
class State:
    """Of LinUCB."""

    running: Running
    repairs: Ints


@dataclass(frozen=True, kw_only=True)
class AnytimeState:
    """Of an anytime policy."""

    phase: int
    inner: State
    repairs: Ints


OLDER_KINDS: dict[str, type] = {"Running": Running, "State": State, "AnytimeState": AnytimeState}


def current(note: Mapping[str, Any], policy: Policy[Any]) -> dict[str, Any]:
    """What a save or a note of a journal holds of the progress, as it is written now."""
    state = note["state"]
    if not isinstance(state, State | AnytimeState):
        return dict(note)
    demand(isinstance(policy, RunningSums), "the state of another policy")
    assert isinstance(policy, RunningSums)
    phase = state.phase if isinstance(state, AnytimeState) else 0
    running = (state.inner if isinstance(state, AnytimeState) else state).running
    batches, total = running.batches, running.estimate.total
    demand(np.shape(total) == (policy.domain.dim,), "a state of other features")
    closed = note["closed"]
    return dict(note) | {
        "state": policy.restored(phase, total, batches, np.asarray(state.repairs)),
        "streams": {} if running.stream is None else {phase: running.stream},
        "forgot": {},
        "begin": begin_of(policy, closed),
        "asked": 0,
        "released": closed if policy.privacy.noisy else 0,
        "closed": closed,
        "reports": begin_of(policy, closed),
    }


def begin_of(policy: RunningSums[Any], closed: int) -> int:
    """The first decision after so many batches."""
    begin = 0
    for phase in policy.phases():
        sizes = phase.channel.sizes
        if closed <= len(sizes):
            return begin + int(sizes.before(closed))
        begin, closed = begin + sizes.users, closed - len(sizes)
        demand(policy.horizon is None or closed <= 1, "more batches than were planned")
        if policy.horizon is not None:
            return policy.horizon
    return begin
