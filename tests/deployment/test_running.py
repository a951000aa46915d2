"""Starting all roles of a task."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

import bandanna as bd
from bandanna.deployment.processes import check_loopback, port_in_task, serve_all
from bandanna.errors import BandannaError, InvalidArgument

from .test_processes import on_disk


def test_a_port_that_is_taken_is_said_before_anything_starts(tmp_path: Path) -> None:
    policy = bd.LinTS(dim=2, horizon=64, batch=32, privacy=bd.shuffle(epsilon=4.0, delta=1e-4))
    task, _ = on_disk(policy, tmp_path, mixers=1, seed=None)
    said: list[str] = []
    with socket.create_server(("127.0.0.1", port_in_task(task, "analyzer"))), pytest.raises(BandannaError) as refused:
        serve_all(task, tmp_path, database=None, host="127.0.0.1", say=said.append)
    assert f"the analyzer cannot listen on 127.0.0.1:{port_in_task(task, 'analyzer')}" in str(refused.value)
    assert said == []
    assert list(tmp_path.glob("*.db")) == []


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.0.1", "::", "example.org"])
def test_plain_http_beyond_this_machine_needs_a_flag(host: str) -> None:
    with pytest.raises(InvalidArgument, match="--plain-http"):
        check_loopback("--host", host)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.8.8.8"])
def test_plain_http_within_this_machine_needs_no_flag(host: str) -> None:
    check_loopback("--host", host)
