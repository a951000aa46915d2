"""By which certificates other roles are known."""

from __future__ import annotations

import ssl
from pathlib import Path

from bandanna.errors import InvalidArgument


def known_by(trust: Path) -> ssl.SSLContext:
    """Those of a file, beside the system's."""
    try:
        return ssl.create_default_context(cafile=str(trust))
    except OSError as error:  # an SSLError is one
        raise InvalidArgument("trust", trust, "a readable file of PEM certificates") from error
