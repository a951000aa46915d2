"""LinTS: the posterior, the policy, and the probabilities of its arms."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bandanna import validation
from bandanna.device.action_selection import (
    Choice,
    PerArmDraw,
    SampledChoice,
    ThompsonSelector,
    explore_actions,
    pick_tied_arms,
)
from bandanna.device.domain import Estimate
from bandanna.device.linear_report import InterceptReport, LinearReport, PerArmReport, RegressionReport
from bandanna.device.statistics import RegressionStatistic
from bandanna.errors import InvalidArgument
from bandanna.numeric.linalg import find_best_arms, first_best, inner
from bandanna.numeric.rng import DeviceRandomness
from bandanna.policies.algorithm import register_algorithm
from bandanna.policies.base import Execution, FixedLength, SumQuery, require_arm_count
from bandanna.policies.linear.base import (
    BatchedLinearPolicy,
    InformedBatches,
    LinearSnapshot,
    LinearState,
    Schedule,
    UniformExploration,
    WarmStart,
)
from bandanna.privacy.budgets import ApproxDP
from bandanna.privacy.guarantee import Guarantee
from bandanna.storage.encoding import stored_as
from bandanna.types import Floats, Ints

_ENDLESS = 10**9
_LARGEST = 10**5  # users of a batch without a horizon: the runner holds their reports


@stored_as("Posterior")
@dataclass(frozen=True, kw_only=True)
class Posterior(LinearSnapshot):
    """The distribution N(theta, root root^T) from which a device draws; root root^T = alpha^2 P^{-1}.

    `explore` is the share of devices that take any arm. R are replicate axes, then arms with models of their own.
    """

    theta: Floats  # (*R, d)
    root: Floats  # (*R, d, d)
    explore: float = 0.0


_named = partial(register_algorithm, paper="-", protects="contexts and rewards")


@_named("LinTS")
@_named("LinTS-JDP", trust="central", guarantee="joint DP or zCDP")
@_named("LinTS-LDP", trust="local", guarantee="local DP or zCDP")
@_named("LinTS-SDP", trust="shuffle", guarantee="shuffle DP")
@_named("LinTS-CSDP", trust="concurrent", guarantee="shuffle DP")
@stored_as("LinTS")
@dataclass(frozen=True, kw_only=True)
class LinTS(BatchedLinearPolicy):
    """Thompson sampling for linear contextual bandits with `dim` features over `horizon` rounds.

    1. The server publishes the posterior of theta, N(theta_hat, alpha^2 P^{-1}), given the sums released so far
       (`publish`; see `compute_posterior`).
    2. Each device of a batch draws a parameter from it and plays the arm with the largest <x, theta> (`act`).
    3. Each device reports (x y, x x^T) of that arm, clipped, by the protocol of the privacy model (`report`).
    4. The server queries the sum of the batch and computes the posterior anew (`learn`).

    Privacy: a draw uses the snapshot, the device's coins and its own features, so snapshots and other users' actions
    are post-processing of releases. Rewards are clipped to [0, 1] before a statistic is formed. References: Thompson
    1933; Agrawal and Goyal 2013. Deviations: the posterior of noisy sums, intercept reports, batches.

    Parameters
    ----------
    dim
        Features of an arm.
    horizon
        Number of users. None: unlimited (not in the central and concurrent models); the policy then learns from the
        first 10^9, in batches of at most 10^5.
    n_arms, features
        Instead of `dim`: number of arms, and of features per user. Every arm has its own parameter, and a constant is
        added for you. All rows of a context are the user's features. `bd.Agent(policy, arms=...)` and `bd.simulate`
        find `n_arms`.
    privacy
        A privacy model, such as `bd.central(...)`.
    intercept
        Whether the last feature is a constant (any number > 0). Reports then need about half the noise, features count
        as (z, 1) with |z| <= 1, and theta is in those units.
    batch
        Users per batch, a schedule such as `bd.policies.geometric(first=100, ratio=1.5)`, or "auto": growing batches,
        the first as large as the noise requires.
    alpha
        Standard deviations of the draw: more explores more (docs/concepts/lints.md). Privacy does not depend on it.
    prior
        Typical size of the parameter without the constant. None: 1/2 with an intercept, else 1.
    reward_std
        Largest standard deviation of a reward about its mean.
    explore
        `bd.policies.uniform(first=n, then=p)`: uniform exploration besides the draws.
    start
        Released sums of earlier users, from `log.start(policy, privacy=...)`.
    """

    execution = Execution(player="frozen")
    _misplaced_arguments = (
        (
            "protects",
            "LinTS protects contexts and rewards. bd.policies.LinTSRewards(...) protects rewards only",
        ),
    )

    dim: int = None  # type: ignore[assignment]
    horizon: int | None = None  # type: ignore[assignment]
    n_arms: int | None = None
    features: int | None = None
    intercept: bool = False
    batch: int | str | Schedule | None = "auto"
    alpha: float = 0.5
    prior: float | None = None
    reward_std: float = 0.5
    explore: UniformExploration | None = None
    start: WarmStart | None = None

    def publish(self, state: LinearState) -> LinearSnapshot:
        return state.snapshot

    def act(self, snapshot: Posterior, contexts: Floats, coins: DeviceRandomness) -> Choice:
        rows = self._selector.rows(contexts)
        actions = self._selector.actions(snapshot, rows, coins)
        return SampledChoice(actions=actions, chances=lambda: self._chances(snapshot, rows, actions, taken=True)[0])

    def learn(self, state: LinearState, episode: FixedLength) -> Generator[SumQuery, Estimate, LinearState]:
        released = yield self._query(episode)
        return self._update(state, released)

    def _estimate(self, total: Floats, batches: int) -> tuple[Posterior, NDArray[np.int64]]:
        noise, (vector, matrix) = self._noise[batches], self._domain.variances
        users = self._channel.sizes.before(batches)
        size = (0.5 if self._centre else 1.0) if self.prior is None else self.prior
        reports = users
        if self.start is not None:  # of other users, with noise of its own
            total, noise, reports = self.start.plus(total), noise + self.start.variance, users + self.start.users
        mean, root, cut = compute_posterior(
            *self._domain.sums(total, reports),
            noise=(noise * vector, noise * matrix),
            second_moments=size**2 * self._domain.second_moments,
            reward_std=self.reward_std,
        )
        cuts = cut if self.n_arms is None else np.any(cut, axis=-1)
        share = 0.0 if self.explore is None else self.explore.share(users)
        return Posterior(theta=mean, root=self.alpha * root, explore=share), cuts.astype(np.int64)

    def __post_init__(self) -> None:
        if self.n_arms is not None or self.features is not None:
            self._check_own()
        if self.features is None and (self.dim is None or (type(self.dim) is int and self.dim == 0)):
            hint = "If users have features and arms have names only, pass n_arms and features instead"
            raise InvalidArgument("dim", self.dim, "a whole number >= 1", hint)
        self._check_arguments(endless=True)
        if self.horizon is None and self.privacy.model in ("central", "concurrent"):
            allowed, hint = (
                f"a number of rounds in the {self.privacy.model} model",
                "Or use bd.policies.Anytime(first=...)",
            )
            raise InvalidArgument("horizon", None, allowed, hint)
        validation.set_validated(self, validation.boolean, "intercept")
        validation.set_validated(self, validation.bounded_factor, "alpha", zero=True)
        validation.set_validated(self, validation.bounded_factor, "reward_std")
        if self.prior is not None:
            validation.set_validated(self, validation.bounded_factor, "prior")
        if self.explore is not None and not isinstance(self.explore, UniformExploration):
            raise InvalidArgument("explore", self.explore, "bd.policies.uniform(first=..., then=...) or None")
        if self.start is not None and not isinstance(self.start, WarmStart):
            raise InvalidArgument("start", self.start, "a result of log.start(policy, privacy=...), or None")
        if self.intercept and self.dim < 2:
            raise InvalidArgument("dim", self.dim, "at least 2 with intercept=True", "The last feature is the constant")
        if self.start is not None:
            self.start.check(self._domain.dim)
        if not self._lacks_arms:
            _ = self._schedule

    @property
    def _lacks_arms(self) -> bool:
        return self.features is not None and self.n_arms is None

    def _check_own(self) -> None:
        if self.features is None or self.dim not in (None, 0, self.features):
            given = {"n_arms": self.n_arms, "features": self.features, "dim": self.dim}
            allowed, hint = "given as n_arms and features, without dim", "A constant is added for you"
            raise InvalidArgument(", ".join(given), tuple(given.values()), allowed, hint)
        if self.n_arms is not None:
            validation.set_validated(self, validation.integer, "n_arms", least=2)
        validation.set_validated(self, validation.integer, "features")
        object.__setattr__(self, "dim", self.features)

    @cached_property
    def _domain(self) -> RegressionReport:
        """Domain of reports: of x, of (z, 1) with centred rewards, or of one arm's features."""
        if self.features is not None:
            return PerArmReport(features=self.dim, n_arms=require_arm_count(self.n_arms))
        if self.intercept:
            return InterceptReport(features=self.dim)
        return LinearReport(features=self.dim, isometric=self.privacy.isometric)

    @property
    def _centre(self) -> float:
        return 0.5 if self.intercept or self.features is not None else 0.0

    @cached_property
    def _report_statistic(self) -> RegressionStatistic:
        return RegressionStatistic(centre=self._centre)

    @cached_property
    def _selector(self) -> ThompsonSelector:
        return ThompsonSelector(domain=self._domain)

    @cached_property
    def _schedule(self) -> Schedule:
        dim, blocks = (self.dim, 1) if self.features is None else (self.dim + 1, require_arm_count(self.n_arms))
        batches = self._plan_batches(dim=dim, blocks=blocks)
        if self.horizon is None and batches is not self.batch and isinstance(batches, InformedBatches):
            return replace(batches, most=max(_LARGEST, batches.first))
        return batches

    @property
    def _planned_rounds(self) -> int:
        return _ENDLESS if self.horizon is None else self.horizon

    @property
    def guarantee(self) -> Guarantee:
        budget = self.privacy.budget
        computed = self.horizon is not None or self.privacy.participations > 1 or not self.privacy.noisy
        if computed or not isinstance(budget, ApproxDP):
            return super().guarantee
        first = self._channel.protocols[self.batch_sizes[0]].guarantee
        return replace(first, epsilon=budget.epsilon, delta=budget.delta, rho=math.inf, shuffler=None)

    def _episode(self, number: int) -> FixedLength | None:
        episode = super()._episode(number)
        endless = episode is None and self.horizon is None and number == len(self.batch_sizes)
        return FixedLength(number=number, users=_ENDLESS, released=False) if endless else episode

    @cached_property
    def _noise(self) -> Floats:
        return np.append(0.0, self._channel.prefix_std() ** 2)

    def clip_features(self, contexts: Floats) -> Floats:
        return self._selector.clip_features(contexts)

    def probabilities(self, snapshot: Posterior, contexts: Floats, actions: Ints) -> tuple[Floats, Floats]:
        return self._chances(snapshot, self._selector.rows(contexts), actions)

    def _chances(
        self, snapshot: Posterior, contexts: Floats, actions: Ints, *, taken: bool = False
    ) -> tuple[Floats, Floats]:
        shape = actions.shape
        axes = len(shape) - 1  # replicates
        runs = zip(
            snapshot.theta.reshape(-1, *snapshot.theta.shape[axes:]),
            snapshot.root.reshape(-1, *snapshot.root.shape[axes:]),
            contexts.reshape(-1, *contexts.shape[-3:]),
            actions.reshape(-1, shape[-1]),
            strict=True,
        )
        found, errors = zip(*(self._chances_of_one(*run, taken=taken) for run in runs), strict=True)
        any_arm, own = snapshot.explore / contexts.shape[-2], 1 - snapshot.explore
        return any_arm + own * np.array(found).reshape(shape), own * np.array(errors).reshape(shape)

    def _chances_of_one(
        self, mean: Floats, root: Floats, contexts: Floats, actions: Ints, *, taken: bool
    ) -> tuple[Floats, Floats]:
        """Return probabilities of one run's actions, and standard errors: (n, K, d), (n,) -> (n,)."""
        draws = self._selector.draws
        if not isinstance(draws, PerArmDraw):
            return shared_draw_probabilities(mean, root, contexts, actions, taken=taken)
        found = per_arm_draw_probabilities(draws.expected(mean, contexts), draws.spread(root, contexts), actions)
        return found, np.zeros(found.shape)

    def best(self, snapshot: Posterior, contexts: Floats) -> Ints:
        return first_best(self._selector.draws.expected(snapshot.theta, self._selector.rows(contexts)))

    @property
    def _devices_agree(self) -> bool:
        return False

    def _tabulate_arms(self, features: Floats) -> Floats:
        return self._selector.rows(features[..., None, :, :])[..., 0, :, :]

    def _draw_arms(self, snapshot: Posterior, arms: Floats, users: int, coins: DeviceRandomness) -> Ints:
        scores = self._selector.draws.draw_table_scores(snapshot.theta, snapshot.root, arms, users, coins)
        actions = pick_tied_arms(*find_best_arms(scores), coins).actions
        return explore_actions(actions, snapshot.explore, arms.shape[-2], coins) if snapshot.explore else actions

    def _theta(self, snapshot: Posterior) -> Floats:
        if not self._centre:
            return snapshot.theta
        back = np.zeros(snapshot.theta.shape[-1])
        back[-1] = self._centre
        return np.asarray(snapshot.theta + back)

    def _result_facts(self) -> dict[str, Any]:
        return {"batch": max(self._channel.sizes.counts()), "participations": self.privacy.participations}


# Posterior


def compute_posterior(
    vector: Floats,
    matrix: Floats,
    *,
    noise: tuple[Floats, Floats],
    second_moments: Floats,
    reward_std: float,
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Return mean (*R, d), root of the covariance (*R, d, d), and whose eigenvalues were cut (*R), given noisy sums.

    The sums are v = sum x y + h and G = sum x x^T + N whose noise has known variances. With tau_j the prior's
    E theta_j^2, T = diag(tau), R = Omega + s^2 G_+ and Omega_ii = var(h_i) + sum_j var(N_ij) tau_j,

        P = G_+ R^{-1} G_+ + T^{-1},   theta_hat = P^{-1} G_+ R^{-1} v

    are the posterior's precision and mean; G_+ is G with negative eigenvalues cut to 0 (docs/concepts/lints.md).
    """
    positive, cut = _cut_negative_eigenvalues(matrix)
    omega = noise[0] + noise[1] @ second_moments  # (d,)
    if np.any(omega > 0):
        known = np.linalg.solve(np.diag(omega) + reward_std**2 * positive, positive)  # R^{-1} G_+
        pulled = np.swapaxes(known, -1, -2)
    else:
        pulled = np.broadcast_to(np.eye(len(omega)) / reward_std**2, positive.shape)  # G_+ G_+^{-1} / s^2
    information = pulled @ positive
    information = (information + np.swapaxes(information, -1, -2)) / 2
    values, vectors = np.linalg.eigh(information * _outer(np.sqrt(second_moments)))  # T^{1/2} G R^{-1} G T^{1/2}
    spread = np.sqrt(second_moments)[:, None] * vectors / np.sqrt(1 + np.maximum(values, 0.0))[..., None, :]
    mean = spread @ (np.swapaxes(spread, -1, -2) @ (pulled @ vector[..., None]))
    return mean[..., 0], spread, cut


def _cut_negative_eigenvalues(matrix: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    values, vectors = np.linalg.eigh(matrix)
    kept = np.maximum(values, 0.0)
    return (vectors * kept[..., None, :]) @ np.swapaxes(vectors, -1, -2), np.any(values < 0, axis=-1)


def _outer(scale: Floats) -> Floats:
    return np.asarray(scale[:, None] * scale)


# Propensities: the probability with which a device's draw makes an arm the best one.
#
# Draws are Gaussian. With one parameter for all arms, theta = mean + L z, arm k wins where all <x_k - x_j, theta> >= 0:
#
# * two arms: Phi(<x_1 - x_2, mean> / |L^T (x_1 - x_2)|), exactly;
# * more: z = r u with a direction u and a signed radius r, |r| ~ chi_d. Along u arm k wins on an interval of r, whose
#   probability is exact; it is averaged over DIRECTIONS fixed directions, with the standard error of that average.
#
# The probability of an arm that was taken is not 0. Where none of the directions meets the region in which it wins,
# MORE times as many are averaged; if all of them miss it, half of one counts as a hit, with as large an error. With a
# parameter of its own for each arm the scores are independent: one integral over that of arm k.


DIRECTIONS = 2048
MORE = 16
_NODES = 2001  # of an integral over +- 9 standard deviations, at most
_FEWER = (64, 96, 128, 192, 256, 384, 512, 768, 1024)  # where the integrand is smooth enough for them
_AT_ONCE = 1 << 18  # numbers of integrals that are computed together
_LEVEL = 1e-150  # what is nearer to 0 counts as 0: its reciprocal's square would be no number


def shared_draw_probabilities(
    mean: Floats, root: Floats, contexts: Floats, actions: Ints, *, taken: bool = False
) -> tuple[Floats, Floats]:
    """Return probabilities and their standard errors: (d,), (d, d), (n, K, d), (n,) -> (n,).

    `taken`: the arms were drawn, so that no probability is 0.
    """
    best = np.take_along_axis(contexts, actions[:, None, None], axis=1)
    apart = best - contexts  # (n, K, d)
    same = np.sum(np.all(apart == 0, axis=-1), axis=-1)  # arms that are equal share
    if contexts.shape[1] == 2:
        other = np.take_along_axis(apart, 1 - actions[:, None, None], axis=1)[:, 0]
        along = (other[:, None, :] @ root)[:, 0]  # each by itself
        chance = special.ndtr(
            _divide_safely(inner(other, np.broadcast_to(mean, other.shape)), np.sqrt(inner(along, along)))
        )
        return np.where(same > 1, 0.5, chance), np.zeros(len(actions))
    again = np.zeros(1, dtype=np.int64)
    if len(apart) > 1:
        apart, again = np.unique(apart, axis=0, return_inverse=True)  # decisions that are alike are computed once
    spread = root @ sample_fixed_directions(len(mean)).T  # (d, directions)
    found = [_average_over_directions(mean, root, spread, each, taken=taken) for each in apart]
    chances, errors = np.array(found).reshape(-1, 2)[again.ravel()].T
    return chances / same, errors / same


def _average_over_directions(
    mean: Floats, root: Floats, spread: Floats, apart: Floats, *, taken: bool
) -> tuple[float, float]:
    chances = _best_arm_probability(apart, mean, spread)
    if taken and not chances.any():
        more = [
            _best_arm_probability(apart, mean, root @ _draw_directions(len(mean), block).T) for block in range(1, MORE)
        ]
        chances = np.concatenate([chances, *more])
        if not chances.any():
            return 0.5 / len(chances), 0.5 / len(chances)
    return float(np.mean(chances)), float(np.std(chances)) / math.sqrt(len(chances))


def _best_arm_probability(apart: Floats, mean: Floats, spread: Floats) -> Floats:
    """Return P(<a_j, mean> + r <a_j, s> >= 0 for all j), a_j of `apart` (K, d), s of `spread` (d, directions)."""
    # With levels l_j = <a_j, mean> and t = 1/r this is t >= w_j where l_j > 0 and t <= w_j where l_j < 0, for r > 0,
    # with w_j = <-a_j / l_j, s>; for r < 0 it is the same of -s. So one product, of which the largest and least are
    # taken.
    level = apart @ mean  # (K,)
    ahead, behind = level > _LEVEL, level < -_LEVEL
    even = ~(ahead | behind) & np.any(apart != 0, axis=-1)
    none = np.zeros((0, spread.shape[-1]))
    above = (-apart[ahead] / level[ahead, None]) @ spread if ahead.any() else none
    below = (-apart[behind] / level[behind, None]) @ spread if behind.any() else none
    beside = apart[even] @ spread if even.any() else none
    sides = []
    for one in (1.0, -1.0):  # the sign of r
        least = np.max(above, axis=0, initial=0.0) if one > 0 else -np.min(above, axis=0, initial=0.0)
        most = np.min(below, axis=0, initial=np.inf) if one > 0 else -np.max(below, axis=0, initial=-np.inf)
        wins = (most > least) & np.all(one * beside >= 0, axis=0)
        side = np.zeros(len(wins))
        with np.errstate(divide="ignore"):
            side[wins] = _norm_cdf(1 / least[wins], len(mean)) - _norm_cdf(1 / most[wins], len(mean))
        sides.append(side)
    return np.asarray(0.5 * (sides[0] + sides[1]))


def _norm_cdf(radius: Floats, dim: int) -> Floats:
    return np.asarray(special.gammainc(dim / 2, radius**2 / 2))


@np.errstate(divide="ignore", invalid="ignore")
def _divide_safely(above: Floats, below: Floats) -> Floats:
    return np.asarray(above / below)


@lru_cache(maxsize=32)
def sample_fixed_directions(dim: int) -> Floats:
    """Return a fixed public sample of uniform directions, (DIRECTIONS, d)."""
    return _draw_directions(dim, 0)


def _draw_directions(dim: int, block: int) -> Floats:
    drawn = np.random.default_rng(block).standard_normal((DIRECTIONS, dim))
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    drawn.setflags(write=False)
    return drawn


def per_arm_draw_probabilities(mean: Floats, spread: Floats, actions: Ints) -> Floats:
    """Return the probability that the chosen score is the largest, (n,), of independent N(mean, spread^2), (n, K)."""
    if len(actions) > 1:  # decisions that are alike are computed once
        alike = np.concatenate([mean, spread, actions[:, None]], axis=1)
        _, first, again = np.unique(alike, axis=0, return_index=True, return_inverse=True)
        if len(first) < len(actions):
            return per_arm_draw_probabilities(mean[first], spread[first], actions[first])[again.ravel()]
    found = np.zeros(len(actions))
    nodes = _count_nodes(spread, actions)
    for count in np.unique(nodes):
        rows, most = np.flatnonzero(nodes == count), max(_AT_ONCE // (int(count) * mean.shape[1]), 1)
        for part in np.split(rows, range(most, len(rows), most)):
            found[part] = _integrate(mean[part], spread[part], actions[part], int(count))
    return found


def _count_nodes(spread: Floats, actions: Ints) -> Ints:
    """Return how many nodes each integral needs, (n,)."""
    # In the complex plane the integrand grows as exp(s y^2 / 2), s = 1 + sum_j (spread_k / spread_j)^2, so that the
    # trapezoidal rule of step h errs by about exp(-2 pi^2 / (s h^2)): below 1e-17 for h <= 0.7 / sqrt s.
    own = np.take_along_axis(spread, actions[:, None], axis=1)
    widths = np.sqrt(np.sum(_divide_safely(own, spread) ** 2, axis=1))  # sqrt s: the arm itself adds the 1
    needed = np.where(widths > 0, widths, np.inf) * (18 / 0.7) + 1  # NaN, where nothing varies: the most
    return np.take([*_FEWER, _NODES], np.searchsorted(_FEWER, needed))


def _integrate(mean: Floats, spread: Floats, actions: Ints, count: int) -> Floats:
    nodes = np.linspace(-9.0, 9.0, count)
    weights = np.exp(-(nodes**2) / 2)
    weights /= weights.sum()
    rows = np.arange(len(actions))
    at = mean[rows, actions, None] + spread[rows, actions, None] * nodes  # (n, nodes)
    below = special.ndtr(_divide_safely(at[:, None, :] - mean[..., None], spread[..., None]))  # (n, K, nodes)
    below[rows, actions] = 1.0
    return np.asarray(np.sum(np.prod(below, axis=1) * weights, axis=-1))
