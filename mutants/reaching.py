"""Which tests reach which function: recorded once, by running the tests and looking at every call."""

from __future__ import annotations

import ast
import json
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from mutants.sites import names_of

TAKEN = "not full and not browser"
_COMMON = {"__init__", "base", "privacy", "accounting", "mechanisms", "protocols", "policies"}  # say nothing of a test
_LONG = 3.0  # CPU seconds after which a test is recorded as far as it came, and tried last


@dataclass(kw_only=True)
class Reach:
    """Of every test that passed: its CPU seconds, and the functions that it called, as "path::qualified.name"."""

    seconds: dict[str, float] = field(default_factory=dict)
    tests: dict[str, set[str]] = field(default_factory=dict)  # function -> tests

    def of(self, path: str, where: str) -> list[str]:
        """Tests that reach a function, mirrored ones first, then by time; of what is no function, of the file."""
        found = self.tests.get(f"{path}::{where}", set())
        if not found:
            found = set().union(*(tests for name, tests in self.tests.items() if name.startswith(f"{path}::")))
        return sorted(found, key=lambda test: (not mirrored(path, test), self.seconds[test], test))

    def within(self, most: float, tests: list[str]) -> list[str]:
        """The first of these tests, as many as take so many seconds together."""
        spent, kept = 0.0, []
        for test in tests:
            spent += self.seconds[test]
            if spent <= most or not kept:
                kept.append(test)
        return kept

    def save(self, file: Path) -> None:
        """As JSON, with what is there already: tests may be recorded folder by folder."""
        if file.exists():
            before, anew = Reach.load(file), {_file(test) for test in self.seconds}
            self.seconds |= {test: spent for test, spent in before.seconds.items() if _file(test) not in anew}
            for name, tests in before.tests.items():
                self.tests[name] = self.tests.get(name, set()) | {test for test in tests if _file(test) not in anew}
        tests = {name: sorted(found) for name, found in sorted(self.tests.items())}
        file.write_text(json.dumps({"seconds": self.seconds, "tests": tests}))

    @classmethod
    def load(cls, file: Path) -> Reach:
        """What was saved."""
        held = json.loads(file.read_text())
        return cls(seconds=held["seconds"], tests={name: set(found) for name, found in held["tests"].items()})


def _file(test: str) -> str:
    return test.partition("::")[0]


def mirrored(path: str, test: str) -> bool:
    """Whether a test's file is named after the source file, or after the folder that it is in."""
    file = Path(path)
    name = Path(test.split("::")[0]).stem
    wanted = {file.stem, file.parent.name, "factors"} - _COMMON  # test_factors.py: what mutants have taught
    return any(word in name for word in wanted)


class Recorder:
    """A plugin of pytest that looks at every call while a test runs."""

    def __init__(self, root: Path, source: Path) -> None:
        self.reach = Reach()
        self.root, self.source = root, str(source) + "/"
        self.names: dict[Any, str | None] = {}
        self.files: dict[str, dict[int, str]] = {}
        self.called: set[Any] = set()

    def look(self, frame: FrameType, event: str, _: Any) -> None:
        """For `sys.settrace`: remembers the code that is called, and looks no further into it."""
        if event == "call":
            self.called.add(frame.f_code)

    def name(self, code: Any) -> str | None:
        """path::qualified.name of a function of ours, without what is inside of it."""
        if code not in self.names:
            ours = code.co_filename.startswith(self.source)
            path = Path(code.co_filename).relative_to(self.root).as_posix() if ours else ""
            self.names[code] = f"{path}::{self.place(code)}" if ours else None
        return self.names[code]

    def place(self, code: Any) -> str:
        """The function's name among those of its file; of what has none, such as a lambda, that of what it is in."""
        file = code.co_filename
        if file not in self.files:
            self.files[file] = names_of(ast.parse(Path(file).read_text(encoding="utf-8")))
        plain = code.co_qualname.replace(".<locals>", "").split(".<")[0]
        return self.files[file].get(code.co_firstlineno, plain)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Around a test and its fixtures."""
        self.called.clear()
        begun = time.process_time()
        signal.signal(signal.SIGVTALRM, _enough)
        signal.setitimer(signal.ITIMER_VIRTUAL, _LONG)
        sys.settrace(self.look)
        yield
        sys.settrace(None)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        spent = time.process_time() - begun
        self.reach.seconds[item.nodeid] = spent if spent < _LONG else 10 * _LONG
        for code in self.called:
            name = self.name(code)
            if name is not None:
                self.reach.tests.setdefault(name, set()).add(item.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """What fails without a mutant can tell nothing of one."""
        if report.failed:
            raise pytest.UsageError(f"{report.nodeid} fails without any mutant: mend it first")


def _enough(number: int, frame: FrameType | None) -> None:
    sys.settrace(None)
    pytest.skip("long: recorded as far as it came")


def record(root: Path, folders: list[str]) -> Reach:
    """Run the tests of some folders, and see what they reach."""
    recorder = Recorder(root, root / "src")
    code = pytest.main(["-q", "-x", "-p", "no:cacheprovider", "-m", TAKEN, *folders], plugins=[recorder])
    if code:
        raise SystemExit(f"the tests do not pass without any mutant (pytest: {code})")
    return recorder.reach


if __name__ == "__main__":  # file, folders of tests
    record(Path(__file__).resolve().parents[1], sys.argv[2:]).save(Path(sys.argv[1]))
