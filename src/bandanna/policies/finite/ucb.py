"""UCB1, LDP-UCB, and UCB in episodes (AdaC-UCB, AdaP-UCB)."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bandanna import validation
from bandanna.device.domain import Estimate, Statistic
from bandanna.errors import InvalidBudget
from bandanna.numeric.linalg import first_best
from bandanna.numeric.rng import DeviceRandomness
from bandanna.policies import regret_bounds
from bandanna.policies.algorithm import ANY_BUDGET, ANY_BUDGET_WORDS, PURE, register_algorithm
from bandanna.policies.base import AssignedArms, Execution, PlayedRounds, SumQuery
from bandanna.policies.finite.base import (
    BIT_DOMAIN,
    ArmSums,
    FiniteArmedPolicy,
    make_empty_arm_sums,
    reward_guarantee,
    select_optimistic_arm,
)
from bandanna.policies.regret_bounds import BoundCalls, RunSetting
from bandanna.privacy.guarantee import Guarantee
from bandanna.protocols.base import BatchProtocol
from bandanna.protocols.factory import protocol_for
from bandanna.protocols.privacy_model import Privacy, none
from bandanna.protocols.randomized_response import LocalBits
from bandanna.storage.encoding import stored_as
from bandanna.types import Floats, Ints


@dataclass(frozen=True, kw_only=True)
class PerRoundUCB(FiniteArmedPolicy[ArmSums]):
    """Base of UCB1 and LDP-UCB: one released sum for every arm, learned in every round.

    1. The server plays every arm once, then the arm with the largest index (`episode`): the mean of its N rewards plus
       w sqrt(b log t / (2 N)), w the width of the range.
    2. The device reports its reward, clipped (`report`).
    3. The server queries it and adds it to the sum of its arm (`learn`).
    """

    execution = Execution(side_by_side=True)

    optimism: float = 4.0

    def episode(self, state: ArmSums) -> AssignedArms:
        arms = select_optimistic_arm(state, self.scale)[..., None]
        return AssignedArms(number=state.rounds, arms=arms, plays=_ONCE[(None,) * (arms.ndim - 1)])

    def learn(self, state: ArmSums, episode: AssignedArms) -> Generator[SumQuery, Estimate, ArmSums]:
        released = yield self.query
        return state.plus(episode.arms[..., 0], released.total[..., 0])

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.set_validated(self, validation.positive, "optimism")
        _ = self.query

    @cached_property
    def query(self) -> SumQuery:
        return SumQuery(protocol=protocol_for(self.privacy, self.domain, 1))

    @cached_property
    def guarantee(self) -> Guarantee:
        return reward_guarantee(self.query.protocol)

    @property
    def scale(self) -> float:
        """Factor of log t / N in the index: w^2 b / 2."""
        return self.domain.width**2 * self.optimism / 2

    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> ArmSums:
        return make_empty_arm_sums(self._arms, replicates)

    def best(self, snapshot: ArmSums, contexts: Floats) -> Ints:
        return np.full(len(contexts), np.argmax(snapshot.means()))


_ONCE: Ints = np.ones(1, dtype=np.int64)


@register_algorithm("UCB1", paper="004")
@stored_as("UCB1")
@dataclass(frozen=True, kw_only=True)
class UCB1(PerRoundUCB):
    """UCB1 without privacy, with the steps of `PerRoundUCB`.

    Parameters
    ----------
    privacy
        Must be `bd.none()`.
    reward_range
        Rewards are clipped into it.
    optimism
        b. 4 is the printed sqrt(2 log t / N) of Auer, Cesa-Bianchi and Fischer 2002.
    """

    execution = Execution(player="lockstep", side_by_side=True)

    privacy: Privacy = none()


@register_algorithm("LDP-UCB", paper="004", trust="local", guarantee="local DP, pure", budgets=(PURE,))
@stored_as("LDPUCB")
@dataclass(frozen=True, kw_only=True)
class LDPUCB(PerRoundUCB):
    """LDP-UCB: UCB on randomized bits (Ren, Zhou, Liu and Shroff 2020), with the steps of `PerRoundUCB`.

    A device rounds its reward y in [low, low + w] to a bit at random, and the bit may lie (`report`):

        P(bit = 1 | y) = (1 - q) + (2q - 1) (y - low)/w,   q = e^epsilon / (1 + e^epsilon).

    The index of an arm is low + w (mean of its bits - (1 - q)) / (2q - 1) + w / (2q - 1) sqrt(b log t / (2N)).

    Parameters
    ----------
    privacy
        `bd.local(epsilon=..., delta=0.0)`.
    reward_range
        Rewards are clipped into it. The error of a bit scales with its width.
    optimism
        The factor b.
    """

    trusts = ("local",)
    execution = Execution(player="lockstep", side_by_side=True)

    privacy: Privacy

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.privacy.noisy:
            raise InvalidBudget(
                "privacy",
                self.privacy,
                "bd.local(epsilon) with a finite epsilon > 0",
                "UCB1 is the policy without noise",
            )

    @cached_property
    def query(self) -> SumQuery:
        return SumQuery(protocol=protocol_for(self.privacy, BIT_DOMAIN, 1))

    @property
    def protocol(self) -> LocalBits:
        assert isinstance(self.query.protocol, LocalBits)
        return self.query.protocol

    @property
    def scale(self) -> float:
        """Factor of log t / N: b / (2 (2q - 1)^2)."""
        return self.optimism / (2 * self.protocol.mechanism.truth**2)

    @property
    def _bits_per_user(self) -> int:
        return self.protocol.bits_per_user

    def report(self, query: SumQuery, played: PlayedRounds, coins: DeviceRandomness) -> Statistic:
        return self.domain.bits(played, coins)


@stored_as("UCBEpisodesState")
@dataclass(frozen=True, kw_only=True)
class UCBEpisodesState:
    """The released noisy mean of every arm's last episode. R = replicate axes."""

    estimates: Floats  # (*R, K)
    lengths: Ints  # (*R, K): of the last episode, 0 before the first
    pulls: Ints  # (*R, K): in all finished episodes
    rounds: Ints  # (*R): in all finished episodes
    episodes: Ints  # (*R): finished


@register_algorithm("UCB-episodes", paper="004")
@register_algorithm("AdaC-UCB", paper="004", trust="central", guarantee=ANY_BUDGET_WORDS, budgets=ANY_BUDGET)
@register_algorithm("AdaP-UCB", paper="004", trust="central", guarantee="DP, pure", budgets=(PURE,))
@stored_as("UCBEpisodes")
@dataclass(frozen=True, kw_only=True)
class UCBEpisodes(FiniteArmedPolicy[UCBEpisodesState]):
    """UCB in doubling episodes with forgetting: UCB-episodes, AdaC-UCB (Gaussian noise) and AdaP-UCB (Laplace noise).

    1. The server plays every arm once, then the arm with the largest `index` as often as it was played before
       (`episode`).
    2. Each device of the episode reports its reward, clipped (`report`).
    3. The server queries the sum of the episode's rewards, from which it estimates the arm anew (`learn`).

    The index of an arm with n rewards in its last episode, w the width of the range, is that episode's noisy mean plus

        sqrt((w^2/(2n) + 2 s^2/n^2) b log t)           Gaussian noise of std s on the sum [004, (14)],
        w sqrt(b log t/(2n)) + (l/n) b log t           Laplace noise of scale l.

    Privacy: each reward is in one episode, which is released once, and earlier releases decide which one. So a changed
    reward changes one release, also against an adversary who chooses later data ([004], appendix D). References: Azize
    and Basu 2024 [004], Algorithm 4; Azize and Basu 2022 (AdaP-UCB). Deviations: n is the real length of the last
    episode (printed: N/2); one draw of noise for each arm and episode; any range; exact calibration.

    Parameters
    ----------
    privacy
        `bd.none()`, or `bd.central(...)`: rho, (epsilon, delta) or Renyi (AdaC-UCB), delta=0.0 (AdaP-UCB).
    reward_range
        Rewards are clipped into it. The noise scales with its width.
    optimism
        b: 1 as in the paper's experiments, above 3 for its theorems. Privacy does not depend on it.
    """

    trusts = ("none", "central")
    execution = Execution(player="assigned", side_by_side=True)

    optimism: float = 1.0

    def episode(self, state: UCBEpisodesState) -> AssignedArms:
        unplayed = state.lengths == 0
        fresh = unplayed.any(axis=-1)
        if fresh.all():
            arms = np.argmax(unplayed, axis=-1)
        else:
            best = first_best(np.where(unplayed, -math.inf, self.index(state)))
            arms = np.where(fresh, np.argmax(unplayed, axis=-1), best)
        before = np.take_along_axis(state.pulls, arms[..., None], axis=-1)
        return AssignedArms(number=int(state.episodes.max()), arms=arms[..., None], plays=np.maximum(before, 1))

    def learn(self, state: UCBEpisodesState, episode: AssignedArms) -> Generator[SumQuery, Estimate, UCBEpisodesState]:
        released = yield self.query
        played = np.arange(self.n_arms) == episode.arms  # (*R, K)
        return UCBEpisodesState(
            estimates=np.where(played, released.total / episode.plays, state.estimates),
            lengths=np.where(played, episode.plays, state.lengths),
            pulls=state.pulls + np.where(played, episode.plays, 0),
            rounds=state.rounds + episode.plays[..., 0],
            episodes=state.episodes + 1,
        )

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.set_validated(self, validation.positive, "optimism")
        _ = self.query

    @cached_property
    def query(self) -> SumQuery:
        return SumQuery(protocol=protocol_for(self.privacy, self.domain, self.horizon))

    @property
    def protocol(self) -> BatchProtocol:
        assert isinstance(self.query.protocol, BatchProtocol)
        return self.query.protocol

    @cached_property
    def guarantee(self) -> Guarantee:
        return reward_guarantee(self.protocol)

    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> UCBEpisodesState:
        shape = (*replicates, self._arms)
        whole, each = np.zeros(shape, dtype=np.int64), np.zeros(replicates, dtype=np.int64)
        return UCBEpisodesState(estimates=np.zeros(shape), lengths=whole, pulls=whole, rounds=each, episodes=each)

    def index(self, state: UCBEpisodesState) -> Floats:
        """Return the indices, (*R, K); infinite for arms that were never played."""
        n = np.maximum(state.lengths, 1).astype(float)
        log_t = self.optimism * np.log(state.rounds + 1.0)[..., None]  # b log t_l
        width = self.domain.width
        if self.protocol.laplace:
            scale, step = self.protocol.laplace
            bonus = width * np.sqrt(log_t / (2 * n)) + scale * step * log_t / n  # AdaP-UCB
        else:
            bonus = np.sqrt((width**2 / (2 * n) + 2 * self.protocol.std(1) ** 2 / n**2) * log_t)  # [004, (14)]
        return np.where(state.lengths == 0, math.inf, state.estimates + bonus)

    def best(self, snapshot: UCBEpisodesState, contexts: Floats) -> Ints:
        known = np.where(snapshot.lengths > 0, snapshot.estimates, -np.inf)
        return np.full(len(contexts), np.argmax(known))

    @classmethod
    def _regret_bounds(cls, setting: RunSetting) -> BoundCalls:
        return regret_bounds.find_ucb_episodes_bounds(setting)

    def _run_counts(self, state: UCBEpisodesState) -> dict[str, Ints]:
        return {"episodes": state.episodes}
