"""Every paper's figures by name."""

from __future__ import annotations

import importlib

from bandanna.core import require
from bandanna.papers.common.figure import Figure

PAPERS = ("000", "001", "002", "003", "004")


def figures(paper: str) -> dict[str, Figure]:
    """Of one paper, in its order."""
    module = importlib.import_module(f"bandanna.papers.p{require.one_of('number', paper, PAPERS)}.figures")
    return {figure.name: figure for figure in module.FIGURES}
