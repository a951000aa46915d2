"""Players: exact accelerations of the reference player for kinds of episodes."""

from __future__ import annotations
