"""What a kernel of generalised linear policies is shown of the rounds that it plays, and what it leaves."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bandanna.core.arrays import Floats, Ints

MORE = 2  # entries of a direction that is drawn, beyond those of an arm: then these are uniform in the ball


class Scene(NamedTuple):
    """n rounds of S seeds: arms and what each of them would earn; or, where `contexts` has no round, the generators
    that draw both, as the world does: arms uniform in the ball, rewards that are 1 with probability mu(<x, truth>).

    A tuple, which kernels take apart.
    """

    contexts: Floats  # (S, n, K, d), or (S, 0, K, d)
    outcomes: Floats  # (S, n, K), or (S, 0, K)
    words: NDArray[np.uint64]  # (S, 2, 4): the states of SFC64 for arms, and for rewards of all arms; changed
    truth: Floats  # (S, d)
    link: int  # of the means
    actions: Ints  # (S, n), filled; so are rewards, and losses where arms are drawn
    rewards: Floats  # (S, n)
    losses: Floats  # (S, n)
    features: Floats  # (d,): of the arm that was chosen last

    @classmethod
    def given(cls, contexts: Floats, outcomes: Floats) -> Scene:
        """Of what is drawn already."""
        seeds, rounds, _, d = contexts.shape
        nobody = np.zeros((seeds, 2, 4), dtype=np.uint64)
        return _with_room(contexts, outcomes, nobody, np.zeros((seeds, d)), 0, rounds)

    @classmethod
    def drawn(cls, rounds: int, n_arms: int, words: NDArray[np.uint64], truth: Floats, link: int) -> Scene:
        """Of what the kernel draws."""
        seeds, d = truth.shape
        return _with_room(np.empty((seeds, 0, n_arms, d)), np.empty((seeds, 0, n_arms)), words, truth, link, rounds)


def _with_room(
    contexts: Floats, outcomes: Floats, words: NDArray[np.uint64], truth: Floats, link: int, rounds: int
) -> Scene:
    """As kernels take it: compiled once, for arrays in order that can be written."""
    seeds, d = truth.shape
    return Scene(
        contexts=np.require(contexts, requirements=["C", "W"]),
        outcomes=np.require(outcomes, requirements=["C", "W"]),
        words=np.require(words, requirements=["C", "W"]),
        truth=np.require(truth, requirements=["C", "W"]),
        link=link,
        actions=np.empty((seeds, rounds), dtype=np.int64),
        rewards=np.empty((seeds, rounds)),
        losses=np.empty((seeds, rounds)),
        features=np.empty(d),
    )
