"""Whether a kernel is used, and what happens where it cannot be."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
import pytest

from bandanna.numeric import compiled as compiled_module
from bandanna.numeric import kernels as kernels_module
from bandanna.numeric.compiled import BREAK_EVEN, SWITCH, find_kernel
from bandanna.numeric.kernels import jit


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
