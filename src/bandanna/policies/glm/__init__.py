"""Generalised linear contextual bandits (paper [003] and its baselines): one file per algorithm."""

from __future__ import annotations

from bandanna.policies.glm.b_glinucb import BGLinUCB
from bandanna.policies.glm.base import GLMPolicy
from bandanna.policies.glm.ecolog import ECOLog
from bandanna.policies.glm.glm_jdp import GLMJDP
from bandanna.policies.glm.glm_sdp import GLMSDP
from bandanna.policies.glm.glm_ucb import GLMUCB
from bandanna.policies.glm.gloc import GLOC
from bandanna.policies.glm.jdp_constants import Constants
from bandanna.policies.glm.rs_glinucb import RSGLinUCB

__all__ = ["BGLinUCB", "Constants", "ECOLog", "GLMJDP", "GLMPolicy", "GLMSDP", "GLMUCB", "GLOC", "RSGLinUCB"]
