"""Paper 002, contextual bandits: LinUCB over k concurrent shufflers, beside one shuffler after another and central.

Instance: d = 5, 100 arms that stay through a run (`LinearContextual(fixed=True)`), true (1, 1e-5), width 1.

    algorithm            learns after
    LinUCB-JDP-batched   T^{1/2} users                                   central, the yardstick
    LinUCB-SDP-Vec       T^{3/5} users                                   shuffle, one after the other [000]
    LinUCB-CSDP          d_low users of the counter's tree               batches "paper" [002, Theorem 5.1]
    LinUCB-CSDP          B = T^{(2k+1)/(4k+1)} users, a tree above       batches "ours" (`schedules.concurrent_batch`)

A counter errs by the users whom it has not seen; a bandit only plays that many rounds with an old estimate. So the
batches that are best for a counter are too small for a bandit, and their noise costs more than their speed is worth.

Reference: Tenenbaum, Kaplan, Mansour and Stemmer 2023 [002], section 5 and appendix C; the paper has no experiments.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from bandanna import validation
from bandanna.experiments.executors import ProgressCallback, ignore_progress
from bandanna.policies.linear.linucb import LinUCB
from bandanna.policies.registry import make
from bandanna.protocols.concurrent_shuffle import ConcurrentShuffle
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.linear import LinearContextual
from reproductions.figure import Curve, ending, gather

DIM, ARMS, EPSILON, DELTA, HORIZON, WIDTH = 5, 100, 1.0, 1e-5, 200_000, 1.0


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of the table."""

    algorithm: str
    shufflers: int | str | None = None
    batches: str = "paper"  # "paper": of the algorithm's own paper; "ours"

    @property
    def name(self) -> str:
        """For labels."""
        if self.shufflers is None:
            return {"LinUCB-JDP-batched": "central", "LinUCB-SDP-Vec": "sequential shuffle"}[self.algorithm]
        return "best k" if self.shufflers == "best" else f"k = {self.shufflers}"


CENTRAL, SEQUENTIAL = Entry(algorithm="LinUCB-JDP-batched"), Entry(algorithm="LinUCB-SDP-Vec")
ENTRIES = (
    CENTRAL,
    SEQUENTIAL,
    *(Entry(algorithm="LinUCB-CSDP", shufflers=k, batches="ours") for k in (1, 2, 3, 4, "best")),
    *(Entry(algorithm="LinUCB-CSDP", shufflers=k, batches="paper") for k in (1, 2, 3, 4, "best")),
)


def policy(entry: Entry, *, horizon: int, width: float = WIDTH) -> LinUCB:
    """The entry at the common budget."""
    given: dict[str, Any] = {"batch": "paper" if entry.batches == "paper" else None, "ties": "first"}
    given["confidence"] = "lemma"  # of the papers
    if entry.shufflers is not None:
        given["shufflers"] = entry.shufflers
    made: LinUCB = make(entry.algorithm, dim=DIM, horizon=horizon, width=width, epsilon=EPSILON, delta=DELTA, **given)
    return made


def play(*, entry: Entry, horizon: int, n_seeds: int, seed: int, width: float) -> Curve:
    """One entry."""
    made = policy(entry, horizon=horizon, width=width)
    stream = made._channel.stream
    result = simulate(made, LinearContextual(dim=DIM, n_arms=ARMS, fixed=True), n_seeds=n_seeds, seed=seed)
    row = {
        "algorithm": entry.algorithm,
        "k": entry.shufflers,
        "batches": entry.batches,
        "batch": made._channel.sizes[0],
        "degrees": list(stream.tree.degrees) if isinstance(stream, ConcurrentShuffle) else [],
        "noise_std": float(made._channel.prefix_std().max()),
        "epsilon": result.guarantee.epsilon,
        "delta": result.guarantee.delta,
        **ending(result),
    }
    return Curve(row=row, more={"name": entry.name}, result=result)


def regrets(
    *,
    n_seeds: int = 50,
    horizon: int = HORIZON,
    width: float = WIDTH,
    seed: int = 0,
    jobs: int = 1,
    progress: ProgressCallback = ignore_progress,
) -> list[Curve]:
    """All entries, on the same instances; `ratio` is the mean regret over the central one's."""
    validation.integer("horizon", horizon, least=100)  # four levels of batches
    shared = {"horizon": horizon, "n_seeds": n_seeds, "seed": seed, "width": width}
    tasks = [{"entry": entry, **shared} for entry in reversed(ENTRIES)]  # the longest first
    found = gather(play, tasks, jobs=jobs, progress=progress)[::-1]
    central = found[0].row["mean"]
    return [replace(each, row=each.row | {"ratio": each.row["mean"] / central}) for each in found]
