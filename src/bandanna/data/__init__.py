"""Feature maps, logs, replay, off-policy evaluation and data sets."""

from __future__ import annotations
