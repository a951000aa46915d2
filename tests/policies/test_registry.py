"""Algorithms by name."""

from __future__ import annotations

import pytest

from bandanna.errors import InvalidArgument
from bandanna.policies.registry import ALGORITHMS, make

LINUCB = {
    "LinUCB": 1,
    "LinUCB-JDP": 1,
    "LinUCB-JDP-batched": 20,
    "LinUCB-LDP": 1,
    "LinUCB-LDP-batched": 89,
    "LinUCB-SDP-Amp": 36,
    "LinUCB-SDP-Vec": 36,
    "LinUCB-CSDP": 20,
}


@pytest.mark.parametrize("name", LINUCB)
def test_every_name_makes_what_it_says(name: str) -> None:
    """A LinUCB has another trust model, or another batch size, than its entry says."""
    budget = {} if name == "LinUCB" else {"epsilon": 1.0, "delta": 1e-5}
    policy = make(name, dim=2, horizon=400, **budget)
    assert policy.guarantee.trust == ALGORITHMS[name].trust
    assert policy.channel.sizes[0] == LINUCB[name]


def test_unknown_names_and_arguments() -> None:
    """A misspelt name or argument does not list what is allowed."""
    with pytest.raises(InvalidArgument, match="LinUCB-SDP-Vec"):
        make("LinUCB-SDP", dim=2, horizon=10)
    with pytest.raises(InvalidArgument, match="arguments"):
        make("LinUCB", dim=2, horizon=10, epsilon=1.0)
