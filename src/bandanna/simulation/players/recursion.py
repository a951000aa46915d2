"""Optimism on exact sums of single rounds by NumPy, all seeds side by side: rank-one updates in place of inverses.

Without noise, with A = G + lambda I and the numbers of an `Optimism`,

    A^{-1} -= y y^T / (1 + <x, y>),   y = A^{-1} x   (Sherman and Morrison 1950),   lambda = weight, or floor / scale:

P = A where scale is 0; else G (s^2 A)^{-1} G = (G - lambda I + lambda^2 A^{-1}) / s^2, so that with M = s^2 P

    M = G + lambda^2 A^{-1} + (s^2 weight - lambda) I,    theta = M^{-1} (v - lambda A^{-1} v),    P^{-1} = s^2 M^{-1}:

one inverse a round, since the weight moves; no product of matrices. A^{-1} is computed anew from the sums with every
block of rounds, so rounding errors do not add up. The reference is `FixedArms.run`, or every batch by its protocol.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bandanna.core.arrays import Bools, Floats, Ints
from bandanna.core.linalg import favoured, upper
from bandanna.environments.base import World
from bandanna.kernels.optimism import DONE, OUTSIDE
from bandanna.simulation.players import alone
from bandanna.simulation.players.block import Block
from bandanna.simulation.players.optimists import plays_alone

_MOST = 64  # dimensions; inverses of larger matrices are a smaller part
_TABLE = 1 << 20  # bytes of products of fixed arms, of one seed


def recursion_for(policy: Any, world: World, rounds: int) -> Callable[..., int] | None:
    """`recursion`, where it can play so many rounds of this policy in this world."""
    exact = policy.privacy.model == "none" and policy.dim <= _MOST
    return recursion if exact and plays_alone(policy, world, rounds) else None


def recursion(
    begin: int,
    end: int,
    arms: Floats,  # (S, n or 1, K, d), as all of these what the kernel `optimist` is given
    means: Floats,
    uniforms: Floats,
    coins: Floats,
    noise: Floats,
    sources: Any,
    std: float,
    decays: Floats,
    shares: Floats,
    states: Floats,
    total: Floats,
    released: Floats,
    scale: float,
    floors: Floats,
    weights: Floats,
    radii: Floats,
    told: Floats,
    by_coins: bool,
    words: Any,
    truth: Floats,
    length: Floats,
    last: float,
    place: Ints,
    theta: Floats,
    inverse: Floats,
    used: Ints,
    actions: Ints,
    rewards: Floats,
    losses: Floats,
) -> int:
    """DONE, after all rounds; or OUTSIDE, before any: an arm is longer than 1."""
    if not _inside(arms):
        return OUTSIDE
    sums = _Sums(total, scale, floors[begin] if scale else weights[begin])
    rounds = slice(begin, end)
    block = Block(
        arms=arms,
        means=means,
        uniforms=uniforms[:, rounds],
        coins=coins if by_coins else coins[:, :0],
        weights=weights[rounds],
        radii=radii[rounds],
        told=told,
        used=used,
        actions=actions[:, rounds],
        rewards=rewards[:, rounds],
    )
    if len(arms) == 1:
        alone.play(alone.Alone(sums.gram[0], sums.vector[0], sums.inverse[0], scale, sums.ridge), block)
    else:
        _side_by_side(sums, block)
    taken = np.take_along_axis(
        np.broadcast_to(means, (len(arms), end - begin, means.shape[2])), actions[:, begin:end, None], axis=2
    )
    losses[:, begin:end] = means.max(axis=2) - taken[..., 0]
    sums.store(total)
    return DONE


def _side_by_side(sums: _Sums, block: Block) -> None:
    """Rounds one after the other, of all seeds."""
    arms, told, fixed, everyone = block.arms, block.told, block.fixed, np.arange(len(block.arms))
    scores, by_coins = _Table(arms[:, 0]) if fixed else _Scores(arms[:, 0]), block.coins.shape[1] > 0
    for t in range(block.uniforms.shape[1]):
        row = 0 if fixed else t
        if row:
            scores = _Scores(arms[:, row])
        arm, tied = favoured(scores.index(*sums.estimate(block.weights[t]), block.radii[t]))
        if tied is not None and by_coins:
            arm = _drawn(arm, tied, block.coins, block.used)
        block.actions[:, t] = arm
        earned = block.uniforms[:, t] < block.means[everyone, row, arm]
        block.rewards[:, t] = earned
        sums.add(arms[everyone, row, arm], told[0] + (told[1] - told[0]) * earned)


class _Sums:
    """G, v and A^{-1} of all seeds."""

    def __init__(self, total: Floats, scale: float, number: float) -> None:
        rows, columns = _above(total.shape[1])
        seeds, d = len(total), (total.shape[1] - len(rows)) // 2
        self.vector, self.gram, self.scale = total[:, :d].copy(), np.zeros((seeds, d, d)), scale
        self.ridge = number / scale if scale else number  # lambda
        self.gram[:, range(d), range(d)] = total[:, d : 2 * d]
        self.gram[:, rows, columns] = self.gram[:, columns, rows] = total[:, 2 * d :] * math.sqrt(0.5)
        self.eye = np.eye(d)
        self.inverse: Floats = np.linalg.inv(self.gram + self.ridge * self.eye).astype(np.float64, copy=False)

    def estimate(self, weight: float) -> tuple[Floats, Floats]:
        """theta (S, d) and P^{-1} (S, d, d)."""
        solved = (self.inverse @ self.vector[..., None])[..., 0]
        if not self.scale:
            return solved, self.inverse
        matrix = self.ridge**2 * self.inverse
        matrix += self.gram
        matrix += (self.scale * weight - self.ridge) * self.eye
        inverse: Floats = np.linalg.inv(matrix).astype(np.float64, copy=False)  # M^{-1}
        theta = (inverse @ (self.vector - self.ridge * solved)[..., None])[..., 0]
        inverse *= self.scale
        return theta, inverse

    def add(self, x: Floats, y: Floats) -> None:
        """One more row each: (S, d), (S,)."""
        self.vector += x * y[:, None]
        self.gram += x[:, :, None] * x[:, None, :]
        step = (self.inverse @ x[:, :, None])[..., 0]
        grown = 1 + np.einsum("sd,sd->s", x, step)
        self.inverse -= step[:, :, None] * (step / grown[:, None])[:, None, :]

    def store(self, total: Floats) -> None:
        """As reports have them."""
        d = self.vector.shape[1]
        rows, columns = _above(total.shape[1])
        total[:, :d] = self.vector
        total[:, d : 2 * d] = self.gram[:, range(d), range(d)]
        total[:, 2 * d :] = math.sqrt(2) * self.gram[:, rows, columns]


class _Scores:
    """Arms of one round, (S, K, d)."""

    def __init__(self, arms: Floats) -> None:
        self.arms = arms

    def index(self, theta: Floats, inverse: Floats, radius: float) -> Floats:
        """<x, theta> + radius |x|_{P^{-1}}, (S, K)."""
        spread = np.einsum("skd,skd->sk", self.arms @ inverse, self.arms)
        np.sqrt(np.maximum(spread, 0.0, out=spread), out=spread)
        spread *= radius
        spread += (self.arms @ theta[..., None])[..., 0]
        return np.asarray(spread)


class _Table(_Scores):
    """Arms that stay, with their products where these are few."""

    def __init__(self, arms: Floats) -> None:
        super().__init__(arms)
        rows, columns = upper(arms.shape[2])
        self.place, self.squares = (rows, columns), None
        self.linear = np.ascontiguousarray(np.swapaxes(arms, 1, 2))  # (S, d, K)
        if 8 * len(rows) * arms.shape[1] <= _TABLE:
            doubled = np.where(rows == columns, 1.0, 2.0)[:, None]
            self.squares = self.linear[:, rows] * self.linear[:, columns] * doubled

    def index(self, theta: Floats, inverse: Floats, radius: float) -> Floats:
        if self.squares is None:
            return super().index(theta, inverse, radius)
        rows, columns = self.place
        spread = (inverse[:, None, rows, columns] @ self.squares)[:, 0]
        np.sqrt(np.maximum(spread, 0.0, out=spread), out=spread)
        spread *= radius
        spread += (theta[:, None] @ self.linear)[:, 0]
        return np.asarray(spread)


def _above(size: int) -> tuple[Any, Any]:
    """Rows and columns above the diagonal, for reports of so many numbers: d (d + 3) / 2."""
    d = (math.isqrt(9 + 8 * size) - 3) // 2
    return np.triu_indices(d, 1)


def _inside(arms: Floats) -> bool:
    """Whether no arm is longer than 1, by more than rounding errors."""
    limit = 1 + (arms.shape[-1] + 8) * 2.0**-52
    return bool(np.all(np.einsum("...i,...i->...", arms, arms) <= limit * limit))


def _drawn(first: Ints, tied: Bools, coins: Floats, used: Ints) -> Ints:
    """One of those that are tied, by a coin where there are several."""
    counts, arms = tied.sum(axis=1), first.copy()
    for s in np.flatnonzero(counts > 1):
        arms[s] = np.flatnonzero(tied[s])[int(coins[s, used[s]] * counts[s])]
        used[s] += 1
    return arms
