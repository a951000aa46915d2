"""Bandanna: differentially private bandits in every trust model, from simulation to production."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "Agent": "bandanna.agent",
    "Decision": "bandanna.agent",
    "Accountant": "bandanna.accounting.accountant",
    "ApproxDP": "bandanna.accounting.budgets",
    "PureDP": "bandanna.accounting.budgets",
    "RenyiDP": "bandanna.accounting.budgets",
    "ZCDP": "bandanna.accounting.budgets",
    "ExplicitPolicy": "bandanna.accounting.definitions",
    "Guarantee": "bandanna.accounting.guarantee",
    "Ledger": "bandanna.accounting.ledger",
    "LedgerStore": "bandanna.accounting.ledger",
    "LedgerView": "bandanna.accounting.view",
    "MemoryStore": "bandanna.accounting.ledger",
    "SQLiteStore": "bandanna.accounting.stores",
    "Ball": "bandanna.core.domain",
    "Box": "bandanna.core.domain",
    "Domain": "bandanna.core.domain",
    "Statistic": "bandanna.core.domain",
    "Estimate": "bandanna.core.estimate",
    "LinearReport": "bandanna.core.report",
    "Bits": "bandanna.core.shapes",
    "SymmetricMatrix": "bandanna.core.shapes",
    "ContinualSum": "bandanna.counters",
    "BandannaError": "bandanna.errors",
    "FastNoise": "bandanna.mechanisms.sources",
    "NoiseSource": "bandanna.mechanisms.sources",
    "SecureNoise": "bandanna.mechanisms.sources",
    "Ask": "bandanna.policies.base",
    "Assigned": "bandanna.policies.base",
    "Choice": "bandanna.device.choice",
    "Frozen": "bandanna.policies.base",
    "Played": "bandanna.policies.base",
    "Policy": "bandanna.policies.base",
    "Until": "bandanna.policies.base",
    "Anytime": "bandanna.policies.linear.anytime",
    "PaperConfidence": "bandanna.policies.linear.confidence",
    "BGLinUCB": "bandanna.policies.glm",
    "ECOLog": "bandanna.policies.glm",
    "GLMJDP": "bandanna.policies.glm",
    "GLMSDP": "bandanna.policies.glm",
    "GLMUCB": "bandanna.policies.glm",
    "GLOC": "bandanna.policies.glm",
    "RSGLinUCB": "bandanna.policies.glm",
    "LinTS": "bandanna.policies.linear.lints",
    "LinTSRewards": "bandanna.policies.linear.rewards_only",
    "LinUCB": "bandanna.policies.linear.linucb",
    "PhasedElimination": "bandanna.policies.distributed.phased_elimination",
    "Elimination": "bandanna.policies.arms.successive_elimination",
    "GOPE": "bandanna.policies.arms.gope",
    "LDPUCB": "bandanna.policies.arms.ldp_ucb",
    "OFUL": "bandanna.policies.linear.oful",
    "OFULJDP": "bandanna.policies.linear.oful_jdp",
    "Thompson": "bandanna.policies.arms.thompson",
    "UCB1": "bandanna.policies.arms.ucb1",
    "UCBEpisodes": "bandanna.policies.arms.ucb_episodes",
    "make": "bandanna.policies.registry",
    "geometric": "bandanna.policies.linear.schedules",
    "CentralContinual": "bandanna.protocols",
    "CentralGaussian": "bandanna.protocols",
    "CentralLaplace": "bandanna.protocols",
    "Clear": "bandanna.protocols",
    "ConcurrentShuffle": "bandanna.protocols",
    "LocalBits": "bandanna.protocols",
    "LocalGaussian": "bandanna.protocols",
    "LocalUnit": "bandanna.protocols",
    "ShuffleBinomial": "bandanna.protocols",
    "ShuffleBits": "bandanna.protocols",
    "ShuffleGaussian": "bandanna.protocols",
    "open_batch": "bandanna.protocols.opening",
    "Privacy": "bandanna.protocols.trust",
    "central": "bandanna.protocols.trust",
    "concurrent": "bandanna.protocols.trust",
    "local": "bandanna.protocols.trust",
    "none": "bandanna.protocols.trust",
    "shuffle": "bandanna.protocols.trust",
    "simulate": "bandanna.simulation.engine",
    "plot_regret": "bandanna.figures.regret",
    "Result": "bandanna.simulation.result",
}
_FOLDERS = (
    "accounting",
    "agent",
    "core",
    "counters",
    "design",
    "device",
    "environments",
    "errors",
    "experiments",
    "figures",
    "glm",
    "mechanisms",
    "policies",
    "protocols",
    "simulation",
    "theory",
)

__all__ = [
    "Accountant",
    "Agent",
    "Anytime",
    "ApproxDP",
    "Ask",
    "Assigned",
    "BGLinUCB",
    "Ball",
    "BandannaError",
    "Bits",
    "Box",
    "CentralContinual",
    "CentralGaussian",
    "CentralLaplace",
    "Choice",
    "Clear",
    "ConcurrentShuffle",
    "ContinualSum",
    "Decision",
    "Domain",
    "ECOLog",
    "Elimination",
    "Estimate",
    "ExplicitPolicy",
    "FastNoise",
    "Frozen",
    "GLMJDP",
    "GLMSDP",
    "GLMUCB",
    "GLOC",
    "GOPE",
    "Guarantee",
    "LDPUCB",
    "Ledger",
    "LedgerStore",
    "LedgerView",
    "LinTS",
    "LinTSRewards",
    "LinUCB",
    "LinearReport",
    "LocalBits",
    "LocalGaussian",
    "LocalUnit",
    "MemoryStore",
    "NoiseSource",
    "OFUL",
    "OFULJDP",
    "PaperConfidence",
    "PhasedElimination",
    "Played",
    "Policy",
    "Privacy",
    "PureDP",
    "RSGLinUCB",
    "RenyiDP",
    "Result",
    "SQLiteStore",
    "SecureNoise",
    "ShuffleBinomial",
    "ShuffleBits",
    "ShuffleGaussian",
    "Statistic",
    "SymmetricMatrix",
    "Thompson",
    "UCB1",
    "UCBEpisodes",
    "Until",
    "ZCDP",
    "__version__",
    "accounting",
    "agent",
    "central",
    "concurrent",
    "core",
    "counters",
    "design",
    "device",
    "environments",
    "errors",
    "experiments",
    "figures",
    "geometric",
    "glm",
    "local",
    "make",
    "mechanisms",
    "none",
    "open_batch",
    "plot_regret",
    "policies",
    "protocols",
    "shuffle",
    "simulate",
    "simulation",
    "theory",
]

if TYPE_CHECKING:
    from bandanna import (
        accounting,
        agent,
        core,
        counters,
        design,
        environments,
        errors,
        experiments,
        figures,
        glm,
        mechanisms,
        policies,
        protocols,
        simulation,
        theory,
    )
    from bandanna.accounting.accountant import Accountant
    from bandanna.accounting.budgets import ZCDP, ApproxDP, PureDP, RenyiDP
    from bandanna.accounting.definitions import ExplicitPolicy
    from bandanna.accounting.guarantee import Guarantee
    from bandanna.accounting.ledger import Ledger, LedgerStore, MemoryStore
    from bandanna.accounting.stores import SQLiteStore
    from bandanna.accounting.view import LedgerView
    from bandanna.agent import Agent, Decision
    from bandanna.core.domain import Ball, Box, Domain, Statistic
    from bandanna.core.estimate import Estimate
    from bandanna.core.report import LinearReport
    from bandanna.core.shapes import Bits, SymmetricMatrix
    from bandanna.counters import ContinualSum
    from bandanna.device.choice import Choice
    from bandanna.errors import BandannaError
    from bandanna.figures.regret import plot_regret
    from bandanna.mechanisms.sources import FastNoise, NoiseSource, SecureNoise
    from bandanna.policies.arms.gope import GOPE
    from bandanna.policies.arms.ldp_ucb import LDPUCB
    from bandanna.policies.arms.successive_elimination import Elimination
    from bandanna.policies.arms.thompson import Thompson
    from bandanna.policies.arms.ucb1 import UCB1
    from bandanna.policies.arms.ucb_episodes import UCBEpisodes
    from bandanna.policies.base import Ask, Assigned, Frozen, Played, Policy, Until
    from bandanna.policies.distributed.phased_elimination import PhasedElimination
    from bandanna.policies.glm import GLMJDP, GLMSDP, GLMUCB, GLOC, BGLinUCB, ECOLog, RSGLinUCB
    from bandanna.policies.linear.anytime import Anytime
    from bandanna.policies.linear.confidence import PaperConfidence
    from bandanna.policies.linear.lints import LinTS
    from bandanna.policies.linear.linucb import LinUCB
    from bandanna.policies.linear.oful import OFUL
    from bandanna.policies.linear.oful_jdp import OFULJDP
    from bandanna.policies.linear.rewards_only import LinTSRewards
    from bandanna.policies.linear.schedules import geometric
    from bandanna.policies.registry import make
    from bandanna.protocols import (
        CentralContinual,
        CentralGaussian,
        CentralLaplace,
        Clear,
        ConcurrentShuffle,
        LocalBits,
        LocalGaussian,
        LocalUnit,
        ShuffleBinomial,
        ShuffleBits,
        ShuffleGaussian,
    )
    from bandanna.protocols.opening import open_batch
    from bandanna.protocols.trust import Privacy, central, concurrent, local, none, shuffle
    from bandanna.simulation.engine import simulate
    from bandanna.simulation.result import Result


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that `import bandanna` costs nothing (PEP 562)."""
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    elif name in _FOLDERS:
        value = importlib.import_module(f"bandanna.{name}")
    else:
        raise AttributeError(f"module 'bandanna' has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
