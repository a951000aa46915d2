"""Settings of all tests: the same examples in every run, and a calibration cache of their own."""

from __future__ import annotations

import gc
import inspect
import os
import tempfile
from functools import cache

import pytest
import typer.testing
from hypothesis import HealthCheck, settings

from . import drawn

# Fixed examples and no clocks: a test's verdict depends on the code alone, not on the day or the machine's load.
settings.register_profile("bandanna", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("bandanna")

# Commands are built once for all their tests, as `bandanna.cli.main` does it: Typer would for every single one.
typer.testing._get_command = cache(typer.main.get_command)  # type: ignore[attr-defined]


def pytest_configure(config: pytest.Config) -> None:
    """Point the cache to a directory of this run before any test module is imported: the user's is never touched.

    Workers inherit it: what one of them has searched for, the others read, and check against its budget.
    """
    drawn.LONG[0] = "not full" not in config.option.markexpr
    if hasattr(config, "workerinput"):
        return
    cache = tempfile.TemporaryDirectory(prefix="bandanna-tests-")
    before = os.environ.get("BANDANNA_CACHE")
    os.environ["BANDANNA_CACHE"] = cache.name

    def restore() -> None:
        if before is None:
            del os.environ["BANDANNA_CACHE"]
        else:
            os.environ["BANDANNA_CACHE"] = before
        cache.cleanup()

    config.add_cleanup(restore)


def pytest_collection() -> None:
    """Collect no garbage while tests are collected, which takes a quarter of the time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Freeze the collected tests, so that no collection visits them."""
    gc.freeze()
    gc.enable()


def _repeats_others(item: pytest.Item) -> bool:
    """Return whether `often` does not select this case."""
    for mark in item.iter_markers("often"):
        chosen, values = mark.kwargs["when"], item.callspec.params  # type: ignore[attr-defined]
        if not chosen(**{name: values[name] for name in inspect.signature(chosen).parameters}):
            return True
    return False


def pytest_itemcollected(item: pytest.Item) -> None:
    if _repeats_others(item):
        item.add_marker(pytest.mark.full)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest tests first, so that no worker waits at the end."""
    long = (
        "docs/test_examples",
        "deploy/test_page",
        "deployment/test_processes",
        "faults/test_kills",
        "test_demo_deployed",
    )
    items.sort(key=lambda item: next((n for n, name in enumerate(long) if name in item.nodeid), len(long)))
