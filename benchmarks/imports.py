"""How much CPU time `import bandanna` takes in a fresh interpreter, beside `import numpy`."""

from __future__ import annotations

import statistics
import subprocess
import sys

from benchmarks import Ratio

RUNS = 7
CODE = "import time; start = time.process_time(); import {module}; print(time.process_time() - start)"


def seconds(module: str) -> float:
    """CPU time of one import in an interpreter of its own, without the interpreter's start."""
    command = [sys.executable, "-c", CODE.format(module=module)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def measure() -> list[Ratio]:
    """Medians over interleaved runs, after one of each to warm the disk."""
    pairs = [(seconds("bandanna"), seconds("numpy")) for _ in range(1 + RUNS)][1:]
    ours, theirs = (statistics.median(times) for times in zip(*pairs, strict=True))
    return [Ratio(what="import bandanna", ours=ours, beside="import numpy", theirs=theirs, promise=0.5)]
