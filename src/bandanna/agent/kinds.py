"""Everything that an agent's save may contain, by name: policies and their states, protocols and theirs."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from bandanna.agent.older import OLDER_KINDS, RENAMED
from bandanna.core.intercept import InterceptReport
from bandanna.core.per_arm import PerArmReport
from bandanna.core.report import LinearReport
from bandanna.core.sizes import Sizes
from bandanna.errors import InvalidArgument
from bandanna.policies.base import Policy
from bandanna.policies.registry import ALGORITHMS, OTHERS
from bandanna.protocols.channel import Channel
from bandanna.protocols.kinds import OLDER, PROTOCOLS
from bandanna.storage.encoding import Encoding
from bandanna.storage.saves import Saves

_REPORTS = {"LinearReport": LinearReport, "InterceptReport": InterceptReport, "PerArmReport": PerArmReport}
_VALUES = {**PROTOCOLS, **_REPORTS, "Channel": Channel, "Sizes": Sizes}


@lru_cache(maxsize=64)
def encoding_of(*own: type[Policy[Any]]) -> Encoding:
    """For the policies of the catalogue and those given."""
    kinds: dict[str, type] = dict(_VALUES)
    policies: list[type[Policy[Any]]] = [*(each.kind for each in ALGORITHMS.values()), *OTHERS, *own]
    for policy in policies:
        for name, kind in policy.kinds().items():
            known = kinds.setdefault(RENAMED.get(name, name), kind) if kind not in kinds.values() else kind
            if known is not kind:
                raise InvalidArgument("policy", policy.__name__, f"one without a class called {name}: there is another")
    older = {
        **OLDER,
        "Channel": lambda parts: parts | ({"sizes": Sizes()} if parts["sizes"] == () else {}),  # they were a tuple
        "LinUCB": _linucb,
        **dict.fromkeys(("oful_jdp.OFULJDP", "glm_jdp.GLMJDP", "glm_sdp.GLMSDP"), _separate),
    }
    return Encoding({**OLDER_KINDS, **kinds}, older=older)


def _linucb(parts: dict[str, Any]) -> dict[str, Any]:
    """There were no coins, and "exact" was the radius of the lemma before there was a reward_centre."""
    if "reward_centre" not in parts and parts.get("confidence", "exact") == "exact":
        parts = parts | {"confidence": "lemma"}
    return {"ties": "first"} | parts


def _separate(parts: dict[str, Any]) -> dict[str, Any]:
    """Worst cases of matrix and vector were added: the noise of what was begun so stays what it was."""
    return {"pricing": "separate"} | parts


def saves_of(*own: type[Policy[Any]]) -> Saves:
    """Of agents with these policies."""
    return Saves(noun="agent", version=1, encoding=encoding_of(*own))


ENCODING = encoding_of()
