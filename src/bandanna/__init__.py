"""Bandanna: differentially private bandits in every trust model, from simulation to production."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_NAMES = {  # where public names are at home
    "accounting.accountant": "Accountant",
    "accounting.budgets": "ApproxDP PureDP RenyiDP ZCDP",
    "accounting.definitions": "ExplicitPolicy",
    "accounting.guarantee": "Guarantee",
    "accounting.ledger": "Ledger LedgerStore MemoryStore",
    "accounting.stores": "SQLiteStore",
    "accounting.view": "LedgerView",
    "agent": "Agent Decision",
    "core.domain": "Ball Box Domain Statistic",
    "core.estimate": "Estimate",
    "core.report": "LinearReport",
    "core.shapes": "Bits SymmetricMatrix",
    "core.weights": "Weights",
    "counters": "ContinualSum",
    "device.choice": "Choice",
    "errors": "BandannaError",
    "experiments.experiment": "Experiment",
    "experiments.plan": "plan",
    "experiments.running": "Results run",
    "figures.regret": "plot_regret",
    "logs": "Log Replay replay",
    "mechanisms.sources": "FastNoise NoiseSource SecureNoise",
    "policies.arms.gope": "GOPE",
    "policies.arms.ldp_ucb": "LDPUCB",
    "policies.arms.successive_elimination": "Elimination",
    "policies.arms.thompson": "Thompson",
    "policies.arms.ucb1": "UCB1",
    "policies.arms.ucb_episodes": "UCBEpisodes",
    "policies.base": "Ask Assigned Frozen Played Policy Until",
    "policies.distributed.phased_elimination": "PhasedElimination",
    "policies.glm": "BGLinUCB ECOLog GLMJDP GLMSDP GLMUCB GLOC RSGLinUCB",
    "policies.linear.anytime": "Anytime",
    "policies.linear.confidence": "PaperConfidence",
    "policies.linear.explore": "uniform",
    "policies.linear.lints": "LinTS",
    "policies.linear.linucb": "LinUCB",
    "policies.linear.oful": "OFUL",
    "policies.linear.oful_jdp": "OFULJDP",
    "policies.linear.rewards_only": "LinTSRewards",
    "policies.linear.schedules": "geometric",
    "policies.registry": "make",
    "protocols": "CentralContinual CentralGaussian CentralLaplace Clear ConcurrentShuffle LocalBits LocalGaussian "
    "LocalUnit ShuffleBinomial ShuffleBits ShuffleGaussian",
    "protocols.opening": "open_batch",
    "protocols.trust": "Privacy central concurrent local none shuffle",
    "simulation.engine": "simulate",
    "simulation.result": "Result",
    "storage.declared": "stored_as",
}
_FOLDERS = (
    "accounting agent audit core counters datasets design device environments errors experiments features "
    "figures glm logs mechanisms ope policies protocols simulation theory"
)
_HOMES = {name: f"bandanna.{place}" for place, names in _NAMES.items() for name in names.split()}

__all__ = sorted(["__version__", *_HOMES, *_FOLDERS.split()])

if TYPE_CHECKING:
    from bandanna import accounting as accounting
    from bandanna import agent as agent
    from bandanna import audit as audit
    from bandanna import core as core
    from bandanna import counters as counters
    from bandanna import datasets as datasets
    from bandanna import design as design
    from bandanna import environments as environments
    from bandanna import errors as errors
    from bandanna import experiments as experiments
    from bandanna import features as features
    from bandanna import figures as figures
    from bandanna import glm as glm
    from bandanna import logs as logs
    from bandanna import mechanisms as mechanisms
    from bandanna import ope as ope
    from bandanna import policies as policies
    from bandanna import protocols as protocols
    from bandanna import simulation as simulation
    from bandanna import theory as theory
    from bandanna.accounting.accountant import Accountant as Accountant
    from bandanna.accounting.budgets import ZCDP as ZCDP
    from bandanna.accounting.budgets import ApproxDP as ApproxDP
    from bandanna.accounting.budgets import PureDP as PureDP
    from bandanna.accounting.budgets import RenyiDP as RenyiDP
    from bandanna.accounting.definitions import ExplicitPolicy as ExplicitPolicy
    from bandanna.accounting.guarantee import Guarantee as Guarantee
    from bandanna.accounting.ledger import Ledger as Ledger
    from bandanna.accounting.ledger import LedgerStore as LedgerStore
    from bandanna.accounting.ledger import MemoryStore as MemoryStore
    from bandanna.accounting.stores import SQLiteStore as SQLiteStore
    from bandanna.accounting.view import LedgerView as LedgerView
    from bandanna.agent import Agent as Agent
    from bandanna.agent import Decision as Decision
    from bandanna.core.domain import Ball as Ball
    from bandanna.core.domain import Box as Box
    from bandanna.core.domain import Domain as Domain
    from bandanna.core.domain import Statistic as Statistic
    from bandanna.core.estimate import Estimate as Estimate
    from bandanna.core.report import LinearReport as LinearReport
    from bandanna.core.shapes import Bits as Bits
    from bandanna.core.shapes import SymmetricMatrix as SymmetricMatrix
    from bandanna.core.weights import Weights as Weights
    from bandanna.counters import ContinualSum as ContinualSum
    from bandanna.device.choice import Choice as Choice
    from bandanna.errors import BandannaError as BandannaError
    from bandanna.experiments.experiment import Experiment as Experiment
    from bandanna.experiments.plan import plan as plan
    from bandanna.experiments.running import Results as Results
    from bandanna.experiments.running import run as run
    from bandanna.figures.regret import plot_regret as plot_regret
    from bandanna.logs import Log as Log
    from bandanna.logs import Replay as Replay
    from bandanna.logs import replay as replay
    from bandanna.mechanisms.sources import FastNoise as FastNoise
    from bandanna.mechanisms.sources import NoiseSource as NoiseSource
    from bandanna.mechanisms.sources import SecureNoise as SecureNoise
    from bandanna.policies.arms.gope import GOPE as GOPE
    from bandanna.policies.arms.ldp_ucb import LDPUCB as LDPUCB
    from bandanna.policies.arms.successive_elimination import Elimination as Elimination
    from bandanna.policies.arms.thompson import Thompson as Thompson
    from bandanna.policies.arms.ucb1 import UCB1 as UCB1
    from bandanna.policies.arms.ucb_episodes import UCBEpisodes as UCBEpisodes
    from bandanna.policies.base import Ask as Ask
    from bandanna.policies.base import Assigned as Assigned
    from bandanna.policies.base import Frozen as Frozen
    from bandanna.policies.base import Played as Played
    from bandanna.policies.base import Policy as Policy
    from bandanna.policies.base import Until as Until
    from bandanna.policies.distributed.phased_elimination import PhasedElimination as PhasedElimination
    from bandanna.policies.glm import GLMJDP as GLMJDP
    from bandanna.policies.glm import GLMSDP as GLMSDP
    from bandanna.policies.glm import GLMUCB as GLMUCB
    from bandanna.policies.glm import GLOC as GLOC
    from bandanna.policies.glm import BGLinUCB as BGLinUCB
    from bandanna.policies.glm import ECOLog as ECOLog
    from bandanna.policies.glm import RSGLinUCB as RSGLinUCB
    from bandanna.policies.linear.anytime import Anytime as Anytime
    from bandanna.policies.linear.confidence import PaperConfidence as PaperConfidence
    from bandanna.policies.linear.explore import uniform as uniform
    from bandanna.policies.linear.lints import LinTS as LinTS
    from bandanna.policies.linear.linucb import LinUCB as LinUCB
    from bandanna.policies.linear.oful import OFUL as OFUL
    from bandanna.policies.linear.oful_jdp import OFULJDP as OFULJDP
    from bandanna.policies.linear.rewards_only import LinTSRewards as LinTSRewards
    from bandanna.policies.linear.schedules import geometric as geometric
    from bandanna.policies.registry import make as make
    from bandanna.protocols import CentralContinual as CentralContinual
    from bandanna.protocols import CentralGaussian as CentralGaussian
    from bandanna.protocols import CentralLaplace as CentralLaplace
    from bandanna.protocols import Clear as Clear
    from bandanna.protocols import ConcurrentShuffle as ConcurrentShuffle
    from bandanna.protocols import LocalBits as LocalBits
    from bandanna.protocols import LocalGaussian as LocalGaussian
    from bandanna.protocols import LocalUnit as LocalUnit
    from bandanna.protocols import ShuffleBinomial as ShuffleBinomial
    from bandanna.protocols import ShuffleBits as ShuffleBits
    from bandanna.protocols import ShuffleGaussian as ShuffleGaussian
    from bandanna.protocols.opening import open_batch as open_batch
    from bandanna.protocols.trust import Privacy as Privacy
    from bandanna.protocols.trust import central as central
    from bandanna.protocols.trust import concurrent as concurrent
    from bandanna.protocols.trust import local as local
    from bandanna.protocols.trust import none as none
    from bandanna.protocols.trust import shuffle as shuffle
    from bandanna.simulation.engine import simulate as simulate
    from bandanna.simulation.result import Result as Result
    from bandanna.storage.declared import stored_as as stored_as


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that `import bandanna` costs nothing (PEP 562)."""
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    elif name in _FOLDERS.split():
        value = importlib.import_module(f"bandanna.{name}")
    else:
        from bandanna.core.spelling import did_you_mean

        hint = "" if name.startswith("_") else did_you_mean(name, __all__).strip()
        words = f"module 'bandanna' has no attribute {name!r}{': ' * bool(hint)}{hint}"
        raise AttributeError(words, name=name, obj=sys.modules[__name__])
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
