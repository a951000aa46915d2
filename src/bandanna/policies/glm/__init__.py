"""Policies for generalised linear bandits, and their models."""

from __future__ import annotations

from bandanna.policies.glm.base import GLMPolicy
from bandanna.policies.glm.baselines import GLMUCB, GLOC, ECOLog
from bandanna.policies.glm.batched import BGLinUCB
from bandanna.policies.glm.estimation import LikelihoodEstimate, loss, loss_gradient, loss_hessian, maximum_likelihood
from bandanna.policies.glm.glm_jdp import GLMJDP, GLMJDPConstants
from bandanna.policies.glm.glm_sdp import GLMSDP
from bandanna.policies.glm.links import LINKS, Binomial, Linear, Link, Logistic, Probit, TruncatedPoisson, link_of
from bandanna.policies.glm.optimisers import NoisyGradient, OuterProducts, ShuffledGradient
from bandanna.policies.glm.rs_glinucb import RSGLinUCB

__all__ = [
    "BGLinUCB",
    "Binomial",
    "GLMJDPConstants",
    "ECOLog",
    "LikelihoodEstimate",
    "GLMJDP",
    "GLMPolicy",
    "GLMSDP",
    "GLMUCB",
    "GLOC",
    "LINKS",
    "Linear",
    "Link",
    "Logistic",
    "NoisyGradient",
    "OuterProducts",
    "Probit",
    "RSGLinUCB",
    "ShuffledGradient",
    "TruncatedPoisson",
    "link_of",
    "loss",
    "loss_gradient",
    "loss_hessian",
    "maximum_likelihood",
]
