"""Generalised linear contextual bandits (paper [003] and its baselines): one file per algorithm."""

from __future__ import annotations

from bandanna.policies.glm.base import GLMPolicy
from bandanna.policies.glm.ecolog import ECOLog
from bandanna.policies.glm.glm_ucb import GLMUCB
from bandanna.policies.glm.gloc import GLOC
from bandanna.policies.glm.rs_glinucb import RSGLinUCB

__all__ = ["ECOLog", "GLMPolicy", "GLMUCB", "GLOC", "RSGLinUCB"]
