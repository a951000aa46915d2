"""Of many cases that repeat each other some are tried in `make test`, all of them in `make test-full`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def often(cases: Iterable[Any], chosen: Collection[Any]) -> list[Any]:
    """`cases` for parametrize, marked `full` but for the `chosen` ones, all of which are there."""
    listed = list(cases)
    assert all(one in listed for one in chosen)
    return [case if case in chosen else _rarely(case) for case in listed]


def _rarely(case: Any) -> Any:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.full)
