"""The worked example of docs/concepts/policy-families.md runs, on a shorter week."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import bandanna as bd


@pytest.fixture(scope="module")
def tilt() -> ModuleType:
    """The example as a module."""
    path = Path(__file__).parents[2] / "examples" / "antenna_tilt.py"
    spec = importlib.util.spec_from_file_location("antenna_tilt", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_configurations_are_a_net(tilt: ModuleType) -> None:
    """A configuration is farther than 0.08 from the net, its features are too long, or settings are not the net's."""
    settings, net = tilt.configurations()
    np.testing.assert_allclose(tilt.features(settings), net)
    grid = np.stack(np.meshgrid(np.linspace(0, 12, 25), np.linspace(10, 46, 19)), axis=-1).reshape(-1, 2)
    distances = np.linalg.norm(tilt.features(grid)[:, None] - net[None], axis=2)
    assert np.max(np.min(distances, axis=1)) <= 0.08 + 0.02  # the sample that was thinned out covers within 0.02
    assert np.max(np.linalg.norm(net, axis=1)) <= 1 + 1e-12


def test_the_antenna_example_runs(
    tilt: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tilt, "HORIZON", 1000)
    settings, net = tilt.configurations()
    tilt.compare(net)
    tilt.operate(net, settings)
    shown = capsys.readouterr().out
    assert [line.split()[0] for line in shown.splitlines()[:4]] == ["DPE", "CDP-DPE", "SDP-DPE", "LDP-DPE"]
    assert f"of {len(net)} configurations are left" in shown
    assert str(bd.make("SDP-DPE", dim=6, horizon=1000, **tilt.BUDGET).guarantee) in shown
