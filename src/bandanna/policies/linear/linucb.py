"""LinUCB in every privacy model."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna import validation
from bandanna.device import action_selection
from bandanna.device.action_selection import Choice, OptimisticSelector, explore_actions, pick_tied_arms
from bandanna.device.domain import Estimate, clip_norm
from bandanna.device.linear_report import LinearReport
from bandanna.device.statistics import RegressionStatistic
from bandanna.errors import InvalidArgument
from bandanna.numeric.compiled import OptimismTables
from bandanna.numeric.linalg import upper_triangle
from bandanna.numeric.rng import DeviceRandomness, NoRandomness
from bandanna.policies import contextual_bounds
from bandanna.policies.algorithm import register_algorithm
from bandanna.policies.base import Execution, FixedLength, SumQuery
from bandanna.policies.linear.base import (
    BatchedLinearPolicy,
    FixedBatches,
    LinearSnapshot,
    LinearState,
    Schedule,
    UniformExploration,
    compute_concurrent_batch_size,
    find_best_batch_size,
)
from bandanna.policies.linear.confidence import (
    Confidence,
    Ellipsoid,
    PaperConfidence,
    compute_confidence,
)
from bandanna.policies.regret_bounds import BoundCalls, RunSetting
from bandanna.protocols.concurrent_shuffle import ConcurrentShuffle
from bandanna.protocols.privacy_model import Privacy
from bandanna.protocols.running_sum import lowest_batch_size
from bandanna.storage.encoding import stored_as
from bandanna.types import Floats, Ints


@stored_as("LinUCBSnapshot")
@dataclass(frozen=True, kw_only=True)
class OptimisticSnapshot(LinearSnapshot):
    """The public numbers that a device needs: the estimate theta, P^{-1} and the radius beta.

    `explore` is the share of users who take any arm. R = replicate axes.
    """

    theta: Floats  # (*R, d)
    inverse: Floats  # (*R, d, d)
    radius: float
    explore: float = 0.0


@dataclass(frozen=True, kw_only=True)
class ArmTable:
    """Tabulated features of fixed arms, so that an index is two small products. R = replicate axes."""

    linear: Floats  # (*R, d, K)
    squares: Floats | None  # (*R, d(d+1)/2, K): x_i x_j, doubled above the diagonal; None: more than `PRODUCTS`


_RELEASES = 10**4  # the most noisy ones that `batch="best"` looks at
PRODUCTS = 1 << 20  # bytes of a table of products, of one seed: larger ones are read no faster than products are made

_named = partial(register_algorithm, paper="000", protects="contexts and rewards")
_joint = partial(_named, trust="central", guarantee="joint DP or zCDP")
_local = partial(_named, trust="local", guarantee="local DP or zCDP")
_shuffled = partial(_named, trust="shuffle", guarantee="shuffle DP", defaults={"batch": "paper"})


@_named("LinUCB")
@_joint("LinUCB-JDP", defaults={"batch": 1})
@_joint("LinUCB-JDP-batched", defaults={"batch": "paper"})
@_local("LinUCB-LDP", defaults={"batch": 1})
@_local("LinUCB-LDP-batched", defaults={"batch": "paper"})
@_shuffled("LinUCB-SDP-Amp", spends={"protocol": "gaussian"})
@_shuffled("LinUCB-SDP-Vec", spends={"protocol": "binomial"})
@_named("LinUCB-CSDP", paper="002", trust="concurrent", guarantee="shuffle DP")
@stored_as("LinUCB")
@dataclass(frozen=True, kw_only=True)
class LinUCB(BatchedLinearPolicy):
    """Optimistic linear contextual bandit with `dim` features over `horizon` rounds.

    1. The server publishes theta_hat = P^{-1} v, P^{-1} and the radius beta of a set that holds theta, given the sums v
       and P - lambda I released so far (`publish`; lambda and beta are those of `radii`).
    2. Each device of a batch plays the arm with the largest <x, theta_hat> + beta |x|_{P^{-1}} (`act`).
    3. Each device reports (x y, x x^T) of that arm, clipped, by the protocol of the privacy model (`report`).
    4. The server queries the sum of the batch and computes the set anew (`learn`).

    Features are clipped to the unit ball and rewards to [0, 1] before a statistic is formed.

    Parameters
    ----------
    dim, horizon
        Features of an arm, and number of users.
    privacy
        A privacy model, such as `bd.central(...)`.
    batch
        Users per batch, or a schedule such as `bd.policies.geometric(first=100, ratio=1.3)`. "paper": T^{3/5} (shuffle;
        T^{2/3} for returning users), T^{3/4} (local), T^{1/2} (central). "best": the size with the least
        `regret_bound`. None: every round, or "paper" in the shuffle model. For concurrent shufflers a batch is the
        lowest of their tree: "paper" is the counter's, None suits bandits.
    failure
        Failure probability of the confidence set.
    width
        Factor of the radius. 1 is the theorem; 0.2 often has less regret (docs/appendix/measurements.md). Privacy does
        not depend on it.
    ridge
        Least regulariser.
    parameter_bound
        Bound on |theta|.
    growing
        For confidence="lemma": let the regulariser grow with the noise released so far.
    confidence
        "exact": all theta that the released sums and the law of their noise allow. "lemma": Lemma A.2 of [000] with
        quantiles of that noise. "paper" or `bd.policies.PaperConfidence(...)`: as printed, Lemma A.4 of [000]; for
        concurrent shufflers Theorem C.3 of [002], which fails in 1 of n runs.
    ties
        "random": the device's coins decide between indices that are equal in single precision. "first": the first of
        them.
    explore
        `bd.policies.uniform(first=1_000, then=0.01)`: uniform exploration.
    reward_centre
        Number in [0, 1] that is subtracted from rewards: 0.5 needs a quarter less noise. Right only where the features
        have a constant in their span. theta and parameter_bound are then those of the centred rewards.
    """

    execution = Execution(player="frozen")

    failure: float = 0.05
    width: float = 1.0
    ridge: float = 1.0
    parameter_bound: float = 1.0
    growing: bool = False
    confidence: str | PaperConfidence = "exact"
    ties: str = "random"
    explore: UniformExploration | None = None
    reward_centre: float = 0.0

    def publish(self, state: LinearState) -> LinearSnapshot:
        return state.snapshot

    def act(self, snapshot: OptimisticSnapshot, contexts: Floats, coins: DeviceRandomness) -> Choice:
        return self._selector.act(snapshot, contexts, coins)

    def learn(self, state: LinearState, episode: FixedLength) -> Generator[SumQuery, Estimate, LinearState]:
        released = yield self._query(episode)
        return self._update(state, released)

    def _estimate(self, total: Floats, batches: int) -> tuple[OptimisticSnapshot, NDArray[np.int64]]:
        users = self._channel.sizes.before(batches)
        vector, gram = self._domain.sums(total, users)
        theta, inverse, radius, repaired = self.radii.estimate(vector, gram, batches)
        share = 0.0 if self.explore is None else self.explore.share(users)
        return OptimisticSnapshot(theta=theta, inverse=inverse, radius=self.width * radius, explore=share), repaired

    def __post_init__(self) -> None:
        self._check_arguments()
        validation.set_validated(self, validation.open_probability, "failure", least=1e-100)
        validation.set_validated(self, validation.bounded_factor, "width", zero=True)
        validation.set_validated(self, validation.bounded_factor, "ridge", "parameter_bound")
        validation.set_validated(self, validation.boolean, "growing")
        if not isinstance(self.confidence, PaperConfidence):
            validation.one_of("confidence", self.confidence, ("exact", "lemma", "paper"))
        validation.one_of("ties", self.ties, ("random", "first"))
        if self.explore is not None and not isinstance(self.explore, UniformExploration):
            raise InvalidArgument("explore", self.explore, "bd.policies.uniform(first=..., then=...) or None")
        validation.set_validated(self, validation.unit_interval, "reward_centre")
        if self.growing and self.confidence not in ("exact", "lemma"):
            raise InvalidArgument("growing", self.growing, 'False with a confidence other than "exact" and "lemma"')
        if not isinstance(self.batch, str) or self.batch != "best":  # found when it is needed: it calibrates many sizes
            _ = self._schedule

    @cached_property
    def _domain(self) -> LinearReport:
        bound = max(self.reward_centre, 1 - self.reward_centre)
        return LinearReport(features=self.dim, reward_bound=bound, isometric=self.privacy.isometric)

    @cached_property
    def _report_statistic(self) -> RegressionStatistic:
        return RegressionStatistic(centre=self.reward_centre)

    @cached_property
    def _selector(self) -> OptimisticSelector:
        return OptimisticSelector(domain=self._domain, ties=self.ties)

    @property
    def _devices_agree(self) -> bool:
        return self.explore is None

    @property
    def _batch_privacy(self) -> Privacy:
        return self.privacy

    @cached_property
    def _schedule(self) -> Schedule:
        model, batch = self.privacy.model, self.batch
        least = 2 if model in ("shuffle", "concurrent") else 1
        if batch is None and model == "concurrent" and self.privacy.degrees == "best":
            return FixedBatches(size=compute_concurrent_batch_size(self.horizon, self.privacy.shufflers))
        if batch is None:
            batch = "paper" if least > 1 else 1
        if isinstance(batch, Schedule):
            return batch
        if not isinstance(batch, str):
            return self._fixed_batches(batch)
        if batch == "best":
            return FixedBatches(size=self._best_size(least))
        if batch == "paper" and model == "concurrent" and self.privacy.noisy:
            return FixedBatches(size=lowest_batch_size(self.privacy, domain=self._domain, horizon=self.horizon))
        if batch == "paper":
            exponents = {"none": 1 / 2, "central": 1 / 2, "local": 3 / 4, "shuffle": 3 / 5, "concurrent": 1 / 3}
            exponent = 2 / 3 if model == "shuffle" and self.privacy.participations > 1 else exponents[model]
            return FixedBatches(size=min(self.horizon, max(2, round(self.horizon**exponent))))
        raise InvalidArgument("batch", batch, 'a whole number, a schedule, "paper" or "best"')

    def _best_size(self, least: int) -> int:
        """Return the size with the least `regret_bound`, never above that of "paper".

        If all bounds exceed T, confidence="lemma" decides.
        """
        paper = replace(self, batch="paper")
        assert isinstance(paper._schedule, FixedBatches)
        printed, most = paper._schedule.size, self.horizon
        if self.privacy.model == "concurrent":
            if isinstance(self.privacy.degrees, tuple):  # which say it
                return printed
            most >>= 0 if isinstance(self.privacy.shufflers, str) else self.privacy.shufflers - 1
        if self.privacy.noisy:
            least = max(least, min(most, math.ceil(self.horizon / _RELEASES)))
        limit = paper.regret_bound

        def rank(size: int) -> tuple[float, float]:
            policy = paper if size == printed else replace(self, batch=size)
            stated = policy.regret_bound
            if stated > limit:
                return math.inf, stated
            if stated < self.horizon or self.confidence != "exact":
                return stated, 0.0
            lemma = replace(policy, confidence="lemma")
            lemma._use_channel(0, policy._channel)
            return float(self.horizon), lemma.regret_bound

        return find_best_batch_size(rank, least=least, most=most, known=printed)

    @cached_property
    def radii(self) -> Confidence | Ellipsoid:
        """Regulariser and radius after every batch, public and fixed in advance."""
        stds, sizes, independent = self._channel.prefix_std(along=True), self._channel.sizes, self._channel.independent
        shared: dict[str, Any] = {
            "dim": self.dim,
            "failure": self.failure,
            "ridge": self.ridge,
            "parameter_bound": self.parameter_bound,
        }
        noise: dict[str, Any] = {"independent": independent, "matrix_std": self._domain.matrix_std}
        if self.confidence == "exact":
            return Ellipsoid(stds=stds, sizes=sizes, reward_std=0.5, shrinks=self.width >= 1, **noise, **shared)
        if self.confidence == "lemma":
            return compute_confidence(stds, sizes, reward_std=0.5, growing=self.growing, **noise, **shared)
        printed = self.confidence if isinstance(self.confidence, PaperConfidence) else PaperConfidence()
        if isinstance(self._channel.stream, ConcurrentShuffle):
            del shared["failure"]  # the theorem's is 1/n
            delay = self._channel.stream.delay
            return printed.concurrent_radii(stds, sizes, horizon=self.horizon, delay=delay, reward_std=0.5, **shared)
        return printed.radii(stds, sizes, **shared)

    @property
    def regret_bound(self) -> float:
        """The bound of Lemma A.2 of [000] at the horizon (docs/appendix/proofs.md)."""
        largest = max(self._channel.sizes.counts())
        explored = 0.0 if self.explore is None else self.explore.rounds(self.horizon, largest)
        return explored + self.radii.bound(horizon=self.horizon, batch=largest, dim=self.dim, width=self.width)

    def _for_phase(self, doublings: int) -> LinUCB:
        return replace(self, horizon=self.horizon << doublings, failure=self.failure / 2 ** (doublings + 1))

    def _optimism_tables(self, first: int, count: int) -> OptimismTables | None:
        if not (self._devices_agree and self._domain.isometric):  # kernels unpack isometric reports
            return None
        ahead = self.radii.ahead(first, count)
        return replace(ahead, radii=self.width * ahead.radii, by_coins=self.ties == "random")

    def best(self, snapshot: OptimisticSnapshot, contexts: Floats) -> Ints:
        return self.act(replace(snapshot, radius=0.0, explore=0.0), contexts, NoRandomness()).actions

    def _favoured_arms(
        self, snapshot: OptimisticSnapshot, arms: ArmTable
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
        matrix = snapshot.radius**2 * snapshot.inverse  # (*R, d, d)
        if arms.squares is None:
            spread = _quadratic(matrix, arms.linear)
        else:
            spread = np.ascontiguousarray(matrix[..., *upper_triangle(self.dim)])[..., None, :] @ arms.squares
        np.sqrt(np.maximum(spread, 0.0, out=spread), out=spread)
        spread += snapshot.theta[..., None, :] @ arms.linear
        return self._selector.favoured(spread[..., 0, :])

    def _draw_arms(self, snapshot: OptimisticSnapshot, arms: ArmTable, users: int, coins: DeviceRandomness) -> Ints:
        first, tied = self._favoured_arms(snapshot, arms)
        n_arms, shape = arms.linear.shape[-1], (*first.shape, users)
        each = None if tied is None else np.broadcast_to(tied[..., None, :], (*shape, n_arms))
        actions = pick_tied_arms(np.broadcast_to(first[..., None], shape).copy(), each, coins).actions
        return explore_actions(actions, snapshot.explore, n_arms, coins)

    def _tabulate_arms(self, features: Floats) -> ArmTable:
        linear = np.ascontiguousarray(np.swapaxes(clip_norm(features, 1.0), -1, -2))
        rows, columns = upper_triangle(self.dim)
        if 8 * len(rows) * linear.shape[-1] > PRODUCTS:
            return ArmTable(linear=linear, squares=None)
        squares = np.empty((*linear.shape[:-2], len(rows), linear.shape[-1]))
        for place, (i, j) in enumerate(zip(rows, columns, strict=True)):  # one by one: tables can be large
            np.multiply(linear[..., i, :], linear[..., j, :] * (1.0 if i == j else 2.0), out=squares[..., place, :])
        return ArmTable(linear=linear, squares=squares)

    @classmethod
    def _regret_bounds(cls, setting: RunSetting) -> BoundCalls:
        return contextual_bounds.find_linucb_bounds(setting)

    def _prepare(self) -> None:
        _ = self.guarantee, self.radii

    def _result_facts(self) -> dict[str, Any]:
        return {
            "batch": max(self._channel.sizes.counts()),
            **({} if self.explore else self.radii.facts(self.width)),  # exploration is outside of it
            "participations": self.privacy.participations,
            "protocol": self.privacy.protocol,
            "shufflers": getattr(self._channel.stream, "shufflers", None),
        }


def _quadratic(matrix: Floats, arms: Floats) -> Floats:
    """Return x^T A x of arms in columns: (*R, d, d), (*R, d, K) -> (*R, 1, K)."""
    *shape, d, n_arms = arms.shape
    found, product = np.empty((*shape, 1, n_arms)), np.empty((d, n_arms))
    each = zip(matrix.reshape(-1, d, d), arms.reshape(-1, d, n_arms), found.reshape(-1, n_arms), strict=True)
    for own, columns, out in each:
        np.matmul(own, columns, out=product)
        np.einsum("dk,dk->k", product, columns, out=out)
    return found


def score_contexts(snapshot: OptimisticSnapshot, contexts: Floats) -> Floats:
    """Return <x, theta> + radius |x|_{V^{-1}} of every arm: (*R, rounds, K, d) -> (*R, rounds, K)."""
    return action_selection.compute_optimistic_scores(snapshot.theta, snapshot.inverse, snapshot.radius, contexts)
