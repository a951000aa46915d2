"""Off-policy evaluation: the value of a policy on logged decisions, with or without privacy."""

from __future__ import annotations

from bandanna.data.ope.estimators import (
    Comparison,
    RewardModel,
    compare,
    dm,
    dr,
    ips,
    overlap,
    reward_model,
    snips,
    switch,
)
from bandanna.data.ope.intervals import Value

__all__ = [
    "Comparison",
    "RewardModel",
    "Value",
    "compare",
    "dm",
    "dr",
    "ips",
    "overlap",
    "reward_model",
    "snips",
    "switch",
]
