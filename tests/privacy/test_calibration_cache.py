"""The cache of search results: found again, never trusted, never in the way."""

from __future__ import annotations

import functools
import json
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bandanna.privacy import accountant, calibration_cache, shuffled_gaussian
from bandanna.privacy import shuffled_gaussian as amplification
from bandanna.privacy.budgets import ApproxDP
from bandanna.privacy.calibration import BinomialNoise, binomial_noise, calibrated_shuffled_std
from bandanna.privacy.calibration_cache import clear_memory, compute_cached, find_cache_folder
from bandanna.privacy.events import Event, RepetitionEvent, ShuffledGaussianEvent
from bandanna.privacy.factorisation import BLT


class Counted:
    """A search that counts how often it runs."""

    def __init__(self, result: dict[str, Any]) -> None:
        self.runs = 0
        self.result = result

    def __call__(self) -> dict[str, Any]:
        self.runs += 1
        return self.result


def found(kind: str, key: calibration_cache.Key, search: Counted) -> dict[str, Any]:
    return compute_cached(kind, key, search, valid=lambda result: True)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache on disk and in memory."""
    monkeypatch.setenv("BANDANNA_CACHE", str(tmp_path / "deep" / "cache"))
    clear_memory()
    return tmp_path / "deep" / "cache"


def test_a_stored_result_comes_back_bit_for_bit(place: Path) -> None:
    search = Counted({"theta": [0.1 + 0.2, 1e-300, 1 / 3], "name": "x", "count": 10**18})
    first = found("kind", {"n": 3, "x": 0.1}, search)
    assert found("kind", {"x": 0.1, "n": 3}, search) == first == search.result
    clear_memory()
    assert found("kind", {"n": 3, "x": 0.1}, search) == first
    assert search.runs == 1
    assert [path.suffix for path in place.iterdir()] == [".json"]  # no temporary file is left


def test_each_kind_key_and_version_has_its_own_result(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = Counted({"x": 1})
    for kind, key in [("a", {"n": 1}), ("b", {"n": 1}), ("a", {"n": 2}), ("a", {"m": 1}), ("a", {"n": "1"})]:
        found(kind, key, search)
    assert search.runs == 5
    monkeypatch.setattr(calibration_cache, "VERSION", calibration_cache.VERSION + 1)
    found("a", {"n": 1}, search)
    assert search.runs == 6


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe", b"[]", b'{"result": {}}', b'{"identity": 1, "result": {}}']
)
def test_a_damaged_file_is_replaced(place: Path, content: bytes) -> None:
    search = Counted({"x": 1})
    found("kind", {"n": 1}, search)
    (file,) = place.iterdir()
    file.write_bytes(content)
    clear_memory()
    assert found("kind", {"n": 1}, search) == {"x": 1}
    assert search.runs == 2
    assert json.loads(file.read_text())["result"] == {"x": 1}


def test_a_file_renamed_to_another_key_is_ignored(place: Path) -> None:
    found("kind", {"n": 1}, Counted({"x": 1}))
    (file,) = place.iterdir()
    content = file.read_bytes()
    file.unlink()
    clear_memory()
    found("kind", {"n": 2}, Counted({"x": 2}))
    (other,) = place.iterdir()
    other.write_bytes(content)
    clear_memory()
    assert found("kind", {"n": 2}, Counted({"x": 2})) == {"x": 2}


def test_a_result_that_its_owner_rejects_is_computed_again(place: Path) -> None:
    found("kind", {"n": 1}, Counted({"x": -1}))
    clear_memory()
    assert compute_cached("kind", {"n": 1}, Counted({"x": 1}), valid=lambda result: result["x"] > 0) == {"x": 1}
    clear_memory()
    assert compute_cached("kind", {"n": 1}, Counted({"y": 1}), valid=lambda result: result["y"] > 0) == {"y": 1}


def test_an_unwritable_cache_does_not_stop_a_calibration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("BANDANNA_CACHE", str(blocked / "cache"))
    clear_memory()
    assert found("kind", {"n": 1}, Counted({"x": 1})) == {"x": 1}
    monkeypatch.setenv("BANDANNA_CACHE", str(tmp_path / "good"))
    found("kind", {"n": 1}, Counted({"x": 1}))
    (file,) = (tmp_path / "good").iterdir()
    file.unlink()
    file.mkdir()
    clear_memory()
    assert found("kind", {"n": 1}, Counted({"x": 2})) == {"x": 2}
    assert list((tmp_path / "good").iterdir()) == [file]  # the temporary file is gone


def test_an_empty_setting_keeps_results_in_memory_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BANDANNA_CACHE", "")
    clear_memory()
    search = Counted({"x": 1})
    assert find_cache_folder() is None
    assert found("kind", {"n": 1}, search) == found("kind", {"n": 1}, search)
    assert search.runs == 1
    assert not list(tmp_path.iterdir())


def test_each_caller_gets_a_copy(place: Path) -> None:
    search = Counted({"x": [1]})
    found("kind", {"n": 1}, search)["x"].append(2)
    assert found("kind", {"n": 1}, search) == {"x": [1]}


def test_the_folder_follows_the_environment_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BANDANNA_CACHE", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert find_cache_folder() == tmp_path
    monkeypatch.delenv("BANDANNA_CACHE")
    assert find_cache_folder() == tmp_path / "xdg" / "bandanna"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert find_cache_folder() == tmp_path / "home" / ".cache" / "bandanna"

    def homeless() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "home", homeless)
    assert find_cache_folder() is None


# Forged files: any content, with the right digest


def forge(place: Path, result: Any) -> None:
    """Put a result into the only file of the cache, as if it had been found."""
    (file,) = place.iterdir()
    identity = json.loads(file.read_text())["identity"]
    text = json.dumps({"identity": identity, "result": result, "digest": calibration_cache._digest(identity, result)})
    file.write_text(text)
    clear_memory()


def results(honest: dict[str, Any]) -> Iterator[Any]:
    """What a forger may write in place of an honest result: every number replaced, then every shape."""
    numbers = (0, -1.0, 1e-300, 1e300, 10**300, 10**400, math.nan, math.inf, -math.inf, True, None, "1", [], [1.0], {})
    for name, value in honest.items():
        for other in numbers:
            yield {**honest, name: other}
        if isinstance(value, list):
            yield from ({**honest, name: [other] * len(value)} for other in numbers)
        else:
            yield from ({**honest, name: share * value} for share in (0.5, 0.8, 0.98, 1.2, 2.0))
    yield from ({}, [], None, 3, "x", {"other": 1}, {**honest, "nested": [[[]]]})


SHUFFLED, BINOMIAL = ApproxDP(epsilon=1.0, delta=1e-6), ApproxDP(epsilon=0.9, delta=1e-6)
SHAPE: dict[str, Any] = {"sensitivity": 2.0, "reach": 1.0, "dim": 3}


def shuffled(participations: int) -> float:
    return calibrated_shuffled_std(sensitivity=1.0, dim=1, users=50, budget=SHUFFLED, participations=participations)


def binomial(participations: int) -> BinomialNoise:
    return binomial_noise(**SHAPE, users=30, budget=BINOMIAL, participations=participations)


def blt(buffers: int) -> BLT:
    return BLT.optimal(horizon=77, buffers=buffers)


def fits(used: Any, number: int) -> bool:
    """Whether parameters that the search did not find may be used: they keep the budget, or are priced as they are."""
    if isinstance(used, BLT):
        return used.buffers <= number
    event: Event = (
        ShuffledGaussianEvent(std=used, sensitivity=1.0, users=50) if isinstance(used, float) else used.event(**SHAPE)
    )
    budget = SHUFFLED if isinstance(used, float) else BINOMIAL
    return accountant.satisfies(RepetitionEvent(event=event, times=number), budget)


@pytest.mark.parametrize("calibrate", [shuffled, binomial, blt], ids=["shuffled", "binomial", "blt"])
@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.often(when=lambda calibrate, number: (calibrate is binomial) == (number == 3))
def test_a_forged_file_is_searched_anew(
    calibrate: Callable[[int], Any], number: int, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = calibrate(number)
    (file,) = place.iterdir()
    stored = json.loads(file.read_text())["result"]
    computed, read = [], calibration_cache._read

    def looked(*arguments: Any) -> dict[str, Any] | None:
        result = read(*arguments)
        if result is None:
            computed.append(True)
            return stored  # what the search would find
        return result

    monkeypatch.setattr(calibration_cache, "_read", looked)
    assert (calibrate(number), computed) == (honest, [])
    for forged in results(stored):
        forge(place, forged)
        used = calibrate(number)
        assert used == honest or (not computed and fits(used, number)), forged
        computed.clear()


@pytest.mark.parametrize("kind", ["deep", "huge", "pipe", "directory", "binary"])
def test_a_file_that_is_no_result_is_computed_again(kind: str, place: Path) -> None:
    search = Counted({"x": 1})
    found("kind", {"n": 1}, search)
    (file,) = place.iterdir()
    content = file.read_text()
    file.unlink()
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "directory":
        file.mkdir()
    elif kind == "huge":
        with file.open("w") as stream:
            stream.write(content)
            stream.truncate(1 << 30)  # zeros that take no room on the disk
    else:
        file.write_bytes(b"[" * 10**6 if kind == "deep" else bytes(range(256)))
    clear_memory()
    assert found("kind", {"n": 1}, search) == {"x": 1}
    assert search.runs == 2


BUDGET = ApproxDP(epsilon=1.0, delta=1e-5)


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
