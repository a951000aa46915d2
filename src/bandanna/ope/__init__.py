"""Off-policy evaluation: what a policy would earn, from a log of what another one did - private in any trust model."""

from __future__ import annotations

from bandanna.ope.comparison import Comparison, compare
from bandanna.ope.estimators import ips, snips
from bandanna.ope.model import RewardModel, reward_model
from bandanna.ope.overlap import overlap
from bandanna.ope.robust import dm, dr, switch
from bandanna.ope.value import Value

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
