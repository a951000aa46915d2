"""The kernel that repairs nothing chooses as the published simulation's NumPy code does."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from bandanna.numeric.compiled import BREAK_EVEN, SWITCH, find_kernel
from bandanna.numeric.rng import Streams
from reproductions.shuffle_linucb import published
from reproductions.shuffle_linucb.published import AuthorsInstances, Setting

ROUNDS = BREAK_EVEN


@pytest.mark.parametrize("dim", [2, 5, 15])
def test_choices_are_those_of_numpy(dim: int) -> None:
    kernel: Any = find_kernel("unrepaired", module="reproductions.shuffle_linucb.kernels")
    problem = published._Problem(AuthorsInstances(dim=dim).begin(Streams(range(40))))
    setting = Setting(algorithm="LinUCB-LDP", epsilon=1.0, dim=dim)
    size, rng, indefinite = dim + dim * (dim + 1) // 2, np.random.default_rng(dim), 0
    for scale in (1e-3, 1.0, setting.ridge, 1e3 * setting.ridge):
        for _ in range(25):
            statistic = scale * rng.normal(size=(40, size))
            expected = problem.choose(statistic, setting)
            assert np.array_equal(_chosen(kernel, problem, statistic, setting), expected)
            matrices = statistic[:, problem.place] + setting.ridge * np.eye(dim)
            indefinite += int(np.sum(np.linalg.eigvalsh(matrices)[:, 0] < 0))
    assert indefinite > 100


def _chosen(kernel: Any, problem: Any, statistic: Any, setting: Setting) -> Any:
    actions = np.empty(len(statistic), dtype=np.int64)
    assert kernel(statistic, problem.columns, setting.ridge, setting.radius, actions)
    return actions


def test_a_singular_matrix_is_an_error() -> None:
    kernel: Any = find_kernel("unrepaired", module="reproductions.shuffle_linucb.kernels")
    problem = published._Problem(AuthorsInstances(dim=3).begin(Streams(range(2))))
    setting = Setting(algorithm="LinUCB", epsilon=1.0, dim=3)
    statistic = np.zeros((2, 9))
    statistic[1, [3, 6, 8]] = -setting.ridge
    with pytest.raises(np.linalg.LinAlgError):
        problem.choose(statistic, setting)
    assert not kernel(statistic, problem.columns, setting.ridge, setting.radius, np.empty(2, dtype=np.int64))


def test_a_run_ends_at_a_singular_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Setting, "ridge", property(lambda setting: 0.0))
    monkeypatch.setattr(published._Problem, "choose", lambda problem, *given: np.zeros(len(problem.seeds), dtype=int))
    with pytest.raises(np.linalg.LinAlgError):
        published.run("LinUCB", epsilon=1.0, dim=5, horizon=ROUNDS, seeds=range(2))


@pytest.mark.parametrize("dim", [5, 15])
@pytest.mark.parametrize("algorithm", ["LinUCB", "LinUCB-LDP", "LinUCB-JDP"])
def test_runs_without_numba_are_the_same(algorithm: str, dim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {"epsilon": 0.2, "dim": dim, "horizon": ROUNDS, "seeds": range(2)}
    quick = published.run(algorithm, **asked)
    monkeypatch.setattr(published, "_BYTES", 700 * 8 * 2 * (dim + dim * (dim + 1) // 2))  # spans of 700 rounds
    parted = published.run(algorithm, **asked)
    monkeypatch.setenv(SWITCH, "off")
    plain = published.run(algorithm, **asked)
    for each in (quick, parted):
        assert np.array_equal(each.regret, plain.regret)
    assert np.array_equal(parted.pseudo, plain.pseudo)  # sums of gaps are rounded at the end of every span
    assert math.isfinite(float(np.sum(plain.regret)))
