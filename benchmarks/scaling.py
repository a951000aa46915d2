"""How the cost of a simulation grows: exponents of CPU time in rounds, arms, seeds and features, fitted to four sizes.

We promise linear growth in rounds, arms and seeds, and at most quadratic growth in features, over the measured ranges:
the last size may take at most so many times as long as the first. What does not grow (calls, small arrays) makes the
fitted exponents smaller; above 1 (or 2) by some hundredths is noise of the machine. Inverting a matrix is cubic in the
features; it is a small part of a round as long as there are more arms than features.
"""

from __future__ import annotations

from bandanna.bench.clock import exponent
from bandanna.bench.problems import Problem
from bandanna.bench.simulations import seconds as seconds_of
from benchmarks import Ratio

BUDGET = {"epsilon": 1.0, "delta": 1e-5}
SLACK = 1.3  # what other work on the machine may add


def _problem(name: str, world: str, rounds: int, **batch: int) -> Problem:
    return Problem(name=name, world=world, rounds=rounds, seeds=10, arms=50, dim=5, options={**BUDGET, **batch})


KINDS = {
    "fixed, central": _problem("LinUCB-JDP", "fixed", 500),
    "fixed, shuffle": _problem("LinUCB-SDP-Vec", "fixed", 4000, batch=20),
    "fresh, shuffle": _problem("LinUCB-SDP-Vec", "fresh", 1000, batch=200),
}
SIZES = {  # what grows, through which sizes, to which power the time may grow
    "rounds": (lambda base: [base.rounds * 2**i for i in range(4)], 1),
    "arms": (lambda base: [25 * 4**i for i in range(4)], 1),
    "seeds": (lambda base: [10 * 3**i for i in range(4)], 1),
    "dim": (lambda base: [4 * 2**i for i in range(4)], 2),
}


def measure() -> list[Ratio]:
    """Every kind of simulation along every size; `what` says the fitted exponent."""
    ratios = []
    for kind, base in KINDS.items():
        for name, (sizes_of, power) in SIZES.items():
            sizes = sizes_of(base)
            seconds = [seconds_of(base.at(name, size), 3) for size in sizes]
            promise = SLACK * seconds[0] * (sizes[-1] / sizes[0]) ** power
            what = f"{kind}: {name}^{exponent(sizes, seconds):.2f}, to {sizes[-1]}"
            ratios.append(
                Ratio(what=what, ours=seconds[-1], beside=f"{sizes[0]} {name}", theirs=seconds[0], promise=promise)
            )
    return ratios
