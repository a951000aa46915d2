"""Paper 002, running counts: how much noise the worst prefix has, against the number of users, in every privacy model.

Bits, at one (epsilon, delta); n = H/1024, ..., H/2, H. The streams are the hard family of section 4.

    model     theory: exponent of n        lower bound
    central   0 (polylog)                  -
    shuffle   1/(2k+1), Theorem 3.4        rep_{n,k}, Theorem 4.1 (its order: the constant is open)
    best k    0 (polylog), Corollary 3.3   -
    local     1/2                          -

Measured is the standard deviation, over runs, of (estimate - true count of the users in it) after the prefix with the
most predicted noise; `worst_error` is the mean over runs of the largest |estimate - true count| over all prefixes, the
users of unfinished batches included. The epsilon/k rule is the paper's: (epsilon/k, delta/k) for each level, with tight
noise and without averaging, on the same tree.

Reference: Tenenbaum, Kaplan, Mansour and Stemmer 2023 [002]; the paper has no experiments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bandanna import validation
from bandanna.agent.continual_sum import ContinualSum
from bandanna.device.domain import Bits
from bandanna.experiments.executors import ProgressCallback, ignore_progress
from bandanna.privacy.budgets import ApproxDP
from bandanna.protocols.batch_tree import BatchTree
from bandanna.protocols.concurrent_shuffle import ConcurrentShuffle
from bandanna.protocols.privacy_model import Privacy, central, concurrent, local
from reproductions.concurrent_shuffle.counting import Errors, TabledCoins, Truth, errors_of
from reproductions.concurrent_shuffle.hard_bits import HardBits
from reproductions.figure import Curve, gather
from reproductions.rates import Rate

EPSILON, DELTA, HORIZON, HALVINGS = 1.0, 1e-5, 2**20, 10
SHUFFLERS: tuple[int | str, ...] = (1, 2, 3, 4, "best")
MORE_RUNS = 8
_CHUNK = 1 << 20  # bits held at a time


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A privacy model: k and the rule for degrees where there are shufflers."""

    model: str  # "central", "local" or "shuffle"
    k: int | str | None = None
    degrees: str | None = None

    @property
    def name(self) -> str:
        """For labels."""
        return self.model if self.k is None else f"{self.model}, k = {self.k}"

    @property
    def theory(self) -> float:
        """Exponent of n in the error, logarithms left out."""
        if self.model == "local":
            return 1 / 2
        return 1 / (2 * self.k + 1) if isinstance(self.k, int) else 0.0  # [002, Theorem 3.4, Corollary 3.3]

    @property
    def streams(self) -> object:
        """Kinds of which this is the same have the same hard streams for most n, and are measured together."""
        if self.model == "central":
            return "any"  # its noise does not look at them
        return min(self.k, 3) if isinstance(self.k, int) else 1 if self.model == "local" else 3

    def privacy(self, *, epsilon: float, delta: float) -> Privacy:
        """The model with its budget."""
        if self.model == "shuffle":
            assert self.k is not None
            assert self.degrees is not None
            return concurrent(epsilon=epsilon, delta=delta, shufflers=self.k, degrees=self.degrees)
        if self.model == "local":
            return local(epsilon=epsilon, delta=delta)
        return central(epsilon=epsilon, delta=delta)


KINDS = (
    Kind(model="central"),
    *(Kind(model="shuffle", k=k, degrees=degrees) for degrees in ("best", "paper") for k in SHUFFLERS),
    Kind(model="local"),
)


def horizons(longest: int = HORIZON) -> tuple[int, ...]:
    """H/1024, ..., H/2, H."""
    least = 2 ** (HALVINGS + 4)  # 16 users at least: four shufflers
    return tuple(
        validation.integer("horizon", longest, least=least) // 2**power for power in reversed(range(HALVINGS + 1))
    )


def measure(*, kind: Kind, n: int, n_seeds: int, seed: int, epsilon: float, delta: float) -> Curve:
    """`n_seeds` runs of a counter: its noise, measured and predicted, and that of the epsilon/k rule on its tree."""
    (curve,) = measure_all(kinds=(kind,), n=n, n_seeds=n_seeds, seed=seed, epsilon=epsilon, delta=delta)
    return curve


def measure_all(*, kinds: Sequence[Kind], n: int, n_seeds: int, seed: int, epsilon: float, delta: float) -> list[Curve]:
    """The same of several, on the same streams."""
    counters = [Counting.of(kind, n, seed, {"epsilon": epsilon, "delta": delta}) for kind in kinds]
    step, end = max(1, _CHUNK // n), seed + n_seeds
    for first in range(seed, end, step):
        truth = Truth(range(first, min(first + step, end)))
        for counter in counters:
            counter.found.append(counter.errors(truth))
    return [counter.curve for counter in counters]


@dataclass(frozen=True, kw_only=True)
class Counting:
    """A kind of counter, the streams that are hard for it, and what its runs found."""

    kind: Kind
    counter: ContinualSum
    hard: HardBits
    budget: Mapping[str, float]
    errors: Callable[[Truth], Errors]
    found: list[Errors]

    @classmethod
    def of(cls, kind: Kind, n: int, seed: int, budget: Mapping[str, float]) -> Counting:
        """Nothing found yet; every kind and n has noise of its own."""
        source = TabledCoins(np.random.Generator(np.random.SFC64([seed, n, KINDS.index(kind)])))
        counter = ContinualSum(horizon=n, privacy=kind.privacy(**budget), values=Bits(), source=source)
        levels = counter.protocol.tree.levels if isinstance(counter.protocol, ConcurrentShuffle) else 1
        hard = HardBits(horizon=n, shufflers=levels, epsilon=budget["epsilon"])
        errors = errors_of(counter, hard, source)
        return cls(kind=kind, counter=counter, hard=hard, budget=budget, errors=errors, found=[])

    @property
    def curve(self) -> Curve:
        """Of all runs."""
        kind, protocol = self.kind, self.counter.protocol
        rule = paper_rule_std(protocol.tree, **self.budget) if isinstance(protocol, ConcurrentShuffle) else None
        noise, largest = (np.concatenate(each) for each in zip(*self.found, strict=True))
        return Curve(
            row={
                "n": self.counter.horizon,
                "model": kind.model,
                "k": kind.k,
                "std": float(np.std(noise, ddof=1)) if len(noise) > 1 else None,
                "predicted_std": self.counter.predicted_std,
                "paper_rule_std": rule,
                "degrees": kind.degrees,
            },
            more={
                "name": kind.name,
                "worst_error": float(np.mean(largest)),
                "lower_bound": self.hard.lower_bound if isinstance(kind.k, int) else None,
            },
            promise=self.counter.guarantee,
        )


def paper_rule_std(tree: BatchTree, *, epsilon: float, delta: float) -> float:
    """Std of the worst prefix with (epsilon/k, delta/k) for each level of this tree [002, Theorem 3.4]."""
    rule = ConcurrentShuffle.calibrate(
        domain=Bits(),
        budget=ApproxDP(epsilon=epsilon, delta=delta),
        horizon=tree.horizon,
        degrees=tree.degrees,
        calibration="paper",
    )
    return rule.std()


def errors(
    *,
    n_seeds: int = 100,
    horizon: int = HORIZON,
    epsilon: float = EPSILON,
    delta: float = DELTA,
    kinds: Sequence[Kind] = KINDS,
    seed: int = 0,
    jobs: int = 1,
    progress: ProgressCallback = ignore_progress,
) -> list[Rate]:
    """All kinds at all n: `n_seeds` runs of the longest, of shorter ones up to eight times as many."""
    shared = {"seed": seed, "epsilon": epsilon, "delta": delta}
    ns = horizons(horizon)
    runs = {n: n_seeds * min(MORE_RUNS, horizon // n) for n in reversed(ns)}  # the longest first
    alike: dict[object, list[Kind]] = {}
    for kind in kinds:
        alike.setdefault(kind.streams, []).append(kind)
    wanted = [(n, some) for n in runs for some in alike.values()]
    tasks = [{"kinds": some, "n": n, "n_seeds": runs[n], **shared} for n, some in wanted]
    found = zip(wanted, gather(measure_all, tasks, jobs=jobs, progress=progress), strict=True)
    at = {(kind, n): point for (n, some), points in found for kind, point in zip(some, points, strict=True)}
    return [
        Rate(
            arguments={"model": kind.model, "k": kind.k},
            theory=kind.theory,
            points=tuple(at[kind, n] for n in ns),
            x="n",
            y="std",
        )
        for kind in kinds
    ]
