"""Nothing lost, nothing twice: kills at named points, lost calls, full disks and clocks that jump, in any order."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from .machine import KINDS, Schedule

SCHEDULES = int(os.environ.get("SCHEDULES", "200"))  # of every kind


def run(kind: str, schedules: int, *, postgres: bool = False) -> None:
    machine = type("Schedule", (Schedule,), {"kind": kind, "postgres": postgres})
    chosen = settings(
        max_examples=schedules,
        stateful_step_count=20,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate,),  # a schedule is short enough as it is, and shrinking it takes minutes
    )
    run_state_machine_as_test(machine, settings=chosen)


@pytest.mark.parametrize("kind", KINDS)
def test_kills_and_lost_calls_lose_and_repeat_nothing(kind: str) -> None:
    run(kind, 3)


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
def test_rare_kills_and_lost_calls_lose_and_repeat_nothing(kind: str) -> None:
    run(kind, SCHEDULES)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["central", "two mixers"])
def test_kills_and_lost_calls_lose_and_repeat_nothing_on_postgres(kind: str) -> None:
    run(kind, SCHEDULES // 4, postgres=True)
