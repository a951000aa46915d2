"""Every algorithm by its name, in this tree beside an earlier one: no name may become slower by more than 5 %.

    BANDANNA_BEFORE=/path/of/an/earlier/checkout python -m benchmarks.promises before_and_after
    BANDANNA_BEFORE=... python -m benchmarks.before_and_after GLOC "DPE-FixedU"      # some names, as plain lines

Two processes, one for each tree with its own `benchmarks.problems`, take many short turns, and the smallest CPU time of
each counts: whoever else uses the machine disturbs both alike. Calibration and imports are not measured. Without an
earlier checkout there is nothing to compare.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from bandanna.policies.algorithm import ALGORITHMS
from benchmarks.problems import problems_of
from benchmarks.promises import Ratio

HERE = Path(__file__).resolve().parent.parent
TURNS = 21  # of each tree
SLOWER = 1.05  # than before, at most

CHILD = """
import sys, time, warnings

name, number = sys.argv[1], int(sys.argv[2])
import bandanna as bd
from benchmarks.problems import problems_of

warnings.simplefilter("ignore")  # most reports may be clipped here
problem = problems_of(name)[number]
policy, env = problem.policy, problem.env
bd.simulate(policy, env, n_seeds=2)
for _ in sys.stdin:
    begin = time.process_time()
    bd.simulate(policy, env, n_seeds=problem.seeds)
    print(time.process_time() - begin, flush=True)
"""


def server(tree: Path, name: str, number: int) -> subprocess.Popen[str]:
    """A process that imports `tree`: runs a problem once for every line of its input, and prints its CPU seconds."""
    settings = os.environ | {"PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", CHILD, name, str(number)]
    return subprocess.Popen(
        command, cwd=tree, env=settings, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )


def turn(process: subprocess.Popen[str]) -> float:
    """CPU seconds of one run."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    return float(process.stdout.readline())


def compared(name: str, before: Path) -> list[Ratio]:
    """A ratio for every world of a name."""
    ratios = []
    for number, problem in enumerate(problems_of(name)):
        with server(HERE, name, number) as new, server(before, name, number) as old:
            turns = [(turn(new), turn(old)) for _ in range(TURNS)]
        ours, theirs = (min(each) for each in zip(*turns, strict=True))
        what = f"{name}, {problem.world} x {problem.seeds}"
        ratios.append(Ratio(what=what, ours=ours, beside="before", theirs=theirs, promise=SLOWER * theirs))
    return ratios


def measure() -> list[Ratio]:
    """Every name, if an earlier checkout is named."""
    before = os.environ.get("BANDANNA_BEFORE")
    if not before:
        print("before_and_after: skipped; BANDANNA_BEFORE names no earlier checkout", file=sys.stderr)
        return []
    return [ratio for name in ALGORITHMS for ratio in compared(name, Path(before))]


if __name__ == "__main__":
    for name in sys.argv[1:] or ALGORITHMS:
        for each in compared(name, Path(os.environ["BANDANNA_BEFORE"])):
            print(f"{each.what:34} {each.ours:8.3f} / {each.theirs:8.3f} s = {each.ratio:5.2f}", flush=True)
