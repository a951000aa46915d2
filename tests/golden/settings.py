"""The policies, worlds and privacy models of the golden corpus."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import bandanna as bd

from .library import worlds

Entry = Callable[[], Any]

FIXED = worlds.LinearContextual(dim=3, n_arms=6, fixed=True)
FRESH = worlds.LinearContextual(dim=3, n_arms=6)
FINITE = worlds.FiniteArms(means=(0.8, 0.4, 0.2))
SPHERE = worlds.SphereArms(dim=2, n_arms=5)
CONTEXTS = worlds.SphereContexts(dim=2, n_arms=5)
GLM = worlds.GeneralisedLinear(dim=2, n_arms=5, norm=2.0)
PEOPLE = worlds.Population(dim=2, n_arms=4, sigma=0.1)

SAMPLED = {"dim": 3, "horizon": 200, "intercept": True}
PUBLIC = {**SAMPLED, "public_contexts": True}
LINEAR = {"dim": 3, "horizon": 200, "width": 0.2, "confidence": "lemma"}
ARMS = {"n_arms": 3, "horizon": 400}
LONG = {"n_arms": 3, "horizon": 6000, "failure": 0.5}
SPHERICAL = {"dim": 2, "horizon": 3000}
SHORT = {"dim": 2, "horizon": 300}
CLIENTS = {"dim": 2, "horizon": 3000}
LOGISTIC = {"dim": 2, "horizon": 300, "parameter_bound": 2.0}
DP, ZCDP, PURE = {"epsilon": 5.0, "delta": 1e-3}, {"rho": 20.0}, {"epsilon": 20.0}

# name -> (privacy model, arguments, budget as numbers, worlds)
ALGORITHMS: dict[str, tuple[str, dict[str, Any], dict[str, Any], tuple[Any, ...]]] = {
    "LinTS": ("none", SAMPLED, {}, (FRESH, FIXED)),
    "LinTS-JDP": ("central", SAMPLED, DP, (FRESH, FIXED)),
    "LinTS-LDP": ("local", SAMPLED, DP, (FRESH, FIXED)),
    "LinTS-SDP": ("shuffle", SAMPLED, DP, (FRESH, FIXED)),
    "LinTS-CSDP": ("concurrent", SAMPLED, DP, (FRESH, FIXED)),
    "LinTS-JDP-rewards": ("central", PUBLIC, DP, (FRESH,)),
    "LinTS-LDP-rewards": ("local", PUBLIC, DP, (FRESH,)),
    "LinTS-SDP-rewards": ("shuffle", PUBLIC, DP, (FRESH,)),
    "LinUCB": ("none", LINEAR, {}, (FRESH, FIXED)),
    "LinUCB-JDP": ("central", LINEAR, DP, (FRESH, FIXED)),
    "LinUCB-JDP-batched": ("central", LINEAR, DP, (FRESH, FIXED)),
    "LinUCB-LDP": ("local", LINEAR, DP, (FRESH, FIXED)),
    "LinUCB-LDP-batched": ("local", LINEAR, DP, (FRESH,)),
    "LinUCB-SDP-Amp": ("shuffle", LINEAR, DP, (FRESH,)),
    "LinUCB-SDP-Vec": ("shuffle", LINEAR, DP, (FRESH, FIXED)),
    "LinUCB-CSDP": ("concurrent", LINEAR, DP, (FRESH, FIXED)),
    "DPE": ("none", CLIENTS, {}, (PEOPLE,)),
    "CDP-DPE": ("central", CLIENTS, DP, (PEOPLE,)),
    "LDP-DPE": ("local", CLIENTS, DP, (PEOPLE,)),
    "SDP-DPE": ("shuffle", CLIENTS, DP, (PEOPLE,)),
    "Laplace-DPE": ("central", CLIENTS, PURE, (PEOPLE,)),
    "DPE-FixedU": ("none", CLIENTS, {}, (PEOPLE,)),
    "PE": ("none", CLIENTS, {}, (PEOPLE,)),
    "UCB1": ("none", ARMS, {}, (FINITE,)),
    "Thompson": ("none", ARMS, {}, (FINITE,)),
    "UCB-episodes": ("none", ARMS, {}, (FINITE,)),
    "AdaC-UCB": ("central", ARMS, ZCDP, (FINITE,)),
    "AdaP-UCB": ("central", ARMS, PURE, (FINITE,)),
    "DP-SE": ("central", LONG, PURE, (FINITE,)),
    "LDP-UCB": ("local", ARMS, PURE, (FINITE,)),
    "SDP-SE": ("shuffle", LONG, DP, (FINITE,)),
    "GOPE": ("none", SPHERICAL, {}, (SPHERE,)),
    "AdaC-GOPE": ("central", SPHERICAL, ZCDP, (SPHERE,)),
    "AdaC-GOPE-early": ("central", SPHERICAL, ZCDP, (SPHERE,)),
    "RS-OFUL": ("none", SHORT, {}, (CONTEXTS, SPHERE)),
    "AdaC-OFUL": ("central", SHORT, ZCDP, (CONTEXTS, SPHERE)),
    "AdaC-OFUL-JDP": ("central", SHORT, {"rho": 2000.0}, (CONTEXTS, SPHERE)),
    "GLM-UCB": ("none", LOGISTIC, {}, (GLM,)),
    "GLOC": ("none", LOGISTIC, {}, (GLM,)),
    "ECOLog": ("none", LOGISTIC, {}, (GLM,)),
    "RS-GLinUCB": ("none", LOGISTIC, {}, (GLM,)),
    "B-GLinUCB": ("none", LOGISTIC, {}, (GLM,)),
    "GLM-JDP": ("central", LOGISTIC, {"epsilon": 50.0, "delta": 0.1}, (GLM,)),
    "GLM-SDP": ("shuffle", LOGISTIC, {"epsilon": 20.0, "delta": 0.01}, (GLM,)),
}
LOW = {"epsilon": 0.5, "delta": 1e-5}  # printed noise is proven for small budgets
PRIVACY: dict[str, dict[str, Entry]] = {
    "none": {"none": bd.none},
    "central": {
        "DP": lambda: bd.central(**DP),
        "DP tree": lambda: bd.central(**DP, mechanism="tree"),
        "DP independent": lambda: bd.central(**DP, mechanism="independent"),
        "DP paper": lambda: bd.central(**LOW, calibration="paper"),
        "DP twice": lambda: bd.central(**DP, participations=2),
        "zCDP": lambda: bd.central(rho=2.0),
        "Renyi": lambda: bd.central(alpha=4.0, epsilon=5.0),
        "pure": lambda: bd.central(epsilon=5.0, delta=0.0),
    },
    "local": {
        "DP": lambda: bd.local(**DP),
        "DP gaussian": lambda: bd.local(**DP, protocol="gaussian"),
        "DP unit": lambda: bd.local(**DP, protocol="unit"),
        "DP auto": lambda: bd.local(**DP, protocol="auto"),
        "DP paper": lambda: bd.local(**LOW, calibration="paper"),
        "DP twice": lambda: bd.local(**DP, participations=2),
        "zCDP": lambda: bd.local(rho=2.0),
        "pure": lambda: bd.local(epsilon=5.0, delta=0.0),
        "pure unit": lambda: bd.local(epsilon=5.0, delta=0.0, protocol="unit"),
    },
    "shuffle": {
        "DP": lambda: bd.shuffle(**DP),
        "DP gaussian": lambda: bd.shuffle(**DP, protocol="gaussian"),
        "DP paper": lambda: bd.shuffle(**LOW, calibration="paper"),
        "DP checked": lambda: bd.shuffle(**DP, noise="checked"),
        "DP mixer": lambda: bd.shuffle(**DP, noise="mixer"),
        "DP twice": lambda: bd.shuffle(**DP, participations=2),
    },
    "concurrent": {
        "DP": lambda: bd.concurrent(**DP),
        "DP 1": lambda: bd.concurrent(**DP, shufflers=1),
        "DP 3": lambda: bd.concurrent(**DP, shufflers=3),
        "DP 2 paper": lambda: bd.concurrent(**LOW, shufflers=2, degrees="paper", calibration="paper"),
        "DP checked": lambda: bd.concurrent(**DP, noise="checked"),
        "DP mixer": lambda: bd.concurrent(**DP, noise="mixer"),
    },
}
UNNAMED: dict[str, tuple[Entry, Any]] = {
    "LinTS per arm": (
        lambda: bd.LinTS(n_arms=4, features=2, horizon=150, privacy=bd.shuffle(**DP)),
        worlds.DisjointLinear(dim=2, n_arms=4),
    ),
    "LinTS of growing batches": (
        lambda: bd.LinTS(
            dim=3, horizon=300, batch=bd.policies.geometric(first=20, ratio=1.5), privacy=bd.shuffle(**DP)
        ),
        FRESH,
    ),
    "LinUCB of random directions": (
        lambda: bd.LinUCB(dim=3, horizon=200, privacy=bd.local(**DP, protocol="unit")),
        FRESH,
    ),
    "LinUCB that explores": (
        lambda: bd.LinUCB(dim=3, horizon=200, explore=bd.policies.uniform(first=2, then=0.1), privacy=bd.central(**DP)),
        FRESH,
    ),
    "Anytime": (
        lambda: bd.policies.Anytime(
            first=bd.LinUCB(dim=3, horizon=40, width=0.2, batch=10, privacy=bd.shuffle(epsilon=5.0, delta=1e-3))
        ),
        FRESH,
    ),
    "LinTS in a drifting world": (lambda: bd.make("LinTS-JDP", **{**SAMPLED, "intercept": False}, **DP), FIXED),
}
