"""Files that are whole or not there: results and figures, which anybody may read (secrets: `storage.files`)."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable
from os import PathLike
from pathlib import Path

from bandanna.core import require
from bandanna.errors import BandannaError


def write_whole(path: str | PathLike[str], write: Callable[[Path], object]) -> None:
    """Write beside the target and rename."""
    target = require.path("path", path)
    beside = target.with_name(f".{target.name}-{secrets.token_hex(4)}.tmp")
    try:
        write(beside)
        os.replace(beside, target)
    except OSError as error:
        raise BandannaError(f"{target} cannot be written: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            beside.unlink()
