"""Try the mutants of some files, and name those that no test kills; exit with 1 if one is not in survivors.toml."""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
from collections import Counter
from pathlib import Path

from mutants.reaching import Reach
from mutants.running import KILLED, TIMED_OUT, passes, stages, verdict, warm_up
from mutants.sites import Mutant, mutants
from mutants.verdicts import ALIVE, Verdicts, allowed

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
BUILD = ROOT / "build" / "mutants"
FOLDERS = ("accounting", "device", "mechanisms", "protocols", "policies")


def main(arguments: list[str]) -> int:
    """Of the command line."""
    options = _options().parse_args(arguments)
    BUILD.mkdir(parents=True, exist_ok=True)
    reach = _reach(options.tests, options.trace)
    warm_up()
    verdicts = Verdicts.load(BUILD / "verdicts.json")
    kinds = set(options.kinds.split(",")) if options.kinds else None
    tried: list[tuple[Mutant, str]] = []
    files = list(_files(options.paths))
    for place, file in enumerate(files, start=1):
        found = [each for each in mutants(file, ROOT) if options.only in each.name]
        found = [each for each in found if kinds is None or each.kind in kinds]
        tried += _try(found, file, reach, verdicts, options.most, f"file {place} of {len(files)}")
    return report(tried)


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path, help="files or folders (all that `make mutants` tries)")
    parser.add_argument("--tests", nargs="*", help="folders of tests that may kill (mirrored ones, and audits)")
    parser.add_argument("--trace", action="store_true", help="record anew which tests reach what")
    parser.add_argument("--kinds", help="some kinds of mutants only: noise,sensitivity,dimension,...")
    parser.add_argument("--only", default="", help="mutants whose name contains this: Gaussian.release")
    parser.add_argument("--most", type=float, default=math.inf, help="CPU seconds of tests for one mutant (all tests)")
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


def _try(
    found: list[Mutant], file: Path, reach: Reach, verdicts: Verdicts, most: float, progress: str
) -> list[tuple[Mutant, str]]:
    """All of a file, one after the other."""
    text, tried, control = file.read_text(), [], False
    for number, mutant in enumerate(found, start=1):
        known = verdicts.of(mutant, text)
        if known is None:
            tests = reach.within(most, reach.of(mutant.path, mutant.where))
            if tests and not control:
                if not passes(ROOT, SOURCE, mutant.path, None, stages(tests, reach.seconds)[0], patience=600):
                    raise SystemExit(f"tests of {mutant.path} fail without any mutant: run again with --trace")
                control = True
            known = verdict(ROOT, SOURCE, mutant, tests, reach.seconds)
            verdicts.note(mutant, text, known)
            print(f"{progress}, {number} of {len(found)}: {known:9} {mutant.name}", flush=True)
        tried.append((mutant, known))
    return tried


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
