"""Paper 003's Table 2 and figures 1(a) and 1(b): regret of private and plain generalised linear bandits.

*published*: the baselines as the authors ran them; Private-GLM is quoted (its refit times leak raw contexts, so it is
not run), with what its noise alone gives. *corrected*: RS-GLinUCB with its faults mended and the published constants.
*greedy*: GLM-JDP without criterion I - what the published setting amounts to, as its criterion I never fires. *tuned*:
GLM-JDP where criterion I fires. *matched*: greedy, at the budget that the reference's noise alone really gives.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from bandanna.accounting import accountant
from bandanna.core import require
from bandanna.glm.links import link_of
from bandanna.papers.curves_000 import Progress, gather, silent
from bandanna.papers.privacy_003 import calls_as_run, criterion_threshold, reference_epsilon
from bandanna.papers.setting_003 import DELTA, FAILURE, PANELS, SEEDS, Panel, Row003, printed
from bandanna.policies.glm import GLMJDP
from bandanna.policies.registry import make
from bandanna.simulation.engine import simulate
from bandanna.simulation.result import Result

Found = tuple[Row003, Result | None]


def rows(
    figure: str,
    *,
    n_seeds: int = SEEDS,
    horizon: int | None = None,
    seed: int = 0,
    jobs: int = 1,
    progress: Progress = silent,
) -> list[Found]:
    """All rows of a table or figure; `horizon` None: the paper's own (kappa is that of the rounds played)."""
    require.one_of("figure", figure, tuple(PANELS))
    shared = {"n_seeds": require.whole("seeds", n_seeds), "seed": seed}
    tasks = []
    for panel in PANELS[figure]:
        rounds = panel.horizon if horizon is None else min(panel.horizon, require.whole("horizon", horizon, least=16))
        tasks += [{"panel": panel, "rounds": rounds, **task, **shared} for task in _tasks(panel)]
    return gather(_found, tasks, jobs=jobs, progress=progress, label=_label)


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


def _label(task: Mapping[str, Any]) -> str:
    budget = "" if task["epsilon"] is None else f", epsilon = {task['epsilon']:g}"
    return f"{task['algorithm']}, {task['preset']}, S = {task['panel'].norm:g}{budget}"


def _found(
    *, panel: Panel, rounds: int, algorithm: str, preset: str, epsilon: float | None, n_seeds: int, seed: int
) -> Found:
    """One row, and its regret over time."""
    env = panel.environment(rounds)
    setting: dict[str, Any] = {
        "dim": panel.dim,
        "horizon": rounds,
        "link": panel.link,
        "parameter_bound": panel.norm,
        "kappa": env.kappa,
        "failure": FAILURE,
    }
    told: dict[str, Any] = {
        "algorithm": algorithm,
        "preset": preset,
        "link": panel.link,
        "dim": panel.dim,
        "norm": panel.norm,
    }
    told |= {"kappa": env.kappa, "epsilon": epsilon, "horizon": rounds}
    if algorithm == "Private-GLM":
        assert epsilon is not None
        return _quoted(panel, epsilon, setting, told), None
    private: dict[str, Any] = {"true_epsilon": None, "true_delta": None}
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
        private = _true(policy, epsilon)
    result = simulate(policy, env, n_seeds=n_seeds, seed=seed)
    return Row003(
        **told, **private, **_ending(result), printed=_printed(panel, rounds, algorithm, preset, epsilon)
    ), result


def _true(policy: GLMJDP, epsilon: float) -> dict[str, float]:
    worst = max(accountant.delta_near(life, epsilon, DELTA) for life in policy.mechanisms.lives)
    return {"true_epsilon": policy.guarantee.epsilon, "true_delta": worst}


def _ending(result: Result) -> dict[str, Any]:
    regret = result.regret[:, -1]
    several = len(regret) > 1
    counts = {name: float(np.mean(values)) for name, values in result.counts.items()}
    return {
        "mean": float(np.mean(regret)),
        "stderr": float(np.std(regret, ddof=1) / math.sqrt(len(regret))) if several else None,
        "median": float(np.median(regret)),
        "explorations": counts.get("explorations"),
        "switches": counts.get("switches"),
        "n_seeds": len(regret),
    }


def _printed(panel: Panel, rounds: int, algorithm: str, preset: str, epsilon: float | None) -> float | None:
    comparable = panel.dim == 3 and rounds == panel.horizon
    return printed(algorithm, epsilon, panel.norm) if comparable and preset == "published" else None


def _reference(epsilon: float, setting: Mapping[str, Any]) -> tuple[float, float]:
    calls = _calls(epsilon, setting)[:2]
    return reference_epsilon(epsilon=epsilon, delta=DELTA, calls=calls, horizon=setting["horizon"])


def _calls(epsilon: float, setting: Mapping[str, Any]) -> tuple[int, int, float]:
    given = {name: value for name, value in setting.items() if name != "link"}
    return calls_as_run(epsilon=epsilon, delta=DELTA, link=link_of(setting["link"]), **given)


def _quoted(panel: Panel, epsilon: float, setting: Mapping[str, Any], told: dict[str, Any]) -> Row003:
    """Private-GLM as printed: its mean, and what its noise alone gives."""
    true_epsilon, true_delta = _reference(epsilon, setting)
    threshold = criterion_threshold(
        kappa=setting["kappa"], parameter_bound=panel.norm, dim=panel.dim, link=link_of(panel.link)
    )
    reach = 1 / _calls(epsilon, setting)[2]
    verdict = "so it never fires: kappa's mechanism is not exercised" if reach < threshold else "so it can fire"
    note = f"criterion I needs {threshold:.3g}, 1/lambda is {reach:.3g}, {verdict}"
    value = _printed(panel, setting["horizon"], "Private-GLM", "published", epsilon)
    nothing: dict[str, Any] = dict.fromkeys(("stderr", "median", "explorations", "switches", "n_seeds"))
    return Row003(
        **told,
        **nothing,
        true_epsilon=true_epsilon,
        true_delta=true_delta,
        mean=value,
        printed=value,
        note=f"{note}; the true numbers are of the noise alone, the times of its refits leak",
    )
