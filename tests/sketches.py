"""Figures of which only the first of each kind is rendered, which saves most of the time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bandanna.simulation import figures
from bandanna.storage import files

from . import drawn


def sketch(monkeypatch: pytest.MonkeyPatch, *, but: str = "/") -> None:
    """Render the first PNG, the first SVG, and SVGs whose name has `but` in it; in the long tests, all."""
    if drawn.LONG[0]:
        return
    write, rendered = files.replace_file, set[str]()

    def sketched(path: Path | str, render: Callable[[Path], object]) -> None:
        kind = Path(path).suffix
        if kind in rendered and not (kind == ".svg" and but in Path(path).name):
            write(path, lambda beside: beside.write_text("a sketch", encoding="utf-8"))
        else:
            rendered.add(kind)
            write(path, render)

    monkeypatch.setattr(figures, "replace_file", sketched)
