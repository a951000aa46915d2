"""Names of the generalised linear policies."""

from __future__ import annotations

from typing import Any

from bandanna.accounting.budgets import ZCDP, ApproxDP, Budget
from bandanna.errors import InvalidBudget
from bandanna.policies.glm.b_glinucb import BGLinUCB
from bandanna.policies.glm.ecolog import ECOLog
from bandanna.policies.glm.glm_jdp import GLMJDP
from bandanna.policies.glm.glm_sdp import GLMSDP
from bandanna.policies.glm.glm_ucb import GLMUCB
from bandanna.policies.glm.gloc import GLOC
from bandanna.policies.glm.rs_glinucb import RSGLinUCB
from bandanna.policies.named import Algorithm


def _sdp(*, epsilon: float, delta: float, **arguments: Any) -> GLMSDP:
    """With epsilon and delta beside its own arguments."""
    return GLMSDP(budget=ApproxDP(epsilon=epsilon, delta=delta), **arguments)


def _jdp(**arguments: Any) -> GLMJDP:
    """With epsilon and delta, or rho, beside its own arguments."""
    given = {name: arguments.pop(name) for name in ("epsilon", "delta", "rho") if name in arguments}
    if set(given) not in ({"epsilon", "delta"}, {"rho"}):
        raise InvalidBudget("budget", given, "epsilon and delta, or rho")
    budget: Budget = ZCDP(**given) if "rho" in given else ApproxDP(**given)
    return GLMJDP(budget=budget, **arguments)


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
