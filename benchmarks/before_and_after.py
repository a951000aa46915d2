"""Every algorithm by its name, in this tree beside an earlier one: no name may become slower by more than 5 %.

    BANDANNA_BEFORE=/path/of/an/earlier/checkout python -m benchmarks before_and_after
    BANDANNA_BEFORE=... python -m benchmarks.before_and_after GLOC "DPE-FixedU"      # some names, as plain lines

Two processes, one for each tree, take many short turns, and the smallest CPU time of each counts: whoever else
uses the machine disturbs both alike. Calibration and imports are not measured. Without an earlier checkout there is
nothing to compare.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from benchmarks import Ratio

HERE = Path(__file__).resolve().parent.parent
TURNS = 21  # of each tree
SLOWER = 1.05  # than before, at most

_LINEAR = {"dim": 5, "horizon": 20_000}
_DP, _ZCDP, _PURE = {"epsilon": 1.0, "delta": 1e-5}, {"rho": 1.0}, {"epsilon": 1.0}
_ARMS = {"n_arms": 5, "horizon": 1_000_000}
_SPHERE = {"dim": 5, "horizon": 20_000}
_CLIENTS = {"dim": 5, "horizon": 100_000, "sigma": 0.1}
_GLM = {"dim": 3, "horizon": 2000, "parameter_bound": 2.0}

WORLDS: dict[str, tuple[str, dict[str, Any]]] = {
    "fixed": ("LinearContextual", {"dim": 5, "n_arms": 100, "fixed": True}),
    "fresh": ("LinearContextual", {"dim": 5, "n_arms": 100}),
    "arms": ("FiniteArms", {"means": (0.75, 0.7, 0.7, 0.7, 0.7)}),
    "sphere": ("SphereArms", {"dim": 5, "n_arms": 50}),
    "contexts": ("SphereContexts", {"dim": 5, "n_arms": 50}),
    "people": ("Population", {"dim": 5, "n_arms": 100, "sigma": 0.1}),
    "glm": ("GeneralisedLinear", {"dim": 3, "n_arms": 20, "norm": 2.0}),
}

# name -> arguments, world, seeds, rounds (None: the horizon)
Case = tuple[dict[str, Any], str, int, int | None]
CASES: dict[str, list[Case]] = {
    "LinUCB": [(_LINEAR, "fixed", 20, 500), (_LINEAR, "fresh", 20, 200)],
    "LinUCB-JDP": [(_LINEAR | _DP, "fixed", 20, 500), (_LINEAR | _DP, "fresh", 20, 200)],
    "LinUCB-JDP-batched": [(_LINEAR | _DP, "fixed", 20, None), (_LINEAR | _DP, "fresh", 20, 400)],
    "LinUCB-LDP": [(_LINEAR | _DP, "fixed", 20, 500), (_LINEAR | _DP, "fresh", 20, 200)],
    "LinUCB-LDP-batched": [(_LINEAR | _DP, "fixed", 20, None), (_LINEAR | _DP, "fresh", 20, 400)],
    "LinUCB-SDP-Amp": [(_LINEAR | _DP, "fixed", 20, None), (_LINEAR | _DP, "fresh", 20, 400)],
    "LinUCB-SDP-Vec": [(_LINEAR | _DP, "fixed", 20, None), (_LINEAR | _DP, "fresh", 20, 400)],
    "LinUCB-CSDP": [(_LINEAR | _DP, "fixed", 20, None), (_LINEAR | _DP, "fresh", 20, 400)],
    "UCB1": [(_ARMS, "arms", 50, 1000)],
    "Thompson": [(_ARMS, "arms", 50, 200)],
    "UCB-episodes": [(_ARMS, "arms", 50, None)],
    "AdaC-UCB": [(_ARMS | _ZCDP, "arms", 50, None)],
    "AdaP-UCB": [(_ARMS | _PURE, "arms", 50, None)],
    "DP-SE": [(_ARMS | _PURE, "arms", 50, None)],
    "SDP-SE": [(_ARMS | _DP, "arms", 50, None)],
    "LDP-UCB": [(_ARMS | _PURE, "arms", 50, 1000)],
    "GOPE": [(_SPHERE | {"horizon": 100_000}, "sphere", 5, None)],
    "AdaC-GOPE": [(_SPHERE | _ZCDP | {"horizon": 100_000}, "sphere", 5, None)],
    "AdaC-GOPE-early": [(_SPHERE | _ZCDP | {"horizon": 100_000}, "sphere", 5, None)],
    "RS-OFUL": [(_SPHERE, "sphere", 2, None), (_SPHERE, "contexts", 1, None)],
    "AdaC-OFUL": [(_SPHERE | _ZCDP, "sphere", 2, None), (_SPHERE | _ZCDP, "contexts", 1, None)],
    "AdaC-OFUL-JDP": [(_SPHERE | {"rho": 100.0}, "sphere", 2, 5000), (_SPHERE | {"rho": 100.0}, "contexts", 2, 5000)],
    "DPE": [(_CLIENTS, "people", 5, None)],
    "CDP-DPE": [(_CLIENTS | _DP, "people", 5, None)],
    "LDP-DPE": [(_CLIENTS | _DP, "people", 5, None)],
    "SDP-DPE": [(_CLIENTS | _DP, "people", 5, None)],
    "Laplace-DPE": [(_CLIENTS | _PURE, "people", 5, None)],
    "DPE-FixedU": [(_CLIENTS, "people", 5, None)],
    "PE": [(_CLIENTS, "people", 5, None)],
    "GLM-UCB": [(_GLM, "glm", 10, 200)],
    "GLOC": [(_GLM, "glm", 10, 500)],
    "ECOLog": [(_GLM, "glm", 10, 100)],
    "RS-GLinUCB": [(_GLM, "glm", 10, 200)],
    "B-GLinUCB": [(_GLM | {"horizon": 5000}, "glm", 10, None)],
    "GLM-JDP": [(_GLM | {"horizon": 5000, "epsilon": 8.0, "delta": 0.02}, "glm", 10, None)],
    "GLM-SDP": [(_GLM | {"horizon": 5000, "epsilon": 8.0, "delta": 0.01}, "glm", 10, None)],
}


def serve(name: str, number: int) -> None:
    """Run a case in the tree that is imported, once for every line of the input, and print its CPU seconds."""
    import bandanna as bd
    from bandanna import environments

    warnings.simplefilter("ignore")  # most reports may be clipped here
    arguments, place, seeds, rounds = CASES[name][number]
    kind, told = WORLDS[place]
    policy, env = bd.make(name, **arguments), getattr(environments, kind)(**told)
    _ = policy.guarantee  # calibration is measured elsewhere
    bd.simulate(policy, env, n_seeds=2, horizon=rounds)
    for _line in sys.stdin:
        begin = time.process_time()
        bd.simulate(policy, env, n_seeds=seeds, horizon=rounds)
        print(time.process_time() - begin, flush=True)


def server(tree: Path, name: str, number: int) -> subprocess.Popen[str]:
    """A process that imports `tree`."""
    settings = os.environ | {"PYTHONPATH": f"{tree / 'src'}{os.pathsep}{HERE}"}
    settings |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.before_and_after", "--case", name, str(number)]
    return subprocess.Popen(
        command, env=settings, cwd=HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
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
    for number, (_, place, seeds, _) in enumerate(CASES[name]):
        with server(HERE, name, number) as new, server(before, name, number) as old:
            turns = [(turn(new), turn(old)) for _ in range(TURNS)]
        ours, theirs = (min(each) for each in zip(*turns, strict=True))
        what = f"{name}, {place} x {seeds}"
        ratios.append(Ratio(what=what, ours=ours, beside="before", theirs=theirs, promise=SLOWER * theirs))
    return ratios


def measure() -> list[Ratio]:
    """Every name, if an earlier checkout is named."""
    before = os.environ.get("BANDANNA_BEFORE")
    if not before:
        print("before_and_after: skipped; BANDANNA_BEFORE names no earlier checkout", file=sys.stderr)
        return []
    return [ratio for name in CASES for ratio in compared(name, Path(before))]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--case"]:
        serve(sys.argv[2], int(sys.argv[3]))
    else:
        for name in sys.argv[1:] or CASES:
            for each in compared(name, Path(os.environ["BANDANNA_BEFORE"])):
                print(f"{each.what:34} {each.ours:8.3f} / {each.theirs:8.3f} s = {each.ratio:5.2f}", flush=True)
