"""Other libraries beside ours, on their nearest equivalent, in this run: where they are installed (extra `bench`).

one round at a time   choose, learn, and so on, one stream; ours is an `Agent`
batches of 200      choose for so many users, then learn from them
many seeds            whole runs: theirs one after another, ours side by side in the simulator
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import numpy as np

from bandanna.bench.clock import Effort
from bandanna.bench.contenders import CONTENDERS, EXTRA, Contender
from bandanna.bench.equivalents import DIM, EQUIVALENTS, Equivalent
from bandanna.bench.floors import ARGMAX, argmax
from bandanna.bench.report import Absent, Row
from bandanna.experiments.peers import Peer, quiet

ONE, BATCHES, SEEDS = "one round at a time", "batches of 200", "many seeds"
SIDE_BY_SIDE, RUNS = 50, 4  # seeds of ours, of theirs
_USERS = 2000


class People:
    """Users' features, and what every arm would have earned."""

    def __init__(self, n_arms: int) -> None:
        rng = np.random.default_rng(0)
        self.n_arms = n_arms
        self.contexts = rng.normal(size=(_USERS, DIM)) / (2 * DIM**0.5)
        self.rewards = (rng.random((_USERS, n_arms)) < 0.5).astype(float)

    def meet(self, peer: Peer, start: int, count: int) -> None:
        """So many of them at once."""
        rows = (start + np.arange(count)) % _USERS
        arms, chances = peer.act(self.contexts[rows])
        peer.learn(self.contexts[rows], arms, self.rewards[rows, arms], chances)


def spent(step: Callable[[int], None], size: int, seconds: float) -> float:
    """CPU seconds for a round: steps of `size` rounds until they took so long, after two that are not counted."""
    step(0)
    step(size)
    begin, done = time.process_time(), 0
    while (passed := time.process_time() - begin) < seconds or not done:
        done += size
        step(done)
    return passed / done


def theirs(contender: Contender, mode: str, people: People, effort: Effort) -> float:
    """CPU seconds for a round."""
    size = _batch(effort) if mode == BATCHES else 1
    with quiet():
        if mode != SEEDS:
            peer = contender.begin(people.n_arms, 0)
            return spent(lambda start: people.meet(peer, start, size), size, effort.seconds)
        rounds = 2 if effort.small else contender.rounds
        begin = time.process_time()
        for seed in range(RUNS):
            peer = contender.begin(people.n_arms, seed)
            for number in range(rounds):
                people.meet(peer, number, 1)
        return (time.process_time() - begin) / (RUNS * rounds)


def ours(equivalent: Equivalent, mode: str, effort: Effort) -> float:
    """CPU seconds for a round."""
    if mode == SEEDS:
        rounds, seeds = (10, 2) if effort.small else (200, SIDE_BY_SIDE)
        return equivalent.simulated(rounds, seeds, min(2, effort.repeats))
    batch = _batch(effort) if mode == BATCHES else 1
    return equivalent.streamed(2 * batch if batch > 1 else 10 if effort.small else 300, batch)


def _batch(effort: Effort) -> int:
    return 20 if effort.small else 200


def pairs(names: Iterable[str]) -> list[tuple[str, str, list[str]]]:
    """Ours, a mode, and the peers of which it is the nearest equivalent."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(CONTENDERS[name].ours, []).append(name)
    return [
        (known, mode, theirs)
        for known, theirs in found.items()
        for mode in ((ONE, BATCHES, SEEDS) if EQUIVALENTS[known].batched else (ONE, SEEDS))
    ]


def measure(known: str, mode: str, names: Iterable[str], effort: Effort) -> tuple[list[Row], list[Absent]]:
    """Those of these peers that are installed, and ours beside them."""
    equivalent = EQUIVALENTS[known]
    sizes = equivalent.sizes
    people = People(sizes["arms"])
    floor = (ARGMAX, argmax(seeds=1, arms=sizes["arms"], dim=sizes.get("dim", 0), repeats=effort.repeats))
    mine = ours(equivalent, mode, effort)
    found, absent = {f"bandanna {known}": mine}, []
    for name in names:
        if CONTENDERS[name].installed:
            found[name] = theirs(CONTENDERS[name], mode, people, effort)
        else:
            absent.append(Absent(name=CONTENDERS[name].kind.package, extra=EXTRA))
    rows = [
        Row(
            part="peer",
            name=name,
            world=mode,
            unit="round",
            sizes=sizes,
            cpu_seconds=max(seconds, 1e-9),
            floor=floor,
            ours=(known, mine),
        )
        for name, seconds in found.items()
    ]
    return rows, absent
