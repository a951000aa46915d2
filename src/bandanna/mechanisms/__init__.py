"""Mechanisms: a sampler and the event that it states."""

from __future__ import annotations
