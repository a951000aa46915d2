"""Locked requirements, builds and licences of what is shipped."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = {
    "deployment": ["serve", "postgres"],
    "ci": ["test", "check", "docs", "dist", "browser", "plot", "results", "dask", "serve", "postgres"],
}


def locked_versions(name: str) -> dict[str, set[str]]:
    """The versions of each package: several where they differ by Python version or platform."""
    found: dict[str, set[str]] = {}
    for package, version in re.findall(r"^([\w.-]+)==([^\s;]+)", (ROOT / f"requirements/{name}.txt").read_text(), re.M):
        found.setdefault(package.lower().replace("_", "-"), set()).add(version)
    return found


@pytest.mark.parametrize("name", EXTRAS)
def test_locked_versions_satisfy_the_requirements_of_the_project(name: str) -> None:
    locked = locked_versions(name)
    extras = PROJECT["optional-dependencies"]
    for text in [*PROJECT["dependencies"], *(each for extra in EXTRAS[name] for each in extras[extra])]:
        wanted = Requirement(text)
        versions = locked.get(wanted.name.lower().replace("_", "-"), set())
        assert versions, f"{wanted.name} is not locked: make lock"
        assert all(wanted.specifier.contains(each) for each in versions), f"{text}: {versions}; make lock"


@pytest.mark.parametrize("name", EXTRAS)
def test_every_locked_version_has_hashes_and_no_index_is_named(name: str) -> None:
    text = (ROOT / f"requirements/{name}.txt").read_text()
    blocks = re.split(r"\n(?=\S)", text.strip())
    assert all("--hash=sha256:" in block for block in blocks if not block.startswith("#"))
    assert "http" not in re.sub(r"^\S+==", "", text, flags=re.M).replace("httpx", "").replace("httptools", "").replace(
        "httpcore", ""
    )


def test_every_package_of_the_image_has_a_licence_in_the_list() -> None:
    rows = (ROOT / "requirements/licences.md").read_text().splitlines()[2:]
    listed = {row.split("|")[1].strip().lower().replace("_", "-"): row.split("|")[3].strip() for row in rows}
    platforms = {"colorama", "tzdata", "win32-setctime"}  # of other platforms
    assert locked_versions("deployment").keys() - platforms <= listed.keys()
    assert all(listed.values())
    assert "UNKNOWN" not in listed.values()


def test_two_builds_of_wheel_and_sdist_are_the_same_bytes(tmp_path: Path) -> None:
    sums = []
    for number in range(2):
        source = tmp_path / f"copy {number}"
        names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for name in names.splitlines():
            if (ROOT / name).is_file():
                (source / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, source / name)
                os.utime(source / name, (number * 1e6 + 1, number * 1e6 + 1))
        (source / ".git").mkdir()
        arguments = [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path / f"dist{number}")]
        subprocess.run(arguments, cwd=source, check=True, capture_output=True)
        built = sorted((tmp_path / f"dist{number}").iterdir())
        sums.append({path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in built})
    assert len(sums[0]) == 2
    assert sums[0] == sums[1]


def test_the_classifiers_name_the_lowest_supported_python() -> None:
    assert (
        f"Programming Language :: Python :: {PROJECT['requires-python'].removeprefix('>=')}" in PROJECT["classifiers"]
    )
    assert metadata.version("bandanna") == PROJECT["version"]
