"""Counters under continual observation: running sums of a stream, private in every trust model."""

from __future__ import annotations

from bandanna.counters.continual_sum import ContinualSum

__all__ = ["ContinualSum"]
