"""Paper 002, running counts: how much noise the worst prefix has, against the number of users, in every trust model.

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

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.budgets import ApproxDP
from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.core.shapes import Bits
from bandanna.core.streams import Streams
from bandanna.counters.continual_sum import ContinualSum
from bandanna.environments.hard_bits import HardBits
from bandanna.experiments.workers import Progress, silent
from bandanna.mechanisms.sources import FastNoise
from bandanna.papers.common.curve import Curve
from bandanna.papers.common.gather import gather
from bandanna.papers.common.scaling import Rate
from bandanna.protocols.concurrent_shuffle import BatchTree, ConcurrentShuffle
from bandanna.protocols.trust import Privacy, central, concurrent, local

EPSILON, DELTA, HORIZON, HALVINGS = 1.0, 1e-5, 2**20, 10
SHUFFLERS: tuple[int | str, ...] = (1, 2, 3, 4, "best")
MORE_RUNS = 8
_CHUNK = 1 << 20  # bits held at a time


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A trust model: k and the rule for degrees where there are shufflers."""

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
    return tuple(require.whole("horizon", longest, least=least) // 2**power for power in reversed(range(HALVINGS + 1)))


def measure(*, kind: Kind, n: int, n_seeds: int, seed: int, epsilon: float, delta: float) -> Curve:
    """`n_seeds` runs of a counter: its noise, measured and predicted, and that of the epsilon/k rule on its tree."""
    privacy = kind.privacy(epsilon=epsilon, delta=delta)
    source = FastNoise(np.random.default_rng([seed, n, KINDS.index(kind)]))
    counter = ContinualSum(horizon=n, privacy=privacy, values=Bits(), source=source)
    tree = counter.protocol.tree if isinstance(counter.protocol, ConcurrentShuffle) else None
    worst, counted = _worst_prefix(counter)
    hard = HardBits(horizon=n, shufflers=1 if tree is None else tree.levels, epsilon=epsilon)
    noise, largest = [], []
    step, end = max(1, _CHUNK // n), seed + n_seeds
    for first in range(seed, end, step):
        bits = hard.bits(Streams(range(first, min(first + step, end))))  # (runs, n)
        truth = np.cumsum(bits, axis=1, dtype=np.int32)  # half as much to read as 64 bits
        if isinstance(counter.protocol, ConcurrentShuffle):
            after, error = _by_batches(counter.protocol, truth, source)
            noise.append(after[:, worst // counter.protocol.tree.sizes[0] - 1] - truth[:, counted - 1])
        else:
            estimates = counter.run(bits)
            error = np.max(np.abs(estimates - truth), axis=1)
            noise.append(estimates[:, worst - 1] - truth[:, counted - 1])
        largest.append(error)
    return Curve(
        row={
            "n": n,
            "model": kind.model,
            "k": kind.k,
            "std": float(np.std(np.concatenate(noise), ddof=1)) if n_seeds > 1 else None,
            "predicted_std": counter.predicted_std,
            "paper_rule_std": None if tree is None else paper_rule_std(tree, epsilon=epsilon, delta=delta),
            "degrees": kind.degrees,
        },
        more={
            "name": kind.name,
            "worst_error": float(np.mean(np.concatenate(largest))),
            "lower_bound": hard.lower_bound if isinstance(kind.k, int) else None,
        },
        promise=counter.guarantee,
    )


def _by_batches(protocol: ConcurrentShuffle, truth: NDArray[np.int32], source: FastNoise) -> tuple[Floats, Floats]:
    """Estimates after every lowest batch, (runs, N_1), and the largest error of all prefixes, (runs,).

    An estimate stands until the next batch is full, and the true count only grows: errors are largest at either end.
    """
    n, low = truth.shape[1], protocol.tree.sizes[0]
    full = truth[:, low - 1 :: low]
    after = protocol.after_batches(np.diff(full, axis=1, prepend=0), source)
    last = np.minimum(np.arange(2, full.shape[1] + 2) * low - 1, n) - 1  # of those whom the same estimate serves
    errors = np.maximum(np.abs(after - full), np.abs(after - truth[:, last]))
    return after, np.maximum(np.max(errors, axis=1), truth[:, low - 2])


def _worst_prefix(counter: ContinualSum) -> tuple[int, int]:
    """The prefix with the most predicted noise, and how many of its users are in full batches."""
    protocol = counter.protocol
    if isinstance(protocol, ConcurrentShuffle):
        steps, low = protocol.tree.worst_steps, protocol.tree.sizes[0]
        worst = int(steps[np.argmax(protocol.prefix_variance(steps))])
        return worst, worst // low * low
    return counter.horizon, counter.horizon  # of a BLT and of local noise, the last one


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
    progress: Progress = silent,
) -> list[Rate]:
    """All kinds at all n: `n_seeds` runs of the longest, of shorter ones up to eight times as many."""
    shared = {"seed": seed, "epsilon": epsilon, "delta": delta}
    ns = horizons(horizon)
    runs = {n: n_seeds * min(MORE_RUNS, horizon // n) for n in reversed(ns)}  # the longest first
    tasks = [{"kind": kind, "n": n, "n_seeds": many, **shared} for n, many in runs.items() for kind in kinds]
    found = gather(measure, tasks, jobs=jobs, progress=progress)[::-1]
    lines = {kind: tuple(found[place :: len(kinds)]) for place, kind in enumerate(reversed(kinds))}
    return [
        Rate(arguments={"model": kind.model, "k": kind.k}, theory=kind.theory, points=lines[kind], x="n", y="std")
        for kind in kinds
    ]
