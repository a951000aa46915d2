"""Everything that an agent's save may contain, by stored name: policies and their states, protocols and theirs."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from bandanna.core.intercept import InterceptReport
from bandanna.core.per_arm import PerArmReport
from bandanna.core.report import LinearReport
from bandanna.core.sizes import Sizes
from bandanna.policies.base import Policy
from bandanna.policies.registry import ALGORITHMS, OTHERS
from bandanna.protocols.channel import Channel
from bandanna.protocols.kinds import PROTOCOLS
from bandanna.storage.declared import by_name
from bandanna.storage.encoding import Encoding
from bandanna.storage.saves import Saves


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
