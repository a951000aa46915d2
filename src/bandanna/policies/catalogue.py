"""Every algorithm by its name: the folders are the catalogue, and each policy lists its names above its class."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from bandanna.policies import arms, distributed, glm, linear
from bandanna.policies.linear.anytime import Anytime
from bandanna.policies.named import ALGORITHMS

_SHOWN = (  # by problem and trust model, in the order of `bandanna list`; what is not here comes last
    *("LinTS", "LinTS-JDP", "LinTS-LDP", "LinTS-SDP", "LinTS-CSDP"),
    *("LinTS-JDP-rewards", "LinTS-LDP-rewards", "LinTS-SDP-rewards"),
    *("LinUCB", "LinUCB-JDP", "LinUCB-JDP-batched", "LinUCB-LDP", "LinUCB-LDP-batched"),
    *("LinUCB-SDP-Amp", "LinUCB-SDP-Vec", "LinUCB-CSDP"),
    *("DPE", "CDP-DPE", "LDP-DPE", "SDP-DPE", "Laplace-DPE", "DPE-FixedU", "PE"),
    *("UCB1", "Thompson", "UCB-episodes", "AdaC-UCB", "AdaP-UCB", "DP-SE", "LDP-UCB", "SDP-SE"),
    *("GOPE", "AdaC-GOPE", "AdaC-GOPE-early", "RS-OFUL", "AdaC-OFUL", "AdaC-OFUL-JDP"),
    *("GLM-UCB", "GLOC", "ECOLog", "RS-GLinUCB", "B-GLinUCB", "GLM-JDP", "GLM-SDP"),
)

for family in (linear, distributed, arms, glm):
    for found in pkgutil.iter_modules(family.__path__, f"{family.__name__}."):
        import_module(found.name)

_ordered = {name: ALGORITHMS.pop(name) for name in _SHOWN} | ALGORITHMS
ALGORITHMS.clear()
ALGORITHMS.update(_ordered)

OTHERS = (Anytime,)  # policies without a name
