"""The classes that a save or a publication may contain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any

from bandanna.device.linear_report import InterceptReport, LinearReport, PerArmReport
from bandanna.numeric.exact_sums import Sizes
from bandanna.policies.algorithm import ALGORITHMS
from bandanna.policies.base import Played, Policy
from bandanna.policies.registry import OTHERS
from bandanna.protocols.factory import PROTOCOLS
from bandanna.protocols.running_sum import Channel
from bandanna.storage.encoding import Encoding, by_name
from bandanna.storage.files import Saves

# Everything that an agent's save may contain, by stored name: policies and their states, protocols and theirs.


@lru_cache(maxsize=64)
def encoding_of(*own: type[Policy[Any]]) -> Encoding:
    """For the policies of the catalogue and those given."""
    kinds = PROTOCOLS | by_name(LinearReport, InterceptReport, PerArmReport, Channel, Sizes)
    policies: list[type[Policy[Any]]] = [*(each.kind for each in ALGORITHMS.values()), *OTHERS, *own]
    for policy in policies:
        kinds |= policy.kinds()
    return Encoding(kinds)


def saves_of(*own: type[Policy[Any]]) -> Saves:
    """Of agents with these policies."""
    return Saves(noun="agent", version=1, encoding=encoding_of(*own))


ENCODING = encoding_of()


# Rows of users as files hold them.


def as_columns(played: Played) -> dict[str, Any]:
    """Rows as a file holds them."""
    return {each.name: value for each in fields(played) if (value := getattr(played, each.name)) is not None}


def from_columns(columns: Mapping[str, Any]) -> Played:
    """The inverse of `as_columns`."""
    return Played(**columns)
