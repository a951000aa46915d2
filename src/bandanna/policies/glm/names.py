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
from bandanna.protocols.trust import central, shuffle


def _sdp(**arguments: Any) -> GLMSDP:
    """With epsilon and delta beside its own arguments."""
    budget = named_budget("GLM-SDP", arguments, (("epsilon", "delta"),))
    return GLMSDP(privacy=shuffle(budget=budget), **arguments)


def _jdp(**arguments: Any) -> GLMJDP:
    """With epsilon and delta, or rho, and the mechanism of the continual release, beside its own arguments."""
    budget = named_budget("GLM-JDP", arguments, (("epsilon", "delta"), ("rho",)))
    return GLMJDP(privacy=central(budget=budget, mechanism=arguments.pop("mechanism", "blt")), **arguments)


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
        options=("epsilon", "delta", "rho", "mechanism"),
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
