"""CPU seconds, bytes and exponents, and the machine on which they were measured.

Never the wall clock, which others on the machine move; nothing that names the machine.
"""

from __future__ import annotations

import os
import platform
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from bandanna.validation import read_available_memory

_LEAST = 1e-9  # seconds: what the clock cannot tell from nothing


def timed(work: Callable[[], object], repeats: int = 3) -> float:
    """CPU seconds of the fastest of some runs, in this process: others on the machine disturb it little."""
    return timed_in_turn((work,), repeats)[0]


def timed_in_turn(works: Sequence[Callable[[], object]], repeats: int = 3) -> list[float]:
    """The same of several, by turns: what slows the machine for a while slows all of them."""
    seconds = np.empty((repeats, len(works)))
    for turn in seconds:
        for place, work in enumerate(works):
            begin = time.process_time()
            work()
            turn[place] = time.process_time() - begin
    return [max(float(least), _LEAST) for least in seconds.min(axis=0)]


def peak(work: Callable[[], object]) -> int:
    """Most bytes that Python and NumPy held at one time for a run, beside what was there before it."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """a of seconds ~ size^a: the slope through the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much is measured.

    small    sizes that prove only that everything runs
    repeats  runs of which the fastest counts
    growth   whether exponents are measured too
    seconds  CPU time of every peer, and of every agent, at least
    """

    small: bool = False
    repeats: int = 3
    growth: bool = True
    seconds: float = 0.5


FULL = Effort()
QUICK = Effort(small=True, repeats=1, seconds=0.005)


THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
LIBRARIES = (
    *("bandanna", "numpy", "scipy", "numba", "mabwiser", "river", "contextualbandits", "vowpalwabbit"),
    *("starlette", "uvicorn"),
)


def describe_machine() -> dict[str, Any]:
    """Processor, cores, memory, system, libraries, threads of BLAS, and how busy the machine is."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_bytes": read_available_memory(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "blas": _blas(),
        "threads": {name: os.environ[name] for name in THREADS if name in os.environ},
        "libraries": {name: version for name in LIBRARIES if (version := _version(name)) is not None},
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def _processor() -> str:
    """As the system calls it."""
    listed = Path("/proc/cpuinfo")
    if listed.is_file():
        for line in listed.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def _blas() -> str:
    """The library that multiplies matrices."""
    built: Any = np.show_config(mode="dicts")
    found = built.get("Build Dependencies", {}).get("blas", {}) if isinstance(built, dict) else {}
    return " ".join(str(found[key]) for key in ("name", "version") if key in found)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
