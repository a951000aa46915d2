"""Paper 004's figures 4 and 5: what zCDP costs in three settings, and where in the computation noise costs least.

*published*: rewards with N(0, 1) noise and contexts of any norm, as in the paper's section VII, and the noise printed
for rewards in [-1, 1] and norms up to 1. Neither bound holds there, so the noise gives less than its nominal rho: the
range that is really declared (6 standard deviations around the largest mean) makes `true_rho` the price of that very
noise. *ours*: the same means with rewards that stay in [-1, 1] (Gaussian noise, clipped, centred so that the mean is
right) and contexts of norm 1: the nominal rho is the true one. Finite arms are Bernoulli, where both are the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.environments.base import Environment
from bandanna.environments.finite import FiniteArms
from bandanna.environments.levels import ClippedGaussian
from bandanna.environments.sphere import SphereArms, SphereContexts
from bandanna.experiments.sweep import merged
from bandanna.experiments.workers import Progress, silent
from bandanna.papers.common.curve import Curve, Row, ending, finite
from bandanna.papers.common.gather import gather
from bandanna.papers.p004.remembered import Remembered
from bandanna.policies.arms.gope import GOPE
from bandanna.policies.arms.ucb_episodes import UCBEpisodes
from bandanna.policies.linear.oful import OFUL
from bandanna.protocols.trust import central, none
from bandanna.simulation.engine import simulate
from bandanna.simulation.result import Result

MEANS = (0.75, 0.625, 0.5, 0.375, 0.25)  # section VII, after Sajed and Sheffet 2019
DIM, ARMS, FAILURE, RIDGE = 3, 10, 1e-3, 0.1
RHOS = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
SETTINGS = {"finite": ("ours",), "linear": ("published", "ours"), "contextual": ("published", "ours")}
DEFAULTS = {"finite": (10**7, 100), "linear": (10**7, 100), "contextual": (10**5, 20)}  # rounds, runs
NAMES = {"finite": "AdaC-UCB", "linear": "AdaC-GOPE", "contextual": "AdaC-OFUL"}
REMEMBERED = 200_000  # rounds at most whose contexts of a seed are kept: 64 MB
WIDE, NORM = {"linear": 7.0, "contextual": 10.0}, 4.0  # what published rewards and contexts really keep to


@dataclass(frozen=True, kw_only=True)
class Price:
    """A private curve beside the one without privacy, on the same seeds."""

    private: Curve
    free: Curve

    @property
    def results(self) -> tuple[Result, Result]:
        """Private and free."""
        assert self.private.result is not None
        assert self.free.result is not None
        return self.private.result, self.free.result

    @property
    def pop(self) -> Floats:
        """Price of privacy over time: (private - free) / free, of mean regrets, (C,)."""
        private, free = (result.mean() for result in self.results)
        return np.asarray((private - free) / np.where(free > 0, free, math.nan))

    @property
    def row(self) -> Row:
        """The private curve's row, the difference with its standard error (paired), and the price at three times."""
        private, free = self.results
        difference = private.final_regret - free.final_regret
        spread = float(np.std(difference, ddof=1) / math.sqrt(len(difference))) if len(difference) > 1 else None
        marks, pop = private.checkpoints, self.pop
        at = {f"pop_at_{share}": finite(pop[np.searchsorted(marks, marks[-1] * share)]) for share in (0.01, 0.1, 1.0)}
        paired = {"difference": float(np.mean(difference)), "difference_stderr": spread}
        return self.private.row | paired | {"free_mean": self.free.row["mean"]} | at


def prices(
    *,
    n_seeds: int | None = None,
    horizon: int | None = None,
    rhos: Sequence[float] = RHOS,
    settings: Sequence[str] = tuple(SETTINGS),
    jobs: int = 1,
    progress: Progress = silent,
) -> list[Price]:
    """Figure 4: every setting and variant at every rho; rounds and runs are each setting's own unless given."""
    wanted = [(s, v) for s in settings for v in SETTINGS[require.one_of("setting", s, tuple(SETTINGS))]]
    tasks = [_task(s, v, (None, *rhos), horizon, n_seeds) for s, v in wanted]
    parts = [part for task in tasks for part in _parts(task)]
    found = _joined(parts, gather(curves, parts, jobs=jobs, progress=progress))
    step = 1 + len(rhos)
    groups = [found[begin : begin + step] for begin in range(0, len(found), step)]
    return [Price(private=private, free=free) for free, *rest in groups for private in rest]


def noise_levels(
    *,
    n_seeds: int | None = None,
    horizon: int | None = None,
    rhos: Sequence[float] = (0.0001, 0.001, 0.01, 0.1, 1.0),
    jobs: int = 1,
    progress: Progress = silent,
) -> list[Curve]:
    """Figure 5: AdaC-GOPE and its variant with noise in the beginning."""
    tasks = [
        _task("linear", variant, (rho,), horizon, n_seeds) | {"early": early}
        for variant in SETTINGS["linear"]
        for rho in rhos
        for early in (False, True)
    ]
    return [one for (one,) in gather(curves, tasks, jobs=jobs, progress=progress)]


def _task(
    setting: str, variant: str, rhos: Sequence[float | None], horizon: int | None, runs: int | None
) -> dict[str, Any]:
    own = DEFAULTS[setting]
    return {
        "setting": setting,
        "variant": variant,
        "rhos": rhos,
        "horizon": own[0] if horizon is None else require.whole("horizon", horizon),
        "n_seeds": own[1] if runs is None else runs,
    }


def _parts(task: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What may be done by different processes: seed by seed where curves share their contexts, else curve by curve."""
    if task["setting"] == "contextual" and task["horizon"] <= REMEMBERED:
        return [{**task, "n_seeds": 1, "seed": seed} for seed in range(task["n_seeds"])]
    return [{**task, "rhos": (rho,)} for rho in task["rhos"]]


def _joined(parts: Sequence[Mapping[str, Any]], found: Sequence[list[Curve]]) -> list[Curve]:
    """The curves in the order of the tasks, their seeds together."""
    curves: dict[tuple[str, str, float | None], list[Curve]] = {}
    for part, some in zip(parts, found, strict=True):
        for rho, one in zip(part["rhos"], some, strict=True):
            curves.setdefault((part["setting"], part["variant"], rho), []).append(one)
    return [merged_curve(some) for some in curves.values()]


def merged_curve(parts: Sequence[Curve]) -> Curve:
    """One curve of different seeds; as if they had been run together, since a seed is the same run in any company."""
    if len(parts) == 1:
        return parts[0]
    result = merged([part.result for part in parts if part.result is not None])
    clipped = sum(part.row["clipped"] for part in parts)
    return Curve(row=parts[0].row | {"clipped": clipped} | ending(result), result=result)


def curves(
    *,
    setting: str,
    variant: str,
    rhos: Sequence[float | None],
    horizon: int,
    n_seeds: int,
    seed: int = 0,
    early: bool = False,
) -> list[Curve]:
    """Curves of one problem; of a single seed, contexts are drawn once for all of them."""
    env = problem(setting, variant, None, horizon)[1]
    shared = Remembered(dim=env.dim, n_arms=env.n_arms, reward=env.reward, of=env, rounds=horizon)
    world = shared if setting == "contextual" and n_seeds == 1 and horizon <= REMEMBERED else None
    given: dict[str, Any] = {
        "setting": setting,
        "variant": variant,
        "horizon": horizon,
        "n_seeds": n_seeds,
        "seed": seed,
    }
    return [curve(**given, rho=rho, early=early, world=world) for rho in rhos]


def curve(
    *,
    setting: str,
    variant: str,
    rho: float | None,
    horizon: int,
    n_seeds: int,
    seed: int = 0,
    early: bool = False,
    world: Remembered | None = None,
) -> Curve:
    """One curve; `world` is the problem's own, where others have seen it too."""
    policy, env = problem(setting, variant, rho, horizon, early=early)
    result = simulate(policy, env if world is None else world, n_seeds=n_seeds, seed=seed, checkpoints=1000)
    name = NAMES[setting] + "-early" * early
    free = {"finite": "UCB-episodes", "linear": "GOPE", "contextual": "RS-OFUL"}[setting]
    row = {
        "setting": setting,
        "variant": variant,
        "algorithm": free if rho is None else name,
        "rho": rho,
        "true_rho": None if rho is None else policy.guarantee.rho,
        "clipped": int(np.sum(result.clipped)),
        **ending(result),
    }
    return Curve(row=row, result=result)


def problem(
    setting: str, variant: str, rho: float | None, horizon: int, *, early: bool = False
) -> tuple[UCBEpisodes | GOPE | OFUL, Environment]:
    """Policy and world of one curve.

    Noise for a width of 2 and norms up to 1 has the price rho (w L / 2)^2 for the real width w and norm L.
    """
    if setting == "finite":
        privacy = none() if rho is None else central(rho=rho)
        return UCBEpisodes(n_arms=len(MEANS), horizon=horizon, privacy=privacy), FiniteArms(means=MEANS)
    published = require.one_of("variant", variant, ("published", "ours")) == "published"
    end = WIDE[setting] if published else 1.0
    norm = NORM if published and setting == "contextual" else 1.0
    shared: dict[str, Any] = {
        "dim": DIM,
        "horizon": horizon,
        "privacy": none() if rho is None else central(rho=(end * norm) ** 2 * rho),
        "reward_range": (-end, end),
        "reward_std": 1.0,
        "failure": FAILURE,
    }
    law = ClippedGaussian(std=1.0, low=-end, high=end, levels=20 * int(end) + 1)
    if setting == "linear":
        world: Environment = SphereArms(dim=DIM, n_arms=ARMS, reward=law)
        return GOPE(noise="beginning" if early else "intermediate", **shared), world
    world = SphereContexts(dim=DIM, n_arms=ARMS, reward=law, scaled=not published)
    return OFUL(ridge=RIDGE, feature_bound=norm, parameter_bound=1.0, **shared), world
