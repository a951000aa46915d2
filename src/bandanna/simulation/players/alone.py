"""The rounds of `recursion` for a seed that is alone: the same numbers, without an axis of seeds.

A round of few arms is twenty calls of NumPy, most of which take as long for one number as for a hundred: what counts
is how many there are, and that none of them looks at shapes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bandanna.core.arrays import Floats, Ints
from bandanna.core.linalg import favoured, upper
from bandanna.simulation.players.block import Block

_TABLE = 1 << 20  # bytes of products of arms that stay


class Alone:
    """G, v and A^{-1} of one seed, (d, d), (d,), (d, d), all changed."""

    def __init__(self, gram: Floats, vector: Floats, known: Floats, scale: float, ridge: float) -> None:
        self.gram, self.vector, self.known, self.scale, self.ridge = gram, vector, known, scale, ridge
        rows, columns = upper(len(vector))
        self.place, self.doubled = rows * len(vector) + columns, np.where(rows == columns, 1.0, 2.0)[:, None]
        self.diagonal = slice(None, None, len(vector) + 1)

    def tabulate(self, arms: Floats) -> tuple[Floats, Floats | None]:
        """Arms that stay as columns (d, K), and their products where these are few."""
        linear = np.ascontiguousarray(arms.T)
        few = 8 * len(self.place) * len(arms) <= _TABLE
        rows, columns = upper(len(linear))
        return linear, linear[rows] * linear[columns] * self.doubled if few else None

    def index(self, linear: Floats, products: Floats | None, weight: float, radius: float) -> Floats:
        """<x, theta> + radius |x|_{P^{-1}} of arms in columns, (K,)."""
        inverse, centre = self.known, self.known.dot(self.vector)
        if self.scale:
            inverse = self.ridge**2 * inverse
            inverse += self.gram
            inverse.reshape(-1)[self.diagonal] += self.scale * weight - self.ridge
            inverse = np.multiply(self.scale, np.linalg.inv(inverse), dtype=np.float64)
            centre = inverse.dot(self.vector - self.ridge * centre) / self.scale
        if products is None:
            spread = np.einsum("dk,dk->k", inverse.dot(linear), linear)
        else:
            spread = inverse.take(self.place).dot(products)
        np.sqrt(np.maximum(spread, 0.0, out=spread), out=spread)
        spread *= radius
        spread += centre.dot(linear)
        return np.asarray(spread)

    def add(self, x: Floats, y: float) -> None:
        """One more row."""
        self.vector += y * x
        self.gram += x[:, None] * x
        step = self.known.dot(x)
        self.known -= step[:, None] * (step / (1 + float(step.dot(x))))


def pick(index: Floats, coins: Floats, used: Ints) -> int:
    """The arm of the largest index in single precision, by the next of the coins (n,) between those that are tied."""
    single: NDArray[np.float32] = index.astype(np.float32)
    arm = int(single.argmax())
    if not np.isfinite(peak := single[arm]):  # beyond single precision
        first, tied = favoured(index)
        where = np.flatnonzero(tied) if tied is not None else first.reshape(1)
    elif np.count_nonzero(single == peak) == 1:
        return arm
    else:
        where = np.flatnonzero(single == peak)
    if len(where) == 1 or not len(coins):
        return int(where[0])
    used += 1
    return int(where[int(coins[used[0] - 1] * len(where))])


@np.errstate(over="ignore")  # of single precision, which is looked at
def play(sums: Alone, block: Block) -> None:
    """Rounds one after the other, of a block of one seed."""
    (arms,), (means,), (coins,), used = block.arms, block.means, block.coins, block.used
    (actions,), (rewards,), (low, high) = block.actions, block.rewards, block.told.tolist()
    fixed, seen, worth = block.fixed, arms[0], means[0]
    linear, products = sums.tabulate(seen) if fixed else (seen.T, None)
    tables = block.uniforms[0].tolist(), block.weights.tolist(), block.radii.tolist()
    for t, (number, weight, radius) in enumerate(zip(*tables, strict=True)):
        if not fixed:
            seen, worth = arms[t], means[t]
            linear = seen.T
        arm = pick(sums.index(linear, products, weight, radius), coins, used)
        earned = number < worth[arm]
        actions[t], rewards[t] = arm, earned
        sums.add(seen[arm], high if earned else low)
