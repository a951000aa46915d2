"""Paper 001, one action for a whole population, learned from a few clients: figures 2 and 3, Table II, rates.

Settings as printed (section VI): d = 20, 1000 actions, sigma = 0.1, 10^5 users, alpha = 0.8, T = 10^6, 20 runs,
delta = 0.1. Not printed, and ours: actions and theta* are uniform directions; local rewards are -1 or 1, so B = 1;
LinUCB learns after every 10 rounds.

fig2a   regret at T against epsilon: CDP-, SDP- and LDP-DPE; DPE beside them, and the printed noise where it holds
fig2b   regret per round over time at epsilon = 10
fig2c   DPE against DPE-FixedU with U = ceil(sum |U_l| N_l / sum N_l), the same communication
fig3    regret at T = 5 10^4 of LinUCB and PE, one client per round, and of DPE for several alpha
table2  what they communicate
scaling slopes of log regret in log T against alpha; the theorem says 1 - alpha/2 for T^{1 - alpha/2}

Instance of `scaling`, the *fan*: actions (cos a, sin a) in the plane at the angles a = 0 and 2^{-k/2}, k = 0, ..., 39,
and theta* = (0.6, 0): gaps 0.6 (1 - cos a) at every scale, so that in every phase the actions still played are about as
bad as the width allows, and regret is of the order of its bound. sigma = 0.1, as in the figures: who the clients are is
then the largest uncertainty, since that of the rewards is smaller by sqrt(2d/h_l)/sigma.

Horizons 2^13, ..., 2^22. (Where a horizon ends within a phase moves single points off the line.)

Reference: Li, Zhou and Ji 2024 [001], section VI, Theorems 5.1 and 5.2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from bandanna import validation
from bandanna.experiments.executors import ProgressCallback, ignore_progress
from bandanna.policies.registry import make
from bandanna.privacy import accountant
from bandanna.privacy.events import GaussianEvent
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.finite import TwoPoint
from bandanna.simulation.environments.population import OneClientPerRound, Population
from bandanna.simulation.figures import plot_regret, save_both
from bandanna.simulation.result import Result
from bandanna.types import Floats
from reproductions.figure import REGRET, Curve, Figure, Row, counted, ending, gather, noted
from reproductions.rates import Line, Rate, across, draw_panels, draw_rates, rates_and_slopes, regrets_over, with_end
from reproductions.remembered import RememberedPopulation

DIM, ARMS, SIGMA, SIZE, ALPHA, DELTA, HORIZON, SEEDS = 20, 1000, 0.1, 100_000, 0.8, 0.1, 1_000_000, 20
PRIVATE = ("CDP-DPE", "SDP-DPE", "LDP-DPE")
_LINUCB_BATCH = 10


@lru_cache(maxsize=1)
def population(horizon: int) -> Population:
    """The paper's users; more than it has where a longer horizon asks for more. They answer all policies alike."""
    return RememberedPopulation(dim=DIM, n_arms=ARMS, sigma=SIGMA, size=SIZE if horizon <= HORIZON else None)


def ours(
    *,
    algorithm: str,
    horizon: int,
    n_seeds: int,
    seed: int = 0,
    alpha: float | None = ALPHA,
    epsilon: float | None = None,
    options: Mapping[str, Any] | tuple[tuple[str, Any], ...] = (),
) -> Curve:
    """One algorithm with tight noise and exact widths; the local model has Gaussian reports, as in the paper."""
    facts = {"algorithm": algorithm, "variant": "ours", "dim": DIM, "alpha": alpha, "epsilon": epsilon}
    if algorithm == "LinUCB":
        return _finished_curve(facts, _linucb(horizon, n_seeds, seed))
    budget: dict[str, Any] = {} if epsilon is None else {"epsilon": epsilon, "delta": DELTA}
    if algorithm == "LDP-DPE":
        budget["protocol"] = "gaussian"  # the paper's local randomizer, (7)
    rate = {} if alpha is None else {"alpha": alpha}
    policy = make(algorithm, dim=DIM, horizon=horizon, sigma=SIGMA, **budget, **rate, **dict(options))
    env = replace(population(horizon), size=None) if policy.per_round else population(horizon)
    result = replace(simulate(policy, env, n_seeds=n_seeds, seed=seed), name=algorithm)
    if epsilon is None:
        return _finished_curve(facts, result)
    return _finished_curve(facts, result, (result.guarantee.epsilon, result.guarantee.delta, "upper"))


def printed(*, algorithm: str, epsilon: float, horizon: int, n_seeds: int, seed: int = 0) -> Curve:
    """CDP-DPE or LDP-DPE with the noise of Theorems 4.2 and 4.4: run where the formula holds, priced everywhere."""
    facts = {"algorithm": algorithm, "variant": "published", "dim": DIM, "alpha": ALPHA, "epsilon": epsilon}
    true = true_epsilon_of_print(epsilon)
    stated = (true, accountant.delta(_event_of_print(epsilon), epsilon), "exact")
    if epsilon > 1:
        note = f"the printed noise needs epsilon <= 1; here it really gives epsilon = {true:.4g} at delta = {DELTA:g}"
        return _finished_curve(facts, None, stated, note)
    options = {"calibration": "paper", "confidence": "paper"}
    run = ours(algorithm=algorithm, horizon=horizon, n_seeds=n_seeds, seed=seed, epsilon=epsilon, options=options)
    return _finished_curve(facts, run.result, stated)


def _finished_curve(
    facts: Row,
    result: Result | None,
    true: tuple[float | None, float | None, str | None] = (None, None, None),
    note: str = "",
) -> Curve:
    """With what is really guaranteed, and what was communicated, on average over the runs.

    `true`: epsilon at the nominal delta, delta at the nominal epsilon, and how sure that is.
    """
    counts, alpha = counted(result), facts["alpha"]
    row = facts | {"delta": None if facts["epsilon"] is None else DELTA}
    row |= zip(("true_epsilon", "true_delta", "true_kind"), true, strict=True)
    row |= ending(result) | {"participants": counts.get("clients")}
    row |= {name: counts.get(name) for name in ("communication", "bits")} | {"note": note}
    label = facts["algorithm"] if alpha is None else f"{facts['algorithm']}, alpha = {alpha:g}"
    return Curve(row=row, more={"label": label}, result=result)


def true_epsilon_of_print(epsilon: float, delta: float = DELTA) -> float:
    """What sqrt(2 log(1.25/delta))/epsilon times the sensitivity gives at delta, by the accountant."""
    return accountant.epsilon(_event_of_print(epsilon, delta), delta)


def _event_of_print(epsilon: float, delta: float = DELTA) -> GaussianEvent:
    std = float(np.sqrt(2 * np.log(1.25 / delta))) / epsilon
    return GaussianEvent(std=std, sensitivity=1.0)


def _linucb(horizon: int, n_seeds: int, seed: int) -> Result:
    """One client per round; regret on the population's scale, where rewards are in [-B, B]."""
    env = OneClientPerRound(population=replace(population(horizon), size=None))
    shared = {"ties": "first", "confidence": "lemma"}
    policy = make("LinUCB", dim=DIM + 1, horizon=horizon, batch=min(_LINUCB_BATCH, horizon), **shared)
    found: Result = simulate(policy, env, n_seeds=n_seeds, seed=seed)
    law = env.population.reward
    assert isinstance(law, TwoPoint)
    asked = np.full(n_seeds, horizon, dtype=np.int64)
    counts = {"clients": asked, "communication": asked, "numbers": asked, "bits": 64 * asked}
    width = law.high - law.low
    return replace(found, name="LinUCB", regret=width * found.regret, counts=counts)


EPSILONS, EPSILON = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0), 10.0
ALPHAS, SHORT = (0.5, 0.6, 0.7, 0.8, 0.9), 50_000
CLEAR = [{"algorithm": "DPE"}]
FIG2A: list[dict[str, Any]] = [
    *CLEAR,
    *({"algorithm": name, "epsilon": epsilon} for epsilon in EPSILONS for name in PRIVATE),
    *(
        {"algorithm": name, "epsilon": epsilon, "variant": "published"}
        for epsilon in EPSILONS
        for name in ("CDP-DPE", "LDP-DPE")
    ),
]
FIG2B: list[dict[str, Any]] = [*CLEAR, *({"algorithm": name, "epsilon": EPSILON} for name in PRIVATE)]
FIG3: list[dict[str, Any]] = [
    *({"algorithm": "DPE", "alpha": alpha} for alpha in ALPHAS),
    *({"algorithm": name, "alpha": None} for name in ("LinUCB", "PE")),
]
PUBLISHED = {  # Table II of [001], in units of 10^4: communication, participating users
    "alpha = 0.5": (0.70, 0.04),
    "alpha = 0.6": (0.81, 0.10),
    "alpha = 0.7": (1.05, 0.23),
    "alpha = 0.8": (1.69, 0.55),
    "alpha = 0.9": (3.27, 1.34),
    "LinUCB": (5.00, 5.00),
    "PE": (5.00, 5.00),
}


def curves(
    tasks: Sequence[Mapping[str, Any]],
    *,
    n_seeds: int = SEEDS,
    horizon: int = HORIZON,
    seed: int = 0,
    jobs: int = 1,
    progress: ProgressCallback = ignore_progress,
) -> list[Curve]:
    """The curves of a figure: one for each task."""
    shared = {"horizon": validation.integer("horizon", horizon), "n_seeds": n_seeds, "seed": seed}
    return gather(_curve, [{**task, **shared} for task in tasks], jobs=jobs, progress=progress)


def fixed_clients(**options: Any) -> list[Curve]:
    """Figure 2(c): DPE, and DPE-FixedU with the same communication."""
    (dpe,) = curves([{"algorithm": "DPE"}], **options)
    fixed = (("clients", same_communication(dpe)),)
    return [dpe, *curves([{"algorithm": "DPE-FixedU", "alpha": None, "options": fixed}], **options)]


@lru_cache(maxsize=64)
def _curve(*, variant: str = "ours", **task: Any) -> Curve:
    """Once for all figures of a process: 2(b) has curves of 2(a), Table II those of figure 3."""
    return (ours if variant == "ours" else printed)(**task)


def same_communication(dpe: Curve) -> int:
    """U = ceil(sum_l |U_l| N_l / sum_l N_l) of DPE's runs: as many clients in every phase cost as much [001, VI]."""
    assert dpe.result is not None
    counts = dpe.result.counts
    sent, actions = float(np.sum(counts["communication"])), float(np.sum(counts["actions"]))
    return max(1, math.ceil(sent / max(1.0, actions)))


def table2(found: Sequence[Curve]) -> list[Row]:
    """Rows of Table II."""
    names = ("algorithm", "alpha", "participants", "communication")
    return [{name: each.row[name] for name in names} | {"mean_regret": each.row["mean"]} for each in found]


def printed_table2(row: Row) -> tuple[float | None, float | None]:
    """Communication and participants that the paper prints for a row of Table II."""
    key = row["algorithm"] if row["alpha"] is None else f"alpha = {row['alpha']:g}"
    sent, clients = PUBLISHED[key]
    return sent * 1e4, clients * 1e4


FIRST_POWER, LAST_POWER = 13, 22
SCALED = ("DPE", "SDP-DPE")
FAN_ARMS, FAN_NORM = 40, 0.6


def fan() -> Floats:
    """Actions with gaps at every scale, (41, 2)."""
    angles = np.concatenate([[0.0], 2.0 ** (-np.arange(FAN_ARMS) / 2)])
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


@cache
def _fan_population() -> Population:
    """Its clients answer all algorithms and horizons alike."""
    return RememberedPopulation(arms=fan(), theta=(FAN_NORM, 0.0), sigma=SIGMA)


def fan_regret(*, algorithm: str, alpha: float, horizon: int, n_seeds: int, seed: int = 0) -> Result:
    """One algorithm at one horizon."""
    budget = {} if algorithm == "DPE" else {"epsilon": EPSILON, "delta": DELTA}
    policy = make(algorithm, dim=2, horizon=horizon, alpha=alpha, sigma=SIGMA, **budget)
    found: Result = simulate(policy, _fan_population(), n_seeds=n_seeds, seed=seed, checkpoints=1)
    return replace(found, name=algorithm)


def rate_line(algorithm: str, alpha: float, longest: int) -> Line:
    """Horizons that halve the longest down to 2^13; the exponent is 1 - alpha/2 [001, Theorem 5.1]."""
    halves = [longest // 2**k for k in range(64) if longest // 2**k >= 2**FIRST_POWER]
    return Line(
        arguments={"algorithm": algorithm, "alpha": alpha}, theory=1 - alpha / 2, horizons=tuple(reversed(halves))
    )


def scaling(
    *,
    algorithms: Sequence[str] = SCALED,
    alphas: Sequence[float] = ALPHAS,
    n_seeds: int = SEEDS,
    horizon: int = 2**LAST_POWER,
    seed: int = 0,
    jobs: int = 1,
    progress: ProgressCallback = ignore_progress,
) -> list[Rate]:
    """All lines; `horizon` is the longest."""
    longest = validation.integer("horizon", horizon, least=4 * 2**FIRST_POWER)
    lines = [rate_line(name, alpha, longest) for name in algorithms for alpha in alphas]
    return regrets_over(fan_regret, lines, n_seeds=n_seeds, seed=seed, jobs=jobs, progress=progress)


def _draw_per_round(curves: Sequence[Curve], stem: Path) -> list[Path]:
    """Figure 2(b): regret per round over time, on logarithmic axes."""
    divided = [
        replace(curve, result=replace(curve.result, regret=curve.result.regret / curve.result.checkpoints))
        for curve in curves
        if curve.result is not None
    ]
    return draw_panels(divided, stem, title="Regret per round, epsilon = 10", log=True, up="regret per round")


def _draw_budgets(curves: Sequence[Curve], stem: Path) -> list[Path]:
    """Figure 2(a): final regret against the epsilon of what ran; DPE, which has none, as a level line."""
    clear, *private = (curve for curve in curves if curve.row["variant"] == "ours")
    lines: dict[str, list[Curve]] = {}
    for curve in private:
        lines.setdefault(curve.row["algorithm"], []).append(curve)
    marks = {name: [curve.row["true_epsilon"] for curve in line] for name, line in lines.items()}
    level = sorted(each for line in marks.values() for each in line)
    panel = {clear.row["algorithm"]: across([level[0], level[-1]], [clear, clear])}
    panel |= {name: across(marks[name], line) for name, line in lines.items()}
    drawn = plot_regret(panel, title="What a larger budget buys", log=True)
    drawn.axes[0].set_xscale("linear")
    drawn.axes[0].set_xlabel(f"true epsilon, of what ran (delta = {DELTA:g})")
    return save_both(drawn, stem)


def _draw_rates(rates: Sequence[Rate], stem: Path) -> list[Path]:
    """One figure per algorithm."""
    paths: list[Path] = []
    for name in dict.fromkeys(rate.arguments["algorithm"] for rate in rates):
        lines, title = [r for r in rates if r.arguments["algorithm"] == name], f"{name}: more clients, less regret"
        paths += draw_rates(lines, with_end(stem, name), title=title, label="alpha = {alpha:g}")
    return paths


def _beside_the_printed(curves: Sequence[Curve]) -> list[Row]:
    """Table II beside the printed numbers, where the horizon is theirs."""
    rows = table2(curves)
    for row, curve in zip(rows, curves, strict=True):
        theirs = printed_table2(row) if curve.row["horizon"] == SHORT else (None, None)
        row["their_communication"], row["their_participants"] = theirs
    return rows


def _ends(rates: Sequence[Rate]) -> list[Row]:
    """Slopes, and the regrets from which to which they lead."""
    return [r.summary | {"first": r.points[0].row["mean"], "last": r.points[-1].row["mean"]} for r in rates]


_FIG2A = Figure(
    name="fig2a",
    shows="regret against epsilon = 1, ..., 10 in three privacy models, and the printed noise with its true privacy",
    options={"seeds": SEEDS, "horizon": HORIZON},
    compute=partial(curves, FIG2A),
    columns=(
        *("algorithm", "variant", "alpha:g", "epsilon:g", *REGRET),
        *("true epsilon=true_epsilon:.4g", "true delta=true_delta:.3g"),
        *("clients=participants:,.0f", "communication:,.0f"),
    ),
    caption="true: what the noise really gives, epsilon at delta = 0.1 and delta at the nominal epsilon;\n"
    "communication: real numbers, or bits where bits are sent",
    notes=partial(noted, words="{variant}, epsilon = {epsilon:g}"),
    draw=_draw_budgets,
)
FIGURES = (
    _FIG2A,
    replace(
        _FIG2A,
        name="fig2b",
        shows="regret per round over time, epsilon = 10",
        compute=partial(curves, FIG2B),
        draw=_draw_per_round,
    ),
    replace(
        _FIG2A,
        name="fig2c",
        shows="DPE, and as many clients in every phase",
        compute=fixed_clients,
        draw=partial(draw_panels, title="As many clients in every phase, or more and more"),
    ),
    replace(
        _FIG2A,
        name="fig3",
        shows="LinUCB and PE, who ask a client every round, and DPE for five values of alpha",
        options={"seeds": SEEDS, "horizon": SHORT},
        compute=partial(curves, FIG3),
        draw=partial(draw_panels, title="One client per round, and DPE with growing alpha", label="{label}"),
    ),
    Figure(
        name="table2",
        shows="what they communicate; no figure",
        options={"seeds": SEEDS, "horizon": SHORT},
        compute=partial(curves, FIG3),
        document=lambda curves: {"rows": table2(curves)},
        lines=_beside_the_printed,
        columns=(
            *("algorithm", "alpha:g", "participants:,.0f", "printed=their_participants:,.0f"),
            *("communication:,.0f", "printed=their_communication:,.0f", "regret=mean_regret:,.0f"),
        ),
        caption="participants: clients of completed phases;\n"
        f"printed: Table II of the paper, to its two digits; it is for {SHORT:,} rounds",
    ),
    Figure(
        name="scaling",
        shows="slopes of log regret in log T for five values of alpha; T at least 32,768",
        options={"seeds": SEEDS, "horizon": 2**LAST_POWER},
        compute=scaling,
        document=rates_and_slopes,
        lines=_ends,
        columns=(
            *("algorithm", "alpha:g", "slope:.3f", "theory:g"),
            *("regret at the first=first:,.0f", "at the last horizon=last:,.0f"),
        ),
        caption="slope: of log regret in log horizon, fitted; theory: 1 - alpha/2",
        draw=_draw_rates,
    ),
)
