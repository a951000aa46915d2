"""Try the mutants of some files, and name those that no test kills; exit with 1 if one is not in survivors.toml."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from mutants.exchanging import Collected
from mutants.loading import warm_up
from mutants.reaching import Reach
from mutants.running import KILLED, SURVIVED, TIMED_OUT, UNREACHED, verdict
from mutants.sites import Mutant, mutants
from mutants.verdicts import ALIVE, Allowed, Verdicts, allowed

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
BUILD = ROOT / "build" / "mutants"
MOST = 10.0  # CPU seconds of tests that a survivor is tried against, the quickest first
FOLDERS = ("privacy", "device", "mechanisms", "protocols", "policies")


def main(arguments: list[str]) -> int:
    """Of the command line."""
    options = _options().parse_args(arguments)
    BUILD.mkdir(parents=True, exist_ok=True)
    verdicts = Verdicts.load(BUILD / "verdicts.json")
    kinds = set(options.kinds.split(",")) if options.kinds else None
    files = {
        file: [each for each in mutants(file, ROOT) if options.only in each.name] for file in _files(options.paths)
    }
    files = {file: [each for each in found if kinds is None or each.kind in kinds] for file, found in files.items()}
    if options.known:
        return known(files, verdicts)
    reach = _reach(options.tests, options.trace)
    warm_up()
    reaching = {test for found in files.values() for each in found for test in reach.of(each.path, each.where)}
    tests = sorted({test.partition("::")[0] for test in reaching})
    trial = Trial(reach=reach, verdicts=verdicts, tests=tests, most=options.most, quick=options.quick)
    tried: list[tuple[Mutant, str]] = []
    for place, (file, found) in enumerate(files.items(), start=1):
        tried += trial.of_file(found, file, f"file {place} of {len(files)}")
    trial.close()
    return report(tried)


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path, help="files or folders (all that `make mutants` tries)")
    parser.add_argument("--tests", nargs="*", help="folders of tests that may kill (mirrored ones, and audits)")
    parser.add_argument("--known", action="store_true", help="try nothing: count what is known from earlier runs")
    parser.add_argument("--trace", action="store_true", help="record anew which tests reach what")
    parser.add_argument("--kinds", help="some kinds of mutants only: noise,sensitivity,dimension,...")
    parser.add_argument("--only", default="", help="mutants whose name contains this: Gaussian.release")
    parser.add_argument("--most", type=float, default=MOST, help=f"CPU seconds of tests for one mutant ({MOST:g}; inf)")
    parser.add_argument(
        "--quick", action="store_true", help="survivors by forks alone, where modules are loaded before"
    )
    return parser


def _files(paths: list[Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths or [SOURCE / "bandanna" / name for name in FOLDERS]:
        if not path.exists():
            raise SystemExit(f"no such file or folder: {path}")
        found += sorted(path.resolve().rglob("*.py")) if path.is_dir() else [path.resolve()]
    return found


def _reach(folders: list[str] | None, again: bool) -> Reach:
    """Recorded in a process of its own: it loads the library, which a mutant may not find loaded."""
    file = BUILD / "reach.json"
    if again:
        file.unlink(missing_ok=True)
    if folders or not file.exists():
        names = folders or [f"tests/{name}" for name in (*FOLDERS, "audit")]
        subprocess.run([sys.executable, "-m", "mutants.reaching", str(file), *names], cwd=ROOT, check=True)
    return Reach.load(file)


@dataclass(kw_only=True)
class Trial:
    """Mutants, one after the other; the tests are collected when the first is tried."""

    reach: Reach
    verdicts: Verdicts
    tests: list[str]  # files of tests that reach something
    most: float
    quick: bool = False  # nothing is loaded anew: what was computed when modules were loaded may hide a mutant
    excused: list[Allowed] = field(default_factory=allowed)  # never loaded anew: one that survives is no news
    collected: Collected | None = None
    seen: Counter[str] = field(default_factory=Counter)  # how many mutants of this file a test has seen

    def of_file(self, found: list[Mutant], file: Path, progress: str) -> list[tuple[Mutant, str]]:
        """What became of all of them."""
        text, tried = file.read_text(), []
        self.seen.clear()
        for number, mutant in enumerate(found, start=1):
            became = self.verdicts.of(mutant, text)
            if became is None:
                became, test = self.of(mutant)
                self.seen[test] += became == KILLED
                self.verdicts.note(mutant, text, became, test)
                print(f"{progress}, {number} of {len(found)}: {became:9} {mutant.name} {test}", flush=True)
            tried.append((mutant, became))
        return tried

    def of(self, mutant: Mutant) -> tuple[str, str]:
        """What became of it, and the test that saw it: those first that have seen others of its file."""
        tests = self.reach.of(mutant.path, mutant.where)
        tests = self.reach.within(self.most, sorted(tests, key=lambda test: -self.seen[test]))
        if not tests:
            return UNREACHED, ""
        if self.collected is None:
            self.collected = Collected(ROOT, SOURCE, self.tests, BUILD / "collected.log")
        answer = self.collected.of(mutant, tests, self.reach.seconds)
        alone = self.quick or any(each.is_of(mutant) for each in self.excused)
        if answer.verdict and (alone or not (answer.verdict == SURVIVED and answer.early)):
            return answer.verdict, answer.test
        return verdict(ROOT, SOURCE, mutant, tests, self.reach.seconds), ""

    def close(self) -> None:
        """End the process that holds the tests."""
        if self.collected is not None:
            self.collected.close()


def known(files: dict[Path, list[Mutant]], verdicts: Verdicts) -> int:
    """Print, for every file and folder, how many there are and what became of them; 1 if one was not tried."""
    reasons = allowed()
    folders: dict[str, Counter[str]] = {}
    for file, found in files.items():
        text, counts = file.read_text(), Counter[str]()
        for mutant in found:
            became = verdicts.last(mutant, text) or "untried"
            listed = became in ALIVE and any(each.is_of(mutant) for each in reasons)
            counts["listed" if listed else became] += 1
        parts = file.relative_to(SOURCE / "bandanna").parts
        for folder in ("/".join(parts), parts[0] + "/", "all"):
            folders.setdefault(folder, Counter()).update(counts)
    for folder, counts in sorted(folders.items(), key=lambda each: (each[0] == "all", each[0].endswith("/"))):
        if counts:
            said = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
            print(f"{folder}: {counts.total()} ({said})")
    return int(any(counts["untried"] for counts in folders.values()))


def report(tried: list[tuple[Mutant, str]]) -> int:
    """Print what became of them; 1 if one survived that is not allowed to, or if an allowed one did not."""
    reasons = allowed()
    bad = 0
    print(", ".join(f"{count} {what}" for what, count in sorted(Counter(each for _, each in tried).items())))
    for mutant, found in tried:
        why = next((each for each in reasons if each.is_of(mutant)), None)
        if found in ALIVE and why is None:
            bad += 1
            print(f"{found.upper()} {mutant.path}:{mutant.line} ({mutant.kind}) {mutant.before} -> {mutant.after}")
        elif found in ALIVE and why is not None:
            print(f"allowed  {mutant.path}:{mutant.line} {mutant.before} -> {mutant.after}: {why.reason}")
        elif why is not None and found in (KILLED, TIMED_OUT):
            bad += 1
            print(f"STALE    survivors.toml allows {mutant.name}, which was {found}")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
