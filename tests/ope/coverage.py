"""How often intervals hold the truth: `python -m tests.ope.coverage 5000` prints a table of the study results."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import bandanna as bd

from .worlds import actg, bold, bootstrapped, clinic, insured, mean_rewards, model, trial, visits, worth, worth_of_bold

CENTRAL, SHUFFLE = bd.central(epsilon=1.0, delta=1e-5), bd.shuffle(epsilon=1.0, delta=1e-5)
WEAKER = bd.central(epsilon=3.0, delta=1e-5)
Case = tuple[Callable[[int, int], bd.Log], int, Callable[..., bd.ope.Value], Callable[[], float]]


def risen() -> float:
    """What arm 1 of the trial is worth."""
    return float(np.mean(actg()[1]))


def all_risen() -> float:
    return float(np.mean([np.mean(arm) for arm in actg()]))


def graded(n: int, seed: int) -> bd.Log:
    return clinic(n, seed, rewards="graded")


def closed(n: int, seed: int) -> bd.Log:
    """A floor that nobody has made public; weights stay below 8 all the same."""
    return clinic(n, seed, floor=None)


def narrow(n: int, seed: int) -> bd.Log:
    return clinic(n, seed, rewards="narrow")


def worth_of_narrow() -> float:
    return worth(bold, lambda contexts: mean_rewards("narrow", contexts))


def visited() -> float:
    arms, counts = visits()
    return float(counts[arms == 1].mean())


CASES: dict[str, Case] = {
    "snips": (clinic, 1000, lambda log, **k: bd.ope.snips(log, bold, **k), worth_of_bold),
    "ips": (clinic, 1000, lambda log, **k: bd.ope.ips(log, bold, **k), worth_of_bold),
    "dr": (clinic, 1000, lambda log, **k: bd.ope.dr(log, bold, q=model, **k), worth_of_bold),
    "graded snips": (graded, 1000, lambda log, **k: bd.ope.snips(log, bold, **k), worth_of_bold),
    "snips, cut": (closed, 1000, lambda log, **k: bd.ope.snips(log, bold, weight_bound=8.0, **k), worth_of_bold),
    "few, skewed": (
        lambda n, seed: trial(n, seed, (0.1,) * 8),
        1500,
        lambda log, **k: bd.ope.snips(log, "arm:0", **k),
        lambda: 0.1,
    ),
    "narrow": (narrow, 1000, lambda log, **k: bd.ope.snips(log, bold, **k), worth_of_narrow),
    "visits": (insured, 10_095, lambda log, **k: bd.ope.snips(log, "arm:1", weight_bound=19.0, **k), visited),
    "ACTG 175, arm 1": (bootstrapped, 2139, lambda log, **k: bd.ope.snips(log, "arm:1", **k), risen),
    "ACTG 175, arm 1, ips": (bootstrapped, 2139, lambda log, **k: bd.ope.ips(log, "arm:1", **k), risen),
    "ACTG 175, uniform": (bootstrapped, 2139, lambda log, **k: bd.ope.snips(log, "uniform", **k), all_risen),
}


def covered(name: str, privacy: bd.protocols.Privacy | None, runs: int, first: int = 0) -> float:
    return measured(name, privacy, runs, first)[0]


def measured(name: str, privacy: bd.protocols.Privacy | None, runs: int, first: int = 0) -> tuple[float, float]:
    """The share of intervals that hold the truth, and half of their mean width."""
    make, people, estimate, truth = CASES[name]
    hits, width, true = 0, 0.0, truth()
    for seed in range(first, first + runs):
        private: dict[str, Any] = {} if privacy is None else {"privacy": privacy, "seed": seed, "path": "law"}
        low, high = estimate(make(people, seed), **private).interval()
        hits, width = hits + (low <= true <= high), width + (high - low) / 2
    return hits / runs, width / runs


def main(runs: int) -> None:
    """A table: for every case, coverage and half width without privacy and with three kinds of it."""
    for name in CASES:
        cells = [measured(name, privacy, runs, first=10**6) for privacy in (None, CENTRAL, WEAKER, SHUFFLE)]
        print(
            f"| {name} |", " | ".join(f"{100 * share:.1f} %, ±{width:.4f}" for share, width in cells), "|", flush=True
        )


if __name__ == "__main__":
    main(int(sys.argv[1]))
