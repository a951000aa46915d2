"""Policies: what is published, how arms are chosen, what is learned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bandanna._lazy import load_lazily

_NAMES = {  # modules and the public names that they define
    "base": "SumQuery AssignedArms FixedLength PlayedRounds Policy StoppedByPublicData",
    "finite.elimination": "Elimination",
    "finite.gope": "GOPE",
    "finite.thompson": "Thompson",
    "finite.ucb": "LDPUCB UCB1 UCBEpisodes",
    "glm.baselines": "ECOLog GLMUCB GLOC",
    "glm.batched": "BGLinUCB",
    "glm.glm_jdp": "GLMJDP",
    "glm.glm_sdp": "GLMSDP",
    "glm.rs_glinucb": "RSGLinUCB",
    "linear.anytime": "Anytime",
    "linear.base": "LinearPolicy LinearSums argmax geometric uniform",
    "linear.confidence": "PaperConfidence",
    "linear.lints": "LinTS",
    "linear.linucb": "LinUCB",
    "linear.oful": "OFUL OFULJDP",
    "linear.private_rewards": "LinTSRewards",
    "population": "PhasedElimination",
    "registry": "make",
}
_MODULES = {name: name for name in ("contextual_bounds", "finite", "glm", "linear", "population", "regret_bounds")}

if TYPE_CHECKING:
    from bandanna.policies import contextual_bounds as contextual_bounds
    from bandanna.policies import finite as finite
    from bandanna.policies import glm as glm
    from bandanna.policies import linear as linear
    from bandanna.policies import population as population
    from bandanna.policies import regret_bounds as regret_bounds
    from bandanna.policies.base import AssignedArms as AssignedArms
    from bandanna.policies.base import FixedLength as FixedLength
    from bandanna.policies.base import PlayedRounds as PlayedRounds
    from bandanna.policies.base import Policy as Policy
    from bandanna.policies.base import StoppedByPublicData as StoppedByPublicData
    from bandanna.policies.base import SumQuery as SumQuery
    from bandanna.policies.finite.elimination import Elimination as Elimination
    from bandanna.policies.finite.gope import GOPE as GOPE
    from bandanna.policies.finite.thompson import Thompson as Thompson
    from bandanna.policies.finite.ucb import LDPUCB as LDPUCB
    from bandanna.policies.finite.ucb import UCB1 as UCB1
    from bandanna.policies.finite.ucb import UCBEpisodes as UCBEpisodes
    from bandanna.policies.glm.baselines import GLMUCB as GLMUCB
    from bandanna.policies.glm.baselines import GLOC as GLOC
    from bandanna.policies.glm.baselines import ECOLog as ECOLog
    from bandanna.policies.glm.batched import BGLinUCB as BGLinUCB
    from bandanna.policies.glm.glm_jdp import GLMJDP as GLMJDP
    from bandanna.policies.glm.glm_sdp import GLMSDP as GLMSDP
    from bandanna.policies.glm.rs_glinucb import RSGLinUCB as RSGLinUCB
    from bandanna.policies.linear.anytime import Anytime as Anytime
    from bandanna.policies.linear.base import LinearPolicy as LinearPolicy
    from bandanna.policies.linear.base import LinearSums as LinearSums
    from bandanna.policies.linear.base import argmax as argmax
    from bandanna.policies.linear.base import geometric as geometric
    from bandanna.policies.linear.base import uniform as uniform
    from bandanna.policies.linear.confidence import PaperConfidence as PaperConfidence
    from bandanna.policies.linear.lints import LinTS as LinTS
    from bandanna.policies.linear.linucb import LinUCB as LinUCB
    from bandanna.policies.linear.oful import OFUL as OFUL
    from bandanna.policies.linear.oful import OFULJDP as OFULJDP
    from bandanna.policies.linear.private_rewards import LinTSRewards as LinTSRewards
    from bandanna.policies.population import PhasedElimination as PhasedElimination
    from bandanna.policies.registry import make as make
else:
    __getattr__, __dir__, __all__ = load_lazily(__name__, _NAMES, _MODULES)
