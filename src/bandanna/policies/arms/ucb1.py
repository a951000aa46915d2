"""UCB1: the mean of all rewards of an arm, plus a bonus for what is not known. Decides in every round; not private.

    I_a(t) = mean of arm a's N rewards + w sqrt(b log t / (2 N))

Symbols: w width of the range, b `optimism`: 4 is the printed sqrt(2 log t / N) of Auer, Cesa-Bianchi and Fischer 2002.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bandanna.accounting.guarantee import Guarantee
from bandanna.core import require
from bandanna.core.arrays import Floats, Ints
from bandanna.core.estimate import Estimate
from bandanna.policies.arms.finite import FiniteArmed, Tallies, no_tallies, optimistic, reward_guarantee
from bandanna.policies.base import Ask, Assigned
from bandanna.policies.named import algorithm
from bandanna.protocols.opening import open_batch
from bandanna.protocols.trust import Privacy, none
from bandanna.storage.declared import stored_as


@dataclass(frozen=True, kw_only=True)
class EveryRound(FiniteArmed[Tallies]):
    """A policy that decides in every round, from one released sum for every arm."""

    side_by_side = True

    optimism: float = 4.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require.store(self, require.positive, "optimism")
        _ = self.ask

    @cached_property
    def ask(self) -> Ask:
        """One reward."""
        return Ask(protocol=open_batch(self.privacy, self.domain, 1))

    @cached_property
    def guarantee(self) -> Guarantee:
        """What is promised for a reward."""
        return reward_guarantee(self.ask.protocol)

    @property
    def scale(self) -> float:
        """Of log t / N in the index: w^2 b / 2."""
        return self.domain.width**2 * self.optimism / 2

    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> Tallies:
        """Nothing played yet."""
        return no_tallies(self.n_arms, replicates)

    def episode(self, state: Tallies) -> Assigned:
        """One round: every arm once, then the first with the largest index."""
        arms = optimistic(state, self.scale)[..., None]
        return Assigned(number=state.rounds, arms=arms, plays=_ONCE[(None,) * (arms.ndim - 1)])

    def best(self, snapshot: Tallies, contexts: Floats) -> Ints:
        """The largest mean."""
        return np.full(len(contexts), np.argmax(snapshot.means()))

    def learn(self, state: Tallies, episode: Assigned) -> Generator[Ask, Estimate, Tallies]:
        """The released reward of one round."""
        released = yield self.ask
        return state.plus(episode.arms[..., 0], released.total[..., 0])


_ONCE: Ints = np.ones(1, dtype=np.int64)


@algorithm("UCB1", paper="004")
@stored_as("UCB1")
@dataclass(frozen=True, kw_only=True)
class UCB1(EveryRound):
    """Finite-armed UCB over `horizon` rounds; rewards are clipped into `reward_range`. There is no private one."""

    player = "lockstep"

    privacy: Privacy = none()
