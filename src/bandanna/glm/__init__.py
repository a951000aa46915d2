"""Generalised linear models: links and their losses, estimators with and without privacy, projections."""

from __future__ import annotations

from bandanna.glm.likelihood import Estimated, loss, loss_gradient, loss_hessian, maximum_likelihood
from bandanna.glm.links import LINKS, Binomial, Linear, Link, Logistic, Probit, TruncatedPoisson, link_of
from bandanna.glm.noisy_gradient import NoisyGradient
from bandanna.glm.shuffled_gradient import OuterProducts, ShuffledGradient

__all__ = [
    "LINKS",
    "Binomial",
    "Estimated",
    "Linear",
    "Link",
    "Logistic",
    "NoisyGradient",
    "OuterProducts",
    "Probit",
    "ShuffledGradient",
    "TruncatedPoisson",
    "link_of",
    "loss",
    "loss_gradient",
    "loss_hessian",
    "maximum_likelihood",
]
