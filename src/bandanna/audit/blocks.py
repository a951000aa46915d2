"""The runs of an audit in blocks: how many, in which order, each with random streams of its own.

Who runs a block, and when it ends, changes nothing: neither its numbers nor where an audit looks at them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from bandanna.core import require
from bandanna.core.arrays import Floats

Draw = Callable[[bool, int, np.random.Generator], Floats]  # (swapped, runs, rng) -> (runs, k)
Block = tuple[Floats, Floats]  # runs of P and of Q, (runs, k) each
Drawn = Callable[[Sequence[int]], Iterator[Block]]  # blocks of these sizes, in their order

LOOKS = {1 / 8: 1 / 16, 1 / 4: 1 / 16, 1 / 2: 1 / 8, 1.0: 3 / 4}  # after which share of the runs: share of the failure
_LEAST = 64  # runs, of which a look can tell something


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How many runs of either neighbour are the pilot, and how many there are at each look; `blocks` of them in turn.

    It follows from the number of trials alone, whoever runs them: blocks have random streams of their own.
    """

    pilot: int
    looks: dict[int, float]  # runs beside the pilot: share of the failure
    blocks: tuple[int, ...]

    @classmethod
    def of(cls, trials: int, *, quick: bool, chunk: int) -> Plan:
        """quick: a sixteenth of the runs are pilot and not a quarter, for a threshold alone."""
        each = require.whole("trials", trials, least=8 * _LEAST) // 2
        pilot = max(_LEAST, each // (16 if quick else 4))
        looks: dict[int, float] = {}
        for look, share in LOOKS.items():
            runs = min(each - pilot, max(_LEAST, round(look * (each - pilot))))
            looks[runs] = looks.get(runs, 0.0) + share
        size, blocks = max(_LEAST, min(chunk, each // 16)), list[int]()
        for begin, end in pairwise([0, pilot, *(pilot + runs for runs in looks)]):
            blocks += [min(size, end - start) for start in range(begin, end, size)]
        return cls(pilot=pilot, looks=looks, blocks=tuple(blocks))


def block(draw: Draw, key: Sequence[int], number: int, runs: int) -> Block:
    """One block of runs of both neighbours, each from a stream of its own."""
    one, two = (draw(swapped, runs, np.random.default_rng([*key, number, int(swapped)])) for swapped in (False, True))
    return one, two


def in_turn(draw: Draw, key: Sequence[int]) -> Drawn:
    """Blocks one after the other, here."""

    def drawn(sizes: Sequence[int]) -> Iterator[Block]:
        for number, runs in enumerate(sizes):
            yield block(draw, key, number, runs)

    return drawn
