"""The registrar: who may take part, and how often. It belongs to the host's login and never sees a report."""

from __future__ import annotations

from bandanna.roles.registrar.registrar import Registrar
from bandanna.roles.registrar.tables import SCHEMA

__all__ = ["SCHEMA", "Registrar"]
