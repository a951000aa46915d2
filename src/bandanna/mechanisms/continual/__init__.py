"""Running totals of a stream, released at every step: one mechanism, streamed by a BLT or a tree."""

from __future__ import annotations

from bandanna.mechanisms.continual.blt import BLTState
from bandanna.mechanisms.continual.gaussian import ContinualGaussian, State
from bandanna.mechanisms.continual.tree import Node, TreeState

__all__ = ["BLTState", "ContinualGaussian", "Node", "State", "TreeState"]
