"""Collectors of both databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ...postgres import server
from .batches import Collecting

Made = Callable[..., Collecting]


@pytest.fixture(params=["sqlite", "postgres"])
def collecting(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Made]:
    made: list[Collecting] = []

    def make(**how: Any) -> Collecting:
        url = str(tmp_path / "rows.db") if request.param == "sqlite" else server().fresh()
        made.append(Collecting(url, **how))
        return made[-1]

    yield make
    for each in made:
        each.database.close()
