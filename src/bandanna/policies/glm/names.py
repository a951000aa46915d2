"""Names of the generalised linear policies."""

from __future__ import annotations

from typing import Any

from bandanna.policies.glm.b_glinucb import BGLinUCB
from bandanna.policies.glm.ecolog import ECOLog
from bandanna.policies.glm.glm_jdp import GLMJDP
from bandanna.policies.glm.glm_sdp import GLMSDP
from bandanna.policies.glm.glm_ucb import GLMUCB
from bandanna.policies.glm.gloc import GLOC
from bandanna.policies.glm.rs_glinucb import RSGLinUCB
from bandanna.policies.named import Algorithm
from bandanna.policies.named_budget import named_budget


def _sdp(**arguments: Any) -> GLMSDP:
    """With epsilon and delta beside its own arguments."""
    budget: Any = named_budget("GLM-SDP", arguments, (("epsilon", "delta"),))
    return GLMSDP(budget=budget, **arguments)


def _jdp(**arguments: Any) -> GLMJDP:
    """With epsilon and delta, or rho, beside its own arguments."""
    return GLMJDP(budget=named_budget("GLM-JDP", arguments, (("epsilon", "delta"), ("rho",))), **arguments)


_PLAIN = (
    ("GLM-UCB", GLMUCB),
    ("GLOC", GLOC),
    ("ECOLog", ECOLog),
    ("RS-GLinUCB", RSGLinUCB),
    ("B-GLinUCB", BGLinUCB),
)

GENERALISED = (
    *(
        Algorithm(name=name, paper="003", trust="none", protects="nothing", guarantee="none", make=kind, kind=kind)
        for name, kind in _PLAIN
    ),
    Algorithm(
        name="GLM-JDP",
        paper="003",
        trust="central",
        protects="contexts and rewards",
        guarantee="(epsilon, delta), rho-zCDP",
        make=_jdp,
        kind=GLMJDP,
        options=("epsilon", "delta", "rho"),
    ),
    Algorithm(
        name="GLM-SDP",
        paper="003",
        trust="shuffle",
        protects="contexts and rewards",
        guarantee="(epsilon, delta)",
        make=_sdp,
        kind=GLMSDP,
        options=("epsilon", "delta"),
    ),
)
