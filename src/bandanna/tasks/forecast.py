"""What is to be expected of a task's policy: its regret in a typical world of its kind, simulated for a few seeds.

Whether there is a forecast depends on the policy alone, never on the clock: a file always gives the same document.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from bandanna.agent.arms import features_of
from bandanna.core.arm_sets import FixedArms
from bandanna.environments.base import Environment
from bandanna.environments.disjoint import DisjointLinear
from bandanna.environments.finite import FiniteArms
from bandanna.environments.glm import GeneralisedLinear
from bandanna.environments.linear import LinearContextual
from bandanna.environments.one_client import OneClientPerRound
from bandanna.environments.population import Population
from bandanna.environments.random_play import random_play
from bandanna.environments.sphere import SphereArms, SphereContexts
from bandanna.errors import BandannaError, ClippingWarning
from bandanna.policies.arms.finite import FiniteArmed
from bandanna.policies.arms.gope import GOPE
from bandanna.policies.arms.thompson import Thompson
from bandanna.policies.arms.ucb1 import EveryRound
from bandanna.policies.base import Policy, RunningSums
from bandanna.policies.distributed.phased_elimination import PhasedElimination
from bandanna.policies.glm.base import GLMPolicy
from bandanna.policies.glm.batched import Batched
from bandanna.policies.linear.oful_jdp import OFULJDP
from bandanna.simulation.engine import simulate

_ARMS = 10  # of a world, where the task does not say how many there are
_SEEDS = (4, 2)
_NUMBERS = 10**8  # that may be drawn: some 3 seconds
_OTHER = 40  # numbers for each user beside the features
_RELEASES = 3_000  # for all seeds side by side: some 3 seconds


def forecast(policy: Policy[Any], arms: FixedArms | None = None) -> dict[str, Any] | None:
    """Mean regret over the seeds, and that of random play; None where no world fits, or it would take too long.

    >>> from bandanna.policies.registry import make
    >>> sorted(forecast(make("LinTS", dim=2, horizon=50)))
    ['environment', 'random play', 'regret', 'rounds', 'seeds', 'stderr']
    """
    env, rounds = world_for(policy, arms), policy.horizon
    if env is None or rounds is None or _releases(policy, rounds) > _RELEASES:
        return None
    numbers = (rounds + _clients(policy)) * (env.n_arms * env.dim + _OTHER)
    seeds = next((each for each in _SEEDS if each * numbers <= _NUMBERS), None)
    if seeds is None:
        return None
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", ClippingWarning)  # of a world that the policy's user did not choose
            regret = simulate(policy, env, n_seeds=seeds, checkpoints=1, path="law").final_regret
            idle = random_play(_rounds_of(env), horizon=rounds, n_seeds=seeds)
    except (BandannaError, ArithmeticError, MemoryError, ValueError):  # a world that does not fit after all
        return None
    found = {
        "regret": float(np.mean(regret)),
        "stderr": float(np.std(regret, ddof=1)) / math.sqrt(seeds),
        "random play": float(np.mean(idle)),
    }
    if not all(map(math.isfinite, found.values())):
        return None
    return {"environment": _described(env), "rounds": rounds, "seeds": seeds, **found}


def world_for(policy: Policy[Any], arms: FixedArms | None = None) -> Environment | None:
    """A typical world with the policy's numbers of arms and features."""
    dim, count = features_of(policy), getattr(policy, "n_arms", None)
    several = count or (_ARMS if arms is None else len(arms.ids))
    try:
        if isinstance(policy, FiniteArmed):
            return FiniteArms(means=np.linspace(0.75, 0.25, policy.n_arms))
        if isinstance(policy, PhasedElimination):
            return Population(dim=dim, n_arms=several, sigma=policy.sigma)
        if isinstance(policy, GOPE):
            return SphereArms(dim=dim, n_arms=several)
        if isinstance(policy, OFULJDP):
            return SphereContexts(dim=dim, n_arms=several)
        if isinstance(policy, GLMPolicy):
            return GeneralisedLinear(dim=dim, n_arms=several, norm=policy.parameter_bound, link=policy.link)
        if dim == 0:
            return None
        if count is not None:
            return DisjointLinear(dim=dim, n_arms=count)
        return LinearContextual(dim=dim, n_arms=several, fixed=arms is not None)
    except BandannaError:
        return None


def _rounds_of(env: Environment) -> Environment:
    """The same worlds, round by round."""
    return OneClientPerRound(population=env) if isinstance(env, Population) else env


def _releases(policy: Policy[Any], rounds: int) -> int:
    """How many steps a simulation has; 1 for the few that elimination and growing batches have."""
    if isinstance(policy, RunningSums):
        return max((len(channel.sizes) for channel in policy.calibrated().values()), default=1)
    every = isinstance(policy, EveryRound | Thompson) or (
        isinstance(policy, GLMPolicy) and not isinstance(policy, Batched)
    )
    return rounds if every else 1


def _clients(policy: Policy[Any]) -> int:
    """How many people the last phase asks, where clients answer for many rounds."""
    if not isinstance(policy, PhasedElimination):
        return 0
    return policy.clients or math.ceil(2 ** min(policy.alpha * policy.phases, 60.0))


def _described(env: Environment) -> str:
    fixed = ", the same for everybody" * bool(getattr(env, "fixed", False))
    features = "" if isinstance(env, FiniteArms) else f", {env.dim} features{fixed}"
    return f"{type(env).__name__}: {env.n_arms} arms{features}"
