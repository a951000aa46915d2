"""Roles of a deployment: each folder is a process that others need not trust; `serving` is what all of them share."""

from __future__ import annotations
