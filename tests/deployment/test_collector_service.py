"""The thread of a collector."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from bandanna.deployment.calls import RoleUnreachable
from bandanna.deployment.collector_service import CollectorThread


@pytest.mark.parametrize(("error", "logged"), [(RoleUnreachable("x"), False), (OSError("x"), True)])
def test_a_role_that_is_unreachable_for_a_moment_is_not_logged_as_an_error(error: Exception, logged: bool) -> None:
    events: list[str] = []
    failures = [error, error]

    def plan() -> None:
        if failures:
            raise failures.pop()

    collector: Any = SimpleNamespace(waiting=list, close_due=lambda: False)
    log: Any = SimpleNamespace(say=lambda event, **_: events.append(event))
    thread = CollectorThread(collector, forward=lambda _: None, plan=plan, log=log)
    thread.start()
    end = time.monotonic() + 30
    while (failures or thread.failing) and time.monotonic() < end:
        time.sleep(0.01)
    thread.stop()
    assert not failures
    assert not thread.failing
    assert events == ["step failed"] * logged
