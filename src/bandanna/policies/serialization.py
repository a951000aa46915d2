"""The classes that a save or a publication may contain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any

from bandanna.device.linear_report import InterceptReport, LinearReport, PerArmReport
from bandanna.numeric.exact_sums import RunLengthSizes
from bandanna.policies.algorithm import ALGORITHMS
from bandanna.policies.base import PlayedRounds, Policy
from bandanna.policies.registry import UNLISTED_POLICIES
from bandanna.protocols.factory import PROTOCOLS
from bandanna.protocols.running_sum import RunningSumProtocol
from bandanna.storage.encoding import Encoding, index_by_stored_name
from bandanna.storage.files import SaveFormat

# Everything that an agent's save may contain, by stored name: policies and their states, protocols and theirs.


@lru_cache(maxsize=64)
def make_encoding(*own: type[Policy[Any]]) -> Encoding:
    """For the policies of the catalogue and those given."""
    kinds = PROTOCOLS | index_by_stored_name(
        LinearReport, InterceptReport, PerArmReport, RunningSumProtocol, RunLengthSizes
    )
    policies: list[type[Policy[Any]]] = [*(each.kind for each in ALGORITHMS.values()), *UNLISTED_POLICIES, *own]
    for policy in policies:
        kinds |= policy._stored_classes()
    return Encoding(kinds)


def make_save_format(*own: type[Policy[Any]]) -> SaveFormat:
    """Of agents with these policies."""
    return SaveFormat(noun="agent", version=1, encoding=make_encoding(*own))


ENCODING = make_encoding()


# Rows of users as files hold them.


def columns_from_played(played: PlayedRounds) -> dict[str, Any]:
    """Rows as a file holds them."""
    return {each.name: value for each in fields(played) if (value := getattr(played, each.name)) is not None}


def played_from_columns(columns: Mapping[str, Any]) -> PlayedRounds:
    """The inverse of `columns_from_played`."""
    return PlayedRounds(**columns)
