"""`plan`: forecast by simulation how well a bandit learns with a number of users."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from bandanna import validation
from bandanna.errors import InvalidArgument
from bandanna.experiments.executors import ProgressCallback, ignore_progress
from bandanna.policies.registry import make
from bandanna.privacy.guarantee import Guarantee
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.base import Environment, regret_of_random_play
from bandanna.simulation.environments.linear import DisjointLinear, LinearContextual
from bandanna.types import Floats
from bandanna.validation import checked_keywords

TRUST = {"none": "LinTS", "central": "LinTS-JDP", "shuffle": "LinTS-SDP", "local": "LinTS-LDP"}
HOPELESS = 0.8  # with a larger share, nothing is learned
USEFUL = 0.5
_LEAST = 16  # users: two batches of 2, and users after them
_NUMBERS = 10**10  # of a plan at most: a quarter of an hour for each privacy model
_SEARCH = 2 * 10**8  # of the largest simulation of a search: some 20 seconds
_OTHER = 40  # numbers for each user beside the features
_SEEDS = 5  # of a search, at most


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """The forecast for one privacy model.

    Parameters
    ----------
    share, stderr
        Mean regret divided by that of random play, and its standard error (NaN for one seed).
    regret
        Mean rewards lost against the best arm.
    first_batch
        Users before anything is learned.
    releases
        Number of published sums.
    enough, tried
        If `hopeless`, the number of users, by doubling, with a share below 1/2; None if there is none up to `tried`
        users.
    """

    trust: str
    users: int
    share: float
    stderr: float
    regret: float
    first_batch: int
    releases: int
    bits_per_user: int
    guarantee: Guarantee
    enough: int | None = None
    tried: int | None = None

    @property
    def hopeless(self) -> bool:
        """Whether nothing is learned: a share above 0.8."""
        return self.share > HOPELESS

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; unknown values are None."""
        return {
            "trust": self.trust,
            "users": self.users,
            "share": self.share,
            "stderr": None if math.isnan(self.stderr) else self.stderr,
            "regret": self.regret,
            "first_batch": self.first_batch,
            "releases": self.releases,
            "bits_per_user": self.bits_per_user,
            "hopeless": self.hopeless,
            "enough": self.enough,
            "tried": self.tried,
            "guarantee": self.guarantee.to_dict(),
        }


@dataclass(frozen=True, kw_only=True)
class _PlanProblem:
    """The simulated problem, for any number of users."""

    dim: int
    n_arms: int
    epsilon: float
    delta: float
    fixed: bool
    per_arm: bool
    seed: int

    def environment(self) -> Environment:
        if self.per_arm:
            return DisjointLinear(dim=self.dim, n_arms=self.n_arms)
        return LinearContextual(dim=self.dim, n_arms=self.n_arms, fixed=self.fixed)

    def policy(self, trust: str, users: int) -> Any:
        budget = {} if trust == "none" else {"epsilon": self.epsilon, "delta": self.delta}
        if self.per_arm:
            return make(TRUST[trust], n_arms=self.n_arms, features=self.dim, horizon=users, **budget)
        return make(TRUST[trust], dim=self.dim, horizon=users, intercept=True, **budget)

    def numbers(self, users: int, n_seeds: int) -> int:
        return n_seeds * users * (self.n_arms * self.dim + _OTHER)

    def forecast(self, trust: str, users: int, n_seeds: int) -> Forecast:
        env, policy = self.environment(), self.policy(trust, users)
        result = simulate(policy, env, n_seeds=n_seeds, seed=self.seed, checkpoints=1)
        idle = regret_of_random_play(env, horizon=users, n_seeds=n_seeds, seed=self.seed)
        share, stderr = _regret_ratio(result.final_regret, idle)
        return Forecast(
            trust=trust,
            users=users,
            share=share,
            stderr=stderr,
            regret=float(np.mean(result.final_regret)),
            first_batch=policy._channel.sizes[0],
            releases=result.releases,
            bits_per_user=result.bits_per_user,
            guarantee=result.guarantee,
        )


@checked_keywords("bd.plan")
def plan(
    *,
    dim: int | None = None,
    features: int | None = None,
    n_arms: int,
    users: int,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    trust: str = "all",
    fixed: bool = False,
    search: bool = True,
    n_seeds: int = 10,
    seed: int = 0,
    progress: ProgressCallback = ignore_progress,
) -> tuple[Forecast, ...]:
    """Forecast the regret of LinTS as a share of random play's, under one privacy model or all.

    Parameters
    ----------
    dim : int, optional
        Features of arms, the last of which is constant (`intercept=True`): at least 2.
    features : int, optional
        Features of users, instead of `dim`, with a model for every arm, `LinTS(n_arms=, features=)`.
    n_arms, users : int
        Arms, and rounds with one user each.
    trust : {"none", "central", "shuffle", "local", "all"}
        The privacy models.
    fixed : bool
        Arms have the same features for all users, not new ones for each.
    search : bool
        Where nothing is learned, double the users until something is, if that takes only seconds.
    n_seeds, seed : int
        Runs, and the first seed.
    progress : callable
        Called with the work done, all work, and a text.

    Returns
    -------
    tuple of Forecast
        One for each privacy model.
    """
    if dim is None and features is None:
        raise InvalidArgument("dim", None, "an integer, unless `features` is given")
    if dim is not None and features is not None:
        raise InvalidArgument("features", features, "left out if `dim` is given")
    if features is not None and validation.boolean("fixed", fixed):
        raise InvalidArgument("fixed", fixed, "False if `features` is given")
    sized = ("dim", dim, 2) if features is None else ("features", features, 1)
    problem = _PlanProblem(
        dim=validation.integer(sized[0], sized[1], least=sized[2], most=200),
        per_arm=features is not None,
        n_arms=validation.integer("n_arms", n_arms, least=2, most=10_000),
        epsilon=validation.epsilon(epsilon),
        delta=validation.delta(delta),
        fixed=validation.boolean("fixed", fixed),
        seed=validation.integer("seed", seed, least=0, most=validation.SEED_LIMIT),
    )
    search = validation.boolean("search", search)
    users = validation.integer("users", users, least=_LEAST, most=10**9)
    n_seeds = validation.integer("n_seeds", n_seeds, most=1_000)
    if (numbers := problem.numbers(users, n_seeds)) > _NUMBERS:
        hint = f"They need {numbers:.1e} random numbers, and at most {_NUMBERS:.0e} are drawn"
        raise InvalidArgument("users", users, "fewer for this n_seeds", hint)
    models = tuple(TRUST) if validation.one_of("trust", trust, ("all", *TRUST)) == "all" else (trust,)
    forecasts = []
    for done, model in enumerate(models):
        progress(done, len(models), f"{n_seeds} x {users:,} users: {model}")
        found = problem.forecast(model, users, n_seeds)
        if found.hopeless and search:
            say = partial(_report_progress, progress, done, len(models))
            found = _find_enough_users(problem, found, min(n_seeds, _SEEDS), say)
        forecasts.append(found)
    return tuple(forecasts)


def _report_progress(progress: ProgressCallback, done: int, total: int, what: str) -> None:
    progress(done, total, what)


def _find_enough_users(problem: _PlanProblem, found: Forecast, n_seeds: int, say: Callable[[str], None]) -> Forecast:
    users = found.users
    while problem.numbers(2 * users, n_seeds) <= _SEARCH:
        users *= 2
        say(f"{found.trust}: are {users:,} users enough?")
        if problem.forecast(found.trust, users, n_seeds).share < USEFUL:
            return replace(found, enough=users, tried=users)
    return replace(found, tried=users)


def _regret_ratio(regret: Floats, idle: Floats) -> tuple[float, float]:
    """Return mean(regret) / mean(idle) of (S,) with its standard error by the delta method."""
    mean = float(np.mean(idle))
    if mean == 0:
        raise InvalidArgument("n_seeds", len(idle), "larger: in these worlds all arms are alike")
    share = float(np.mean(regret)) / mean
    if len(idle) == 1:
        return share, math.nan
    return share, float(np.std(regret - share * idle, ddof=1)) / (math.sqrt(len(idle)) * mean)
