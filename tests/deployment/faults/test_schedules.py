"""Nothing lost, nothing twice: kills at named points, lost calls, full disks and clocks that jump, in any order."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from .machine import KINDS, Schedule

SCHEDULES = int(os.environ.get("SCHEDULES", "200"))  # of every kind


def run(kind: str, schedules: int, *, postgres: bool = False) -> None:
    """So many schedules of a kind of task."""
    machine = type("Schedule", (Schedule,), {"kind": kind, "postgres": postgres})
    chosen = settings(
        max_examples=schedules,
        stateful_step_count=20,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate,),  # a schedule is short enough as it is, and shrinking it takes minutes
    )
    run_state_machine_as_test(machine, settings=chosen)


@pytest.mark.parametrize("kind", KINDS)
def test_some_schedules(kind: str) -> None:
    """A kill or a lost call loses an acknowledged report, counts one twice, releases a batch twice, or stops a task."""
    run(kind, 3)


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_many_schedules(kind: str) -> None:
    """The same, of the rarer schedules."""
    run(kind, SCHEDULES)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["central", "two mixers"])
def test_schedules_on_postgres(kind: str) -> None:
    """The same, with PostgreSQL."""
    run(kind, SCHEDULES // 4, postgres=True)
