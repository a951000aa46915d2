"""Short runs of every algorithm are those that they were, to the last bit.

`golden_runs.json` has the numbers of the code before policies had one interface; `since` says why an entry is younger.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.numeric.rng import Streams
from bandanna.policies.registry import ALGORITHMS
from bandanna.simulation.environments.population import PopulationWorld

from .golden_runs import RUNS as GOLDEN
from .golden_runs import GoldenRun, all_runs

RUNS = list(all_runs())
EVERYWHERE = {"LinTS-JDP", "LinTS-SDP", "LinTS-LDP-rewards", "LinUCB-JDP", "AdaC-OFUL"}
STORED: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("golden_runs.json").read_text())


def often(run: GoldenRun) -> bool:
    """Every name along both paths, and some in all worlds."""
    first, *_ = GOLDEN[run.name][1]
    graded = run.key.endswith(f"graded | {run.path}")
    return run.env is first or (run.path == "law" and not graded) or run.name in EVERYWHERE


@pytest.mark.often(when=often)
@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.key)
def test_a_run_is_the_one_that_it_was(run: GoldenRun) -> None:
    result = run.simulate()
    found, stored = run.numbers(result), dict(STORED[run.key])
    regret = np.array(found.pop("regret"), dtype=float)
    assert regret[:, -1].tolist() == stored.pop("final_regret")
    assert hashlib.sha256(regret.tobytes()).hexdigest() == stored.pop("sha256")
    assert math.isclose(float(found.pop("epsilon")), float(stored.pop("epsilon")), rel_tol=1e-9)
    stored.pop("since", None)
    assert found == stored
    _every_user_took_an_arm(run, result)


def _every_user_took_an_arm(run: GoldenRun, result: bd.simulation.Result) -> None:
    """The plays of arms add up to the rounds and, where arms stay, what they lose to the regret."""
    assert result.plays is not None
    assert result.plays.sum(axis=1).tolist() == [result.horizon] * result.n_seeds
    world = run.env.begin(Streams(result.seeds))
    if isinstance(world, PopulationWorld):
        means = world.global_means()
    elif world.fixed:
        means = world.means(world.contexts(0, 1))[:, 0]
    else:
        return
    lost = np.sum(result.plays * (means.max(axis=1, keepdims=True) - means), axis=1)
    assert result.final_regret == pytest.approx(lost)


def test_every_algorithm_is_among_them() -> None:
    assert {run.name for run in RUNS} == set(ALGORITHMS)
    assert {run.key for run in RUNS} == set(STORED)
