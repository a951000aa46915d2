"""How devices choose from a snapshot: frozen values of public parameters, which policies and light clients share.

A policy's `choose` is one of them; a task's document holds it as plain values, so that whoever has no policy - a phone,
a browser - chooses as the simulator does. What a snapshot must have is said by each.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna.core.arrays import Floats, Ints
from bandanna.core.coins import Coins
from bandanna.core.domain import all_finite, clip_norm
from bandanna.core.intercept import InterceptReport
from bandanna.core.linalg import favoured, first_best
from bandanna.core.per_arm import PerArmReport
from bandanna.core.regression import Regression
from bandanna.device.choice import Choice, columns_of, explored, moved, pick, pick_alone, scored, scored_alone
from bandanna.device.draws import OWN, SHARED, Draws
from bandanna.errors import InvalidArgument, InvalidStatistic, Summary
from bandanna.storage.declared import stored_as


@dataclass(frozen=True, kw_only=True)
class Chooser(ABC):
    """Chooses for devices whose features are those of reports in `domain`. R = replicate axes."""

    domain: Regression

    @abstractmethod
    def seen(self, contexts: Floats) -> Floats:
        """Features as they are scored and reported, (..., K, d)."""

    @abstractmethod
    def act(self, snapshot: Any, contexts: Floats, coins: Coins) -> Choice:
        """An arm for every row of features, (*R, n, K, d)."""


@stored_as("ThompsonChooser")
@dataclass(frozen=True, kw_only=True)
class Thompson(Chooser):
    """The best arm of a draw: snapshots have `theta` (*R, d), `root` (*R, d, d) and `explore`; per arm, (*R, K, ...).

    theta ~ N(mean, root root^T), action = argmax_x <x, theta>; with probability `explore` any arm.
    """

    @cached_property
    def draws(self) -> Draws:
        """One parameter, or one for each arm."""
        return OWN if isinstance(self.domain, PerArmReport) else SHARED

    @cached_property
    def _plain(self) -> bool:
        """Whether features are clipped and no more: no constant is among them, and none is added."""
        return not isinstance(self.domain, InterceptReport | PerArmReport)

    def seen(self, contexts: Floats) -> Floats:
        """Clipped; a constant that is not one is refused."""
        if self._plain or not isinstance(self.domain, InterceptReport):
            return self.domain.seen(contexts)
        if (same := self.domain.seen_before(contexts)) is not None:
            return same
        _one_constant(contexts)
        with np.errstate(invalid="ignore", over="ignore"):
            return self.domain.seen(contexts)

    def rows(self, contexts: Floats) -> Floats:
        """As parameters take them: with the constant that arms of their own have, (*R, n, K, d)."""
        seen = self.seen(contexts)
        if self._plain or not isinstance(self.domain, PerArmReport):
            return seen
        if seen.shape[-2] != self.domain.n_arms:
            allowed = f"{self.domain.n_arms}, as the policy has"
            raise InvalidArgument("contexts", f"{seen.shape[-2]} arms", allowed)
        return np.concatenate([seen, np.ones((*seen.shape[:-1], 1))], axis=-1)

    def actions(self, snapshot: Any, rows: Floats, coins: Coins) -> Ints:
        """Of `rows`, (*R, n)."""
        alone = rows.shape[:-2] == (1,)
        index = (
            self.draws.alone(snapshot.theta, snapshot.root, rows[0], coins)
            if alone
            else self.draws.scores(snapshot.theta, snapshot.root, rows, coins)
        )
        if not math.isfinite(np.vdot(index, index)):
            all_finite("contexts", rows)
        actions = (pick_alone(index, coins) if alone else pick(*favoured(index), coins)).actions
        return moved(actions, snapshot.explore, rows.shape[-2], coins) if snapshot.explore else actions

    def act(self, snapshot: Any, contexts: Floats, coins: Coins) -> Choice:
        """How likely they were is not computed here: it takes an integral."""
        actions = self.actions(snapshot, self.rows(contexts), coins)
        return Choice(actions=actions, probabilities=np.full(actions.shape, np.nan))


@stored_as("OptimistChooser")
@dataclass(frozen=True, kw_only=True)
class Optimist(Chooser):
    """The largest <x, theta> + radius |x|_{P^-1}: snapshots have `theta` (*R, d), `inverse` (*R, d, d), `radius`,
    `explore`; ties are decided by coins ("random"), or for the first arm ("first").
    """

    ties: str = "random"

    def seen(self, contexts: Floats) -> Floats:
        """As they are: `act` clips."""
        return contexts

    def act(self, snapshot: Any, contexts: Floats, coins: Coins) -> Choice:
        """With its probability."""
        columns, inside = self._columns(snapshot), clip_norm(contexts, 1.0)
        if inside is contexts:  # nothing had to be clipped: they are numbers
            if contexts.shape[:-2] == (1,) and self.ties == "random" and not snapshot.explore:  # as in an agent
                return pick_alone(scored_alone(columns, contexts[0]), coins)
            index = scored(columns, inside)
        else:
            with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is named below
                index = scored(columns, inside)
            if not math.isfinite(np.add.reduce(index, axis=None)):
                all_finite("contexts", contexts)
        first, tied = self.favoured(index)
        if not snapshot.explore:
            return pick(first, tied, coins)
        equal = np.arange(index.shape[-1]) == first[..., None] if tied is None else tied  # (*R, rounds, K)
        chances = equal / np.sum(equal, axis=-1, keepdims=True)

        def chance(actions: Ints) -> Floats:
            return np.asarray(np.take_along_axis(chances, actions[..., None], axis=-1)[..., 0])

        return explored(pick(first, tied, coins), snapshot.explore, index.shape[-1], coins, chance)

    def _columns(self, snapshot: Any) -> Floats:
        """Of a snapshot; those of the last one are kept, since many devices choose by it."""
        last: tuple[Any, Floats] | None = vars(self).get("_last")
        if last is None or last[0] is not snapshot:
            columns = columns_of(snapshot.theta, snapshot.inverse, snapshot.radius)
            vars(self)["_last"] = last = snapshot, columns
        return last[1]

    def favoured(self, index: Floats) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
        """As `linalg.favoured`, or the first alone."""
        return favoured(index) if self.ties == "random" else (first_best(index), None)


@stored_as("PlaceChooser")
@dataclass(frozen=True, kw_only=True)
class ByPlace:
    """Nothing is chosen: the place in a batch says which arm is played. `features`: of an arm, where arms have some."""

    features: int = 0


def _one_constant(contexts: Floats) -> None:
    """The arms of one user have one constant: features were forgotten, or stand in another order, where they do not."""
    last = contexts[..., -1]
    if np.any(np.max(last, axis=-1) - np.min(last, axis=-1) > 1e-9 * np.max(np.abs(last), axis=-1)):
        allowed = "the same last feature for all arms of a user, a constant: intercept=True says so"
        raise InvalidStatistic("contexts", Summary("arms with several last features"), allowed)
