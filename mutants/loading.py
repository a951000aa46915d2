"""What is loaded: all that is not ours, once and before; and a module with another tree than that of its file."""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from types import CodeType
from typing import Any

LOADED = "ignore::pytest.PytestAssertRewriteWarning"  # hypothesis, by `warm_up`
QUIET = ["-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", LOADED]
_HEAVY = (
    "numpy",
    "scipy.special",
    "scipy.stats",
    "scipy.optimize",
    "hypothesis",
    "mpmath",
    "dp_accounting.pld.privacy_loss_distribution",
)


def warm_up() -> None:
    """Import what tests import, once for all mutants; nothing of ours, which a mutant may change."""
    for name in _HEAVY:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    ours = [name for name in sys.modules if name.partition(".")[0] == "bandanna"]
    if ours:
        raise RuntimeError(f"loaded before any mutant: {', '.join(ours)}")


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles a changed tree instead of the file."""

    def __init__(self, fullname: str, path: str, tree: ast.Module) -> None:
        super().__init__(fullname, path)
        self.tree = tree

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.tree, self.path, "exec", dont_inherit=True)


class Finder(importlib.abc.MetaPathFinder):
    """Finds one module, with a mutant in it."""

    def __init__(self, file: Path, source: Path, tree: ast.Module) -> None:
        parts = file.relative_to(source).with_suffix("").parts
        self.package = parts[-1] == "__init__"
        self.name = ".".join(parts[:-1] if self.package else parts)
        self.file, self.tree = str(file), tree

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """Of that module only."""
        if fullname != self.name:
            return None
        loader = _Loader(fullname, self.file, self.tree)
        inside = [str(Path(self.file).parent)] if self.package else None
        return importlib.util.spec_from_file_location(
            fullname, self.file, loader=loader, submodule_search_locations=inside
        )
