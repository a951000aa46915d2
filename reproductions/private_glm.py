"""Paper 003, private generalised linear bandits: Table 2, figures 1(a) and 1(b), and what their noise really gives.

    table2   probit, d = 3, K = 20, T = 5000, S = 2, 2.5, 3;   nominal epsilon 4, 6, 8
    fig1a    logistic, d = 5, K = 20, T = 15000, S = 3.5;      nominal epsilon 1, 2, 4, 8
    fig1b    probit, d = 5, K = 20, T = 5000, S = 3;           nominal epsilon 1, 2, 4, 8

delta = 0.02 and failure = 0.02 throughout, kappa the instance's own (an oracle; ours have what S implies), 10 runs,
instance seed 109832.

The noise as run (nominal epsilon, delta; T `horizon`, m = ceil(log2 T) + 1 levels; M1, M2 calls at most):

    trees       (epsilon/3, delta/3) each: rho = (sqrt(log(3/delta) + epsilon/3) - sqrt(log(3/delta)))^2, noise per node
                for a sensitivity of 1 (V) and 1/kappa* = L_mu (H), while a replaced leaf moves V by sqrt 2 and H by
                sqrt 2 L_mu/e: true prices 2 rho and 2 rho/e^2
    optimiser   (epsilon/3, delta/3) for theta_o and for theta_tau, split over their M1 and M2 calls evenly up to 10
                calls, else by advanced composition; each call's noise by Renyi accounting, but for half of the
                sensitivity that a replacement has (erratum K2): 4 times the accounted rho
    batches     of B = 2048 rows at most; on n > B rows an epoch is k = floor(n/B) batches without a common row, while k
                independent draws of B rows are accounted (K3), each at about 4 (B/n)^2 of a full batch's price. So the
                epochs cost c = n^2/(4 k B^2) times what is accounted: above 1 only beyond 5792 rows
    reuse       theta_tau is fitted to explored rounds too (K5), so an explored user pays V, theta_o and theta_tau

    rho_true = max( 2 rho + 4 c (M1 rho_o + M2 rho_tau),   2 rho/e^2 + 4 c M2 rho_tau ),     mu^2 = 2 rho_true,

with the largest c >= 1 of any n <= T: an upper bound, as calls on fewer rows cost less.

The whole is composed exactly (all noise is Gaussian). It is often *less* than the nominal epsilon, because the split in
thirds and over the calls wastes more than the errata cost. It prices the noise alone: the times of the calls are read
off raw contexts, which no budget covers.
Deviation: dp-accounting's conversion is replaced by ours (`ZCDP.to_approx`), which agrees with it to 1 part in 1000.

*published*: the baselines as the authors ran them; Private-GLM is quoted (its refit times leak raw contexts, so it is
not run), with what its noise alone gives. *corrected*: RS-GLinUCB with its faults mended and the published constants.
*greedy*: GLM-JDP without criterion I - what the published setting amounts to, as its criterion I never fires. *tuned*:
GLM-JDP where criterion I fires. *matched*: greedy, at the budget that the reference's noise alone really gives.

epsilon is the nominal one, None without privacy; true_epsilon what the noise that ran gives at delta = 0.02, true_delta
at the nominal epsilon; printed is the paper's own mean where it has one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bandanna import validation
from bandanna.audit.gallery import call_rho, calls_as_run
from bandanna.experiments.executors import ProgressCallback, ignore_progress
from bandanna.policies.glm.glm_jdp import GLMJDP
from bandanna.policies.glm.links import Link, link_of
from bandanna.policies.registry import make
from bandanna.privacy import accountant, gdp
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.glm import PublishedGLM
from bandanna.simulation.result import Result
from reproductions.figure import REGRET, Curve, Figure, Row, counted, gather, noted
from reproductions.rates import draw_panels

DELTA, FAILURE, SEEDS = 0.02, 0.02, 10


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One instance with its nominal budgets and the algorithms that are run on it without privacy."""

    link: str
    dim: int
    norm: float  # S
    horizon: int
    epsilons: tuple[float, ...]
    baselines: tuple[str, ...]

    def environment(self, rounds: int) -> PublishedGLM:
        """The instance, cut off after so many rounds (kappa is that of these rounds)."""
        return PublishedGLM(dim=self.dim, n_arms=20, link=self.link, norm=self.norm, rounds=rounds)


_PROBIT = ("GLM-UCB", "GLOC", "RS-GLinUCB")
TABLE2 = tuple(
    Panel(link="probit", dim=3, norm=norm, horizon=5000, epsilons=(4.0, 6.0, 8.0), baselines=_PROBIT)
    for norm in (2.0, 2.5, 3.0)
)
FIG1A = (
    Panel(
        link="logistic",
        dim=5,
        norm=3.5,
        horizon=15_000,
        epsilons=(1.0, 2.0, 4.0, 8.0),
        baselines=("ECOLog", "GLOC", "RS-GLinUCB"),
    ),
)
FIG1B = (Panel(link="probit", dim=5, norm=3.0, horizon=5000, epsilons=(1.0, 2.0, 4.0, 8.0), baselines=_PROBIT),)

PRINTED: dict[tuple[str, float | None], tuple[float, float, float]] = {  # Table 2, S = 2, 2.5, 3
    ("GLM-UCB", None): (1400.27, 1943.23, 2323.06),
    ("GLOC", None): (384.68, 631.60, 1346.59),
    ("RS-GLinUCB", None): (289.69, 170.10, 200.62),
    ("Private-GLM", 4.0): (674.17, 721.26, 744.35),
    ("Private-GLM", 6.0): (516.58, 546.97, 559.04),
    ("Private-GLM", 8.0): (425.53, 445.27, 452.60),
}


def printed(algorithm: str, epsilon: float | None, norm: float) -> float | None:
    """Table 2's number for an algorithm of the paper."""
    row = PRINTED.get((algorithm, epsilon))
    return None if row is None else row[(2.0, 2.5, 3.0).index(norm)]


_BATCH = 2048  # rows, B


def tree_rho(epsilon: float, delta: float) -> float:
    """rho + 2 sqrt(rho log(1/delta)) = epsilon."""
    log = math.log(1 / delta)
    return (math.sqrt(log + epsilon) - math.sqrt(log)) ** 2


def batch_factor(rows: int) -> float:
    """c: the largest n^2/(4 k B^2) of calls on n <= `rows` rows, at least 1 (erratum K3)."""
    whole = range(1, rows // _BATCH + 1)  # k; the largest n with so many batches
    return max([1.0, *(min(rows, (k + 1) * _BATCH - 1) ** 2 / (4 * k * _BATCH**2) for k in whole)])


def reference_rho(*, epsilon: float, delta: float, calls: tuple[int, int], horizon: int) -> float:
    """rho_true of the noise of a published run."""
    tree, price = tree_rho(epsilon / 3, delta / 3), 4 * batch_factor(horizon)
    o, tau = (price * count * call_rho(epsilon / 3, delta / 3, count) for count in calls)
    return max(2 * tree + o + tau, 2 * tree / math.e**2 + tau)


def reference_epsilon(*, epsilon: float, delta: float, calls: tuple[int, int], horizon: int) -> tuple[float, float]:
    """What that noise gives: epsilon at the nominal delta, and delta at the nominal epsilon."""
    mu = math.sqrt(2 * reference_rho(epsilon=epsilon, delta=delta, calls=calls, horizon=horizon))
    return gdp.epsilon(delta, mu), float(gdp.delta(epsilon, mu))


def criterion_threshold(*, kappa: float, parameter_bound: float, dim: int, link: Link) -> float:
    """Of criterion I as run: 1/(0.01 kappa R^4 S^2 d). Without noise |x|^2_{V^{-1}} <= 1/lambda."""
    return 1 / (0.01 * kappa * link.reward_bound**4 * parameter_bound**2 * dim)


NOTHING: Row = dict.fromkeys(("mean", "stderr", "median", "explorations", "switches", "n_seeds"))


def curves(
    panels: Sequence[Panel],
    *,
    n_seeds: int = SEEDS,
    horizon: int,
    seed: int = 0,
    jobs: int = 1,
    progress: ProgressCallback = ignore_progress,
) -> list[Curve]:
    """All rows of a table or figure, of at most `horizon` rounds (kappa is that of the rounds played)."""
    shared, tasks = {"n_seeds": n_seeds, "seed": seed}, []
    for panel in panels:
        rounds = min(panel.horizon, validation.integer("horizon", horizon, least=16))
        tasks += [{"panel": panel, "rounds": rounds, **task, **shared} for task in _tasks(panel)]
    return gather(_curve, tasks, jobs=jobs, progress=progress)


def _tasks(panel: Panel) -> list[dict[str, Any]]:
    plain = [{"algorithm": name, "preset": "published", "epsilon": None} for name in panel.baselines]
    plain.append({"algorithm": "RS-GLinUCB", "preset": "corrected", "epsilon": None})
    private = [
        {"algorithm": name, "preset": preset, "epsilon": epsilon}
        for name, preset in (
            ("Private-GLM", "published"),
            ("GLM-JDP", "matched"),
            ("GLM-JDP", "greedy"),
            ("GLM-JDP", "tuned"),
        )
        for epsilon in panel.epsilons
    ]
    return plain + private


def _curve(
    *, panel: Panel, rounds: int, algorithm: str, preset: str, epsilon: float | None, n_seeds: int, seed: int
) -> Curve:
    """One row."""
    env = panel.environment(rounds)
    setting: dict[str, Any] = {"dim": panel.dim, "horizon": rounds, "link": panel.link, "parameter_bound": panel.norm}
    setting |= {"kappa": env.kappa, "failure": FAILURE}
    facts: Row = {"algorithm": algorithm, "preset": preset, "link": panel.link, "dim": panel.dim, "S": panel.norm}
    facts |= {"kappa": env.kappa, "epsilon": epsilon, "true_epsilon": None, "true_delta": None}
    comparable = panel.dim == 3 and rounds == panel.horizon and preset == "published"
    theirs = printed(algorithm, epsilon, panel.norm) if comparable else None
    end: Row = {"horizon": rounds, "printed": theirs, "note": ""}
    if algorithm == "Private-GLM":
        assert epsilon is not None
        facts["true_epsilon"], facts["true_delta"] = _reference(epsilon, setting)
        return Curve(row=facts | NOTHING | end | {"mean": theirs, "note": _criterion(epsilon, setting)})
    if epsilon is None:
        fixed = {"constants": "published"} if preset == "corrected" else {}
        policy = make(algorithm, **setting, preset=preset, **fixed)
    else:
        spent = _reference(epsilon, setting)[0] if preset == "matched" else epsilon
        policy = make(
            algorithm,
            **{**setting, "kappa": None},  # what S implies: the instance's own is read off everybody's contexts
            epsilon=spent,
            delta=DELTA,
            preset="greedy" if preset == "matched" else preset,
        )
        facts |= _true(policy, epsilon)
    result = simulate(policy, env, n_seeds=n_seeds, seed=seed)
    label = f"{algorithm} ({preset})" if epsilon is None else f"{algorithm}, printed {epsilon:g}"
    return Curve(row=facts | _ending(result) | end, more={"label": label}, result=result)


def _true(policy: GLMJDP, epsilon: float) -> dict[str, float]:
    worst = max(accountant.delta_near(life, epsilon, DELTA) for life in policy.mechanisms.lives)
    return {"true_epsilon": policy.guarantee.epsilon, "true_delta": worst}


def _ending(result: Result) -> dict[str, Any]:
    regret = result.regret[:, -1]
    spread = float(np.std(regret, ddof=1) / math.sqrt(len(regret))) if len(regret) > 1 else None
    ended = {"mean": float(np.mean(regret)), "stderr": spread, "median": float(np.median(regret))}
    counts = {name: mean for name, mean in counted(result).items() if name in NOTHING}
    return NOTHING | ended | counts | {"n_seeds": len(regret)}


def _reference(epsilon: float, setting: Mapping[str, Any]) -> tuple[float, float]:
    calls = _calls(epsilon, setting)[:2]
    return reference_epsilon(epsilon=epsilon, delta=DELTA, calls=calls, horizon=setting["horizon"])


def _calls(epsilon: float, setting: Mapping[str, Any]) -> tuple[int, int, float]:
    given = {name: value for name, value in setting.items() if name != "link"}
    return calls_as_run(epsilon=epsilon, delta=DELTA, link=link_of(setting["link"]), **given)


def _criterion(epsilon: float, setting: Mapping[str, Any]) -> str:
    """Whether criterion I can fire in the published run."""
    known = {name: setting[name] for name in ("kappa", "parameter_bound", "dim")}
    threshold = criterion_threshold(**known, link=link_of(setting["link"]))
    reach = 1 / _calls(epsilon, setting)[2]
    verdict = "so it never fires: kappa's mechanism is not exercised" if reach < threshold else "so it can fire"
    return (
        f"criterion I needs {threshold:.3g}, 1/lambda is {reach:.3g}, {verdict}; "
        "the true numbers are of the noise alone, the times of its refits leak"
    )


def _draw(found: Sequence[Curve], stem: Path) -> list[Path]:
    """Regret over time, one figure per instance: the baselines, and GLM-JDP (tuned) at every budget."""
    shown = [curve for curve in found if curve.row["preset"] not in ("greedy", "matched")]
    return draw_panels(shown, stem, name="S{S:g}", title="Paper 003, S = {S:g}", label="{label}")


def _notes(found: Sequence[Curve]) -> list[str]:
    """Whether criterion I can fire, at the largest budget: where it comes nearest to it."""
    largest = max(curve.row["epsilon"] or 0.0 for curve in found)
    return noted([curve for curve in found if curve.row["epsilon"] == largest], "S = {S:g}, epsilon = {epsilon:g}")


_TABLE2 = Figure(
    name="table2",
    shows="probit, d = 3, S = 2, 2.5, 3: baselines as published and corrected, GLM-JDP in three presets",
    options={"seeds": SEEDS, "horizon": TABLE2[0].horizon},
    compute=partial(curves, TABLE2),
    columns=(
        *("algorithm", "preset", "S:g", "kappa:.4g", "epsilon:g", "true=true_epsilon:.4g", *REGRET),
        *("median:,.0f", "printed:,.0f", "I=explorations:.0f", "II=switches:.0f"),
    ),
    caption="kappa: the instance's own, told to all but GLM-JDP; true: the epsilon that the noise really gives at "
    "delta = 0.02; I: explored rounds; II: switches (means)",
    notes=_notes,
    draw=_draw,
)
FIGURES = (
    _TABLE2,
    replace(
        _TABLE2,
        name="fig1a",
        shows="the same, logistic, d = 5, S = 3.5",
        options={"seeds": SEEDS, "horizon": FIG1A[0].horizon},
        compute=partial(curves, FIG1A),
    ),
    replace(_TABLE2, name="fig1b", shows="the same, probit, d = 5, S = 3", compute=partial(curves, FIG1B)),
)
