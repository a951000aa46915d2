"""Public names that a package loads when they are first used (PEP 562), and the answer to a wrong one."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any

_PACKAGES = (
    *("policies", "protocols", "privacy", "device", "mechanisms", "simulation", "data", "experiments", "agent"),
    *("audit", "environments", "features", "ope", "datasets"),
)


def load_lazily(
    package: str, names: Mapping[str, str], modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` for a package whose names are loaded at their first use.

    `names` gives the public names of each module below the package, separated by blanks; `modules` gives the place of
    each public module.
    """
    homes = {name: f"{package}.{home}" for home, defined in names.items() for name in defined.split()}
    places = {name: f"{package}.{place}" for name, place in modules.items()}
    public = sorted([*homes, *places])

    def load(name: str) -> Any:
        if name in homes:
            value = getattr(importlib.import_module(homes[name]), name)
        elif name in places:
            value = importlib.import_module(places[name])
        else:
            raise UnknownName(package, name, public)
        setattr(sys.modules[package], name, value)
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *public})

    return load, list_names, public


class UnknownName(AttributeError):
    """A name that a package does not have.

    The nearest name is found when the error is shown: `hasattr` raises it too.
    """

    def __init__(self, package: str, name: str, public: list[str]) -> None:
        super().__init__(name=name, obj=sys.modules[package])
        self._package, self._name, self._public = package, name, public

    def __str__(self) -> str:
        hint = "" if self._name.startswith("_") else self._suggest()
        return f"module {self._package!r} has no attribute {self._name!r}{'. ' * bool(hint)}{hint}"

    def _suggest(self) -> str:
        from bandanna.errors import did_you_mean, find_nearest_word

        homes = _list_names_of_packages(self._package)
        if self._name in homes:
            return f"Write bd.{homes[self._name]}"
        near, far = find_nearest_word(self._name, self._public), find_nearest_word(self._name, homes)
        if near and (near.lower() == self._name.lower() or far.lower() != self._name.lower()):
            return did_you_mean(self._name, self._public)
        return f"Did you mean bd.{homes[far]}?" if far else ""


def _list_names_of_packages(asking: str) -> dict[str, str]:
    """Return public names with their places below `bandanna`; the first package wins."""
    top = importlib.import_module("bandanna")
    found = {} if asking == "bandanna" else {name: name for name in top.__all__}
    for package in _PACKAGES:
        for name in getattr(getattr(top, package), "__all__", ()):
            found.setdefault(name, f"{package}.{name}")
    return found
