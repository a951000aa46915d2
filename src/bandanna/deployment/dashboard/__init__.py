"""The dashboard: it polls the roles of deployments, verifies what they publish, and draws pages."""

from __future__ import annotations
