"""Compiled kernels against the NumPy code that they accelerate."""

from __future__ import annotations

import importlib.util
import math
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bandanna.errors import ClippingWarning, InvalidStatistic
from bandanna.numeric import compiled
from bandanna.numeric import compiled as compiled_module
from bandanna.numeric import kernels as kernels_module
from bandanna.numeric.compiled import BREAK_EVEN, SWITCH, find_kernel
from bandanna.numeric.kernels import count_tied_arms, estimate_from_released_sums, find_tied_arm, jit
from bandanna.numeric.linalg import find_best_arms
from bandanna.numeric.rng import Streams
from bandanna.policies.linear.anytime import Anytime
from bandanna.policies.linear.confidence import PaperConfidence
from bandanna.policies.linear.linucb import LinUCB
from bandanna.protocols.privacy_model import central, local, none
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.base import Environment, World
from bandanna.simulation.environments.linear import LinearContextual
from bandanna.simulation.players import ucb_kernel
from bandanna.simulation.result import Result
from bandanna.types import Floats


@pytest.fixture
def _anew() -> Iterator[None]:
    """Kernels are looked for anew, before and after."""
    compiled_module._load_kernel.cache_clear()
    yield
    compiled_module._load_kernel.cache_clear()


def test_a_short_run_uses_numpy() -> None:
    assert find_kernel("optimist", rounds=BREAK_EVEN) is not None
    assert find_kernel("optimist", rounds=BREAK_EVEN - 1) is None


@pytest.mark.parametrize("off", ["off", "OFF", "0", "no"])
def test_kernels_can_be_switched_off(off: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, off)
    assert find_kernel("optimist") is None


@pytest.mark.usefixtures("_anew")
def test_without_numba_there_is_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    assert find_kernel("optimist") is None


def test_a_folder_that_cannot_be_written_costs_time_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = numba.njit

    def refusing(*given: Any, cache: bool = False, **flags: Any) -> Any:
        if cache:
            raise RuntimeError("cannot cache function: no locator available for file")
        return plain(*given, **flags)

    monkeypatch.setattr(numba, "njit", refusing)
    assert jit(lambda x: x + 1)(2) == 3


def test_a_change_anywhere_compiles_all_kernels_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "kernel_of_a_test.py"
    source.write_text("def one_more(x):\n    return x + 1\n")
    specification = importlib.util.spec_from_file_location("kernel_of_a_test", source)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    found = []
    for stamp in ("as it was", "as it was", "changed"):
        monkeypatch.setattr(kernels_module, "STAMP", stamp)
        kernel = jit(module.one_more)
        assert kernel(2) == 3
        found.append(sum(kernel.stats.cache_hits.values()))
    assert found == [0, 1, 0]


def test_numba_is_loaded_at_its_first_use() -> None:
    code = """
import sys, bandanna as bd
env = bd.environments.LinearContextual(dim=2, n_arms=3, fixed=True)
bd.simulate(bd.LinUCB(dim=2, horizon=50, privacy=bd.none()), env)
assert "numba" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


PRIVACY = {
    "none": none(),
    "local": local(epsilon=5.0, delta=1e-5),
    "central": central(epsilon=1.0, delta=1e-5),
    "batches": central(rho=0.5),
}


@dataclass(frozen=True, kw_only=True)
class Copies(Environment):
    """Arms of which some are copies of others, with means of their own: so that regret tells which was taken."""

    distinct: int = 1
    fixed: bool = True
    length: float = 1.0  # of the longest; beyond 1 they are clipped
    coarse: bool = False  # coordinates of few values: ties between arms that are no copies
    broken: bool = False

    def begin(self, streams: Streams) -> World:
        return _World(environment=self, streams=streams, fixed=self.fixed)


class _World(World):
    environment: Copies

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.table = self._drawn("arms", 1) if self.fixed else None

    def _drawn(self, name: str, rounds: int) -> Floats:
        env = self.environment
        numbers = self.streams.uniform(name, (rounds, env.distinct, env.dim)) * 2 - 1
        numbers = np.round(numbers) if env.coarse else numbers
        arms = numbers[:, :, np.arange(env.n_arms) % env.distinct] * env.length / math.sqrt(env.dim)
        if env.broken:
            arms[:, -1, -1] = np.nan
        return np.asarray(arms)

    def contexts(self, start: int, rounds: int) -> Floats:
        return self._drawn("contexts", rounds) if self.table is None else self.table

    def means(self, contexts: Floats) -> Floats:
        return np.broadcast_to(1 / np.arange(1.0, self.n_arms + 1), contexts.shape[:-1])


def both(policy: LinUCB, env: Environment, rounds: int, monkeypatch: pytest.MonkeyPatch) -> list[Result]:
    """By the kernel, however short the run, and by NumPy."""
    results = []
    for least in (1, math.inf):
        monkeypatch.setattr(compiled, "BREAK_EVEN", least)
        world = env.begin(Streams([0]))
        assert (ucb_kernel.kernel_for(policy, world, rounds) is None) == (least > 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ClippingWarning)  # wanted here
            results.append(simulate(policy, env, n_seeds=3, checkpoints=rounds))
    return results


def same(one: Result, two: Result) -> None:
    """Actions by what they lost, and all counts."""
    np.testing.assert_allclose(one.regret, two.regret, rtol=1e-12, atol=1e-12)
    for name in ("rewards", "repairs", "clipped"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    assert (one.releases, one.users) == (two.releases, two.users)


@settings(max_examples=25, deadline=None)
@given(
    dim=st.integers(1, 7),
    distinct=st.integers(1, 9),
    copies=st.integers(0, 6),
    privacy=st.sampled_from(sorted(PRIVACY)),
    confidence=st.sampled_from(["exact", "lemma"]),
    fixed=st.booleans(),
    coarse=st.booleans(),
    length=st.sampled_from([1.0, 1.7]),
    ties=st.sampled_from(["random", "first"]),
)
def test_kernel_and_numpy_take_the_same_arms(
    dim: int, distinct: int, copies: int, privacy: str, confidence: str, ties: str, **world: Any
) -> None:
    env = Copies(dim=dim, n_arms=distinct + copies, distinct=distinct, **world)
    policy = LinUCB(dim=dim, horizon=60, privacy=PRIVACY[privacy], batch=1, confidence=confidence, ties=ties)
    with pytest.MonkeyPatch.context() as monkeypatch:
        same(*both(policy, env, 60, monkeypatch))


@pytest.mark.parametrize("confidence", ["exact", PaperConfidence(matrix=0.02)], ids=["exact", "paper"])
@pytest.mark.parametrize("fixed", [True, False])
def test_repairs_are_those_of_numpy(fixed: bool, confidence: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    env = Copies(dim=3, n_arms=5, distinct=5, fixed=fixed)
    policy = LinUCB(dim=3, horizon=150, privacy=local(epsilon=0.5, delta=1e-5), batch=1, confidence=confidence)
    one, two = both(policy, env, 150, monkeypatch)
    assert confidence == "exact" or one.repairs.min() > 10
    same(one, two)


@pytest.mark.parametrize("fixed", [True, False])
def test_spans_and_blocks_change_nothing(fixed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    env = Copies(dim=2, n_arms=4, distinct=2, fixed=fixed)
    policy = LinUCB(dim=2, horizon=101, privacy=central(epsilon=1.0, delta=1e-5), batch=1)
    one, two = both(policy, env, 101, monkeypatch)
    monkeypatch.setattr(ucb_kernel, "_ROUNDS", 17)
    monkeypatch.setattr(ucb_kernel, "_BYTES", 8 * 3 * 4 * 2 * 5)  # five rounds of contexts
    same(one, two)
    for each in both(policy, env, 101, monkeypatch):
        same(each, two)


@settings(max_examples=12, deadline=None)
@given(
    dim=st.integers(1, 12),
    n_arms=st.integers(1, 40),
    privacy=st.sampled_from(sorted(PRIVACY)),
    confidence=st.sampled_from(["exact", "lemma"]),
    span=st.sampled_from([17, 4096]),
)
def test_kernel_and_numpy_take_the_same_fresh_arms(
    dim: int, n_arms: int, privacy: str, confidence: str, span: int
) -> None:
    policy = LinUCB(dim=dim, horizon=80, privacy=PRIVACY[privacy], batch=1, confidence=confidence)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(ucb_kernel, "_ROUNDS", span)
        same(*both(policy, LinearContextual(dim=dim, n_arms=n_arms), 80, monkeypatch))


@pytest.mark.parametrize("confidence", ["exact", "lemma"])
@pytest.mark.parametrize("fixed", [True, False])
def test_rounding_errors_do_not_add_up(fixed: bool, confidence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = LinUCB(dim=5, horizon=1000, batch=1, confidence=confidence, privacy=none())
    env = LinearContextual(dim=5, n_arms=20, fixed=fixed)
    same(*both(policy, env, 1000, monkeypatch))
    monkeypatch.setattr(ucb_kernel, "_ROUNDS", 123)
    same(*both(policy, env, 1000, monkeypatch))


@pytest.mark.parametrize("privacy", ["local", "central"])
def test_phases_go_on_with_the_noise_of_their_stream(privacy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    env = Copies(dim=2, n_arms=4, distinct=4)
    policy = Anytime(first=LinUCB(dim=2, horizon=40, privacy=PRIVACY[privacy], batch=1))
    results = []
    for least in (1, 100, math.inf):  # all phases, of 40, 80 and 160 rounds, the last of them, none
        monkeypatch.setattr(compiled, "BREAK_EVEN", least)
        results.append(simulate(policy, env, n_seeds=3, horizon=280))
    for each in results[:2]:
        same(each, results[2])


@settings(max_examples=50, deadline=None)
@given(
    values=st.lists(st.sampled_from([1.0, 1.0 + 1e-9, 1.5, -2.0, 1e-3]), min_size=1), size=st.sampled_from([1.0, 1e60])
)
def test_ties_are_those_of_the_rule(values: list[float], size: float) -> None:
    index = size * np.array(values)
    first, together = find_best_arms(index)
    count, found = count_tied_arms(index)
    assert found == first
    arms = [find_tied_arm(index, rank, found) for rank in range(count)]
    assert arms == ([int(first)] if together is None else np.flatnonzero(together).tolist())


def test_features_that_are_no_numbers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "BREAK_EVEN", 1)
    env = Copies(dim=2, n_arms=4, distinct=4, fixed=False, broken=True)
    with pytest.raises(InvalidStatistic, match="contexts"):
        simulate(LinUCB(dim=2, horizon=10, batch=1, privacy=none()), env)


def test_a_seed_is_the_same_run_in_any_company(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "BREAK_EVEN", 1)
    env = Copies(dim=3, n_arms=6, distinct=3, coarse=True)
    policy = LinUCB(dim=3, horizon=80, privacy=local(epsilon=5.0, delta=1e-5), batch=1)
    together, alone = (simulate(policy, env, n_seeds=n, seed=seed) for n, seed in ((4, 0), (1, 2)))
    np.testing.assert_array_equal(together.regret[2], alone.regret[0])


def packed(gram: Floats, vector: Floats) -> Floats:
    above = gram[np.triu_indices(len(gram), 1)]
    return np.concatenate([vector, np.diag(gram), math.sqrt(2) * above])


@pytest.mark.parametrize("scale", [0.0, 1.7])
@pytest.mark.parametrize("d", [1, 2, 3, 5, 8, 12])
def test_estimates_are_those_of_the_equations(d: int, scale: float) -> None:
    rng, definite, (floor, weight) = np.random.default_rng(d), 0, (0.3, 0.2)
    system, own, column, theta, inverse = np.empty((d, 2 * d + 1)), *np.empty((3, d)), np.empty((d, d))
    for _ in range(60):
        half, vector = rng.standard_normal((d, d)), rng.standard_normal(d)
        gram = half @ half.T + rng.uniform(-1.0, 0.5) * np.eye(d)
        gain = gram @ np.linalg.inv(scale * gram + floor * np.eye(d)) if scale else np.eye(d)
        matrix = (gain @ gram if scale else gram) + weight * np.eye(d)
        least = [np.linalg.eigvalsh(each)[0] for each in (scale * gram + floor * np.eye(d), (matrix + matrix.T) / 2)]
        found = estimate_from_released_sums(
            packed(gram, vector), scale, floor, weight, system, own, column, theta, inverse
        )
        assert found == (min(least) > 0)
        definite += found
        if found and min(least) > 1e-3:
            np.testing.assert_allclose(inverse, np.linalg.inv(matrix), rtol=1e-8, atol=1e-8)
            np.testing.assert_allclose(theta, np.linalg.inv(matrix) @ gain @ vector, rtol=1e-8, atol=1e-8)
    assert 0 < definite < 60
