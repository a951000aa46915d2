"""Off-policy evaluation of logs, private or not."""

from __future__ import annotations

from bandanna.data.ope.comparison import Comparison, compare
from bandanna.data.ope.estimators import RewardModel, dm, dr, ips, overlap, reward_model, snips, switch
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
