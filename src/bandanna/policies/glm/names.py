"""Names of the generalised linear policies."""

from __future__ import annotations

from bandanna.policies.glm.ecolog import ECOLog
from bandanna.policies.glm.glm_ucb import GLMUCB
from bandanna.policies.glm.gloc import GLOC
from bandanna.policies.glm.rs_glinucb import RSGLinUCB
from bandanna.policies.named import Algorithm

GENERALISED = tuple(
    Algorithm(name=name, paper="003", trust="none", protects="nothing", guarantee="none", make=kind)
    for name, kind in (("GLM-UCB", GLMUCB), ("GLOC", GLOC), ("ECOLog", ECOLog), ("RS-GLinUCB", RSGLinUCB))
)
