"""Policies without a horizon: phases of doubling length."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna.device.action_selection import Choice
from bandanna.device.domain import Estimate, Statistic
from bandanna.device.linear_report import RegressionReport
from bandanna.errors import InvalidArgument
from bandanna.numeric.rng import DeviceRandomness
from bandanna.policies.base import Execution, FixedLength, PlayedRounds, RunningSumPolicy, SumQuery
from bandanna.policies.linear.base import BatchedLinearPolicy, FixedBatches, LinearSnapshot
from bandanna.policies.linear.base import LinearState as PhaseState
from bandanna.privacy.budgets import ZCDP, ApproxDP
from bandanna.privacy.guarantee import Guarantee
from bandanna.protocols.privacy_model import Privacy
from bandanna.protocols.running_sum import RunningSumProtocol
from bandanna.storage.encoding import stored_as
from bandanna.types import Floats, Ints


@stored_as("AnytimeState")
@dataclass(frozen=True, kw_only=True)
class AnytimeState:
    """The phase, counted from 0, its policy's state, and the batches and repairs before it."""

    phase: int
    inner: PhaseState
    batches: int
    repairs: Ints  # (*R)


@stored_as("Anytime")
@dataclass(frozen=True, kw_only=True)
class Anytime(RunningSumPolicy[AnytimeState]):
    """Linear policy for an unknown horizon: phase j = 0, 1, ... runs `first` anew with horizon first.horizon 2^j.

    The failure of phase j is first.failure / 2^{j+1}, in total at most first.failure. Regret grows by a constant factor
    (doubling trick).

    Privacy: a user takes part in one batch of one phase, so the whole is as private as each phase. Returning users
    (`participations` > 1) may be in several phases: allowed where prices are Gaussian and add by squares over batches
    of any size, refused for continual streams and shuffled Gaussians, whose prices cover one phase only.

    Parameters
    ----------
    first
        The policy of the first phase, `bd.LinTS(...)` or `bd.LinUCB(...)`.
    """

    execution = Execution(player="frozen")

    first: BatchedLinearPolicy
    _phases: dict[int, BatchedLinearPolicy] = field(default_factory=dict, repr=False, compare=False)

    def publish(self, state: AnytimeState) -> LinearSnapshot:
        return state.inner.snapshot

    def act(self, snapshot: Any, contexts: Floats, coins: DeviceRandomness) -> Choice:
        return self.first.act(snapshot, contexts, coins)

    def report(self, query: SumQuery, played: PlayedRounds, coins: DeviceRandomness) -> Statistic:
        return self.first.report(query, played, coins)

    def learn(self, state: AnytimeState, episode: FixedLength) -> Generator[SumQuery, Estimate, AnytimeState]:
        policy = self.phase(state.phase)
        inner = policy._update(state.inner, (yield self._query(episode)))
        if inner.batches < len(policy._channel.sizes):
            return replace(state, inner=inner)
        fresh = self.phase(state.phase + 1).init(replicates=np.shape(state.repairs))
        before = state.repairs + state.inner.repairs  # the last snapshot of a phase is not used
        return AnytimeState(phase=state.phase + 1, inner=fresh, batches=state.batches + inner.batches, repairs=before)

    def __post_init__(self) -> None:
        if not isinstance(self.first, BatchedLinearPolicy):
            raise InvalidArgument("first", self.first, "bd.LinTS(...) or bd.LinUCB(...)")
        privacy = self.first.privacy
        if privacy.noisy and self.first._batch_privacy.participations < privacy.participations:
            most = self.first._batch_privacy.participations
            allowed, hint = (
                f"at most {most}, the number of batches of the first phase",
                "Or use horizon=None without phases",
            )
            raise InvalidArgument("participations", privacy.participations, allowed, hint)
        composed_in_phase = privacy.model == "central" or privacy.protocol == "gaussian"
        if privacy.noisy and privacy.participations > 1 and composed_in_phase and privacy.model != "local":
            raise InvalidArgument(
                "participations", privacy.participations, f"1 for an anytime policy in the {privacy.model} model"
            )

    @property
    def dim(self) -> int:  # type: ignore[override]
        return self.first.dim

    @property
    def horizon(self) -> None:  # type: ignore[override]
        return

    @property
    def privacy(self) -> Privacy:  # type: ignore[override]
        return self.first.privacy

    @property
    def _domain(self) -> RegressionReport:
        return self.first._domain

    @property
    def guarantee(self) -> Guarantee:
        """The budget itself, which every phase keeps.

        Nothing is stated against the shuffler where batches grow: larger batches need less noise of each user, which
        leaves no bound.
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

    @property
    def _bits_per_user(self) -> int:
        return self.first._bits_per_user

    def _iterate_phases(self) -> Iterator[BatchedLinearPolicy]:
        return map(self.phase, count())

    def phase(self, number: int) -> BatchedLinearPolicy:
        if number not in self._phases:
            self._phases[number] = self.first._for_phase(number)
        return self._phases[number]

    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> AnytimeState:
        inner = self.phase(0).init(replicates=replicates)
        return AnytimeState(phase=0, inner=inner, batches=0, repairs=np.zeros(replicates, dtype=np.int64))

    def episode(self, state: AnytimeState) -> FixedLength:
        sizes = self.phase(state.phase)._channel.sizes
        return FixedLength(number=state.batches + state.inner.batches, users=sizes[state.inner.batches])

    def next_episode(self, episode: FixedLength) -> FixedLength:
        number = episode.number + 1
        phase, before = self._at(number)
        return FixedLength(number=number, users=self.phase(phase)._channel.sizes[number - before])

    def _at(self, number: int) -> tuple[int, int]:
        before = 0
        for phase in count():
            batches = len(self.phase(phase)._channel.sizes)
            if number < before + batches:
                break
            before += batches
        return phase, before

    def _calibrated_channels(self) -> dict[int, RunningSumProtocol]:
        return {
            number: channel
            for number, phase in self._phases.items()
            for channel in phase._calibrated_channels().values()
        }

    def _use_channel(self, phase: int, channel: RunningSumProtocol) -> None:
        self.phase(phase)._use_channel(0, channel)

    def clip_features(self, contexts: Floats) -> Floats:
        return self.first.clip_features(contexts)

    def _theta(self, snapshot: Any) -> Floats | None:
        return self.first._theta(snapshot)

    def best(self, snapshot: Any, contexts: Floats) -> Ints:
        return self.first.best(snapshot, contexts)

    def _favoured_arms(self, snapshot: Any, arms: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
        return self.first._favoured_arms(snapshot, arms)

    def _tabulate_arms(self, features: Floats) -> Any:
        return self.first._tabulate_arms(features)

    @property
    def _devices_agree(self) -> bool:
        return self.first._devices_agree

    def _draw_arms(self, snapshot: Any, arms: Any, users: int, coins: DeviceRandomness) -> Ints:
        return self.first._draw_arms(snapshot, arms, users, coins)

    def _centre_rewards(self, rewards: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        return self.first._centre_rewards(rewards)

    def _form_statistic(self, features: Floats, rewards: Floats, arms: Ints | None = None) -> Statistic:
        return self.first._form_statistic(features, rewards, arms)

    def _query(self, episode: FixedLength) -> SumQuery:
        number, _ = self._at(episode.number)
        query = self.phase(number)._query(episode)
        streams = [self.phase(before)._channel.continual for before in range(number)]
        alike = sum(stream is not None and stream.event == query.protocol.event for stream in streams)
        return replace(query, stream=number, begun=1 + alike)

    def _run_counts(self, state: AnytimeState) -> dict[str, Ints]:
        return {"repairs": state.repairs + state.inner.repairs}
