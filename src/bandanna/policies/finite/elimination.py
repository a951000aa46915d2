"""Successive elimination (DP-SE, SDP-SE)."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bandanna import validation
from bandanna.device.domain import Estimate, Statistic
from bandanna.errors import InvalidBudget
from bandanna.numeric.rng import DeviceRandomness
from bandanna.policies.algorithm import APPROX, PURE, register_algorithm
from bandanna.policies.base import AssignedArms, Execution, PlayedRounds, SumQuery
from bandanna.policies.finite.base import BIT_DOMAIN, PROTECTS, FiniteArmedPolicy, reward_guarantee
from bandanna.privacy.budgets import ApproxDP
from bandanna.privacy.guarantee import Guarantee, find_worst_guarantee
from bandanna.protocols.base import FLOAT_BITS, BatchProtocol
from bandanna.protocols.factory import NEAR, protocol_for
from bandanna.protocols.privacy_model import Privacy
from bandanna.storage.encoding import stored_as
from bandanna.types import Floats, Ints

_LARGEST = 100.0  # bits for a larger epsilon are those for this one: a tenth of a reward of noise, on a whole batch


@stored_as("EliminationState")
@dataclass(frozen=True, kw_only=True)
class EliminationState:
    """One run: the epoch, the arms that are left, and how many batches were released."""

    epoch: int
    active: NDArray[np.bool_]  # (K,)
    batches: int = 0


@register_algorithm("DP-SE", paper="004", trust="central", guarantee="DP, pure", budgets=(PURE,))
@register_algorithm("SDP-SE", paper="004", trust="shuffle", guarantee="shuffle DP", budgets=(APPROX,))
@stored_as("Elimination")
@dataclass(frozen=True, kw_only=True)
class Elimination(FiniteArmedPolicy[EliminationState]):
    """Finite-armed successive elimination.

    1. The server plays all active arms in turn, `users(epoch)` times each; the last one that is left, to the end
       (`episode`).
    2. Each device reports its reward; in the shuffle model, a bit with that mean (`report`).
    3. The server queries the sum of every active arm and drops the arms whose mean is more than 2 `width(epoch)` below
       the largest (`learn`).

    Parameters
    ----------
    privacy
        `bd.none()`, `bd.central(...)` (delta=0.0: DP-SE) or `bd.shuffle(...)` (SDP-SE).
    reward_range
        Rewards are clipped into it. The noise scales with its width.
    failure
        Probability b with which a confidence bound may fail; 1/T by default.
    """

    trusts = ("none", "central", "shuffle")
    execution = Execution(player="assigned", noise_stream="batch noise", has_several_queries=True)

    failure: float | None = None

    def episode(self, state: EliminationState) -> AssignedArms:
        arms = np.flatnonzero(state.active)
        alone = len(arms) == 1
        plays = np.full(len(arms), self.horizon if alone else self.users(state.epoch))
        return AssignedArms(number=state.epoch - 1, arms=arms, plays=plays, in_turn=True, released=not alone)

    def report(self, query: SumQuery, played: PlayedRounds, coins: DeviceRandomness) -> Statistic:
        return self.domain.bits(played, coins) if self.shuffled else self.domain.report(played)

    def learn(self, state: EliminationState, episode: AssignedArms) -> Generator[SumQuery, Estimate, EliminationState]:
        users, totals = int(episode.plays[0]), np.zeros(len(episode.arms))
        protocol = self.protocol(users)
        for step, arm in enumerate(episode.arms.tolist()):
            totals[step] = (yield SumQuery(protocol=protocol, arm=arm, step=step)).total[0]
        units = totals if self.shuffled else (totals - users * self.domain.low) / self.domain.width
        means = units / users
        keep = means.max() - means <= 2 * self.width(state.epoch)  # the elimination rule
        active = np.zeros(self.n_arms, dtype=bool)
        active[episode.arms[keep]] = True
        return EliminationState(epoch=state.epoch + 1, active=active, batches=state.batches + len(means))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.failure is not None:
            validation.set_validated(self, validation.open_probability, "failure")
        budget = self.privacy.budget
        bits = isinstance(budget, ApproxDP) and budget.delta > 0 and math.isfinite(budget.epsilon)
        if self.shuffled and not bits:
            raise InvalidBudget("privacy", budget, "bd.shuffle(epsilon, delta) with a finite epsilon and delta > 0")
        if not self.shuffled:
            _ = self._central

    @property
    def shuffled(self) -> bool:
        return self.privacy.model == "shuffle"

    @cached_property
    def _central(self) -> BatchProtocol:
        return protocol_for(self.privacy, self.domain, self.horizon)

    def protocol(self, users: int) -> BatchProtocol:
        return protocol_for(self._shuffle, BIT_DOMAIN, users, quick=True) if self.shuffled else self._central

    def _log(self, factor: float, epoch: int) -> float:
        failure = min(1 / self.horizon, 0.5) if self.failure is None else self.failure
        return math.log(factor * self._arms * epoch**2 / failure)

    def _noise_quantile(self, epoch: int, std: float) -> float:
        """Return Q, in units of the range: a sum's noise stays below it except with probability b/(4 K e^2)."""
        if not self.shuffled and self._central.laplace:
            scale, step = self._central.laplace
            steps = scale * self._log(4, epoch) + 1  # half a step of noise, half a step of rounding
            return steps * step / self.domain.width
        return std * math.sqrt(2 * self._log(8, epoch))

    def users(self, epoch: int) -> int:
        """Return R_e: how often an epoch plays every active arm."""
        gap, noise = 2.0**-epoch, self._noise_quantile(epoch, self._planned_std)
        return max(2, math.ceil(max(32 * self._log(8, epoch) / gap**2, 8 * noise / gap)))

    @cached_property
    def _shuffle(self) -> Privacy:
        budget = self.privacy.budget
        assert isinstance(budget, ApproxDP)
        return replace(self.privacy, budget=replace(budget, epsilon=min(budget.epsilon, _LARGEST)))

    @cached_property
    def _planned_std(self) -> float:
        """Noise of a sum for which lengths are planned; shuffle calibration hardly ever exceeds it."""
        if not self.shuffled:
            return self._std(1)
        assert self._shuffle.budget is not None
        return NEAR * math.sqrt(self.privacy.participations) / self._shuffle.budget.mu()

    def _std(self, users: int) -> float:
        width = 1.0 if self.shuffled else self.domain.width
        return self.protocol(users).std(users) / width

    def width(self, epoch: int) -> float:
        users = self.users(epoch)
        return math.sqrt(self._log(8, epoch) / (2 * users)) + self._noise_quantile(epoch, self._std(users)) / users

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        found: list[int] = []
        begun = 0
        while self._arms > 1 and begun + (users := self.users(len(found) + 1)) <= self.horizon:
            found.append(users)
            begun += 2 * users
        return tuple(found)

    @cached_property
    def guarantee(self) -> Guarantee:
        if not self.shuffled:
            return reward_guarantee(self._central)
        sizes = self.sizes or (max(2, self.users(1)),)
        return replace(find_worst_guarantee([self.protocol(size).guarantee for size in sizes]), protects=PROTECTS)

    @property
    def _bits_per_user(self) -> int:
        sizes = self.sizes if self.shuffled else ()
        return max((self.protocol(size).bits_per_user for size in sizes), default=1 if self.shuffled else FLOAT_BITS)

    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> EliminationState:
        return EliminationState(epoch=1, active=np.ones(self._arms, dtype=bool))

    def best(self, snapshot: EliminationState, contexts: Floats) -> Ints:
        return np.full(len(contexts), np.argmax(snapshot.active))

    def _run_counts(self, state: EliminationState) -> dict[str, Ints]:
        return {"batches": np.asarray(state.batches), "arms left": np.asarray(np.count_nonzero(state.active))}
