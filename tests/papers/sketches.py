"""Figures of many files of which only the first of each kind is rendered: files like it take most of a test's time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bandanna.figures import axes

from .. import drawn


def sketch(monkeypatch: pytest.MonkeyPatch, *, but: str = "/") -> None:
    """Render the first PNG, the first SVG, and SVGs whose name has `but` in it; in the long tests, all."""
    if drawn.LONG[0]:
        return
    save, rendered = axes.save_figure, set[str]()

    def sketched(figure: Any, path: Path) -> None:
        kind = path.suffix
        if kind not in rendered or (kind == ".svg" and but in path.name):
            rendered.add(kind)
            save(figure, path)
        else:
            path.write_text("a sketch", encoding="utf-8")

    monkeypatch.setattr(axes, "save_figure", sketched)
