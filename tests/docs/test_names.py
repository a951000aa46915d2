"""Names that the documentation gives exist: modules, classes, functions, attributes and files."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "bandanna"
MAPS = [ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md")]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *MAPS, *sorted((ROOT / "docs").rglob("*.md"))]
FOLDERS = ("benchmarks", "clients", "deploy", "examples", "mutants", "reproductions", "src", "tests")
FILES = {
    "d",
    "db",
    "git",
    "mjs",
    "toml",
}  # bandanna.git, bandanna.d.ts, ...: what stands behind the dot of a file's name

DOTTED = re.compile(r"(?<![\w./-])(?:bandanna|bd)(?:\.[A-Za-z_]\w*)+")
CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(rf"(?<![\w./<*-])(?:{'|'.join(FOLDERS)})/[\w./-]*\w")
MODULE = re.compile(r"(?<![\w./*-])[\w/]+\.py\b")
DEFINED = re.compile(r"@?([A-Za-z]\w*(?:\.\w+)?)(?:\(.*\))?")
FENCED = re.compile(r"^([ \t]*)(```|~~~).*?^\1\2", re.MULTILINE | re.DOTALL)
BUILT = {"clients/js/dist/bandanna.mjs", "clients/js/dist"}  # by `make client`

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
each_map = pytest.mark.parametrize("page", MAPS, ids=lambda page: page.name)


@cache
def exists(dotted: str) -> bool:
    """Tell whether a dotted name can be imported or is an attribute, or a field, of what can be."""
    parts = dotted.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for name in parts[count:]:
            if dataclasses.is_dataclass(found) and name in {each.name for each in dataclasses.fields(found)}:
                return True
            if not hasattr(found, name):
                return False
            found = getattr(found, name)
        return True
    return False


def code(page: Path) -> Iterator[str]:
    """List what a page shows as code inside of sentences and tables."""
    return iter(CODE.findall(FENCED.sub("", page.read_text(encoding="utf-8"))))


@cache
def definitions() -> dict[str, set[str]]:
    """Return the classes of the package with their members, and its functions and constants without any."""
    found: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                methods = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
                found.setdefault(node.name, set()).update(methods)
            elif isinstance(node, ast.FunctionDef):
                found.setdefault(node.name, set())
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for name in (each.id for each in targets if isinstance(each, ast.Name)):
                    found.setdefault(name, set())
    return found


def test_a_name_that_is_gone_is_found() -> None:
    assert exists("bandanna.policies.base.SumQuery.protocol")
    assert exists("bandanna.privacy.ledger.Ledger.release")
    for gone in ("bandanna.policies.base.Ask", "bandanna.privacy.ledger.Ledger.gone", "bandanna.accounting"):
        assert not exists(gone)


@each_page
def test_dotted_names_resolve(page: Path) -> None:
    """Every `bandanna.x.y` and `bd.x.y` of a page can be imported."""
    dotted = set(DOTTED.findall(page.read_text(encoding="utf-8")))
    names = {re.sub(r"^bd\.", "bandanna.", each) for each in dotted if each.split(".")[1] not in FILES}
    assert [each for each in sorted(names) if not exists(each)] == []


@each_page
def test_paths_lead_to_files(page: Path) -> None:
    """Every file or folder of the repository that a page names is there."""
    paths = {path for each in code(page) for path in PATH.findall(each)} - BUILT
    assert [each for each in sorted(paths) if not ((ROOT / each).exists() or (ROOT / "tests" / each).exists())] == []


@each_map
def test_modules_are_there(page: Path) -> None:
    """Every module that ARCHITECTURE.md and CONTRIBUTING.md name is in the package or in the repository."""
    stems = {path.name for path in SOURCE.rglob("*.py")} | {path.name for path in (ROOT / "tests").rglob("*.py")}
    lost = [
        path
        for each in code(page)
        for path in MODULE.findall(each)
        if not ((ROOT / path).exists() or (SOURCE / path).exists() or ("/" not in path and path in stems))
    ]
    assert set(lost) <= {"utils.py", "factors.py"}  # of which there are none, and tests/*/test_*factors.py


@each_map
def test_classes_and_methods_are_defined(page: Path) -> None:
    known, lost = definitions(), []
    for each in code(page):
        if (match := DEFINED.fullmatch(each)) is None:
            continue
        name, _, member = match[1].partition(".")
        if not re.search(r"[a-z][A-Z]|^[A-Z][a-z]", name) or hasattr(builtins, name):
            continue
        if name not in known or (member and member not in known[name]):
            lost.append(match[1])
    assert lost == []
