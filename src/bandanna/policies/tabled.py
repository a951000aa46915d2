"""Policies from tables of files, in which schedules are tables too, and values may be of a wrong type."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any

from bandanna.core.tables import inside, keys
from bandanna.policies.elsewhere import TRUSTS, is_place
from bandanna.policies.linear.explore import uniform
from bandanna.policies.linear.schedules import geometric
from bandanna.policies.registry import known_as, make
from bandanna.protocols import trust


def types_of(name: str) -> dict[str, Any]:
    """The declared types of what `make` takes for this name: arguments of the policy, and of its privacy."""
    entry = known_as(name)
    models = TRUSTS if is_place(name) else (entry.trust.partition(" ")[0],)  # "concurrent shuffle"
    hints = {each: hint for model in models for each, hint in typing.get_type_hints(getattr(trust, model)).items()}
    return {**hints, **typing.get_type_hints(entry.kind), "trust": str}


def make_from(table: str, name: str, arguments: Mapping[str, Any]) -> Any:
    """`make`, where `batch` and `explore` may be tables; errors name the table that the arguments are from."""
    chosen = dict(arguments)
    if isinstance(chosen.get("batch"), Mapping):
        given = keys(chosen["batch"], f"{table}.batch", ("first", "ratio"), needed=("first", "ratio"))
        with inside(f"{table}.batch."):
            chosen["batch"] = geometric(**given)
    if isinstance(chosen.get("explore"), Mapping):
        given = keys(chosen["explore"], f"{table}.explore", ("first", "then"))
        with inside(f"{table}.explore."):
            chosen["explore"] = uniform(**given)
    with inside(f"{table}."):
        return make(name, **chosen)
