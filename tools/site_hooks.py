"""Hooks of mkdocs: the version below every page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "bandanna" / "__init__.py"


def read_version() -> str:
    """Return the version of the package in this repository."""
    found = re.search(r'^__version__ = "([^"]+)"', PACKAGE.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise LookupError(f"{PACKAGE} has no __version__")
    return found[1]


def on_config(config: Any) -> Any:
    """Write the version into the footer."""
    config.copyright = config.copyright.replace("VERSION", read_version())
    return config
