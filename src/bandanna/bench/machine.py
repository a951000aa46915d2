"""What a report says about where it was measured: enough to judge it, nothing that names the machine."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from bandanna.core.memory import available

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
LIBRARIES = (
    *("bandanna", "numpy", "scipy", "numba", "mabwiser", "river", "contextualbandits", "vowpalwabbit"),
    *("starlette", "uvicorn"),
)


def described() -> dict[str, Any]:
    """Processor, cores, memory, system, libraries, threads of BLAS, and how busy the machine is."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_bytes": available(),
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
