"""Choose arms from a public snapshot: scores, ties, posterior draws and probabilities.

Arms are tied if their scores are the largest in single precision.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna.device.domain import check_all_finite, clip_norm
from bandanna.device.linear_report import InterceptReport, PerArmReport, RegressionReport
from bandanna.errors import InvalidArgument, InvalidStatistic, ValueSummary
from bandanna.numeric.linalg import einsum, find_best_arms, find_best_arms_single, first_best, round_to_single
from bandanna.numeric.rng import DeviceRandomness
from bandanna.storage.encoding import stored_as
from bandanna.types import Bools, Floats, Ints

# Scores and ties


_CERTAIN = np.ones(1)  # of one device
_CERTAIN.setflags(write=False)


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The arm of each device, and the probability with which the policy chose it. R = replicate axes.

    Attributes
    ----------
    actions, probabilities
        Chosen arms and their probabilities, (*R, n); NaN where the probability is not computed.
    groups
        Index into `Execution.retained_groups` of a device's row, (*R, n), private. None: the first.
    """

    actions: Ints  # (*R, n)
    probabilities: Floats  # (*R, n)
    groups: Ints | None = None  # (*R, n)


class SampledChoice(Choice):
    """A choice that computes its probabilities on request."""

    chances: Callable[[], Floats]

    def __init__(self, *, actions: Ints, chances: Callable[[], Floats]) -> None:
        vars(self).update(actions=actions, groups=None, chances=chances)

    @property
    def probabilities(self) -> Floats:
        if "_known" not in vars(self):
            vars(self)["_known"] = self.chances()
        return np.asarray(vars(self)["_known"])


def make_certain_choice(actions: Ints, groups: Ints | None = None) -> Choice:
    """Return a choice without randomness."""
    sure = _CERTAIN if actions.shape == (1,) else np.ones(actions.shape)
    return Choice(actions=actions, probabilities=sure, groups=groups)


def compute_optimistic_scores(theta: Floats, inverse: Floats, radius: float, contexts: Floats) -> Floats:
    """Return <x, theta> + radius |x|_{V^{-1}} for every arm: (*R, rounds, K, d) -> (*R, rounds, K).

    Each round has its own product: a user's numbers do not depend on other users.
    """
    return score_by_columns(make_score_columns(theta, inverse, radius), contexts)


def make_score_columns(theta: Floats, inverse: Floats, radius: float) -> Floats:
    """Return [theta, radius^2 V^{-1}], (*R, d, 1 + d), for `score_by_columns`."""
    return np.ascontiguousarray(np.concatenate([theta[..., None], radius**2 * inverse], axis=-1))


def score_by_columns(columns: Floats, contexts: Floats) -> Floats:
    """Return `compute_optimistic_scores` by these columns."""
    arms = np.ascontiguousarray(contexts)
    return _combine_columns(arms @ columns[..., None, :, :], arms)  # of products (*R, rounds, K, 1 + d)


def score_single_device(columns: Floats, arms: Floats) -> Floats:
    """Return `score_by_columns` of one device, (K, d) -> (K,), bit for bit."""
    return _combine_columns(arms @ columns, arms)


def _combine_columns(projected: Floats, arms: Floats) -> Floats:
    spread = einsum("...i,...i->...", projected[..., 1:], arms)  # radius^2 x^T V^{-1} x
    return np.asarray(projected[..., 0] + np.sqrt(np.maximum(spread, 0.0, out=spread), out=spread))


def pick_tied_arms(first: Ints, tied: Bools | None, coins: DeviceRandomness) -> Choice:
    """Choose one of each user's tied arms uniformly; arguments as `find_best_arms` returns them."""
    if tied is None:
        return make_certain_choice(first)
    if first.shape == (1,):  # one device, as in an agent: the arm of that rank
        equal = tied[0].nonzero()[0]
        first[0] = equal[coins.below(np.array([len(equal)]))[0]]
        return Choice(actions=first, probabilities=np.array([1 / len(equal)]))
    counts = np.asarray(np.sum(tied, axis=-1, dtype=np.int64))  # (*R, users)
    several, rank = counts > 1, coins.below(counts)
    reached = np.cumsum(tied[several], axis=-1) > rank[several][:, None]  # from the arm of that rank on
    first[several] = np.argmax(reached, axis=-1)
    return Choice(actions=first, probabilities=np.asarray(1 / counts))


def pick_tied_arm(index: Floats, coins: DeviceRandomness) -> Choice:
    """Choose one of the best arms of one device uniformly."""
    first, tied = find_best_arms_single(round_to_single(index))
    if tied is None:
        return Choice(actions=np.array([first]), probabilities=_CERTAIN)
    rank = coins.below(np.array([len(tied)]))[0]
    return Choice(actions=tied[rank : rank + 1], probabilities=np.array([1 / len(tied)]))


def explore_actions(actions: Ints, share: float, n_arms: int, coins: DeviceRandomness) -> Ints:
    """Return the actions, or with probability `share` any arm."""
    away = coins.uniform(actions.shape, "explore") < share
    anywhere = np.asarray(coins.among(away, "explored arms") * n_arms, dtype=np.int64)
    return np.where(away, anywhere, actions)


def explore_choice(
    choice: Choice, share: float, n_arms: int, coins: DeviceRandomness, chance: Callable[[Ints], Floats] | None = None
) -> Choice:
    """Return the choice, or with probability `share` any arm, with the probability of both together.

    `chance` gives the policy's probability of an arm, (*R, n) -> (*R, n); by default only of the chosen one.
    """
    if not share:
        return choice
    actions = explore_actions(choice.actions, share, n_arms, coins)
    own = np.where(actions == choice.actions, choice.probabilities, 0.0) if chance is None else chance(actions)
    return Choice(actions=actions, probabilities=share / n_arms + (1 - share) * own, groups=choice.groups)


# Posterior draws


_DRAW_STREAM = "posterior"  # what the coins of a draw are called


class PosteriorDraw(ABC):
    """Scores of arms under draws from N(mean, L L^T). R = replicate axes.

        shared:  theta = mean + L z,                     score_k = <x_k, theta>
        own:     score_k = <x_k, mean_k> + |L_k^T x_k| z_k,   distributed as <x_k, theta_k>, theta_k = mean_k + L_k z

    Each device has its own product, so its numbers do not depend on the other devices.
    """

    @abstractmethod
    def scores(self, mean: Floats, root: Floats, contexts: Floats, coins: DeviceRandomness) -> Floats:
        """Draw once for each device: (*R, n, K, d) -> (*R, n, K)."""

    def alone(self, mean: Floats, root: Floats, arms: Floats, coins: DeviceRandomness) -> Floats:
        """Draw `scores` of one device, (K, d) -> (K,), bit for bit."""
        return np.asarray(self.scores(mean, root, arms[None], coins)[0])

    @abstractmethod
    def expected(self, mean: Floats, contexts: Floats) -> Floats:
        """Return the means of the scores."""

    @abstractmethod
    def draw_table_scores(
        self, mean: Floats, root: Floats, arms: Floats, users: int, coins: DeviceRandomness
    ) -> Floats:
        """Draw `scores` of fixed arms, (*R, K, d), for many devices: (*R, users, K)."""


class SharedDraw(PosteriorDraw):
    """Draws one parameter for all arms, (*R, d)."""

    def scores(self, mean: Floats, root: Floats, contexts: Floats, coins: DeviceRandomness) -> Floats:
        if contexts.shape[:-2] == (1,):
            return self.alone(mean, root, contexts[0], coins)[None]
        z = coins.normal((*contexts.shape[:-2], mean.shape[-1]), _DRAW_STREAM)
        theta = mean[..., None, :] + (root[..., None, :, :] @ z[..., None])[..., 0]
        return np.asarray((contexts @ theta[..., None])[..., 0])

    def alone(self, mean: Floats, root: Floats, arms: Floats, coins: DeviceRandomness) -> Floats:
        z = coins.normal((1, mean.shape[-1]), _DRAW_STREAM)
        return np.asarray(arms @ (mean + root @ z[0]))

    def expected(self, mean: Floats, contexts: Floats) -> Floats:
        return np.asarray((contexts @ mean[..., None, :, None])[..., 0])

    def draw_table_scores(
        self, mean: Floats, root: Floats, arms: Floats, users: int, coins: DeviceRandomness
    ) -> Floats:
        z = coins.normal((*mean.shape[:-1], users, mean.shape[-1]), _DRAW_STREAM)
        theta = mean[..., None, :] + z @ np.swapaxes(root, -1, -2)
        return np.asarray(theta @ np.swapaxes(arms, -1, -2))


class PerArmDraw(PosteriorDraw):
    """Draws scores by a parameter for each arm, (*R, K, d)."""

    def scores(self, mean: Floats, root: Floats, contexts: Floats, coins: DeviceRandomness) -> Floats:
        z = coins.normal(contexts.shape[:-1], _DRAW_STREAM)
        return np.asarray(self.expected(mean, contexts) + self.spread(root, contexts) * z)

    def expected(self, mean: Floats, contexts: Floats) -> Floats:
        return np.asarray((contexts[..., None, :] @ mean[..., None, :, :, None])[..., 0, 0])

    def spread(self, root: Floats, contexts: Floats) -> Floats:
        rows = (contexts[..., None, :] @ root[..., None, :, :, :])[..., 0, :]
        return np.sqrt((rows[..., None, :] @ rows[..., :, None])[..., 0, 0])

    def draw_table_scores(
        self, mean: Floats, root: Floats, arms: Floats, users: int, coins: DeviceRandomness
    ) -> Floats:
        seen = arms[..., None, :, :]
        z = coins.normal((*mean.shape[:-2], users, mean.shape[-2]), _DRAW_STREAM)
        return np.asarray(self.expected(mean, seen) + self.spread(root, seen) * z)


SHARED_DRAW, PER_ARM_DRAW = SharedDraw(), PerArmDraw()


# Selectors


@dataclass(frozen=True, kw_only=True)
class ActionSelector(ABC):
    """Chooses arms for devices with features as in reports of `domain`. R = replicate axes.

    Policies, devices and browsers share these public parameters.
    """

    domain: RegressionReport

    @abstractmethod
    def clip_features(self, contexts: Floats) -> Floats:
        """Return features as they are scored and reported, (..., K, d)."""

    @abstractmethod
    def act(self, snapshot: Any, contexts: Floats, coins: DeviceRandomness) -> Choice:
        """Choose an arm for every row of features, (*R, n, K, d)."""


@stored_as("ThompsonChooser")
@dataclass(frozen=True, kw_only=True)
class ThompsonSelector(ActionSelector):
    """Chooses the best arm of a posterior draw, theta ~ N(mean, root root^T); with probability `explore` any arm.

    Snapshots have `theta` (*R, d), `root` (*R, d, d) and `explore`; with a parameter per arm, (*R, K, ...).
    """

    @cached_property
    def draws(self) -> PosteriorDraw:
        return PER_ARM_DRAW if isinstance(self.domain, PerArmReport) else SHARED_DRAW

    @cached_property
    def _plain(self) -> bool:
        return not isinstance(self.domain, InterceptReport | PerArmReport)

    def clip_features(self, contexts: Floats) -> Floats:
        if self._plain or not isinstance(self.domain, InterceptReport):
            return self.domain.clip_features(contexts)
        if (same := self.domain.seen_before(contexts)) is not None:
            return same
        _check_one_constant(contexts)
        with np.errstate(invalid="ignore", over="ignore"):
            return self.domain.clip_features(contexts)

    def rows(self, contexts: Floats) -> Floats:
        """Return features as parameters take them, (*R, n, K, d), with the constant for a parameter per arm."""
        seen = self.clip_features(contexts)
        if self._plain or not isinstance(self.domain, PerArmReport):
            return seen
        if seen.shape[-2] != self.domain.n_arms:
            allowed = f"features of the policy's {self.domain.n_arms} arms"
            raise InvalidArgument("contexts", ValueSummary(f"{seen.shape[-2]} arms"), allowed)
        return np.concatenate([seen, np.ones((*seen.shape[:-1], 1))], axis=-1)

    def actions(self, snapshot: Any, rows: Floats, coins: DeviceRandomness) -> Ints:
        alone = rows.shape[:-2] == (1,)
        index = (
            self.draws.alone(snapshot.theta, snapshot.root, rows[0], coins)
            if alone
            else self.draws.scores(snapshot.theta, snapshot.root, rows, coins)
        )
        if not math.isfinite(np.vdot(index, index)):
            check_all_finite("contexts", rows)
        actions = (pick_tied_arm(index, coins) if alone else pick_tied_arms(*find_best_arms(index), coins)).actions
        return explore_actions(actions, snapshot.explore, rows.shape[-2], coins) if snapshot.explore else actions

    def act(self, snapshot: Any, contexts: Floats, coins: DeviceRandomness) -> Choice:
        actions = self.actions(snapshot, self.rows(contexts), coins)
        return Choice(actions=actions, probabilities=np.full(actions.shape, np.nan))


@stored_as("OptimistChooser")
@dataclass(frozen=True, kw_only=True)
class OptimisticSelector(ActionSelector):
    """Chooses the arm with the largest <x, theta> + radius |x|_{P^-1}; ties: "random" or "first".

    Snapshots have `theta` (*R, d), `inverse` (*R, d, d), `radius` and `explore`.
    """

    ties: str = "random"

    def clip_features(self, contexts: Floats) -> Floats:
        return contexts

    def act(self, snapshot: Any, contexts: Floats, coins: DeviceRandomness) -> Choice:
        columns, inside = self._columns(snapshot), clip_norm(contexts, 1.0)
        if inside is contexts:  # nothing had to be clipped: they are numbers
            if contexts.shape[:-2] == (1,) and self.ties == "random" and not snapshot.explore:  # as in an agent
                return pick_tied_arm(score_single_device(columns, contexts[0]), coins)
            index = score_by_columns(columns, inside)
        else:
            with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is named below
                index = score_by_columns(columns, inside)
            if not math.isfinite(np.add.reduce(index, axis=None)):
                check_all_finite("contexts", contexts)
        first, tied = self.favoured(index)
        if not snapshot.explore:
            return pick_tied_arms(first, tied, coins)
        equal = np.arange(index.shape[-1]) == first[..., None] if tied is None else tied  # (*R, rounds, K)
        chances = equal / np.sum(equal, axis=-1, keepdims=True)

        def chance(actions: Ints) -> Floats:
            return np.asarray(np.take_along_axis(chances, actions[..., None], axis=-1)[..., 0])

        return explore_choice(pick_tied_arms(first, tied, coins), snapshot.explore, index.shape[-1], coins, chance)

    def _columns(self, snapshot: Any) -> Floats:
        """Return a snapshot's columns; those of the last snapshot are cached."""
        last: tuple[Any, Floats] | None = vars(self).get("_last")
        if last is None or last[0] is not snapshot:
            columns = make_score_columns(snapshot.theta, snapshot.inverse, snapshot.radius)
            vars(self)["_last"] = last = snapshot, columns
        return last[1]

    def favoured(self, index: Floats) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
        """Return `linalg.find_best_arms`, or the first alone."""
        return find_best_arms(index) if self.ties == "random" else (first_best(index), None)


@stored_as("PlaceChooser")
@dataclass(frozen=True, kw_only=True)
class AssignedSelector:
    """Marks arms that follow from the place in a batch; `features` is the number of an arm's features."""

    features: int = 0


def _check_one_constant(contexts: Floats) -> None:
    last = contexts[..., -1]
    if np.any(np.max(last, axis=-1) - np.min(last, axis=-1) > 1e-9 * np.max(np.abs(last), axis=-1)):
        hint = "Append a column of ones, or use intercept=False."
        raise InvalidStatistic(
            "the last feature", ValueSummary("several values"), "one constant for all arms of a user", hint
        )
