"""Experiments, studies and plans."""

from __future__ import annotations
