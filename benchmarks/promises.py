"""What we promise about speed: `python -m benchmarks.promises [NAME ...]`; exit code 1 if a promise is broken.

    imports           `import bandanna` in a fresh interpreter: 0.5 s
    calibration       `benchmarks.calibration`
    phases            20 runs of phased elimination over 10^6 rounds, d = 20, 1000 arms: 5 s, whatever the horizon
    episodes          100 runs of policies in episodes over 10^7 rounds: 10 s, whatever the horizon
    serving           an upload takes twice as long as a bare ASGI server, a route three times
    dashboard         `benchmarks.dashboard`
    deployed          `benchmarks.deployed`; about waiting too
    before_and_after  no name slower by more than 5 % than in an earlier checkout, `benchmarks.before_and_after`

Times are CPU times of two things measured in one run on one machine.
"""

from __future__ import annotations

import importlib
import statistics
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

import bandanna as bd
from bandanna.simulation.environments.base import Environment
from bandanna.simulation.environments.finite import FiniteArms
from bandanna.simulation.environments.linear import SphereArms
from bandanna.simulation.environments.population import Population
from benchmarks.clock import timed

_IMPORT = "import time; start = time.process_time(); import {module}; print(time.process_time() - start)"
_MEANS = (0.75, 0.625, 0.5, 0.375, 0.25)
_PHASED: dict[str, dict[str, Any]] = {
    "DPE": {},
    **{name: {"epsilon": 1.0, "delta": 0.1} for name in ("CDP-DPE", "LDP-DPE", "SDP-DPE")},
    "Laplace-DPE": {"epsilon": 1.0},
}
_EPISODES: dict[str, dict[str, Any]] = {
    "UCB-episodes": {},
    "AdaC-UCB": {"rho": 0.1},
    "AdaP-UCB": {"epsilon": 1.0},
    "DP-SE": {"epsilon": 1.0},
    "SDP-SE": {"epsilon": 1.0, "delta": 1e-5},
    "GOPE": {},
    "AdaC-GOPE": {"rho": 0.1},
}


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """Our time beside another's, in seconds, and the most seconds that we promise to take (if we promise any)."""

    what: str
    ours: float
    beside: str
    theirs: float
    promise: float | None = None

    @property
    def ratio(self) -> float:
        """How many times longer ours takes."""
        return self.ours / self.theirs

    @property
    def kept(self) -> bool:
        """Whether the promise holds on this machine."""
        return self.promise is None or self.ours <= self.promise


def measure_imports() -> list[Ratio]:
    """Medians over interleaved runs, after one of each to warm the disk."""
    pairs = [(_import_seconds("bandanna"), _import_seconds("numpy")) for _ in range(8)][1:]
    ours, theirs = (statistics.median(times) for times in zip(*pairs, strict=True))
    return [Ratio(what="import bandanna", ours=ours, beside="import numpy", theirs=theirs, promise=0.5)]


def _import_seconds(module: str) -> float:
    """CPU time of one import in an interpreter of its own, without the interpreter's start."""
    command = [sys.executable, "-c", _IMPORT.format(module=module)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def measure_phases() -> list[Ratio]:
    """20 runs over 10^6 rounds, beside one over 10^9."""
    env = Population(dim=20, n_arms=1000, sigma=0.1)
    return [
        _at_two_horizons(name, {"dim": 20, "sigma": 0.1, "alpha": 0.8, **options}, env, (10**6, 20), (10**9, 1), 5.0)
        for name, options in _PHASED.items()
    ]


def measure_episodes() -> list[Ratio]:
    """100 runs over 10^7 rounds, beside as many over 10^12."""
    finite, sphere = FiniteArms(means=_MEANS), SphereArms(dim=3, n_arms=10)
    ratios = []
    for name, options in _EPISODES.items():
        linear = "GOPE" in name
        given = {"dim": 3, "reward_range": (-1.0, 1.0)} if linear else {"n_arms": len(_MEANS)}
        env = sphere if linear else finite
        ratios.append(_at_two_horizons(name, {**given, **options}, env, (10**7, 100), (10**12, 100), 10.0))
    return ratios


def _at_two_horizons(
    name: str, options: dict[str, Any], env: Environment, short: tuple[int, int], long: tuple[int, int], promise: float
) -> Ratio:
    """A policy at (rounds, runs), beside another horizon."""

    def seconds(horizon: int, runs: int) -> float:
        return timed(lambda: bd.simulate(bd.make(name, horizon=horizon, **options), env, n_seeds=runs))

    ours, theirs = seconds(*short), seconds(*long)
    what, beside = f"{name}, {short[0]:.0e} x {short[1]}", f"{long[0]:.0e} x {long[1]}"
    return Ratio(what=what, ours=ours, beside=beside, theirs=theirs, promise=promise)


def measure_serving() -> list[Ratio]:
    """Ours, and Starlette alone, of which nothing is promised."""
    from benchmarks.serving import NAMES, costs

    least = costs(rounds=9, requests=250)
    promised = {"upload": 2 * least["bare"], "route": 3 * least["bare"]}
    return [
        Ratio(
            what=f"CPU of {name}",
            ours=least[kind],
            beside="bare ASGI",
            theirs=least["bare"],
            promise=promised.get(kind),
        )
        for kind, name in NAMES.items()
    ]


MEASURES = {
    "imports": measure_imports,
    "phases": measure_phases,
    "episodes": measure_episodes,
    "serving": measure_serving,
}
MODULES = ("calibration", "dashboard", "deployed", "before_and_after")  # each with a function `measure`


def table(ratios: list[Ratio]) -> Table:
    """One row per ratio."""
    rows = Table(title="What is promised")
    for column in ("what", "beside"):
        rows.add_column(column, no_wrap=True)
    for column in ("ours/s", "theirs/s", "ratio", "promise/s"):
        rows.add_column(column, justify="right", no_wrap=True)
    for each in ratios:
        promise = "" if each.promise is None else f"{each.promise:.3g} {'kept' if each.kept else 'BROKEN'}"
        rows.add_row(each.what, each.beside, f"{each.ours:.2g}", f"{each.theirs:.2g}", f"{each.ratio:.2g}", promise)
    return rows


def main(names: list[str]) -> int:
    """Measure the named promises, or all."""
    known = [*MEASURES, *MODULES]
    unknown = sorted(set(names) - set(known))
    if unknown:
        print(f"no promise called {', '.join(unknown)}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    ratios: list[Ratio] = []
    for name in names or known:
        measure = MEASURES[name] if name in MEASURES else importlib.import_module(f"benchmarks.{name}").measure
        ratios += measure()
    Console(width=max(Console().width, 110)).print(table(ratios))  # a table is not cut where nothing shows it
    return 0 if all(each.kept for each in ratios) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
