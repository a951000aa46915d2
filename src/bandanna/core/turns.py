"""Who plays which arm when arms are assigned by place: one arm after the other, or in turn."""

from __future__ import annotations

import numpy as np

from bandanna.core.arrays import Ints


def arms_at(places: Ints, *, arms: Ints, plays: Ints, in_turn: bool) -> Ints:
    """The arms of places 0, 1, ..., (n,) -> (n,), where every arm is played so many times.

    >>> arms_at(np.arange(4), arms=np.array([5, 7]), plays=np.array([1, 3]), in_turn=True)
    array([5, 7, 7, 7])
    """
    if not in_turn:
        return np.asarray(arms[np.searchsorted(np.cumsum(plays), places, side="right")])
    if np.all(plays == plays[0]):
        return np.asarray(arms[places % len(arms)])
    turn = np.concatenate([np.arange(n) for n in plays])  # the first play of every arm, then the second ...
    return np.asarray(np.repeat(arms, plays)[np.argsort(turn, kind="stable")][places])
