"""Messages between the parties of a deployment."""

from __future__ import annotations
