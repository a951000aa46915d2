"""Bandanna: differentially private bandits in every trust model, from simulation to production."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_NAMES = {  # where public names are defined
    "agent.agent": "Agent",
    "agent.continual_sum": "ContinualSum",
    "agent.episodes": "Decision",
    "data.logs": "Log",
    "data.replay": "Replay replay",
    "device.action_selection": "Choice",
    "device.domain": "Ball Bits Box Domain Estimate Statistic SymmetricMatrix",
    "device.linear_report": "LinearReport",
    "device.noise": "FastNoise NoiseSource SecureNoise",
    "device.weighted_report": "ImportanceWeightDomain",
    "errors": "BandannaError",
    "experiments.experiment": "Experiment",
    "experiments.plan": "plan",
    "experiments.run": "Results run",
    "policies.base": "SumQuery AssignedArms FixedLength PlayedRounds Policy StoppedByPublicData",
    "policies.finite.elimination": "Elimination",
    "policies.finite.gope": "GOPE",
    "policies.finite.thompson": "Thompson",
    "policies.finite.ucb": "LDPUCB UCB1 UCBEpisodes",
    "policies.glm.baselines": "ECOLog GLMUCB GLOC",
    "policies.glm.batched": "BGLinUCB",
    "policies.glm.glm_jdp": "GLMJDP",
    "policies.glm.glm_sdp": "GLMSDP",
    "policies.glm.rare_switching": "RSGLinUCB",
    "policies.linear.anytime": "Anytime",
    "policies.linear.base": "geometric uniform",
    "policies.linear.confidence": "PaperConfidence",
    "policies.linear.lints": "LinTS",
    "policies.linear.linucb": "LinUCB",
    "policies.linear.oful": "OFUL",
    "policies.linear.oful_jdp": "OFULJDP",
    "policies.linear.private_rewards": "LinTSRewards",
    "policies.population": "PhasedElimination",
    "policies.registry": "make",
    "privacy.accountant": "Accountant",
    "privacy.budgets": "ApproxDP PureDP RenyiDP ZCDP",
    "privacy.definitions": "ExplicitPolicy",
    "privacy.guarantee": "Guarantee",
    "privacy.ledger": "Ledger LedgerView",
    "privacy.stores.base": "LedgerStore MemoryStore",
    "privacy.stores.sqlite": "SQLiteStore",
    "protocols.clear": "Clear",
    "protocols.concurrent_shuffle": "ConcurrentShuffle",
    "protocols.continual": "CentralContinual",
    "protocols.factory": "protocol_for",
    "protocols.gaussian": "CentralGaussian LocalGaussian ShuffleGaussian",
    "protocols.laplace": "CentralLaplace",
    "protocols.privacy_model": "Privacy central concurrent local none shuffle",
    "protocols.randomized_response": "LocalBits",
    "protocols.shuffle_binomial": "ShuffleBinomial",
    "protocols.shuffle_bits": "ShuffleBits",
    "protocols.spherical_cap": "LocalUnit",
    "simulation.engine": "simulate",
    "simulation.figures": "plot_regret",
    "simulation.result": "Result",
    "storage.encoding": "stored_as",
}
_MODULES = {  # packages and modules, loaded when they are first used
    "environments": "simulation.environments",
    "features": "data.features",
    "ope": "data.ope",
    "datasets": "data.datasets",
    **{
        name: name
        for name in (
            *("agent", "audit", "data", "deployment", "device", "errors", "experiments", "mechanisms", "numeric"),
            *("policies", "privacy", "protocols", "simulation"),
        )
    },
}
_HOMES = {name: f"bandanna.{place}" for place, names in _NAMES.items() for name in names.split()}

__all__ = sorted(["__version__", *_HOMES, *_MODULES])

if TYPE_CHECKING:
    from bandanna import agent as agent
    from bandanna import audit as audit
    from bandanna import data as data
    from bandanna import deployment as deployment
    from bandanna import device as device
    from bandanna import errors as errors
    from bandanna import experiments as experiments
    from bandanna import mechanisms as mechanisms
    from bandanna import numeric as numeric
    from bandanna import policies as policies
    from bandanna import privacy as privacy
    from bandanna import protocols as protocols
    from bandanna import simulation as simulation
    from bandanna.agent.agent import Agent as Agent
    from bandanna.agent.continual_sum import ContinualSum as ContinualSum
    from bandanna.agent.episodes import Decision as Decision
    from bandanna.data import datasets as datasets
    from bandanna.data import features as features
    from bandanna.data import ope as ope
    from bandanna.data.logs import Log as Log
    from bandanna.data.replay import Replay as Replay
    from bandanna.data.replay import replay as replay
    from bandanna.device.action_selection import Choice as Choice
    from bandanna.device.domain import Ball as Ball
    from bandanna.device.domain import Bits as Bits
    from bandanna.device.domain import Box as Box
    from bandanna.device.domain import Domain as Domain
    from bandanna.device.domain import Estimate as Estimate
    from bandanna.device.domain import Statistic as Statistic
    from bandanna.device.domain import SymmetricMatrix as SymmetricMatrix
    from bandanna.device.linear_report import LinearReport as LinearReport
    from bandanna.device.noise import FastNoise as FastNoise
    from bandanna.device.noise import NoiseSource as NoiseSource
    from bandanna.device.noise import SecureNoise as SecureNoise
    from bandanna.device.weighted_report import ImportanceWeightDomain as ImportanceWeightDomain
    from bandanna.errors import BandannaError as BandannaError
    from bandanna.experiments.experiment import Experiment as Experiment
    from bandanna.experiments.plan import plan as plan
    from bandanna.experiments.run import Results as Results
    from bandanna.experiments.run import run as run
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
    from bandanna.policies.glm.rare_switching import RSGLinUCB as RSGLinUCB
    from bandanna.policies.linear.anytime import Anytime as Anytime
    from bandanna.policies.linear.base import geometric as geometric
    from bandanna.policies.linear.base import uniform as uniform
    from bandanna.policies.linear.confidence import PaperConfidence as PaperConfidence
    from bandanna.policies.linear.lints import LinTS as LinTS
    from bandanna.policies.linear.linucb import LinUCB as LinUCB
    from bandanna.policies.linear.oful import OFUL as OFUL
    from bandanna.policies.linear.oful_jdp import OFULJDP as OFULJDP
    from bandanna.policies.linear.private_rewards import LinTSRewards as LinTSRewards
    from bandanna.policies.population import PhasedElimination as PhasedElimination
    from bandanna.policies.registry import make as make
    from bandanna.privacy.accountant import Accountant as Accountant
    from bandanna.privacy.budgets import ZCDP as ZCDP
    from bandanna.privacy.budgets import ApproxDP as ApproxDP
    from bandanna.privacy.budgets import PureDP as PureDP
    from bandanna.privacy.budgets import RenyiDP as RenyiDP
    from bandanna.privacy.definitions import ExplicitPolicy as ExplicitPolicy
    from bandanna.privacy.guarantee import Guarantee as Guarantee
    from bandanna.privacy.ledger import Ledger as Ledger
    from bandanna.privacy.ledger import LedgerView as LedgerView
    from bandanna.privacy.stores.base import LedgerStore as LedgerStore
    from bandanna.privacy.stores.base import MemoryStore as MemoryStore
    from bandanna.privacy.stores.sqlite import SQLiteStore as SQLiteStore
    from bandanna.protocols.clear import Clear as Clear
    from bandanna.protocols.concurrent_shuffle import ConcurrentShuffle as ConcurrentShuffle
    from bandanna.protocols.continual import CentralContinual as CentralContinual
    from bandanna.protocols.factory import protocol_for as protocol_for
    from bandanna.protocols.gaussian import CentralGaussian as CentralGaussian
    from bandanna.protocols.gaussian import LocalGaussian as LocalGaussian
    from bandanna.protocols.gaussian import ShuffleGaussian as ShuffleGaussian
    from bandanna.protocols.laplace import CentralLaplace as CentralLaplace
    from bandanna.protocols.privacy_model import Privacy as Privacy
    from bandanna.protocols.privacy_model import central as central
    from bandanna.protocols.privacy_model import concurrent as concurrent
    from bandanna.protocols.privacy_model import local as local
    from bandanna.protocols.privacy_model import none as none
    from bandanna.protocols.privacy_model import shuffle as shuffle
    from bandanna.protocols.randomized_response import LocalBits as LocalBits
    from bandanna.protocols.shuffle_binomial import ShuffleBinomial as ShuffleBinomial
    from bandanna.protocols.shuffle_bits import ShuffleBits as ShuffleBits
    from bandanna.protocols.spherical_cap import LocalUnit as LocalUnit
    from bandanna.simulation import environments as environments
    from bandanna.simulation.engine import simulate as simulate
    from bandanna.simulation.figures import plot_regret as plot_regret
    from bandanna.simulation.result import Result as Result
    from bandanna.storage.encoding import stored_as as stored_as


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that `import bandanna` costs nothing (PEP 562)."""
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    elif name in _MODULES:
        value = importlib.import_module(f"bandanna.{_MODULES[name]}")
    else:
        from bandanna.errors import did_you_mean

        hint = "" if name.startswith("_") else did_you_mean(name, __all__).strip()
        words = f"module 'bandanna' has no attribute {name!r}{': ' * bool(hint)}{hint}"
        raise AttributeError(words, name=name, obj=sys.modules[__name__])
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
