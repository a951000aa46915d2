"""The import contracts of `pyproject.toml` are kept, and each notices a breach."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BREACHES = {  # a line at the end of a file, and the contract that it breaks
    "a player knows a policy": (
        "simulation/engine.py",
        "from bandanna.policies.population import PhasedElimination",
        "no single policy",
    ),
    "an agent knows a policy": (
        "agent/episodes.py",
        "from bandanna.policies.linear.linucb import LinUCB",
        "no single policy",
    ),
    "a policy knows the simulator": (
        "policies/base.py",
        "from bandanna.simulation.result import Tally",
        "Lower layers",
    ),
    "a policy prints": ("policies/base.py", "import rich", "Only the command line"),
}


def contracts(tree: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter on a copy of the repository."""
    code = "from importlinter.cli import lint_imports_command as lint; lint(['--no-cache', '--no-logo'])"
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    return subprocess.run([sys.executable, "-c", code], cwd=tree, env=environment, capture_output=True, text=True)


def copied(folder: Path) -> Path:
    shutil.copy(ROOT / "pyproject.toml", folder)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def test_import_contracts_are_kept(tmp_path: Path) -> None:
    said = contracts(copied(tmp_path))
    assert said.returncode == 0, said.stdout


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the output for a copy with all breaches at once."""
    tree = copied(tmp_path_factory.mktemp("broken"))
    for file, line, _ in BREACHES.values():
        with (tree / "src" / "bandanna" / file).open("a", encoding="utf-8") as end:
            end.write(f"\n{line}\n")
    said = contracts(tree)
    assert said.returncode != 0, said.stderr
    return said.stdout


@pytest.mark.parametrize("breach", BREACHES)
def test_every_contract_names_a_breach(breach: str, broken: str) -> None:
    file, line, contract = BREACHES[breach]
    assert any(contract in each and "BROKEN" in each for each in broken.splitlines()), broken
    importer, imported = f"bandanna.{file[:-3].replace('/', '.')}", line.split()[1]
    _, heading, details = broken.partition("Broken contracts")[2].partition(contract)
    assert heading
    assert f"{importer} -> {imported} (" in details, broken


PROGRAM = "import json, sys, bandanna.deployment.{0}_service; print(json.dumps(sorted(sys.modules)))"
NEITHER = ("policies", "simulation", "agent", "deployment.task")
HELPER = ("deployment.helper", "deployment.helper_service")
REGISTRAR = ("deployment.registrar", "deployment.registrar_service")


@pytest.mark.parametrize(
    ("role", "forbidden"),
    [
        ("registrar", (*NEITHER, *("protocols", "mechanisms", "privacy", "device"), *HELPER)),
        ("helper", (*NEITHER, *REGISTRAR)),
    ],
)
def test_a_role_loads_only_what_it_may_know(role: str, forbidden: tuple[str, ...]) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(role)], capture_output=True, text=True, check=True)
    loaded = json.loads(done.stdout)
    assert f"bandanna.deployment.{role}_service" in loaded
    for name in forbidden:
        assert not [each for each in loaded if f"{each}.".startswith(f"bandanna.{name}.")]
