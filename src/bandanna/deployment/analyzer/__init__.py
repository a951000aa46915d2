"""The analyzer."""

from __future__ import annotations
