"""Whether a kernel is used, and what happens where it cannot be."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numba
import pytest

from bandanna import kernels
from bandanna.kernels import BREAK_EVEN, SWITCH, compiled
from bandanna.kernels.jit import jit


@pytest.fixture
def _anew() -> Iterator[None]:
    """Kernels are looked for anew, before and after."""
    kernels._loaded.cache_clear()
    yield
    kernels._loaded.cache_clear()


def test_a_short_run_uses_numpy() -> None:
    """Numba is loaded for a run that is over before."""
    assert compiled("optimist", rounds=BREAK_EVEN) is not None
    assert compiled("optimist", rounds=BREAK_EVEN - 1) is None


@pytest.mark.parametrize("off", ["off", "OFF", "0", "no"])
def test_kernels_can_be_switched_off(off: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment variable does nothing."""
    monkeypatch.setenv(SWITCH, off)
    assert compiled("optimist") is None


@pytest.mark.usefixtures("_anew")
def test_without_numba_there_is_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Numba has an error instead of NumPy."""
    monkeypatch.setitem(sys.modules, "numba", None)
    assert compiled("optimist") is None


def test_a_folder_that_cannot_be_written_costs_time_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation that is read-only has no kernels."""
    plain = numba.njit

    def refusing(*given: Any, cache: bool = False) -> Any:
        if cache:
            raise RuntimeError("cannot cache function: no locator available for file")
        return plain(*given)

    monkeypatch.setattr(numba, "njit", refusing)
    assert jit(lambda x: x + 1)(2) == 3


def test_numba_is_loaded_at_its_first_use() -> None:
    """Importing the library, or a run of few rounds, imports Numba."""
    code = """
import sys, bandanna as bd
env = bd.environments.LinearContextual(dim=2, n_arms=3, fixed=True)
bd.simulate(bd.LinUCB(dim=2, horizon=50), env)
assert "numba" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
