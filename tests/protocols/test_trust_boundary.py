"""Devices run no mixer or analyzer code, mixers no device or analyzer code, analyzers no device code.

Read from the source, without running it: a definition reaches every definition of `bandanna.protocols` and
`bandanna.device` that it names, and what those reach.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import bandanna

PACKAGES = ("bandanna.protocols", "bandanna.device")
ROLE_CLASSES = {
    "bandanna.device.base.Device": "randomizer",
    "bandanna.protocols.mixers.Mixer": "mixer",
    "bandanna.protocols.mixers.Analyzer": "analyzer",
}
ROLE_HEADINGS = {"# Randomizer": "randomizer", "# Mixer": "mixer", "# Analyzer": "analyzer"}  # and their plurals
FORBIDDEN = {"randomizer": ("mixer", "analyzer"), "mixer": ("randomizer", "analyzer"), "analyzer": ("randomizer",)}
SHARED = {"bandanna.device.randomizers.level_source"}  # names a level's stream, from which `noise="mixer"` draws too


@dataclass(frozen=True)
class Definition:
    """A top-level class or function: its role, if it has one, and the definitions that it names."""

    role: str | None
    names: frozenset[str]


@dataclass
class Module:
    """What a module defines, imports, and puts below the heading of a role."""

    nodes: dict[str, ast.ClassDef | ast.FunctionDef] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)
    headings: dict[str, str] = field(default_factory=dict)


def parse_module(name: str, source: str) -> Module:
    module, tree = Module(), ast.parse(source)
    headings = [(number, line) for number, line in enumerate(source.splitlines(), start=1) if line.startswith("# ")]
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                module.imports[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            module.nodes[node.name] = node
            above = [line for number, line in headings if number < node.lineno]
            role = ROLE_HEADINGS.get(above[-1].removesuffix("s")) if above else None
            if role is not None and name.startswith("bandanna.protocols."):
                module.headings[node.name] = role
    return module


def named_definitions(name: str, module: Module, node: ast.AST) -> frozenset[str]:
    """Return the full names of everything in the two packages that a node names."""
    found = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            if part.id in module.nodes:
                found.add(f"{name}.{part.id}")
            elif part.id in module.imports:
                found.add(module.imports[part.id])
        elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id in module.imports:
            found.add(f"{module.imports[part.value.id]}.{part.attr}")
    return frozenset(found)


def read_definitions(sources: dict[str, str]) -> dict[str, Definition]:
    modules = {name: parse_module(name, source) for name, source in sources.items()}
    nodes = {f"{name}.{own}": (name, node) for name, module in modules.items() for own, node in module.nodes.items()}
    names = {full: named_definitions(name, modules[name], node) - {full} for full, (name, node) in nodes.items()}

    def role_of(full: str) -> str | None:
        if full in ROLE_CLASSES or full not in nodes:
            return ROLE_CLASSES.get(full)
        name, node = nodes[full]
        if isinstance(node, ast.ClassDef):
            bases = frozenset().union(*(named_definitions(name, modules[name], base) for base in node.bases))
            roles = [role for role in map(role_of, sorted(bases)) if role is not None]
            if roles:
                return roles[0]
        elif name == "bandanna.device.randomizers" and any(one.arg == "source" for one in node.args.args):
            return "randomizer"  # it draws
        return modules[name].headings.get(node.name)

    return {full: Definition(None if full in SHARED else role_of(full), found) for full, found in names.items()}


def find_breaches(definitions: dict[str, Definition]) -> list[str]:
    """Return each way by which the code of one role reaches that of another."""
    breaches = []
    for start, definition in definitions.items():
        if definition.role is None:
            continue
        ways = {start: start}
        waiting = [start]
        while waiting:
            here = waiting.pop()
            for there in sorted(definitions[here].names & definitions.keys() - ways.keys()):
                ways[there] = f"{ways[here]} -> {there}"
                waiting.append(there)
                if definitions[there].role in FORBIDDEN[definition.role]:
                    breaches.append(f"{definition.role}: {ways[there]}")
    return breaches


@pytest.fixture(scope="module")
def sources() -> dict[str, str]:
    root = Path(bandanna.__file__).parent
    files = [file for package in PACKAGES for file in (root / package.partition(".")[2]).glob("*.py")]
    return {f"bandanna.{file.parent.name}.{file.stem}": file.read_text(encoding="utf-8") for file in files}


def test_every_role_runs_its_own_code_only(sources: dict[str, str]) -> None:
    assert find_breaches(read_definitions(sources)) == []


def test_every_party_of_a_protocol_has_its_role(sources: dict[str, str]) -> None:
    definitions, roles = read_definitions(sources), {"device": "randomizer", "mixer": "mixer", "analyzer": "analyzer"}
    found = 0
    for name, source in sources.items():
        module = parse_module(name, source)
        for owner in (node for node in module.nodes.values() if isinstance(node, ast.ClassDef)):
            for part in owner.body:
                if isinstance(part, ast.FunctionDef) and part.name in roles and part.returns is not None:
                    for kind in named_definitions(name, module, part.returns):
                        assert definitions[kind].role == roles[part.name], f"{name}.{owner.name}.{part.name}: {kind}"
                        found += 1
    assert found >= 30


@pytest.mark.parametrize(
    ("code", "role"),
    [
        ("class Rogue(Analyzer):\n    def analyze(self, state):\n        return vector_device(state)\n", "analyzer"),
        ("class Rogue(Analyzer):\n    def analyze(self, state):\n        return helper(state)\n", "analyzer"),
        ("# Analyzer\n\n\ndef rogue(state):\n    return helper(state)\n", "analyzer"),
        ("class Rogue(Mixer):\n    randomizer: NoisyVector\n", "mixer"),
        ("class Rogue(Mixer):\n    def close(self, held):\n        return gaussian.ReportSumAnalyzer(held)\n", "mixer"),
        ("class Rogue(Mixer):\n    def add(self, held):\n        return encode_on_lattice(held)\n", "mixer"),
        ("class Rogue(NoisyVector):\n    def encode(self, rows):\n        return SortingMixer(rows)\n", "randomizer"),
    ],
)
def test_a_role_that_runs_the_code_of_another_is_reported(sources: dict[str, str], code: str, role: str) -> None:
    synthetic = (
        "from bandanna.device.randomizers import NoisyVector, encode_on_lattice\n"
        "from bandanna.protocols import gaussian\n"
        "from bandanna.protocols.gaussian import SortingMixer\n"
        "from bandanna.protocols.shuffle_binomial import vector_device\n"
        "from bandanna.protocols.mixers import Analyzer, Mixer\n\n\n"
        f"def helper(state):\n    return NoisyVector(state)\n\n\n{code}"
    )
    breaches = find_breaches(read_definitions({**sources, "bandanna.protocols.rogue": synthetic}))
    assert breaches
    assert all(breach.lower().startswith(f"{role}: bandanna.protocols.rogue.rogue ->") for breach in breaches)
