"""Paper 000, section 4: users who come back, at most M times, once per batch; the whole transcript is private.

Everybody learns after the same batches of B = T^{2/3} users: LinUCB without privacy, the shuffle protocols, the central
model with user-level privacy for M0 = M participations, the local model. M runs through 1, 4, 16 and all T/B batches,
which is the paper's Assumption 4.1. Budget epsilon = 1, delta = 1e-5.

*Ours*: the M releases are composed exactly (in Gaussian DP; shuffled Gaussians numerically), and the noise is the least
that keeps the budget. *Published*: nobody published a figure, so this is the noise that the theorems print, with the
accountant's guarantee for it:

    LinUCB-SDP-Vec      Theorem C.1 for M = 1, E.5 beyond, with T = M B
    LinUCB-SDP-Amp      Theorem 3.2 for M = 1, E.3 beyond, with T = M B
    LinUCB-JDP-batched  Proposition E.7: a binary tree (over batches, appendix F) with M0 times the sensitivity
    LinUCB-LDP-batched  Proposition F.1; for M > 1 shared by advanced composition, Theorem E.2

Where a theorem does not cover the budget there is no curve: the row has no regret, and its note says why. Regulariser
and radius are those of our confidence sets for the noise in both variants, since the paper gives them up to constants.

Reference: Chowdhury and Zhou 2022 [000], sections 4 and E.
Deviations: the instances of figures 1 and 2, scaled to norm 1; regret of the true means.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from bandanna import validation
from bandanna.errors import InvalidArgument, OutsideTheorem
from bandanna.experiments.executors import ProgressCallback, ignore_progress
from bandanna.numeric.rng import Streams
from bandanna.policies.registry import make
from bandanna.simulation.engine import simulate
from reproductions.figure import Curve, ending, gather
from reproductions.shuffle_linucb.published import AuthorsInstances
from reproductions.shuffle_linucb.regret import UNKNOWN, true_numbers

ALGORITHMS = ("LinUCB", "LinUCB-JDP-batched", "LinUCB-SDP-Vec", "LinUCB-SDP-Amp", "LinUCB-LDP-batched")
DIM, EPSILON, DELTA, HORIZON = 5, 1.0, 1e-5, 1_000_000
PARTICIPATIONS = (1, 4, 16)


def participations(horizon: int) -> tuple[int, ...]:
    """1, 4, 16 as far as there are batches, and all batches."""
    batches = horizon // _batch(horizon)
    return tuple(sorted({min(times, batches) for times in PARTICIPATIONS} | {batches}))


def curves(
    *,
    n_seeds: int = 50,
    horizon: int = HORIZON,
    seed: int = 0,
    jobs: int = 1,
    progress: ProgressCallback = ignore_progress,
) -> list[Curve]:
    """All curves, published and ours, for every M; LinUCB does not depend on M and stands with M = 1."""
    validation.integer("horizon", horizon, least=8)
    tasks = [
        {"algorithm": name, "variant": variant, "times": times, "horizon": horizon, "n_seeds": n_seeds, "seed": seed}
        for variant in ("published", "ours")
        for times in participations(horizon)
        for name in ALGORITHMS
        if name != "LinUCB" or (times == 1 and variant == "ours")
    ]
    return gather(curve, tasks, jobs=jobs, progress=progress)


def curve(*, algorithm: str, variant: str, times: int, horizon: int, n_seeds: int, seed: int = 0) -> Curve:
    """One algorithm for users who take part in at most `times` batches."""
    calibration = {"published": "paper", "ours": "tight"}[validation.one_of("variant", variant, ("published", "ours"))]
    promise = {"epsilon": EPSILON, "delta": DELTA, "participations": times, "calibration": calibration}
    budget = {} if algorithm == "LinUCB" else promise
    shared = {"dim": DIM, "horizon": horizon, "batch": _batch(horizon), "ties": "first", "confidence": "lemma"}
    policy = make(algorithm, **shared, **budget)
    facts = {"algorithm": algorithm, "variant": variant, "dim": DIM, "epsilon": EPSILON, "delta": DELTA}
    try:
        facts |= true_numbers(policy, EPSILON, DELTA)
    except (OutsideTheorem, InvalidArgument) as outside:  # or more coins than can be counted
        reason = str(outside).partition("; calibration")[0]
        return Curve(row=facts | UNKNOWN | ending(None) | {"participations": times, "note": reason})
    result = simulate(policy, AuthorsInstances(dim=DIM, normalised=True), n_seeds=n_seeds, seed=seed)
    return Curve(row=facts | ending(result) | {"participations": times, "note": ""}, result=result)


def random_play(curves: Sequence[Curve]) -> float:
    """Regret of an arm drawn uniformly in every round, on the curves' instances: what learning has to beat."""
    result = next(curve.result for curve in curves if curve.result is not None)
    world = AuthorsInstances(dim=DIM, normalised=True).begin(Streams(result.seeds))
    means = world.means(world.contexts(0, 1))[:, 0]  # (S, K)
    return result.horizon * float(np.mean(np.max(means, axis=1, keepdims=True) - means))


def _batch(horizon: int) -> int:
    """B = T^{2/3} [000, Corollary E.6 without its logarithms]."""
    return max(2, round(math.pow(horizon, 2 / 3)))
