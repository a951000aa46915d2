"""Servers that several tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .running import Running, running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(scope="module")
def tight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    limits = {
        "body": 1000,
        "head": 4000,
        "memory": 20_000,
        "uploads": 4,
        "others": 4,
        "seconds": 1.5,
        "idle": 1,
        "drain": 2,
    }
    with running(tmp_path_factory.mktemp("tight"), limits=limits) as server:
        yield server
