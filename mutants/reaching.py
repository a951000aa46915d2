"""Which tests reach which function: recorded once, by running the tests with a probe in every function."""

from __future__ import annotations

import ast
import builtins
import importlib.abc
import importlib.machinery
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

from mutants.loading import QUIET, Finder, warm_up
from mutants.sites import first_line, names_of

TAKEN = "not full and not browser"
_COMMON = {"__init__", "base", "privacy", "accounting", "mechanisms", "protocols", "policies"}  # say nothing of a test
_SEEN = "__seen_by_mutants__"
_PAUSE = 0.4  # CPU seconds without any new function, after which a test is recorded as far as it came, and
_LONG = 4.0  # CPU seconds after which it is in any case; such tests are tried last


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
        return sorted(found, key=lambda test: (nearness(path, test), self.seconds[test], test))

    def within(self, most: float, tests: list[str]) -> list[str]:
        """The first of these tests that take so many seconds together; a long one is left out, not what follows it."""
        spent, kept = 0.0, list[str]()
        for test in tests:
            if spent + self.seconds[test] <= most:
                spent += self.seconds[test]
                kept.append(test)
        return kept or tests[:1]

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


def nearness(path: str, test: str) -> int:
    """0 for what mutants have taught (test_factors.py), 1 for tests named after the file or folder, 2 for others."""
    file = Path(path)
    name = Path(test.split("::")[0]).stem
    wanted = {file.stem, file.parent.name} - _COMMON
    return 0 if "factors" in name else 1 if any(word in name for word in wanted) else 2


class Probed(importlib.abc.MetaPathFinder):
    """Loads the library with a probe at the beginning of every function, which costs next to nothing."""

    def __init__(self, source: Path, root: Path) -> None:
        self.source, self.root = source, root
        self.seen: set[str] = set()
        vars(builtins)[_SEEN] = self.seen

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """Of modules below the source."""
        below = self.source.joinpath(*fullname.split("."))
        file = below / "__init__.py" if below.is_dir() else below.with_suffix(".py")
        if not file.exists():
            return None
        tree = ast.parse(file.read_text(encoding="utf-8"))
        names, place = names_of(tree), file.relative_to(self.root).as_posix()
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                probe = ast.parse(f"{_SEEN}.add({f'{place}::{names[first_line(node)]}'!r})").body[0]
                after = int(ast.get_docstring(node) is not None)
                node.body.insert(after, ast.copy_location(probe, node.body[0]))
        return Finder(file, self.source, ast.fix_missing_locations(tree)).find_spec(fullname)


class Recorder:
    """A plugin of pytest that notes what every test has reached."""

    def __init__(self, probed: Probed) -> None:
        self.reach, self.seen = Reach(), probed.seen
        self.failed: set[str] = set()
        self.begun, self.before, self.cut = 0.0, 0, False  # of the test that runs

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Around a test and its fixtures."""
        self.seen.clear()
        self.before, self.cut = 0, False
        self.begun = time.process_time()
        signal.signal(signal.SIGVTALRM, self.look)
        signal.setitimer(signal.ITIMER_VIRTUAL, _PAUSE, _PAUSE)
        yield
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        spent = time.process_time() - self.begun
        self.reach.seconds[item.nodeid] = spent + _LONG if self.cut else spent
        if item.nodeid in self.failed:
            return
        for name in self.seen:
            self.reach.tests.setdefault(name, set()).add(item.nodeid)

    def look(self, number: int, frame: FrameType | None) -> None:
        """Go on with a test while it reaches what it had not; what is reached after a long loop counts as unreached."""
        new, self.before = len(self.seen) > self.before, len(self.seen)
        if not new or time.process_time() - self.begun > _LONG:
            self.cut = True
            pytest.skip("long: recorded as far as it came")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """What fails without a mutant can tell nothing of one."""
        if report.failed:
            self.failed.add(report.nodeid)


def record(root: Path, folders: list[str]) -> Reach:
    """Run the tests of some folders, and see what they reach."""
    probed = Probed(root / "src", root)
    sys.meta_path.insert(0, probed)
    recorder = Recorder(probed)
    warm_up()  # an import that is cut off halfway cannot be begun again
    pytest.main([*QUIET, "-m", TAKEN, *folders], plugins=[recorder])
    if recorder.failed:
        print(f"these fail without any mutant, and are not believed: {', '.join(sorted(recorder.failed))}")
    return recorder.reach


if __name__ == "__main__":  # file, folders of tests
    record(Path(__file__).resolve().parents[1], sys.argv[2:]).save(Path(sys.argv[1]))
