"""Fixtures that open databases of both dialects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bandanna.storage.database.base import Database, open_database

from ...postgres import server

TABLE = "create table things (id {serial}, whole {bigint}, body {blob}, real {real}, word text unique)"
Opening = Callable[..., Database]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'things.db'}" if request.param == "sqlite" else server().fresh()


@pytest.fixture
def opened(url: str) -> Iterator[Opening]:
    """Return a function that opens the database at `url`; all are closed at the end."""
    made: list[Database] = []

    def opening(schema: str = TABLE, role: str = "things") -> Database:
        made.append(open_database(url, role=role, schema=schema))
        return made[-1]

    yield opening
    for one in made:
        one.close()


@pytest.fixture
def database(opened: Opening) -> Database:
    return opened()
