"""UCB with adaptive episodes and forgetting: UCB-episodes, and its private forms AdaC-UCB (Gaussian) and AdaP-UCB.

An arm is played in episodes that double its number of pulls; its index knows its last episode only, n rewards in a
range of width w, released once at the episode's end with noise of standard deviation s on their sum:

    I_a(t) = (sum of the last episode + noise_a) / n + sqrt((w^2/(2n) + 2 s^2/n^2) b log t)         Gaussian [004, (14)]
    I_a(t) = (sum of the last episode + noise_a) / n + w sqrt(b log t/(2n)) + (l/n) b log t          Laplace, scale l

Symbols: b `optimism`; rho-zCDP is s^2 = w^2/(2 rho), pure epsilon is l = w/epsilon. With w = 1 as printed.
Privacy: each reward is in one episode, and each episode is released once; which one follows from earlier releases
only. So a changed reward changes one release, and the promise is that of a single one, against an adversary who sees
all of them and chooses later data accordingly ([004], appendix D).
References: Azize and Basu 2024 [004], Algorithm 4, appendices C-E; Azize and Basu 2022 (AdaP-UCB).
Deviations: n is the real length of the last episode (the printed N/2 is 1/2 after the first pull); the noise is drawn
once per arm and episode; any range; Gaussian noise is calibrated exactly, not by sqrt(2 log(1.25/delta))/epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bandanna.accounting.guarantee import Guarantee
from bandanna.core import require
from bandanna.core.arrays import Floats, Ints
from bandanna.core.estimate import Estimate
from bandanna.core.linalg import first_best
from bandanna.policies.arms.finite import FiniteArmed, reward_guarantee
from bandanna.policies.base import Ask, Assigned
from bandanna.policies.named import ANY, ANY_OF_THEM, PURE, algorithm
from bandanna.protocols.base import BatchProtocol
from bandanna.protocols.opening import open_batch
from bandanna.storage.declared import stored_as
from bandanna.theory import finite
from bandanna.theory.settings import Found, Setting


@stored_as("UCBEpisodesState")
@dataclass(frozen=True, kw_only=True)
class State:
    """What was released: the noisy mean of every arm's last episode, kept until the arm's next one. R = replicates."""

    estimates: Floats  # (*R, K)
    lengths: Ints  # (*R, K): of the last episode, 0 before the first
    pulls: Ints  # (*R, K): in all finished episodes
    rounds: Ints  # (*R): in all finished episodes
    episodes: Ints  # (*R): finished


@algorithm("UCB-episodes", paper="004")
@algorithm("AdaC-UCB", paper="004", trust="central", guarantee=ANY_OF_THEM, budgets=ANY)
@algorithm("AdaP-UCB", paper="004", trust="central", guarantee="DP, pure", budgets=(PURE,))
@stored_as("UCBEpisodes")
@dataclass(frozen=True, kw_only=True)
class UCBEpisodes(FiniteArmed[State]):
    """Finite-armed UCB in doubling episodes over `horizon` rounds.

    privacy       `bd.none()`, `bd.central(...)`: rho, (epsilon, delta) or Renyi (AdaC-UCB), or delta=0.0 (AdaP-UCB)
    reward_range  rewards are clipped into it; the noise scales with its width
    optimism      b in the index: 1 as in the paper's experiments, above 3 for its theorems; no matter to privacy
    """

    trusts = ("none", "central")
    player = "assigned"
    side_by_side = True

    optimism: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require.store(self, require.positive, "optimism")
        _ = self.ask

    @cached_property
    def ask(self) -> Ask:
        """The sum of an episode's rewards."""
        return Ask(protocol=open_batch(self.privacy, self.domain, self.horizon))

    @property
    def protocol(self) -> BatchProtocol:
        """How an episode's sum is released."""
        assert isinstance(self.ask.protocol, BatchProtocol)
        return self.ask.protocol

    @cached_property
    def guarantee(self) -> Guarantee:
        """What is promised for a reward."""
        return reward_guarantee(self.protocol)

    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> State:
        """Nothing played yet."""
        shape = (*replicates, self.n_arms)
        whole, each = np.zeros(shape, dtype=np.int64), np.zeros(replicates, dtype=np.int64)
        return State(estimates=np.zeros(shape), lengths=whole, pulls=whole, rounds=each, episodes=each)

    def index(self, state: State) -> Floats:
        """Optimistic indices, (*R, K); infinite for arms that were never played."""
        n = np.maximum(state.lengths, 1).astype(float)
        log_t = self.optimism * np.log(state.rounds + 1.0)[..., None]  # b log t_l
        width = self.domain.width
        if self.protocol.laplace:
            scale, step = self.protocol.laplace
            bonus = width * np.sqrt(log_t / (2 * n)) + scale * step * log_t / n  # AdaP-UCB
        else:
            bonus = np.sqrt((width**2 / (2 * n) + 2 * self.protocol.std(1) ** 2 / n**2) * log_t)  # [004, (14)]
        return np.where(state.lengths == 0, math.inf, state.estimates + bonus)

    def episode(self, state: State) -> Assigned:
        """The arm that is played next, as often as it was played before: (*R, 1), (*R, 1)."""
        unplayed = state.lengths == 0
        fresh = unplayed.any(axis=-1)
        if fresh.all():
            arms = np.argmax(unplayed, axis=-1)
        else:
            best = first_best(np.where(unplayed, -math.inf, self.index(state)))
            arms = np.where(fresh, np.argmax(unplayed, axis=-1), best)
        before = np.take_along_axis(state.pulls, arms[..., None], axis=-1)
        return Assigned(number=int(state.episodes.max()), arms=arms[..., None], plays=np.maximum(before, 1))

    def learn(self, state: State, episode: Assigned) -> Generator[Ask, Estimate, State]:
        """One release per arm and episode."""
        released = yield self.ask
        played = np.arange(self.n_arms) == episode.arms  # (*R, K)
        return State(
            estimates=np.where(played, released.total / episode.plays, state.estimates),
            lengths=np.where(played, episode.plays, state.lengths),
            pulls=state.pulls + np.where(played, episode.plays, 0),
            rounds=state.rounds + episode.plays[..., 0],
            episodes=state.episodes + 1,
        )

    def best(self, snapshot: State, contexts: Floats) -> Ints:
        """The largest noisy mean of a last episode."""
        known = np.where(snapshot.lengths > 0, snapshot.estimates, -np.inf)
        return np.full(len(contexts), np.argmax(known))

    @classmethod
    def bounds(cls, setting: Setting) -> Found:
        """Of [004], appendices C and G."""
        return finite.of_ucb_episodes(setting)

    def counts(self, state: State) -> dict[str, Ints]:
        """Finished episodes."""
        return {"episodes": state.episodes}
