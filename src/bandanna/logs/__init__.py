"""Logged decisions: read from tables and files, replayed, and evaluated by `bandanna.ope`."""

from __future__ import annotations

from bandanna.logs.log import Log
from bandanna.logs.replayed import Replay
from bandanna.logs.replaying import replay

__all__ = ["Log", "Replay", "replay"]
