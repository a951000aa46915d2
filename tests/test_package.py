"""What a user gets by installing and importing the package."""

from __future__ import annotations

import importlib.metadata
import importlib.resources
import subprocess
import sys

import pytest

import bandanna

HEAVY = ("opendp", "matplotlib", "dp_accounting", "scipy")


def test_import_is_light() -> None:
    """`import bandanna` loads a library that only some users need."""
    code = f"import sys, bandanna; print(*[name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_policies_load_what_they_need() -> None:
    """Every process of the command line and of a deployment loads statistics and optimisers of scipy, for a second."""
    slow = ("scipy.stats", "scipy.optimize", "scipy.signal")
    code = f"import sys, bandanna.policies.registry; print(*[name for name in {slow} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_version_is_the_installed_one() -> None:
    """`bandanna.__version__` and the version that pip shows differ."""
    assert bandanna.__version__ == importlib.metadata.version("bandanna")


def test_every_public_name_resolves() -> None:
    """A name in `bandanna.__all__` is announced twice, or is not there."""
    assert len(set(bandanna.__all__)) == len(bandanna.__all__)
    missing = [name for name in bandanna.__all__ if not hasattr(bandanna, name)]
    assert missing == []


def test_public_names_are_listed() -> None:
    """`dir(bandanna)`, and so completion at a prompt, hides a public name that is loaded on first use."""
    assert set(bandanna.__all__) <= set(dir(bandanna))


def test_unknown_name_is_an_attribute_error() -> None:
    """A misspelt name gives something else than Python's usual error."""
    assert not hasattr(bandanna, "no_such_name")


def test_types_are_shipped() -> None:
    """Type checkers ignore the package's annotations, because its marker file is missing."""
    assert importlib.resources.files("bandanna").joinpath("py.typed").is_file()


def test_command_is_installed() -> None:
    """The command `bandanna` is not installed, or points to something that cannot be called."""
    (command,) = importlib.metadata.entry_points(group="console_scripts", name="bandanna")
    assert callable(command.load())


def test_a_misspelt_name_has_a_neighbour() -> None:
    """The interpreter does not know what `bandanna.shufle` is near to."""
    with pytest.raises(AttributeError, match="shufle") as caught:
        bandanna.shufle  # noqa: B018
    assert (caught.value.name, caught.value.obj) == ("shufle", bandanna)
    assert "shuffle" in dir(bandanna)


@pytest.mark.parametrize(("name", "meant"), [("LinTs", "LinTS"), ("shufle", "shuffle"), ("Simulate", "simulate")])
def test_a_misspelt_name_is_answered_with_the_nearest(name: str, meant: str) -> None:
    """Where the interpreter does not print the error itself, as in notebooks, nobody says which name is meant."""
    with pytest.raises(AttributeError, match=f"no attribute '{name}': did you mean '{meant}'"):
        getattr(bandanna, name)
    with pytest.raises(AttributeError, match=r"no attribute 'quaternion'$"):
        bandanna.quaternion  # noqa: B018
