"""Paper 000's figures 1 and 2: every curve as published, with the true privacy of its noise, and ours beside it.

*Published*: the authors' noise, regulariser and radius (`published`), realised regret, features of norm sqrt 2.
*Ours*: the same instances with features scaled to norm 1, tight noise for the nominal budget, the theorem's radius,
and the regret of the true means. What each noise really guarantees stands in the row.
Both on the authors' own instances (`AuthorsInstances`). Users who come back: `returning`; rates: `scaling`.

true_epsilon is stated at the nominal delta, true_delta at the nominal epsilon; true_kind is "exact", "upper" (the truth
is at most this), "lower" (at least this), "none" (nothing is protected), or None without privacy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bandanna import validation
from bandanna.experiments.executors import ProgressCallback, ignore_progress
from bandanna.policies.linear.linucb import LinUCB
from bandanna.policies.registry import make
from bandanna.privacy import accountant
from bandanna.privacy.events import ContinualEvent, RepetitionEvent
from bandanna.privacy.guarantee import Guarantee
from bandanna.simulation.engine import simulate
from bandanna.simulation.result import Result
from reproductions.figure import Curve, Row, ending, finite, gather
from reproductions.shuffle_linucb import published
from reproductions.shuffle_linucb.privacy import true_privacy
from reproductions.shuffle_linucb.published import ALGORITHMS, AuthorsInstances, Setting

DELTA, BATCH, HORIZON = 0.1, 20, 20_000
FIRST = ((5, 0.2), (5, 1.0), (5, 10.0))  # (d, epsilon) of each panel of figure 1,
SECOND = ((10, 1.0), (15, 1.0))  # and of figure 2
UNKNOWN: Row = dict.fromkeys(("true_epsilon", "true_delta", "true_kind"))


def curves(
    panels: Sequence[tuple[int, float]],
    *,
    n_seeds: int = 50,
    horizon: int = HORIZON,
    seed: int = 0,
    jobs: int = 1,
    progress: ProgressCallback = ignore_progress,
) -> list[Curve]:
    """All curves of a figure with panels (d, epsilon), published and ours. More `jobs`: more processes."""
    shared = {"horizon": validation.integer("horizon", horizon, least=BATCH), "n_seeds": n_seeds, "seed": seed}
    wanted = [(a, v, d, e) for d, e in panels for a in ALGORITHMS for v in ("published", "ours")]
    once = {_what(*each): each for each in reversed(wanted)}  # LinUCB does not depend on epsilon: once per dimension
    tasks = [dict(zip(("algorithm", "variant", "dim", "epsilon"), once[what], strict=True)) | shared for what in once]
    found = dict(zip(once, gather(curve, tasks, jobs=jobs, progress=progress), strict=True))
    curves = [found[_what(*each)] for each in wanted]
    return [replace(each, row=each.row | {"epsilon": e}) for each, (_, _, _, e) in zip(curves, wanted, strict=True)]


def _what(algorithm: str, variant: str, dim: int, epsilon: float) -> tuple[str, str, int, float]:
    return algorithm, variant, dim, math.inf if algorithm == "LinUCB" else epsilon


def curve(
    *, algorithm: str, variant: str, dim: int, epsilon: float, horizon: int, n_seeds: int, seed: int = 0
) -> Curve:
    """One curve of figure 1 or 2."""
    run = _published if validation.one_of("variant", variant, ("published", "ours")) == "published" else _ours
    true, result = run(algorithm, dim, epsilon, horizon, range(seed, seed + n_seeds))
    facts = {"algorithm": algorithm, "variant": variant, "dim": dim, "epsilon": epsilon, "delta": DELTA}
    return Curve(row=facts | true | ending(result), result=result)


def _published(algorithm: str, dim: int, epsilon: float, horizon: int, seeds: range) -> tuple[Row, Result]:
    setting = Setting(algorithm=algorithm, epsilon=epsilon, delta=DELTA, dim=dim, horizon=horizon, batch=BATCH)
    run = published.run(algorithm, epsilon=epsilon, dim=dim, horizon=horizon, batch=BATCH, delta=DELTA, seeds=seeds)
    result = Result(
        name=algorithm,
        checkpoints=run.checkpoints,
        regret=run.regret,
        rewards=np.full(len(seeds), np.nan),  # not recorded
        releases=horizon // setting.every,
        clipped=np.zeros(len(seeds), dtype=np.int64),
        repairs=np.zeros(len(seeds), dtype=np.int64),
        bits_per_user=64 * (dim + dim * (dim + 1) // 2),
        guarantee=Guarantee(trust="none", epsilon=math.inf, delta=DELTA, protects="a user's features and rewards"),
        seconds=run.seconds,
        seeds=tuple(seeds),
    )
    true = true_privacy(setting)
    if true is None:
        return UNKNOWN, result
    return {"true_epsilon": finite(true.epsilon), "true_delta": true.delta, "true_kind": true.kind}, result


def _ours(algorithm: str, dim: int, epsilon: float, horizon: int, seeds: range) -> tuple[Row, Result]:
    budget = {} if algorithm == "LinUCB" else {"epsilon": epsilon, "delta": DELTA}
    batch = {"batch": BATCH} if "SDP" in algorithm else {}
    policy = make(algorithm, dim=dim, horizon=horizon, ties="first", confidence="lemma", **budget, **batch)
    env = AuthorsInstances(dim=dim, normalised=True)
    return true_numbers(policy, epsilon, DELTA), simulate(policy, env, n_seeds=len(seeds), seed=seeds.start)


def true_numbers(policy: LinUCB, epsilon: float, delta: float) -> dict[str, Any]:
    """true_epsilon, true_delta and true_kind of a policy of ours, for all participations of a user together.

    Exact for Gaussian noise on one report after the other; an upper bound where users are shuffled, and in the central
    model for returning users, whose changes are added up by the triangle inequality.
    """
    if not policy.privacy.noisy:
        return UNKNOWN
    protocol, times = policy._channel.protocols[policy._channel.sizes[0]], policy.privacy.participations
    continual = isinstance(protocol.event, ContinualEvent)  # covers all participations already
    whole = protocol.event if continual or times == 1 else RepetitionEvent(event=protocol.event, times=times)
    exact = policy.privacy.model == "local" or (continual and times == 1)
    return {
        "true_epsilon": policy.guarantee.epsilon,
        "true_delta": accountant.delta_near(whole, epsilon, delta),
        "true_kind": "exact" if exact else "upper",
    }
