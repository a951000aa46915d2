"""What a user gets by installing and importing the package."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.resources
import subprocess
import sys
from pathlib import Path

import pytest

import bandanna

HEAVY = ("opendp", "matplotlib", "dp_accounting", "scipy")


def test_importing_the_package_loads_no_optional_library() -> None:
    code = f"import sys, bandanna; print(*[name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_policies_load_what_they_need() -> None:
    slow = ("scipy.stats", "scipy.optimize", "scipy.signal")
    code = f"import sys, bandanna.policies.registry; print(*[name for name in {slow} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_version_is_the_installed_one() -> None:
    assert bandanna.__version__ == importlib.metadata.version("bandanna")


PACKAGES = ("agent", "data", "device", "experiments", "mechanisms", "policies", "privacy", "protocols", "simulation")


@pytest.mark.parametrize("place", ["", *PACKAGES])
def test_every_public_name_resolves(place: str) -> None:
    package = getattr(bandanna, place) if place else bandanna
    assert len(set(package.__all__)) == len(package.__all__)
    assert [name for name in package.__all__ if not hasattr(package, name)] == []
    assert set(package.__all__) <= set(dir(package))
    (branch,) = (node for node in ast.parse(Path(package.__file__).read_text()).body if isinstance(node, ast.If))
    seen = {alias.asname for node in branch.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert seen - {*PACKAGES, "deployment", "errors", "numeric"} == set(package.__all__) - set(PACKAGES)


def test_the_top_level_is_small() -> None:
    assert len(bandanna.__all__) <= 30


def test_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(bandanna, "no_such_name")


def test_type_annotations_are_shipped() -> None:
    assert importlib.resources.files("bandanna").joinpath("py.typed").is_file()


def test_the_command_is_installed() -> None:
    (command,) = importlib.metadata.entry_points(group="console_scripts", name="bandanna")
    assert callable(command.load())


def test_a_misspelt_name_has_a_neighbour() -> None:
    with pytest.raises(AttributeError, match="shufle") as caught:
        bandanna.shufle  # noqa: B018
    assert (caught.value.name, caught.value.obj) == ("shufle", bandanna)
    assert "shuffle" in dir(bandanna)


@pytest.mark.parametrize(("name", "meant"), [("LinTs", "LinTS"), ("shufle", "shuffle"), ("Simulate", "simulate")])
def test_a_misspelt_name_is_answered_with_the_nearest(name: str, meant: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}'. Did you mean '{meant}'"):
        getattr(bandanna, name)
    with pytest.raises(AttributeError, match=r"no attribute 'quaternion'$"):
        bandanna.quaternion  # noqa: B018


MOVED = {
    "bandanna": {"GOPE": "policies.GOPE", "ApproxDP": "privacy.ApproxDP", "run": "experiments.run"},
    "bandanna.policies": {"ApproxDP": "privacy.ApproxDP", "central": "central"},
}


@pytest.mark.parametrize(("place", "name", "home"), [(p, n, h) for p, names in MOVED.items() for n, h in names.items()])
def test_a_name_of_another_package_is_answered_with_its_place(place: str, name: str, home: str) -> None:
    with pytest.raises(AttributeError, match=f"^module '{place}' has no attribute '{name}'. Write bd.{home}$"):
        getattr(sys.modules[place], name)


@pytest.mark.parametrize(("name", "meant"), [("Gope", "policies.GOPE"), ("AproxDP", "privacy.ApproxDP")])
def test_a_misspelt_name_of_a_package_is_answered_with_the_nearest(name: str, meant: str) -> None:
    with pytest.raises(AttributeError, match=f"Did you mean bd.{meant}"):
        getattr(bandanna, name)
