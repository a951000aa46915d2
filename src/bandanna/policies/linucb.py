"""LinUCB in every trust model: ridge regression on released sums, optimism with a radius that knows the noise.

    V_m = lambda_m I + released Gram,   theta_m = V_m^{-1} released vector,
    action = argmax_x <x, theta_m> + width beta_m |x|_{V_m^{-1}}

References: Chowdhury and Zhou 2022 [000], Algorithm 1 and Lemma A.2; Abbasi-Yadkori, Pal and Szepesvari 2011.
Deviations: one stacked report instead of two half budgets, tight noise, radius from the noise law (`confidence`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.guarantee import Guarantee
from bandanna.core import require
from bandanna.core.domain import Statistic
from bandanna.core.report import LinearReport
from bandanna.errors import InvalidArgument
from bandanna.mechanisms.sources import NoiseSource
from bandanna.policies.confidence import Confidence, radii
from bandanna.policies.schedules import FixedBatches, Schedule
from bandanna.protocols.channel import Channel, Running, open_channel
from bandanna.protocols.trust import Privacy, none

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """All that a device needs to act: public, because it is computed from releases only. R = replicate axes."""

    theta: Floats  # (*R, d)
    root: Floats  # (*R, d, d): V_m^{-1} = root root^T
    radius: float


@dataclass(frozen=True, kw_only=True)
class State:
    """What the server knows: the channel so far, and how often a released matrix had to be made positive definite."""

    running: Running
    repairs: NDArray[np.int64]  # (*R)


@dataclass(frozen=True, kw_only=True)
class LinUCB:
    """Optimistic linear contextual bandit with `dim` features over `horizon` rounds.

    privacy          `bd.none()`, `bd.central(...)`, `bd.local(...)`, `bd.shuffle(...)`
    batch            users per batch, or a schedule such as `bd.geometric(first=100, ratio=1.3)`, or "paper":
                     T^{3/5} (shuffle; T^{2/3} for returning users), T^{3/4} (local), T^{1/2} (central);
                     None: every round, "paper" in the shuffle model
    failure          probability with which the confidence set may fail
    width            multiplier of the radius: 1 is the theorem, smaller is what practitioners run; privacy does not
                     depend on it
    ridge            least regulariser
    parameter_bound  bound on |theta|
    growing          let the regulariser grow with the noise released so far

    Features are clipped to the unit ball and rewards to [0, 1] before a statistic is formed.
    """

    dim: int
    horizon: int
    privacy: Privacy = none()
    batch: int | str | Schedule | None = None
    failure: float = 0.05
    width: float = 1.0
    ridge: float = 1.0
    parameter_bound: float = 1.0
    growing: bool = False

    def __post_init__(self) -> None:
        require.whole("dim", self.dim)
        require.whole("horizon", self.horizon)
        require.positive("ridge", self.ridge)
        require.positive("parameter_bound", self.parameter_bound)
        require.non_negative("width", self.width)
        if not 0 < self.failure < 1:
            raise InvalidArgument("failure", self.failure, "a number in (0, 1)")
        _ = self.schedule

    @cached_property
    def domain(self) -> LinearReport:
        """Reports of x y and x x^T, y in [0, 1]."""
        return LinearReport(features=self.dim)

    @cached_property
    def schedule(self) -> Schedule:
        """When the policy learns."""
        batch = self.batch
        if batch is None:
            batch = "paper" if self.privacy.model == "shuffle" else 1
        if isinstance(batch, Schedule):
            return batch
        if batch == "paper":
            exponents = {"none": 1 / 2, "central": 1 / 2, "local": 3 / 4, "shuffle": 3 / 5}
            returning = self.privacy.model == "shuffle" and self.privacy.participations > 1
            exponent = 2 / 3 if returning else exponents[self.privacy.model]
            return FixedBatches(size=min(self.horizon, max(2, round(self.horizon**exponent))))
        if isinstance(batch, str):
            raise InvalidArgument("batch", batch, 'a whole number, a schedule, or "paper"')
        return FixedBatches(size=require.whole("batch", batch, least=2 if self.privacy.model == "shuffle" else 1))

    @cached_property
    def channel(self) -> Channel:
        """The calibrated protocols for the schedule."""
        sizes = self.schedule.sizes(self.horizon)
        if not sizes:
            raise InvalidArgument("horizon", self.horizon, "at least one batch of the schedule")
        return open_channel(self.privacy, domain=self.domain, sizes=sizes)

    @cached_property
    def confidence(self) -> Confidence:
        """Regulariser and radius after every batch: public, known before the first round."""
        users = np.concatenate([[0.0], np.cumsum(self.channel.sizes)])
        return radii(
            self.channel.prefix_std(),
            users,
            dim=self.dim,
            failure=self.failure,
            ridge=self.ridge,
            parameter_bound=self.parameter_bound,
            reward_std=0.5,
            independent=self.channel.continual is None,
            growing=self.growing,
        )

    @property
    def guarantee(self) -> Guarantee:
        """What is promised, to whom, against whom."""
        return self.channel.guarantee

    def init(self, replicates: tuple[int, ...] = ()) -> State:
        """Nothing released yet."""
        return State(running=self.channel.begin(replicates), repairs=np.zeros(replicates, dtype=np.int64))

    def publish(self, state: State) -> tuple[State, Snapshot]:
        """Ridge regression on the released sums; a matrix that noise made indefinite is shifted, counted, reported."""
        m = state.running.batches
        vector, gram = self.domain.unpack(state.running.estimate.total)
        ridge = self.confidence.ridge[m]
        v = gram + ridge * np.eye(self.dim)  # V_m
        lower, repaired = _cholesky(v, floor=1e-3 * ridge)
        root: Floats = np.swapaxes(np.linalg.inv(lower), -1, -2)
        theta = (root @ (vector[..., None, :] @ root).swapaxes(-1, -2))[..., 0]  # V^{-1} u
        snapshot = Snapshot(theta=theta, root=root, radius=self.width * float(self.confidence.radius[m]))
        return State(running=state.running, repairs=state.repairs + repaired), snapshot

    def act(self, snapshot: Snapshot, contexts: Floats) -> NDArray[np.int64]:
        """Device: the first arm with the largest index; (*R, rounds, K, d) -> (*R, rounds)."""
        return np.asarray(np.argmax(scores(snapshot, contexts), axis=-1))

    def learn(self, state: State, statistic: Statistic, source: NoiseSource, *, path: str) -> State:
        """Server: release the batch through the channel."""
        running = self.channel.release(state.running, statistic, source, path=path)
        return State(running=running, repairs=state.repairs)

    def statistic(self, features: Floats, rewards: Floats) -> Statistic:
        """Device: the report; features and rewards that had to be clipped are counted, each by itself."""
        report = self.domain.statistic(features, np.clip(rewards, 0.0, 1.0))
        return replace(report, clipped=report.clipped + clipped_rewards(rewards))


def clipped_rewards(rewards: Floats) -> NDArray[np.int64]:
    """How many rewards of each replicate lie outside of [0, 1]: (*R, rounds) -> (*R)."""
    return np.asarray(np.sum((rewards < -1e-9) | (rewards > 1 + 1e-9), axis=-1), dtype=np.int64)


def scores(snapshot: Snapshot, contexts: Floats) -> Floats:
    """<x, theta> + radius |x|_{V^{-1}} for every arm: (*R, rounds, K, d) -> (*R, rounds, K)."""
    rounds, arms, d = contexts.shape[-3:]
    flat = contexts.reshape(*contexts.shape[:-3], rounds * arms, d)
    columns = np.concatenate([snapshot.theta[..., None], snapshot.radius * snapshot.root], axis=-1)  # (*R, d, 1 + d)
    projected = flat @ columns  # (*R, rounds K, 1 + d)
    spread = np.einsum("...i,...i->...", projected[..., 1:], projected[..., 1:])
    return np.asarray((projected[..., 0] + np.sqrt(spread)).reshape(contexts.shape[:-1]))


def _cholesky(v: Floats, floor: float) -> tuple[Floats, NDArray[np.int64]]:
    """Lower factors of the matrices; indefinite ones are shifted so that no eigenvalue is below `floor`, counted."""
    try:
        return np.asarray(np.linalg.cholesky(v)), np.zeros(v.shape[:-2], dtype=np.int64)
    except np.linalg.LinAlgError:
        pairs = [
            _repaired(one, floor) for one in v.reshape(-1, *v.shape[-2:])
        ]  # each by itself: seeds stay independent
    lower = np.stack([pair[0] for pair in pairs]).reshape(v.shape)
    return lower, np.array([pair[1] for pair in pairs], dtype=np.int64).reshape(v.shape[:-2])


def _repaired(v: Floats, floor: float) -> tuple[Floats, int]:
    """The lower factor of one matrix, and whether it had to be shifted."""
    try:
        return np.asarray(np.linalg.cholesky(v)), 0
    except np.linalg.LinAlgError:
        shift = (floor - float(np.linalg.eigvalsh(v)[0])) * (1 + 1e-9)
        return np.asarray(np.linalg.cholesky(v + shift * np.eye(len(v)))), 1
