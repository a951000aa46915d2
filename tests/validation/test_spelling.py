"""Misspelt words."""

from __future__ import annotations

from typing import Any

import pytest

from bandanna.errors import did_you_mean
from bandanna.policies.registry import ALGORITHMS

KEYS = ("epsilon", "delta", "horizon", "batch", "dim", "width", "alpha")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("delat", "delta"),
        ("Epsilon", "epsilon"),
        ("eps", "epsilon"),
        ("horizont", "horizon"),
        ("alfa", "alpha"),
        ("widht", "width"),
    ],
)
def test_the_nearest_word_is_asked_for(word: str, meant: str) -> None:
    assert did_you_mean(word, KEYS) == f"Did you mean {meant!r}?"


@pytest.mark.parametrize("word", ["rho", "x", "", "participations", None, 3, ["delta"], "delta" * 10**6])
def test_what_is_not_near_is_not_asked_for(word: Any) -> None:
    assert did_you_mean(word, KEYS) == ""


def test_a_slip_in_an_algorithm_keeps_its_trust_model() -> None:
    assert did_you_mean("LinUCB-SPD", ALGORITHMS) == "Did you mean 'LinUCB-SDP-Amp'?"
    assert did_you_mean("linucb-jpd", ALGORITHMS) == "Did you mean 'LinUCB-JDP'?"
    assert did_you_mean("AdaC-UBC", ALGORITHMS) == "Did you mean 'AdaC-UCB'?"
