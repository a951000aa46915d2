"""UCB with adaptive episodes and forgetting: UCB-episodes, and its private forms AdaC-UCB (Gaussian) and AdaP-UCB.

An arm is played in episodes that double its number of pulls; its index knows its last episode only, n rewards in a
range of width w, released once at the episode's end with noise of standard deviation s on their sum:

    I_a(t) = (sum of the last episode + noise_a) / n + sqrt((w^2/(2n) + 2 s^2/n^2) b log t)         Gaussian [004, (14)]
    I_a(t) = (sum of the last episode + noise_a) / n + w sqrt(b log t/(2n)) + (l/n) b log t          Laplace, scale l

Symbols: b `optimism`; rho-zCDP is s^2 = w^2/(2 rho), pure epsilon is l = w/epsilon. With w = 1 as printed.
Privacy: each reward is in one episode, each episode is released once: see `reward_noise`.
References: Azize and Basu 2024 [004], Algorithm 4, appendices C-E; Azize and Basu 2022 (AdaP-UCB).
Deviations: n is the real length of the last episode (the printed N/2 is 1/2 after the first pull); the noise is drawn
once per arm and episode; any range; Gaussian noise is calibrated exactly, not by sqrt(2 log(1.25/delta))/epsilon.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.budgets import Budget
from bandanna.accounting.guarantee import Guarantee
from bandanna.core import require
from bandanna.core.linalg import first_best
from bandanna.mechanisms.laplace import Laplace
from bandanna.mechanisms.sources import NoiseSource
from bandanna.policies.finite import FiniteArmed
from bandanna.policies.reward_noise import RewardNoise, checked_sums, sum_sensitivity

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class State:
    """What was released: the noisy mean of every arm's last episode, kept until the arm's next one. R = replicates."""

    estimates: Floats  # (*R, K)
    lengths: Integers  # (*R, K): of the last episode, 0 before the first
    pulls: Integers  # (*R, K): in all finished episodes
    rounds: Integers  # (*R): in all finished episodes


@dataclass(frozen=True, kw_only=True)
class UCBEpisodes(FiniteArmed):
    """Finite-armed UCB in doubling episodes over `horizon` rounds.

    budget        None, `ZCDP(rho=...)`, `ApproxDP(...)`, `RenyiDP(...)` (AdaC-UCB) or `PureDP(...)` (AdaP-UCB)
    reward_range  rewards are clipped into it; the noise scales with its width
    optimism      b in the index: 1 as in the paper's experiments, above 3 for its theorems; no matter to privacy
    """

    budget: Budget | None = None
    optimism: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require.store(self, require.positive, "optimism")
        _ = self.noise

    @cached_property
    def noise(self) -> RewardNoise:
        """Noise on the sum of an episode's rewards: one of them moves it by at most the width, and rounding."""
        return RewardNoise(budget=self.budget, sensitivity=sum_sensitivity(self.domain, self.horizon))

    @property
    def guarantee(self) -> Guarantee:
        """What is promised for a reward."""
        return self.noise.guarantee

    def init(self, replicates: tuple[int, ...] = ()) -> State:
        """Nothing played yet."""
        shape = (*replicates, self.n_arms)
        whole = np.zeros(shape, dtype=np.int64)
        return State(estimates=np.zeros(shape), lengths=whole, pulls=whole, rounds=np.zeros(replicates, dtype=np.int64))

    def index(self, state: State) -> Floats:
        """Optimistic indices, (*R, K); infinite for arms that were never played."""
        n = np.maximum(state.lengths, 1).astype(float)
        log_t = self.optimism * np.log(state.rounds + 1.0)[..., None]  # b log t_l
        width = self.domain.sensitivity
        if isinstance(self.noise.mechanism, Laplace):
            bonus = width * np.sqrt(log_t / (2 * n)) + self.noise.mechanism.scale * log_t / n  # AdaP-UCB
        else:
            bonus = np.sqrt((width**2 / (2 * n) + 2 * self.noise.std**2 / n**2) * log_t)  # [004, (14)]
        return np.where(state.lengths == 0, math.inf, state.estimates + bonus)

    def episode(self, state: State) -> tuple[NDArray[np.int64], Integers]:
        """Which arm is played next, and for how many rounds: as often as it was played before, (*R), (*R)."""
        unplayed = state.lengths == 0
        fresh = np.any(unplayed, axis=-1)
        if np.all(fresh):
            arms = np.argmax(unplayed, axis=-1)
        else:
            best = first_best(np.where(unplayed, -math.inf, self.index(state)))
            arms = np.where(fresh, np.argmax(unplayed, axis=-1), best)
        before = np.take_along_axis(state.pulls, arms[..., None], axis=-1)[..., 0]
        return arms, np.maximum(before, 1)

    def learn(
        self, state: State, sums: Floats, source: NoiseSource, *, ended: NDArray[np.bool_] | None = None
    ) -> State:
        """Release the sums (*R) of clipped rewards of the episodes that `episode` named; only where `ended`."""
        arms, users = self.episode(state)
        keep = np.ones(arms.shape, dtype=bool) if ended is None else ended
        exact = checked_sums(np.where(keep, sums, users * self.domain.low), users, self.domain)
        noisy = self.noise.release(exact[..., None], source)  # once per arm and episode
        played = (np.arange(self.n_arms) == arms[..., None]) & keep[..., None]  # (*R, K)
        count = users[..., None]
        return State(
            estimates=np.where(played, noisy / count, state.estimates),
            lengths=np.where(played, count, state.lengths),
            pulls=state.pulls + np.where(played, count, 0),
            rounds=state.rounds + np.where(keep, users, 0),
        )
