"""Files, databases and typed JSON."""

from __future__ import annotations
