"""Policies for generalised linear bandits, and their models."""

from __future__ import annotations
