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
    with pytest.raises(InvalidArgument, match=r"LinUCB-SDP-Vec"):
        make("LinUCB-SDP", dim=2, horizon=10)
    with pytest.raises(InvalidArgument, match=r"epsilon = 1.0 is not allowed: LinUCB has no such argument"):
        make("LinUCB", dim=2, horizon=10, epsilon=1.0)
    with pytest.raises(
        InvalidArgument, match=r"rho = 0.1 is not allowed: SDP-DPE has no .*: it takes epsilon, delta, dim"
    ):
        make("SDP-DPE", dim=2, horizon=10, rho=0.1)
    with pytest.raises(
        InvalidArgument, match=r"delta = 1e-05 is not allowed: Laplace-DPE has no .* takes epsilon, dim"
    ):
        make("Laplace-DPE", dim=2, horizon=10, epsilon=1.0, delta=1e-5)
    with pytest.raises(InvalidArgument, match=r"alfa = 0.5 is not allowed: DPE has no .*, alpha, "):
        make("DPE", dim=2, horizon=10, alfa=0.5)
    with pytest.raises(InvalidArgument, match=r"arguments = .*missing"):
        make("DPE", dim=2)
