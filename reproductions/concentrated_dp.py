"""Paper 004, what zCDP costs: its figures 4 and 5, and Proposition 1(e).

Proposition 1(e) is a policy that is (0.95, 0.17)-View DP and not (0.95, 0.17)-Table DP. Three rounds, two arms, rewards
0 and 1. The paper prints the probability of arm 0 for every history (a_1, r_1, a_2, r_2), read as a binary number; the
chance of arm 1 is the rest (appendix B-A).

Figure 4 shows what zCDP costs in three settings, figure 5 where in the computation noise costs least.

*published*: rewards with N(0, 1) noise and contexts of any norm, as in the paper's section VII, and the noise printed
for rewards in [-1, 1] and norms up to 1. Neither bound holds there, so the noise gives less than its nominal rho: the
range that is really declared (6 standard deviations around the largest mean) makes `true_rho` the price of that very
noise. *ours*: the same means with rewards that stay in [-1, 1] (Gaussian noise, clipped, centred so that the mean is
right) and contexts of norm 1: the nominal rho is the true one. Finite arms are Bernoulli, where both are the same.

Reference: Azize and Basu 2024 [004].
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from bandanna import validation
from bandanna.errors import InvalidBudget
from bandanna.experiments.executors import ProgressCallback, ignore_progress
from bandanna.experiments.runner import merge_results
from bandanna.policies.finite.gope import GOPE
from bandanna.policies.finite.ucb import UCBEpisodes
from bandanna.policies.linear.oful import OFUL
from bandanna.privacy.definitions import ExplicitPolicy
from bandanna.protocols.privacy_model import central, none
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.base import Environment
from bandanna.simulation.environments.finite import ClippedGaussian, FiniteArms
from bandanna.simulation.environments.linear import SphereArms, SphereContexts
from bandanna.simulation.figures import PALETTE, colour_of, decorate_axes, house_style, make_axes, save_both
from bandanna.simulation.result import Result
from bandanna.types import Floats
from reproductions.figure import REGRET, Curve, Figure, Row, at_once, ending, finite, gather
from reproductions.rates import draw_panels, with_end
from reproductions.remembered import RememberedContexts

EPSILON, DELTA = 0.95, 0.17

_FIRST_ARM = (
    (2 / 3,),  # pi_1
    (1 / 2, 1 / 3, 1 / 4, 1 / 3),  # pi_2: histories 00, 01, 10, 11
    (1 / 2, 1 / 3, 1 / 4, 1 / 5, 1 / 2, 2 / 3, 1 / 4, 0, 1 / 3, 1 / 7, 3 / 4, 2 / 5, 1 / 2, 1, 1 / 4, 2 / 3),  # pi_3
)


def printed_policy() -> ExplicitPolicy:
    """The policy of Proposition 1(e)."""
    return ExplicitPolicy.from_rules([[(first, 1 - first) for first in rule] for rule in _FIRST_ARM])


def definitions(*, epsilon: float = EPSILON, delta: float = DELTA) -> dict[str, float | None]:
    """The least delta at `epsilon` and the least epsilon at `delta` that the policy has; None where there is none."""
    if not 0 <= epsilon < math.inf:
        raise InvalidBudget("epsilon", epsilon, "a finite number >= 0")
    validation.delta(delta)
    policy = printed_policy()
    return {
        "view_delta_at_epsilon": policy.view.delta(epsilon),
        "table_delta_at_epsilon": policy.table.delta(epsilon),
        "view_epsilon_at_delta": finite(policy.view.epsilon(delta)),
        "table_epsilon_at_delta": finite(policy.table.epsilon(delta)),
    }


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
    progress: ProgressCallback = ignore_progress,
) -> list[Price]:
    """Figure 4: every setting and variant at every rho; rounds and runs are each setting's own unless given."""
    wanted = [(s, v) for s in settings for v in SETTINGS[validation.one_of("setting", s, tuple(SETTINGS))]]
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
    progress: ProgressCallback = ignore_progress,
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
        "horizon": own[0] if horizon is None else validation.integer("horizon", horizon),
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
    result = merge_results([part.result for part in parts if part.result is not None])
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
    shared = RememberedContexts(dim=env.dim, n_arms=env.n_arms, reward=env.reward, source=env, rounds=horizon)
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
    world: RememberedContexts | None = None,
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
    published = validation.one_of("variant", variant, ("published", "ours")) == "published"
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


_TITLES = {"finite": "Finite arms", "linear": "Linear, fixed arms", "contextual": "Linear, public contexts"}


def draw_prices(prices: Sequence[Price], stem: Path) -> list[Path]:
    """For each setting and variant, the difference in regret against rho and the price against time."""
    panels: dict[tuple[str, str], list[Price]] = {}
    for price in prices:
        panels.setdefault((price.row["setting"], price.row["variant"]), []).append(price)
    paths = []
    for (setting, variant), panel in panels.items():
        for name, draw in (("rho", _against_rho), ("time", _against_time)):
            with house_style():
                figure, axes = make_axes((8.4, 5.2), (0.12, 0.13, 0.66, 0.72))
                draw(axes, panel, f"{_TITLES[setting]}, {variant}")
                axes.axhline(0.0, color="black", linewidth=1)
            paths += save_both(figure, with_end(stem, f"{setting}-{variant}-{name}"))
    return paths


def _against_rho(axes: Any, panel: Sequence[Price], title: str) -> None:
    rows = [price.row for price in panel]
    rhos, means = [row["true_rho"] for row in rows], [row["difference"] for row in rows]
    spread = [2 * (row["difference_stderr"] or 0.0) for row in rows]
    axes.errorbar(rhos, means, yerr=spread, color=PALETTE[0], marker="o", capsize=3)
    axes.set_xscale("log")
    axes.set_xlim(min(rhos) / 2, max(rhos) * 2)
    decorate_axes(
        axes, title, "bars: ± 2 standard errors", across="true rho, of what ran", up="private minus non-private regret"
    )


def _against_time(axes: Any, panel: Sequence[Price], title: str) -> None:
    for index, price in enumerate(panel):
        marks = price.results[0].checkpoints
        axes.plot(marks, price.pop, color=colour_of(index), label=_budget(price))
    least, most = (float(choose([choose(price.pop) for price in panel])) for choose in (np.nanmin, np.nanmax))
    axes.set_xscale("log")
    axes.set_ylim(min(-0.05, least), 1.05 * max(most, 0.1))
    axes.set_yscale("symlog", linthresh=0.1)
    axes.legend()
    note = "difference of mean regrets over that without privacy; rho and ε: what the noise really gives"
    decorate_axes(axes, title, note, across="rounds", up="price of privacy")


def _budget(price: Price) -> str:
    """Of what ran, which is not what was printed where rewards are wider than its noise is for."""
    guarantee = price.results[0].guarantee
    return f"rho = {price.row['true_rho']:.3g}, {guarantee.brief()}"


_CURVE = ("algorithm", "variant", "rho:g", "true rho=true_rho:.4g")
_CAPTION = "true rho: what the noise really gives, for rewards and contexts as they are"


def _verdicts(found: tuple[dict[str, float], dict[str, float | None]]) -> list[str]:
    """Which definition holds, and what would have to be given up for it."""
    budget, least = found
    pair = "({epsilon:g}, {delta:g})".format(**budget)
    words = ["The policy of Proposition 1(e) in paper 004 (3 rounds, 2 arms, rewards 0 and 1):"]
    for name in ("view", "table"):
        delta, epsilon = least[f"{name}_delta_at_epsilon"], least[f"{name}_epsilon_at_delta"]
        verdict = "" if delta is not None and delta <= budget["delta"] else "not "
        words.append(
            f"  {verdict}{pair}-{name.title()} DP: smallest delta at epsilon = {budget['epsilon']:g} is {delta:.4f}, "
            f"smallest epsilon at delta = {budget['delta']:g} is {'none' if epsilon is None else f'{epsilon:.4f}'}"
        )
    return words


FIGURES = (
    Figure(
        name="fig4",
        shows="what privacy costs finite and linear arms (10,000,000 rounds, 100 runs) and contexts (100,000, 20)",
        options={"seeds": None, "horizon": None},
        compute=prices,
        lines=lambda found: [price.row for price in found],
        columns=(
            *(*_CURVE, "regret=mean:,.0f", "without=free_mean:,.0f", "difference:,.0f", "+-=difference_stderr:,.0f"),
            *("PoP T/100=pop_at_0.01:.1%", "T/10=pop_at_0.1:.1%", "T=pop_at_1.0:.1%"),
        ),
        caption=f"{_CAPTION}; PoP: price of privacy, difference over regret without",
        draw=draw_prices,
    ),
    Figure(
        name="fig5",
        shows="AdaC-GOPE with noise at two places, for five rho",
        options=dict(zip(("horizon", "seeds"), DEFAULTS["linear"], strict=True)),
        compute=noise_levels,
        columns=(*_CURVE, *REGRET),
        caption=_CAPTION,
        draw=partial(
            draw_panels,
            name="{variant}-rho{rho:g}",
            title="Noise at two places, {variant}: rho = {rho:g}",
        ),
    ),
    Figure(
        name="definitions",
        shows="a policy that is View DP and not Table DP",
        options={"epsilon": EPSILON, "delta": DELTA},
        compute=at_once(lambda **budget: (budget, definitions(**budget))),
        document=itemgetter(1),
        lines=lambda found: [],
        notes=_verdicts,
    ),
)
