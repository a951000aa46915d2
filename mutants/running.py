"""One mutant in a process of its own: the tests that reach it, the quickest first, until one fails."""

from __future__ import annotations

import contextlib
import math
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from mutants.loading import QUIET, Finder
from mutants.sites import Mutant, mutated

KILLED, TIMED_OUT, SURVIVED, UNREACHED = "killed", "timed out", "survived", "unreached"
_FIRST, _FIRST_SECONDS = 25, 4.0  # tests that are tried before all others
PATIENCE = 30.0  # CPU seconds beyond five times what the tests take, after which a mutant has done something endless


class Hurry:
    """The wanted tests in their order, if there is one; a failing example is enough, not the smallest."""

    def __init__(self, tests: Sequence[str] | None) -> None:
        self.order = None if tests is None else {test: place for place, test in enumerate(tests)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Those that are still there."""
        if self.order is None:
            return
        items[:] = sorted(
            (each for each in items if each.nodeid in self.order), key=lambda each: self.order[each.nodeid]
        )

    def pytest_configure(self, config: pytest.Config) -> None:
        """Hypothesis does not look for smaller examples."""
        if "hypothesis" not in sys.modules:
            return
        from hypothesis import Phase, settings

        settings.register_profile("mutants", settings(), phases=(Phase.explicit, Phase.generate), database=None)
        settings.load_profile("mutants")


def verdict(
    root: Path,
    source: Path,
    mutant: Mutant,
    tests: Sequence[str],
    seconds: dict[str, float],
    patience: float = PATIENCE,
) -> str:
    """What became of a mutant; a time-out is believed if the tests pass in that time without it."""
    if not tests:
        return UNREACHED
    for some in stages(tests, seconds):
        usual = sum(seconds[test] for test in some)
        limit = patience + 5 * usual
        found = passes(root, source, mutant.path, mutant, some, patience=limit)
        if found is False:
            return KILLED
        if found is None and passes(root, source, mutant.path, None, some, patience=limit):
            return TIMED_OUT
    return SURVIVED


def stages(tests: Sequence[str], seconds: dict[str, float]) -> list[list[str]]:
    """A few quick ones, then all others."""
    first: list[str] = []
    spent = 0.0
    for test in tests:
        if len(first) < _FIRST and (not first or spent + seconds[test] < _FIRST_SECONDS):
            first.append(test)
            spent += seconds[test]
    taken = set(first)
    rest = sorted((test for test in tests if test not in taken), key=lambda test: seconds[test])
    return [first, rest] if rest else [first]


def passes(
    root: Path, source: Path, path: str, mutant: Mutant | None, tests: Sequence[str], *, patience: float
) -> bool | None:
    """Whether tests pass with the mutant (or, without one, with the file as it is); None if they took too long.

    patience: in CPU seconds, so that a busy machine kills nobody; one that sleeps is ended after 60 times as long.
    """
    tree = mutated((root / path).read_text(), mutant)
    scratch = tempfile.mkdtemp(prefix="mutant-")
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(patience), math.ceil(patience) + 1))
        _in_child(root, Finder(root / path, source, tree), tests, scratch)
    try:
        status = waited(child, 60 * patience)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if status is None:
        return None
    code = os.waitstatus_to_exitcode(status)
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return None
    if code in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise SystemExit(f"the recorded tests of {path} are not there any more: run again with --trace")
    return code == 0


def _in_child(root: Path, finder: Finder, tests: Sequence[str], scratch: str) -> None:
    """Never returns."""
    code = 1
    try:
        os.setsid()
        os.chdir(root)
        silence = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(silence, descriptor)
        os.environ["TMPDIR"] = tempfile.tempdir = scratch
        sys.meta_path.insert(0, finder)
        sys.dont_write_bytecode = True
        options = [*QUIET, "-x", f"--basetemp={scratch}/tests"]
        files = dict.fromkeys(test.partition("::")[0] for test in tests)
        code = int(pytest.main([*options, *(file for file in files if Path(file).exists())], plugins=[Hurry(tests)]))
    finally:
        os._exit(code)


def waited(child: int, patience: float) -> int | None:
    """The child's status; None if its time was up, and then it and its children are ended."""
    until = time.monotonic() + patience
    pause = 0.01
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        if time.monotonic() > until:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        time.sleep(pause)
        pause = min(0.2, pause * 1.5)
