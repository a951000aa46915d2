"""Bandanna: differentially private bandits in every privacy model, from simulation to production."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bandanna._lazy import load_lazily

__version__ = "0.1.0"

_NAMES = {  # modules and the public names that they define
    "agent.agent": "Agent",
    "agent.episodes": "Decision",
    "data.logs": "Log",
    "data.replay": "replay",
    "errors": "BandannaError",
    "experiments.plan": "plan",
    "policies.base": "Policy",
    "policies.linear.lints": "LinTS",
    "policies.linear.linucb": "LinUCB",
    "policies.registry": "make",
    "privacy.guarantee": "Guarantee",
    "privacy.ledger": "Ledger",
    "protocols.privacy_model": "central concurrent local none shuffle",
    "simulation.engine": "simulate sweep",
    "simulation.figures": "plot_regret",
    "storage.encoding": "stored_as",
}
_MODULES = {
    "audit": "audit",
    "datasets": "data.datasets",
    "environments": "simulation.environments",
    "features": "data.features",
    "ope": "data.ope",
    "policies": "policies",
    "privacy": "privacy",
    "protocols": "protocols",
}
_OTHERS = ("agent", "data", "deployment", "device", "errors", "experiments", "mechanisms", "numeric", "simulation")

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
    from bandanna.agent.episodes import Decision as Decision
    from bandanna.data import datasets as datasets
    from bandanna.data import features as features
    from bandanna.data import ope as ope
    from bandanna.data.logs import Log as Log
    from bandanna.data.replay import replay as replay
    from bandanna.errors import BandannaError as BandannaError
    from bandanna.experiments.plan import plan as plan
    from bandanna.policies.base import Policy as Policy
    from bandanna.policies.linear.lints import LinTS as LinTS
    from bandanna.policies.linear.linucb import LinUCB as LinUCB
    from bandanna.policies.registry import make as make
    from bandanna.privacy.guarantee import Guarantee as Guarantee
    from bandanna.privacy.ledger import Ledger as Ledger
    from bandanna.protocols.privacy_model import central as central
    from bandanna.protocols.privacy_model import concurrent as concurrent
    from bandanna.protocols.privacy_model import local as local
    from bandanna.protocols.privacy_model import none as none
    from bandanna.protocols.privacy_model import shuffle as shuffle
    from bandanna.simulation import environments as environments
    from bandanna.simulation.engine import simulate as simulate
    from bandanna.simulation.engine import sweep as sweep
    from bandanna.simulation.figures import plot_regret as plot_regret
    from bandanna.storage.encoding import stored_as as stored_as
else:
    __getattr__, __dir__, __all__ = load_lazily(__name__, _NAMES, {**_MODULES, **{name: name for name in _OTHERS}})
    __all__ = [name for name in __all__ if name not in _OTHERS]
