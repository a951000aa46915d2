from __future__ import annotations

import io
import json
import math
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from mutants import exchanging, reaching
from mutants.__main__ import report
from mutants.sites import Mutant, mutants
from mutants.verdicts import SURVIVORS, Verdicts, allowed

ROOT = Path(__file__).resolve().parents[2]
STATES_A_PRICE = re.compile(  # names of functions
    r"calibrat|event|exposure|mechanism|_for_std|of_std|sensitivity|check_bit_noise|_pure|_is_box"
)
SOURCE = """
import math

def noise_std(sensitivity, participations):
    std = math.sqrt(participations) * sensitivity
    return std

def endless(dim):
    left = 4
    while left > 0:
        left = left - (2 * dim - 1)
    return left

def forgotten(dim):
    return 2 * dim

def early(dim):
    return 2 * dim

class Noise:
    std = 2 * 0.5

    def within(self, participations):
        def inner():
            return 2 * participations
        return inner()
"""
TESTS = """
from toy import Noise, early, endless, forgotten, noise_std

EARLY = early(3)

def test_early():
    assert EARLY == 6

def test_members():
    assert Noise.std == 1.0
    assert Noise().within(3) == 6

def test_noise():
    assert noise_std(3.0, 1) == 3.0  # nobody takes part twice here

def test_endless():
    assert endless(1) == 0
"""
TRY = """
import json, sys
from pathlib import Path
from mutants import exchanging, running
from mutants.reaching import Reach
from mutants.sites import mutants
root = Path(sys.argv[1])
exchanging.PATIENCE = 0.5  # with what a fork takes, one second: limits are whole
reach, found, quick = Reach.load(root / "reach.json"), {}, {}
collected = exchanging.Collected(root, root / "src", ["tests/test_toy.py"], root / "log")
for each in mutants(root / "src/toy.py", root):
    tests = reach.of(each.path, each.where)
    name = each.name.partition("::")[2]
    found[name] = running.verdict(root, root / "src", each, tests, reach.seconds, patience=0.5)
    answer = collected.of(each, tests, reach.seconds)
    quick[name] = "early" if answer.early and answer.verdict == "survived" else answer.verdict
collected.close()
print(json.dumps([found, quick]))
"""
RECORD = """
import sys
import time
from pathlib import Path
from mutants import reaching
root = Path(sys.argv[1])
reaching.warm_up = list  # nothing that the toy imports
reaching.record(root, [str(root / "tests")]).save(root / "reach.json")
"""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    """What becomes of the toy's mutants, loaded anew and with exchanged code."""
    root = tmp_path_factory.mktemp("toy")
    for name, text in (("src/toy.py", SOURCE), ("tests/test_toy.py", TESTS), ("pytest.ini", "[pytest]\n")):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    path = f"{root / 'src'}{os.pathsep}{ROOT}"
    env = {**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    for program in (RECORD, TRY):
        done = subprocess.run(
            [sys.executable, "-c", program, str(root)], cwd=root, env=env, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
    found: list[dict[str, str]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def verdicts(both: list[dict[str, str]]) -> dict[str, str]:
    """What becomes of them when the module is loaded anew."""
    return both[0]


def _of(verdicts: dict[str, str], where: str, before: str) -> str:
    return next(found for name, found in verdicts.items() if name.startswith(f"{where}: {before} ->"))


def test_less_noise_is_noticed(verdicts: dict[str, str]) -> None:
    assert _of(verdicts, "noise_std", "std") == "killed"
    assert _of(verdicts, "noise_std", "sensitivity") == "killed"


def test_a_mutant_that_no_test_sees_survives(verdicts: dict[str, str]) -> None:
    assert _of(verdicts, "noise_std", "math.sqrt(participations)") == "survived"


def test_a_mutant_that_never_ends_is_ended(verdicts: dict[str, str]) -> None:
    assert _of(verdicts, "endless", "2 * dim") == "timed out"
    assert _of(verdicts, "forgotten", "2 * dim") == "survived"  # nobody calls it: all tests of the file are tried


def test_exchanged_code_gives_the_same_verdicts(both: list[dict[str, str]]) -> None:
    slow, quick = both
    assert _of(quick, "early", "2 * dim") == "early"
    assert _of(quick, "Noise", "2 * 0.5") == ""  # of the class itself: nothing to exchange
    assert all(quick[name] == slow[name] for name in slow if not name.startswith(("early:", "Noise:")))
    assert _of(quick, "Noise.within.inner", "2 * participations") == "killed"


class _Slow(exchanging._Serving):
    """A mutant that changes nothing, and a test that takes 0.1 s with a cache and 30 s without."""

    def __init__(self, ends: float) -> None:
        super().__init__(ROOT, ROOT / "src", io.StringIO(), io.StringIO())
        self.early, self.ends, self.tried = set(), ends, list[float]()

    def seconds_alone(self, test: str) -> float:
        return 30.0

    def forked(self, mutant: Mutant | None, tests: list[tuple[str, float]]) -> tuple[str, str]:
        self.tried.append(tests[0][1])
        enough = self.ends <= exchanging._limit(tests[0][1])
        return ("survived" if enough else "timed out"), tests[0][0]


def test_a_test_that_is_slow_without_a_mutant_kills_none() -> None:
    mutant = Mutant(path="a.py", where="f", kind="noise", before="std", after="0.9 * (std)", line=1)
    serving = _Slow(ends=30.0)
    assert serving.answer(mutant, [("test", 0.1)]).verdict == "survived"
    assert serving.tried == [0.1, 30.0]
    assert serving.answer(mutant, [("test", 0.1)]).verdict == "survived"
    assert serving.tried == [0.1, 30.0, 30.0]
    assert _Slow(ends=math.inf).answer(mutant, [("test", 0.1)]).verdict == "timed out"


def test_a_long_test_is_recorded_while_it_reaches_new_functions() -> None:
    recorder = reaching.Recorder(cast(reaching.Probed, SimpleNamespace(seen=set())))
    for name in ("one", "two"):
        recorder.seen.add(name)
        recorder.begun = time.process_time()
        recorder.look(0, None)
    assert not recorder.cut
    with pytest.raises(pytest.skip.Exception):
        recorder.look(0, None)  # nothing new since then
    assert recorder.cut
    recorder.seen.add("three")
    recorder.begun = time.process_time() - 100.0
    with pytest.raises(pytest.skip.Exception):
        recorder.look(0, None)  # new, but long


def test_only_survivors_are_tried_again(tmp_path: Path) -> None:
    one = Mutant(path="a.py", where="f", kind="noise", before="std", after="0.9 * (std)", line=1)
    other = Mutant(path="a.py", where="g", kind="noise", before="std", after="0.9 * (std)", line=2)
    kept = Verdicts.load(tmp_path / "verdicts.json")
    kept.note(one, "text", "killed")
    kept.note(other, "text", "survived")
    again = Verdicts.load(tmp_path / "verdicts.json")
    assert again.of(one, "text") == "killed"
    assert again.of(one, "other text") is None
    assert again.of(other, "text") is None


def test_survivors_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    one = Mutant(path="a.py", where="f", kind="noise", before="std", after="0.9 * (std)", line=1)
    assert report([(one, "killed")]) == 0
    assert report([(one, "survived")]) == 1
    assert "SURVIVED a.py:1" in capsys.readouterr().out


def test_allowed_survivors_are_still_there() -> None:
    excused = allowed(SURVIVORS)
    found = {path: mutants(ROOT / path, ROOT) for path in {each.path for each in excused}}
    for each in excused:
        assert len(each.reason) > 20
        assert any(each.is_of(mutant) for mutant in found[each.path]), each


def test_nothing_is_excused_where_prices_are_stated() -> None:
    modules = sorted((ROOT / "src" / "bandanna" / "protocols").glob("*.py"))
    stated = [each for path in modules for each in mutants(path, ROOT) if STATES_A_PRICE.search(each.where)]
    assert len(stated) >= 100
    assert not [reason for reason in allowed(SURVIVORS) for each in stated if reason.is_of(each)]


def test_a_long_test_leaves_room_for_those_behind_it() -> None:
    reach = reaching.Reach(seconds={"near": 0.5, "long": 5.0, "far": 1.0, "farther": 2.0})
    assert reach.within(3.0, ["near", "long", "far", "farther"]) == ["near", "far"]
    assert reach.within(0.1, ["long", "near"]) == ["long"]  # one is tried in any case
    assert reach.within(3.0, []) == []
