"""Remembered noise is priced as it would be used: all coordinates, users, participations."""

from __future__ import annotations

import functools
import json
import math
from pathlib import Path
from typing import Any

import pytest

from bandanna.privacy import accountant, calibration_cache, shuffled_gaussian
from bandanna.privacy import shuffled_gaussian as amplification
from bandanna.privacy.budgets import ApproxDP
from bandanna.privacy.calibration import binomial_noise, calibrated_shuffled_std
from bandanna.privacy.calibration_cache import clear_memory
from bandanna.privacy.events import Event, RepetitionEvent, ShuffledGaussianEvent

BUDGET = ApproxDP(epsilon=1.0, delta=1e-5)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("BANDANNA_CACHE", str(tmp_path))
    clear_memory()
    return tmp_path


def forge(place: Path, result: dict[str, Any]) -> None:
    """Write another result into the only file of the cache, with its digest."""
    (file,) = place.iterdir()
    identity = json.loads(file.read_text())["identity"]
    file.write_text(
        json.dumps({"identity": identity, "result": result, "digest": calibration_cache._digest(identity, result)})
    )
    clear_memory()


@pytest.mark.parametrize("less", [{"sensitivity": 1.8}, {"dim": 1}, {"participations": 1}])
def test_coins_for_less_are_not_believed(less: dict[str, Any], place: Path) -> None:
    wanted: dict[str, Any] = {"sensitivity": 2.0, "reach": 2.0, "dim": 100, "users": 50, "participations": 2}
    cheap = binomial_noise(budget=BUDGET, **wanted | less)
    for file in place.iterdir():
        file.unlink()
    clear_memory()
    honest = binomial_noise(budget=BUDGET, **wanted)
    forge(place, {"scale": cheap.scale, "trials": cheap.trials})
    assert cheap != honest
    assert binomial_noise(budget=BUDGET, **wanted) == honest


@pytest.mark.parametrize("less", [{"users": 400}, {"participations": 1}])
def test_shuffled_noise_for_less_is_not_believed(
    less: dict[str, Any], place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = functools.cache(shuffled_gaussian.shuffled_gaussian_std)  # it would find the same again
    monkeypatch.setattr(amplification, "shuffled_gaussian_std", search)
    wanted: dict[str, Any] = {"sensitivity": 1.0, "dim": 2, "users": 200, "participations": 2}
    cheap = calibrated_shuffled_std(budget=BUDGET, **wanted | less)
    for file in place.iterdir():
        file.unlink()
    clear_memory()
    honest = calibrated_shuffled_std(budget=BUDGET, **wanted)
    forge(place, {"std": cheap})
    assert cheap < honest
    assert calibrated_shuffled_std(budget=BUDGET, **wanted) == honest


def test_remembered_shuffled_noise_is_priced_as_it_is_used(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searched: dict[str, Any] = {}
    priced: list[Event] = []
    monkeypatch.setattr(amplification, "shuffled_gaussian_std", lambda **asked: searched.update(asked) or 4.0)
    monkeypatch.setattr(accountant, "satisfies", lambda event, _: bool(priced.append(event)) or True)
    wanted: dict[str, Any] = {"sensitivity": 2.0, "dim": 3, "users": 200, "participations": 2, "budget": BUDGET}
    assert calibrated_shuffled_std(**wanted) == 8.0
    assert searched == {"sensitivity": 1.0, "users": 200, "times": 2, "epsilon": 1.0, "delta": 1e-5}
    forge(place, {"std": 5.0})  # more than one report needs without a shuffler, less than two
    assert 1 / BUDGET.mu() < 5.0 < math.sqrt(2) / BUDGET.mu()
    assert calibrated_shuffled_std(**wanted) == 10.0
    one = ShuffledGaussianEvent(std=5.0, sensitivity=1.0, users=200, dim=3)
    assert priced == [RepetitionEvent(event=one, times=2)]
