"""What a device decides from a public snapshot: an index for every arm, and a coin between those that are tied.

The tie rule is `core.linalg.favoured`: arms are tied whose index is the largest in single precision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bandanna.core.arrays import Bools, Floats, Ints
from bandanna.core.coins import Coins
from bandanna.core.linalg import einsum, favoured_alone, in_single

_SURE = np.ones(1)  # of one device
_SURE.setflags(write=False)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What devices do: the arm of each, and with which probability the policy chose it. R = replicate axes.

    groups: under which name the runner keeps a device's row, an index into `Policy.keeps`; None: under the first.
    """

    actions: Ints  # (*R, n)
    probabilities: Floats  # (*R, n)
    groups: Ints | None = None  # (*R, n)


class Sampled(Choice):
    """A choice whose probabilities are computed when somebody asks for them: they take longer than the choice."""

    chances: Callable[[], Floats]

    def __init__(self, *, actions: Ints, chances: Callable[[], Floats]) -> None:
        vars(self).update(actions=actions, groups=None, chances=chances)

    @property
    def probabilities(self) -> Floats:
        """Of the chosen arms, (*R, n)."""
        if "_known" not in vars(self):
            vars(self)["_known"] = self.chances()
        return np.asarray(vars(self)["_known"])


def certain(actions: Ints, groups: Ints | None = None) -> Choice:
    """A choice without randomness."""
    sure = _SURE if actions.shape == (1,) else np.ones(actions.shape)
    return Choice(actions=actions, probabilities=sure, groups=groups)


def scores(theta: Floats, inverse: Floats, radius: float, contexts: Floats) -> Floats:
    """<x, theta> + radius |x|_{V^{-1}} for every arm: (*R, rounds, K, d) -> (*R, rounds, K).

    One product for each round, never one for all of them: nobody's numbers depend on who else is there.
    """
    return scored(columns_of(theta, inverse, radius), contexts)


def columns_of(theta: Floats, inverse: Floats, radius: float) -> Floats:
    """What `scored` needs of a snapshot: [theta, radius^2 V^{-1}], (*R, d, 1 + d)."""
    return np.ascontiguousarray(np.concatenate([theta[..., None], radius**2 * inverse], axis=-1))


def scored(columns: Floats, contexts: Floats) -> Floats:
    """`scores` by these columns."""
    arms = np.ascontiguousarray(contexts)
    return _index(arms @ columns[..., None, :, :], arms)  # of products (*R, rounds, K, 1 + d)


def scored_alone(columns: Floats, arms: Floats) -> Floats:
    """`scored` of one device, (K, d) -> (K,), in fewer steps: the same bits."""
    return _index(arms @ columns, arms)


def _index(projected: Floats, arms: Floats) -> Floats:
    """Of every arm, by its products with the columns."""
    spread = einsum("...i,...i->...", projected[..., 1:], arms)  # radius^2 x^T V^{-1} x
    return np.asarray(projected[..., 0] + np.sqrt(np.maximum(spread, 0.0, out=spread), out=spread))


def pick(first: Ints, tied: Bools | None, coins: Coins) -> Choice:
    """One of each user's tied arms, all equally likely; `first` and `tied` as `linalg.favoured` gives them."""
    if tied is None:
        return certain(first)
    if first.shape == (1,):  # one device, as in an agent: the arm of that rank
        equal = tied[0].nonzero()[0]
        first[0] = equal[coins.below(np.array([len(equal)]))[0]]
        return Choice(actions=first, probabilities=np.array([1 / len(equal)]))
    counts = np.asarray(np.sum(tied, axis=-1, dtype=np.int64))  # (*R, users)
    several, rank = counts > 1, coins.below(counts)
    reached = np.cumsum(tied[several], axis=-1) > rank[several][:, None]  # from the arm of that rank on
    first[several] = np.argmax(reached, axis=-1)
    return Choice(actions=first, probabilities=np.asarray(1 / counts))


def pick_alone(index: Floats, coins: Coins) -> Choice:
    """`pick` of what is favoured for one device, with these indices, (K,)."""
    first, tied = favoured_alone(in_single(index))
    if tied is None:
        return Choice(actions=np.array([first]), probabilities=_SURE)
    rank = coins.below(np.array([len(tied)]))[0]
    return Choice(actions=tied[rank : rank + 1], probabilities=np.array([1 / len(tied)]))


def moved(actions: Ints, share: float, n_arms: int, coins: Coins) -> Ints:
    """The actions, or with probability `share` any arm."""
    away = coins.uniform(actions.shape, "explore") < share
    anywhere = np.asarray(coins.among(away, "explored arms") * n_arms, dtype=np.int64)
    return np.where(away, anywhere, actions)


def explored(
    choice: Choice, share: float, n_arms: int, coins: Coins, chance: Callable[[Ints], Floats] | None = None
) -> Choice:
    """Device: the choice, or with probability `share` any arm; its probability is that of both together.

    chance  with which probability the policy itself takes given arms, (*R, n) -> (*R, n); without it, it takes no other
            arm than the one it chose
    """
    if not share:
        return choice
    actions = moved(choice.actions, share, n_arms, coins)
    own = np.where(actions == choice.actions, choice.probabilities, 0.0) if chance is None else chance(actions)
    return Choice(actions=actions, probabilities=share / n_arms + (1 - share) * own, groups=choice.groups)
