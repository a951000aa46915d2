"""Every algorithm by its name: the folders are the catalogue, and each policy lists its names above its class."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from bandanna.policies import arms, distributed, linear
from bandanna.policies.glm.names import GENERALISED
from bandanna.policies.linucb_names import LINUCB
from bandanna.policies.named import ALGORITHMS

_SHOWN = {  # problem and trust model, in the order of `bandanna list`; what is not here comes last
    "001": ("DPE", "CDP-DPE", "LDP-DPE", "SDP-DPE", "Laplace-DPE", "DPE-FixedU", "PE"),
    "004, finite": ("UCB1", "Thompson", "UCB-episodes", "AdaC-UCB", "AdaP-UCB", "DP-SE", "LDP-UCB", "SDP-SE"),
    "004, linear": ("GOPE", "AdaC-GOPE", "AdaC-GOPE-early", "RS-OFUL", "AdaC-OFUL", "AdaC-OFUL-JDP"),
}

for family in (distributed, arms, linear):
    for found in pkgutil.iter_modules(family.__path__, f"{family.__name__}."):
        import_module(found.name)

_named = dict(ALGORITHMS)
_first = {entry.name: entry for entry in LINUCB} | {name: _named[name] for names in _SHOWN.values() for name in names}
ALGORITHMS.clear()
ALGORITHMS.update(_first | {entry.name: entry for entry in GENERALISED} | {**_named, **_first})
