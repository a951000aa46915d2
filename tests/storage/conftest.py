"""Fixtures that open databases of both dialects."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bandanna.storage.database.base import Database, open_database

from ..postgres import server

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


_BEGINNING = """
import sys
from bandanna.storage.database.base import Database, StorageError
from bandanna.storage.database.base import open_database
from bandanna.errors import BandannaError
def tell(word):
    print(word, flush=True)
def wait():
    sys.stdin.readline()
def database(url=sys.argv[1]):
    return open_database(url, role="things", schema=sys.argv[2])
"""


class Other:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        self.process.communicate()
        assert self.process.returncode == 0


@contextmanager
def running(program: str, url: str, schema: str, **options: Any) -> Iterator[Other]:
    """Run a program with the helpers `database()`, `tell(word)` and `wait()`."""
    process = subprocess.Popen(
        [sys.executable, "-c", _BEGINNING + program, url, schema],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )
    with process:
        try:
            yield Other(process)
        finally:
            process.kill()
