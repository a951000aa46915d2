"""Policies for finite arms."""

from __future__ import annotations
