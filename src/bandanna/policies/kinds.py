"""The values that a policy consists of, its states and snapshots, by name: what a save may hold of it."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import lru_cache
from typing import Any

from bandanna.policies.base import Policy


@lru_cache(maxsize=256)
def kinds_of(policy: type[Policy[Any]]) -> dict[str, type]:
    """The class of a policy, that of its states, and all that their fields may hold, by module and name."""
    found: dict[str, type] = {}
    waiting: list[type] = [policy, *_state_of(policy)]
    while waiting:
        kind = waiting.pop()
        if kind in found.values() or not is_dataclass(kind):
            continue
        found[name_of(kind)] = kind
        waiting += [one for hint in typing.get_type_hints(kind).values() for one in _classes(hint)]
    return found


def name_of(kind: type) -> str:
    """Where it is defined, within the policies of this package without their folder."""
    return f"{kind.__module__.removeprefix('bandanna.policies.')}:{kind.__qualname__}"


def _state_of(policy: type) -> Iterator[type]:
    """What a policy's bases are told about its states: the S of Policy[S]."""
    for base in policy.__mro__:
        for told in getattr(base, "__orig_bases__", ()):
            yield from (kind for kind in typing.get_args(told) if isinstance(kind, type))


def _classes(hint: Any) -> Iterator[type]:
    """The dataclasses in a hint, and those made from them."""
    if isinstance(hint, type) and not typing.get_args(hint):
        yield hint
        made_from: list[type] = hint.__subclasses__() if hint.__module__.startswith("bandanna.") else []
        for below in made_from:
            yield from _classes(below)
    for inside in typing.get_args(hint):
        yield from _classes(inside)
