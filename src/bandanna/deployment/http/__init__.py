"""Shared parts of the roles' HTTP services. Needs the extra `serve`."""

from __future__ import annotations

import importlib.util

from bandanna.errors import MissingExtra

if any(importlib.util.find_spec(name) is None for name in ("prometheus_client", "starlette", "uvicorn")):
    raise MissingExtra("serve", "serving a role")
