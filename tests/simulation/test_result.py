"""What a simulation returns: statistics over seeds, a summary, a text."""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bandanna.errors import InvalidArgument
from bandanna.policies.linear.linucb import LinUCB
from bandanna.privacy.budgets import ApproxDP
from bandanna.privacy.guarantee import Guarantee
from bandanna.protocols.privacy_model import shuffle
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.linear import LinearContextual
from bandanna.simulation.result import Result, checkpoints_for

PROMISE = Guarantee(
    trust="shuffle",
    epsilon=1.0,
    delta=1e-5,
    protects="a user's report",
    observers=(("server", "sums. Nothing else"),),
    shuffler=ApproxDP(epsilon=8.0, delta=1e-5),
)


def result(**changes: Any) -> Result:
    """Three seeds, four checkpoints."""
    fields: dict[str, Any] = {
        "checkpoints": np.array([5, 10, 15, 20]),
        "regret": np.array([[1.0, 2.0, 3.0, 4.5], [0.5, 2.5, 2.5, 7.0], [2.0, 2.0, 2.0, 2.0]]),
        "rewards": np.array([11.0, 9.0, 12.5]),
        "releases": 2,
        "clipped": np.array([0, 3, 1]),
        "repairs": np.array([1, 0, 0]),
        "bits_per_user": 7,
        "guarantee": PROMISE,
        "seconds": 0.25,
        "seeds": (4, 5, 6),
        "name": "LinUCB",
        "users": 18,
        "numbers_per_user": 9,
        "counts": {"switches": np.array([2, 3, 7])},
    }
    return Result(**{**fields, **changes})


def one_seed() -> Result:
    """The first run alone."""
    arrays = {name: getattr(result(), name)[:1] for name in ("regret", "rewards", "clipped", "repairs", "seeds")}
    return replace(result(), **arrays, counts={"switches": np.array([2])})


def test_statistics_are_those_of_the_standard_library() -> None:
    measured = result()
    columns = measured.regret.T.tolist()
    assert measured.mean() == pytest.approx([statistics.fmean(column) for column in columns], rel=1e-14)
    expected = [statistics.stdev(column) / math.sqrt(3) for column in columns]
    assert measured.stderr() == pytest.approx(expected, rel=1e-14)
    assert measured.final_regret.tolist() == [4.5, 7.0, 2.0]


def test_the_summary_of_a_known_result_is_the_one_counted_by_hand() -> None:
    spread = math.sqrt(((4.5 - 4.5) ** 2 + 2.5**2 + 2.5**2) / 2 / 3)
    assert result().to_dict() == {
        "name": "LinUCB",
        "mean": 4.5,
        "stderr": pytest.approx(spread, rel=1e-14),
        "median": 4.5,
        "n_seeds": 3,
        "horizon": 20,
        "releases": 2,
        "clipped": 4,
        "repairs": 1,
        "counts": {"switches": 4.0},
        "communication": {"users": 18, "bits_per_user": 7, "bits": 126, "numbers": 162},
        "seconds": 0.25,
        "guarantee": PROMISE.to_dict(),
    }


def test_the_summary_of_a_run_agrees_with_its_arrays() -> None:
    policy = LinUCB(dim=3, horizon=120, privacy=shuffle(epsilon=1.0, delta=1e-5), batch=50)
    measured = simulate(policy, LinearContextual(dim=3, n_arms=4), n_seeds=5)
    summary = json.loads(json.dumps(measured.to_dict(), allow_nan=False))
    finals = sorted(measured.regret[:, -1].tolist())
    assert summary["median"] == finals[2]
    assert summary["mean"] == pytest.approx(sum(finals) / 5, rel=1e-14)
    assert summary["communication"]["bits"] == summary["communication"]["users"] * policy._channel.bits_per_user
    assert (summary["horizon"], summary["n_seeds"], summary["releases"]) == (120, 5, 2)
    assert summary["guarantee"]["epsilon"] == policy.guarantee.epsilon


def test_what_is_unknown_is_none() -> None:
    summary = replace(one_seed(), users=None, numbers_per_user=None).to_dict()
    assert summary["stderr"] is None
    assert summary["communication"] == {"users": 20, "bits_per_user": 7, "bits": 140, "numbers": None}
    assert np.all(np.isnan(one_seed().stderr()))


def test_the_text_of_a_result_is_one_line_with_its_guarantee() -> None:
    line, promise = str(result()).split("\n")
    assert line == (
        "LinUCB: regret 4.5 ± 1.44 (mean ± standard error of 3 seeds) after 20 rounds; 2 releases, 7 bits per user, "
        "4 clipped, 0.25 s."
    )
    assert promise.startswith("Shuffle differential privacy with epsilon = 1, delta = 1e-05 for a user's report")
    assert promise.endswith("may choose later data accordingly.")
    assert str(result().guarantee).startswith(promise)
    assert repr(result()) == f"<Result of {line.removesuffix('.')}>"


def test_text_of_one_seed_without_a_name() -> None:
    assert str(replace(one_seed(), name="")).startswith("shuffle: regret 4.5 (one seed) after 20 rounds")


@pytest.mark.parametrize(
    "change",
    [
        {"regret": result().regret + 1e-9},
        {"rewards": np.zeros(3)},
        {"clipped": np.zeros(3, dtype=int)},
        {"seeds": (4, 5, 7)},
        {"name": "other"},
        {"users": None},
        {"guarantee": replace(PROMISE, rho=1.0)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_equality_sees_every_field(change: dict[str, Any]) -> None:
    assert result() == result()
    assert result() != result(**change)
    assert result() != "LinUCB"


def test_nan_is_equal_to_itself() -> None:
    assert result(regret=np.full((3, 4), np.nan)) == result(regret=np.full((3, 4), np.nan))


@pytest.mark.parametrize("field", ["regret", "rewards", "clipped", "repairs"])
def test_arrays_of_wrong_shape_are_refused_by_name(field: str) -> None:
    with pytest.raises(InvalidArgument, match=f"shape of {field}"):
        result(**{field: getattr(result(), field)[:2]})


def test_an_empty_result_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="seeds"):
        result(seeds=())
    with pytest.raises(InvalidArgument, match="checkpoints"):
        result(checkpoints=np.array([], dtype=int))


@pytest.mark.parametrize(("horizon", "wanted"), [(1, 200), (7, 3), (200, 200), (1000, 17)])
def test_checkpoints_end_at_the_horizon(horizon: int, wanted: int) -> None:
    marks = checkpoints_for(horizon, wanted)
    assert marks[-1] == horizon
    assert marks[0] >= 1
    assert np.all(np.diff(marks) > 0)
    assert len(marks) == min(wanted, horizon)
