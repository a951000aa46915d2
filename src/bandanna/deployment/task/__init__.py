"""A policy as a task of a deployment."""

from __future__ import annotations
