"""What a command needs beyond the core: all of it is asked for at once, before it begins."""

from __future__ import annotations

import sys
from importlib.util import find_spec

SERVE = ("cryptography", "httpx", "starlette", "uvicorn")  # of the extra `serve`


def need_serve(command: str) -> None:
    """Whoever makes, runs or watches a deployment needs the whole extra, not only what is missed first."""
    from bandanna.errors import MissingExtra

    if not all(map(_there, SERVE)):
        raise MissingExtra("serve", f"`bandanna {command}`")


def _there(module: str) -> bool:
    return sys.modules[module] is not None if module in sys.modules else find_spec(module) is not None
