"""What every served role has in common (extra `serve`): routes, uploads, limits, errors, metrics, logs, shutdown.

A role is an `application(...)`, run by `serve(...)`. Handlers raise `Refused`, put what blocks into `in_thread`, and
read a client's JSON by `json_of`; `safe()` marks errors whose message may be sent.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from bandanna.errors import MissingExtra
from bandanna.roles.serving.bodies import json_of
from bandanna.roles.serving.doors import name_of
from bandanna.roles.serving.knowing import known_by
from bandanna.roles.serving.limits import Limits
from bandanna.roles.serving.log import Log
from bandanna.roles.serving.metrics import Metrics
from bandanna.roles.serving.places import Bell
from bandanna.roles.serving.refusals import Mistake, Refused, safe
from bandanna.roles.serving.responses import canonical
from bandanna.roles.serving.routing import Handler, Route, Upload
from bandanna.roles.serving.threads import in_thread

if TYPE_CHECKING:
    from bandanna.roles.serving.app import Application, application
    from bandanna.roles.serving.responses import json_response
    from bandanna.roles.serving.server import serve

__all__ = [
    "application",
    "serve",
    "json_response",
    "json_of",
    "canonical",
    "in_thread",
    "known_by",
    "name_of",
    "safe",
    "Refused",
    "Mistake",
    "Limits",
    "Metrics",
    "Log",
    "Bell",
    "Application",
    "Handler",
    "Route",
    "Upload",
]

_HOMES = {  # of what needs the extra
    "application": "app",
    "Application": "app",
    "json_response": "responses",
    "serve": "server",
}
_NEEDED = frozenset({"starlette", "uvicorn", "uvloop", "httptools"})


def __getattr__(name: str) -> Any:
    """Load what needs the extra when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in _NEEDED:
            raise MissingExtra("serve", "serving a role") from None
        raise
    globals()[name] = value
    return value
