"""Policies for linear contextual bandits."""

from __future__ import annotations
