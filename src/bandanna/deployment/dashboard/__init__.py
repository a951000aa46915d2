"""The dashboard: it verifies what the roles of deployments publish, and draws pages."""

from __future__ import annotations
