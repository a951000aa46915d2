"""Thompson sampling with Beta posteriors: play the arm that is best in a random world that the data allow. Not private.

    theta_a ~ Beta(1 + successes_a, 1 + failures_a),   action = argmax_a theta_a

A reward y inside its range [low, high] counts as a success with probability (y - low)/(high - low), so the posterior
is that of Bernoulli rewards with the same means.
References: Thompson 1933; Agrawal and Goyal 2012 (rewards that are not 0 or 1).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bandanna.accounting.guarantee import Guarantee
from bandanna.core.arrays import Floats, Ints
from bandanna.core.coins import Coins, gamma
from bandanna.core.domain import Box, Statistic
from bandanna.core.estimate import Estimate
from bandanna.core.linalg import first_best
from bandanna.device.choice import Choice, Sampled
from bandanna.policies.arms.best_of_betas import chances_of
from bandanna.policies.arms.finite import FiniteArmed, Tallies, no_tallies, reward_guarantee
from bandanna.policies.base import Ask, Frozen, Played
from bandanna.policies.named import algorithm
from bandanna.protocols.clear import Clear
from bandanna.protocols.trust import Privacy, none
from bandanna.storage.declared import stored_as


@algorithm("Thompson", paper="004")
@stored_as("Thompson")
@dataclass(frozen=True, kw_only=True)
class Thompson(FiniteArmed[Tallies]):
    """Finite-armed Thompson sampling over `horizon` rounds; rewards are clipped into `reward_range`.

    The state's sums are successes. Every device draws from the posterior by its own coins; how likely its arm was has
    no closed form, and is integrated when somebody asks.
    """

    every_round = True
    side_by_side = True
    player = "lockstep"

    privacy: Privacy = none()

    @cached_property
    def ask(self) -> Ask:
        """Successes and plays of every arm, in the clear."""
        return Ask(protocol=Clear(domain=Box(dim=2 * self.n_arms)))

    @cached_property
    def guarantee(self) -> Guarantee:
        """No privacy."""
        return reward_guarantee(self.ask.protocol)

    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> Tallies:
        """Nothing played yet."""
        return no_tallies(self.n_arms, replicates)

    def episode(self, state: Tallies) -> Frozen:
        """One round."""
        return Frozen(number=state.rounds, users=1)

    def act(self, snapshot: Tallies, contexts: Floats, coins: Coins) -> Choice:
        """The best arm of one draw from the posterior for every device, (*R, n)."""
        shape = (*contexts.shape[:-2], 2 * self.n_arms)
        counts = np.concatenate([1 + snapshot.sums, 1 + snapshot.pulls - snapshot.sums], axis=-1)  # (*R, 2K)
        gammas = gamma(np.broadcast_to(counts[..., None, :], shape), coins)
        successes, failures = gammas[..., : self.n_arms], gammas[..., self.n_arms :]
        arms = first_best(successes / (successes + failures))  # Beta(a, b) = G_a / (G_a + G_b)
        return Sampled(actions=arms, chances=lambda: chances_of(arms, counts))

    def report(self, ask: Ask, played: Played, coins: Coins) -> Statistic:
        """Which arm it was, and whether it succeeded."""
        bits = self.domain.bits(played, coins)
        assert played.arms is not None
        chosen = (np.arange(self.n_arms) == played.arms[..., None]).astype(float)  # (*R, n, K)
        values = np.concatenate([bits.values * chosen, chosen], axis=-1)
        return ask.protocol.domain.sealed(values, clipped=bits.clipped)

    def best(self, snapshot: Tallies, contexts: Floats) -> Ints:
        """The largest mean."""
        return np.full(len(contexts), np.argmax(snapshot.means()))

    def learn(self, state: Tallies, episode: Frozen) -> Generator[Ask, Estimate, Tallies]:
        """Successes and plays add up."""
        released = yield self.ask
        sums, pulls = released.total[..., : self.n_arms], released.total[..., self.n_arms :]
        return Tallies(sums=state.sums + sums, pulls=state.pulls + pulls, rounds=state.rounds + 1)
