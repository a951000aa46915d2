"""Mutants without loading anything again: tests are collected once; a mutant is a fork with another code in a function.

A process of its own loads library and tests, and waits. Asked about a mutant it forks; the fork gives every function
that is changed its new code, forgets what the library remembers, and runs tests until one fails. What is computed when
a module is loaded keeps its old value, so whoever asks is told whether that can have been (`Answer.early`).
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import json
import math
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import IO, Any

import pytest

from mutants.loading import QUIET
from mutants.reaching import TAKEN
from mutants.running import KILLED, SURVIVED, TIMED_OUT, Hurry, waited
from mutants.sites import Mutant, mutated

_OLD, _LONGER = "failed without any mutant", "takes longer without a cache, and is tried again"
PATIENCE = 4.0  # CPU seconds for a test, and
_TIMES = 5.0  # times what it usually takes, beyond which it is taken for endless


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What became of a mutant; an empty verdict: its code cannot be exchanged."""

    verdict: str = ""
    test: str = ""  # which saw it
    early: bool = False  # the function was called when modules were loaded, with its old code


class Collected:
    """The tests of some folders, loaded in a process that answers."""

    def __init__(self, root: Path, source: Path, folders: Sequence[str], log: Path) -> None:
        (ours, its_answers), (its_requests, theirs) = os.pipe(), os.pipe()
        self.child = os.fork()
        if self.child == 0:
            os.close(ours)
            os.close(theirs)
            _serve(root, source, folders, log, os.fdopen(its_requests), os.fdopen(its_answers, "w"))
        os.close(its_requests)
        os.close(its_answers)
        self.log = log
        self.requests, self.answers = os.fdopen(theirs, "w"), os.fdopen(ours)

    def of(self, mutant: Mutant, tests: Sequence[str], seconds: dict[str, float]) -> Answer:
        """Run these tests in this order, until one fails."""
        order = [(test, seconds[test]) for test in tests]
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps({"mutant": asdict(mutant), "tests": order}), file=self.requests, flush=True)
        line = self.answers.readline()
        if not line:
            raise SystemExit(f"the tests cannot be collected: {self.log}")
        held = json.loads(line)
        if "missing" in held:
            raise SystemExit(f"a recorded test is not there any more: {held['missing']}: run again with --trace")
        return Answer(**held)

    def close(self) -> None:
        """End the process."""
        with contextlib.suppress(BrokenPipeError):
            self.requests.close()
        os.waitpid(self.child, 0)


def _serve(root: Path, source: Path, folders: Sequence[str], log: Path, requests: IO[str], answers: IO[str]) -> None:
    """Never returns."""
    try:
        os.chdir(root)
        said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for descriptor in (1, 2):
            os.dup2(said, descriptor)
        sys.dont_write_bytecode = True
        options = [*QUIET, "-x", "-s", "-m", TAKEN, *folders]
        pytest.main(options, plugins=[Hurry(None), _Serving(root, source, requests, answers)])
    finally:
        os._exit(1)


class _Serving:
    """A plugin of pytest that answers instead of running all tests."""

    def __init__(self, root: Path, source: Path, requests: IO[str], answers: IO[str]) -> None:
        self.root, self.requests, self.answers = root, requests, answers
        self.called: set[CodeType] = set()
        self.source = source
        self.alone: dict[str, float] = {}  # tests that saw a mutant: CPU seconds without one; inf if they fail

    @pytest.hookimpl(hookwrapper=True)
    def pytest_collection(self) -> Iterator[None]:
        """See what is called when modules are loaded."""
        sys.settrace(self.look)
        yield
        sys.settrace(None)

    def look(self, frame: FrameType, event: str, _: Any) -> None:
        """Remembers the code that is called."""
        self.called.add(frame.f_code)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Until nobody asks any more."""
        if session.testsfailed:
            return True
        self.session = session
        self.items = {item.nodeid: item for item in session.items}
        self.early = {(code.co_filename, _plain(code)) for code in self.called}
        self.functions, self.memories = _living(str(self.source) + "/")
        for line in self.requests:
            asked = json.loads(line)
            missing = next((test for test, _ in asked["tests"] if test not in self.items), None)
            held = {"missing": missing} if missing else asdict(self.answer(Mutant(**asked["mutant"]), asked["tests"]))
            print(json.dumps(held), file=self.answers, flush=True)
        return True

    def answer(self, mutant: Mutant, tests: list[tuple[str, float]]) -> Answer:
        """What became of a mutant; a test that fails without it, or needs as long, is not believed."""
        early = (str(self.root / mutant.path), mutant.where.partition("#")[0]) in self.early
        while True:
            usual = {test: max(spent, self.alone.get(test, 0.0)) for test, spent in tests}
            kept = [(test, spent) for test, spent in usual.items() if spent < math.inf]
            verdict, test = self.forked(mutant, kept)
            if verdict not in (KILLED, TIMED_OUT):
                return Answer(verdict=verdict, test=test, early=early)
            if not test:  # it ended before any test
                return Answer()
            if test not in self.alone:
                self.alone[test] = self.seconds_alone(test)
            own = self.alone[test]
            if own < math.inf and (verdict == KILLED or own <= _limit(usual[test])):
                return Answer(verdict=verdict, test=test)
            print(f"{_OLD if own == math.inf else _LONGER}: {test}", flush=True)

    def seconds_alone(self, test: str) -> float:
        """What a test takes without any mutant, and with nothing remembered, as a mutant's does; inf if it fails."""
        before = _spent_by_children()
        verdict, _ = self.forked(None, [(test, math.inf)])
        return _spent_by_children() - before if verdict == SURVIVED else math.inf

    def forked(self, mutant: Mutant | None, tests: list[tuple[str, float]]) -> tuple[str, str]:
        """Verdict and the last test that was begun."""
        scratch = Path(tempfile.mkdtemp(prefix="mutant-"))
        child = os.fork()
        if child == 0:
            self.run(mutant, tests, scratch)
        try:
            usual = sum(spent for _, spent in tests if spent < math.inf)
            status = waited(child, 60 * (PATIENCE + _TIMES * usual))
            begun = scratch / "begun"
            test = begun.read_text() if begun.exists() else ""
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        code = None if status is None else os.waitstatus_to_exitcode(status)
        if code in (None, -signal.SIGXCPU, -signal.SIGKILL):
            return TIMED_OUT, test
        return {0: SURVIVED, 3: ""}.get(code, KILLED) if code is not None else TIMED_OUT, test

    def run(self, mutant: Mutant | None, tests: list[tuple[str, float]], scratch: Path) -> None:
        """In the fork; never returns."""
        code = 2
        try:
            os.setsid()
            silence = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(silence, descriptor)
            os.environ["TMPDIR"] = tempfile.tempdir = str(scratch)
            os.environ["BANDANNA_CACHE"] = str(scratch / "cache")
            factory = self.session.config._tmp_path_factory
            factory._given_basetemp, factory._basetemp = scratch / "tests", None
            for memory in self.memories:
                memory.cache_clear()
            if mutant is not None and not self.exchanged(mutant):
                code = 3
                return
            items = [self.items[test] for test, _ in tests]
            for place, (item, (_, spent)) in enumerate(zip(items, tests, strict=True)):
                (scratch / "begun").write_text(item.nodeid)
                _patience(spent)
                following = items[place + 1] if place + 1 < len(items) else None
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if self.session.testsfailed:
                    code = 1
                    return
            code = 0
        finally:
            os._exit(code)

    def exchanged(self, mutant: Mutant) -> bool:
        """Give every living function that is changed its new code; False if something else is changed."""
        file = self.root / mutant.path
        module = ".".join(file.relative_to(self.source).with_suffix("").parts)
        functions = self.functions.get(str(file))
        if functions is None:  # not loaded by any test's module
            importlib.import_module(module.removesuffix(".__init__"))
            functions = _living(str(file))[0].get(str(file), [])
        text = file.read_text()
        old, new = (_codes(compile(mutated(text, each), str(file), "exec")) for each in (None, mutant))
        changed = {key for key in old if old[key] != new.get(key)}
        living = {_key(each.__code__) for each in functions}
        outermost = {key for key in changed if not any(_holds(old[other], old[key]) for other in changed - {key})}
        if not changed or not outermost <= living:
            return False
        for each in functions:
            if _key(each.__code__) in changed:
                try:
                    each.__code__ = new[_key(each.__code__)]
                except ValueError:  # it no longer uses a variable of the function that it is in
                    return False
        return True


Key = tuple[str, int]


def _key(code: CodeType) -> Key:
    return code.co_qualname, code.co_firstlineno


def _plain(code: CodeType) -> str:
    """A function's name as mutants have it."""
    return code.co_qualname.replace(".<locals>", "").split(".<")[0]


def _codes(code: CodeType) -> dict[Key, CodeType | None]:
    """Of all functions of a file; None where two have one name and line."""
    found: dict[Key, CodeType | None] = {}
    for each in _inside(code):
        if each.co_flags & 0x2:  # a function's, not a class's or the module's
            found[_key(each)] = None if _key(each) in found else each
    return found


def _inside(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _inside(each)


def _holds(outer: CodeType | None, inner: CodeType | None) -> bool:
    return outer is not None and inner is not None and inner in _inside(outer)


def _living(prefix: str) -> tuple[dict[str, list[FunctionType]], list[Any]]:
    """Functions by their files, and memories (`lru_cache`) of all."""
    functions: dict[str, list[FunctionType]] = {}
    memories: list[Any] = []
    gc.unfreeze()
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename.startswith(prefix):
            functions.setdefault(each.__code__.co_filename, []).append(each)
        elif isinstance(each, functools._lru_cache_wrapper):
            memories.append(each)
    gc.freeze()
    return functions, memories


def _patience(usual: float) -> None:
    """How much CPU time this process may take from here."""
    most = time.process_time() + _limit(usual)
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(most), resource.RLIM_INFINITY))


def _limit(usual: float) -> float:
    """CPU seconds that a test may take which usually takes so many."""
    return PATIENCE + _TIMES * min(usual, 60.0)


def _spent_by_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
