"""The analyzer: a task's progress, answers to its queries, publications, and the HTTP service."""

from __future__ import annotations
