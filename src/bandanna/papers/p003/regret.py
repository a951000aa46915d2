"""Paper 003's Table 2 and figures 1(a) and 1(b): regret of private and plain generalised linear bandits.

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
from typing import Any

import numpy as np

from bandanna.accounting import accountant
from bandanna.core import require
from bandanna.experiments.workers import Progress, silent
from bandanna.glm.links import link_of
from bandanna.papers.common.curve import Curve, Row, counted
from bandanna.papers.common.gather import gather
from bandanna.papers.p003.privacy import calls_as_run, criterion_threshold, reference_epsilon
from bandanna.papers.p003.settings import DELTA, FAILURE, SEEDS, Panel, printed
from bandanna.policies.glm import GLMJDP
from bandanna.policies.registry import make
from bandanna.simulation.engine import simulate
from bandanna.simulation.result import Result

NOTHING: Row = dict.fromkeys(("mean", "stderr", "median", "explorations", "switches", "n_seeds"))


def curves(
    panels: Sequence[Panel],
    *,
    n_seeds: int = SEEDS,
    horizon: int,
    seed: int = 0,
    jobs: int = 1,
    progress: Progress = silent,
) -> list[Curve]:
    """All rows of a table or figure, of at most `horizon` rounds (kappa is that of the rounds played)."""
    shared, tasks = {"n_seeds": n_seeds, "seed": seed}, []
    for panel in panels:
        rounds = min(panel.horizon, require.whole("horizon", horizon, least=16))
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
