"""Where a task's roles are found: each at an address of its own, and all of them said if one is elsewhere."""

from __future__ import annotations

import pytest

from bandanna.deployment.task.creation import create_task
from bandanna.errors import InvalidArgument

FILE = {
    "title": "a test",
    "algorithm": "LinUCB-SDP-Vec",
    "policy": {"dim": 2, "horizon": 400, "batch": 100, "epsilon": 1.0, "delta": 1e-5},
}


def test_two_roles_at_one_address_are_refused() -> None:
    roles = {"analyzer": "http://127.0.0.1:9001", "shuffler": "http://127.0.0.1:9001/"}
    with pytest.raises(InvalidArgument, match=r"roles\.(analyzer|shuffler).*address of its own"):
        create_task({**FILE, "roles": roles}, expect=False)


def test_an_address_that_is_left_out_is_not_guessed() -> None:
    with pytest.raises(InvalidArgument, match=r"roles\.registrar must be an address.*not on this machine, got None"):
        create_task({**FILE, "roles": {"analyzer": "https://a.example", "shuffler": "https://s.example"}}, expect=False)
