"""Hooks of mkdocs: the version below every page, and no script from elsewhere."""

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


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Replace the theme's script from elsewhere, which lets the search work from disk, by our own."""
    return _replace_foreign_script(output, "../" * page.url.count("/"))


def on_post_template(output: str, template_name: str, config: Any) -> str:
    """Do the same for the page that servers show for unknown addresses."""
    return _replace_foreign_script(output, "/")


def _replace_foreign_script(output: str, root: str) -> str:
    return re.sub(r'(<script src=")https://[^"]*iframe-worker[^"]*', rf"\1{root}assets/worker-from-disk.js", output)
