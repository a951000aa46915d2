"""A policy without a horizon: phases of doubling length, each a fresh policy for its own horizon."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.budgets import ZCDP, ApproxDP
from bandanna.accounting.guarantee import Guarantee
from bandanna.core.coins import Coins
from bandanna.core.domain import Statistic
from bandanna.core.report import LinearReport
from bandanna.errors import InvalidArgument
from bandanna.mechanisms.sources import NoiseSource
from bandanna.policies.base import Choice, Episode
from bandanna.policies.linucb import Arms, LinUCB, Snapshot
from bandanna.policies.linucb import State as PhaseState
from bandanna.policies.schedules import FixedBatches
from bandanna.protocols.trust import Privacy

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class State:
    """The phase, counted from 0, and what its policy knows."""

    phase: int
    inner: PhaseState
    repairs: NDArray[np.int64]  # (*R): in all phases

    @property
    def running(self) -> Any:
        """The channel of the present phase."""
        return self.inner.running


@dataclass(frozen=True, kw_only=True)
class Anytime:
    """LinUCB for an unknown horizon: phase j = 0, 1, ... runs `first` anew with horizon first.horizon 2^j.

    Nothing is carried over from phase to phase, and the failure of phase j is first.failure / 2^{j+1}, so that all
    confidence sets hold except with probability first.failure. Regret grows by a constant factor (doubling trick).

    Privacy: a user takes part in one batch of one phase, so the whole is as private as each phase. Returning users
    (`participations` > 1) may be in several phases: allowed where prices are Gaussian and add by squares over batches
    of any size, refused for continual streams and shuffled Gaussians, whose prices cover one phase only.
    """

    first: LinUCB
    _phases: dict[int, LinUCB] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.first, LinUCB):
            raise InvalidArgument("first", self.first, "bd.LinUCB(...), the policy of the first phase")
        privacy = self.first.privacy
        composed_in_phase = privacy.model == "central" or privacy.protocol == "gaussian"
        if privacy.noisy and privacy.participations > 1 and composed_in_phase and privacy.model != "local":
            raise InvalidArgument(
                "participations", privacy.participations, f"1 for an anytime policy in the {privacy.model} model"
            )

    @property
    def dim(self) -> int:
        """Features."""
        return self.first.dim

    @property
    def horizon(self) -> None:
        """Unknown."""
        return

    @property
    def privacy(self) -> Privacy:
        """That of every phase."""
        return self.first.privacy

    @property
    def domain(self) -> LinearReport:
        """That of every phase."""
        return self.first.domain

    @property
    def guarantee(self) -> Guarantee:
        """The budget itself, which every phase keeps.

        What is left against the shuffler is stated only where all phases have the same batches: larger ones need less
        noise of each user, and batches that grow from phase to phase leave nothing in the end.
        """
        stated, budget = self.first.guarantee, self.privacy.budget
        if self.privacy.model == "concurrent" or not isinstance(self.first.batch, int | FixedBatches):
            stated = replace(stated, shuffler=None)
        if isinstance(budget, ApproxDP):
            rho = math.inf if self.privacy.model == "central" else stated.rho  # streams of several lengths: not bounded
            return replace(stated, epsilon=budget.epsilon, delta=budget.delta, rho=rho)
        if isinstance(budget, ZCDP) and self.privacy.noisy:
            return replace(stated, epsilon=budget.to_approx(stated.delta).epsilon, rho=budget.rho)
        return stated

    def phase(self, number: int) -> LinUCB:
        """The policy of a phase."""
        if number not in self._phases:
            self._phases[number] = replace(
                self.first, horizon=self.first.horizon << number, failure=self.first.failure / 2 ** (number + 1)
            )
        return self._phases[number]

    def init(self, replicates: tuple[int, ...] = ()) -> State:
        """The beginning of phase 0."""
        return State(phase=0, inner=self.phase(0).init(replicates), repairs=np.zeros(replicates, dtype=np.int64))

    def episode(self, state: State) -> Episode:
        """The next batch of the phase; a phase has complete batches only."""
        return Episode(users=self.phase(state.phase).channel.sizes[state.running.batches])

    def publish(self, state: State) -> tuple[State, Snapshot]:
        """As the phase's policy."""
        inner, snapshot = self.phase(state.phase).publish(state.inner)
        repaired = inner.repairs - state.inner.repairs
        return State(phase=state.phase, inner=inner, repairs=state.repairs + repaired), snapshot

    def act(self, snapshot: Snapshot, contexts: Floats, coins: Coins) -> Choice:
        """As LinUCB."""
        return self.first.act(snapshot, contexts, coins)

    def favoured(self, snapshot: Snapshot, arms: Arms) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
        """As LinUCB."""
        return self.first.favoured(snapshot, arms)

    def tabulate(self, features: Floats) -> Arms:
        """As LinUCB."""
        return self.first.tabulate(features)

    def statistic(self, features: Floats, rewards: Floats) -> Statistic:
        """As LinUCB."""
        return self.first.statistic(features, rewards)

    def learn(self, state: State, statistic: Statistic, source: NoiseSource, *, path: str) -> State:
        """Release the batch; after the last one of a phase the next begins from nothing."""
        policy = self.phase(state.phase)
        inner = policy.learn(state.inner, statistic, source, path=path)
        if inner.running.batches < len(policy.channel.sizes):
            return State(phase=state.phase, inner=inner, repairs=state.repairs)
        fresh = self.phase(state.phase + 1).init(np.shape(state.repairs))
        return State(phase=state.phase + 1, inner=fresh, repairs=state.repairs)
