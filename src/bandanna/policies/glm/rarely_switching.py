"""What RS-GLinUCB and GLM-JDP share: explore where V is uncertain, else act on an estimate that is rarely renewed.

    criterion I   max_x |x|^2_{V^{-1}} >= threshold: play the argmax, into T_o; V += x x^T
    otherwise     X' = arms whose upper bound <x, theta_o> + b |x|_{V^{-1}} reaches the largest lower bound,
                  play argmax_{X'} <x, centre> + beta |x|_{H_tau^{-1}};  H += w x x^T,  w = mu'(<x, theta_o>) / e
    criterion II  H has grown over H_tau: renew theta_tau, H_tau = H

A round is asked about (`round_ask`) and `noted`; then `settled` asks for what new estimates need, if any are due.
Between two events nothing that decides changes, so a simulation may decide many rounds `ahead`, an exact acceleration.

Symbols: b = gamma sqrt(kappa) `elimination`, beta `bonus`, lambda `regulariser`.
Reference: Sawarni et al. 2024, Algorithm 2; paper [003], Algorithm 2.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from bandanna.core.arrays import Floats, Ints
from bandanna.core.estimate import Estimate
from bandanna.core.linalg import first_best
from bandanna.device.choice import Choice, certain
from bandanna.policies.base import Ask, Frozen
from bandanna.policies.glm.base import GLMPolicy
from bandanna.protocols.base import StreamProtocol

State = TypeVar("State")

EXPLORED, REST = 0, 1  # groups of rows


@dataclass(frozen=True, kw_only=True)
class Ahead(Generic[State]):
    """Rounds decided at once: the first `taken` (s,) of a block are played, then `state` holds.

    due    (s,): `settled` comes before the next round
    added  (s, dim): the exact sum of the reports of the rounds taken, for the stream; the runner's alone
    """

    actions: Ints  # (s, B)
    groups: Ints  # (s, B)
    taken: Ints
    state: State
    due: NDArray[np.bool_]
    added: Floats | None = None


@dataclass(frozen=True, kw_only=True)
class RarelySwitching(GLMPolicy[State]):
    """Decisions of both algorithms; a subclass says with which constants, and how estimates are made."""

    keeps = ("explored", "rest")
    asks_again = True
    every_round = True

    @property
    def stream(self) -> StreamProtocol | None:
        """Into which the reports of all rounds go, if there is one."""
        return None

    @abstractmethod
    def round_ask(self, state: State) -> Ask:
        """What is asked about every round."""

    @abstractmethod
    def noted(self, state: State, released: Floats) -> State:
        """After one more round, (*R, ...) each; estimates are as they were."""

    @abstractmethod
    def due(self, state: State) -> NDArray[np.bool_]:
        """Whether `settled` would ask for anything, (*R)."""

    @abstractmethod
    def settled(self, state: State) -> Generator[Ask, Estimate, State]:
        """With the estimates that are due; of one run, of several where `side_by_side` says so."""

    @abstractmethod
    def ahead(self, state: State, contexts: Floats, valid: NDArray[np.bool_], totals: Floats | None) -> Ahead[State]:
        """Decide the next rounds of runs (s, B, K, d) up to the first event; those not `valid` (s, B) do not exist.

        totals (s, B + 1, dim): what the stream releases before each round and after the last, if nothing were added.
        """

    def episode(self, state: Any) -> Frozen | None:
        """One round."""
        rounds = int(np.max(state.rounds))
        return Frozen(number=rounds, users=1) if rounds < self.horizon else None

    def learn(self, state: State, episode: Frozen) -> Generator[Ask, Estimate, State]:
        """Note the round, then settle what it makes due."""
        released = yield self.round_ask(state)
        return (yield from self.settled(self.noted(state, released.total)))

    @property
    @abstractmethod
    def regulariser(self) -> float:
        """lambda: V and H start at lambda I."""

    @property
    @abstractmethod
    def threshold(self) -> float:
        """Of criterion I."""

    @property
    @abstractmethod
    def elimination(self) -> float:
        """b: half-width of the bounds of theta_o, in units of |x|_{V^{-1}}."""

    @property
    @abstractmethod
    def bonus(self) -> float:
        """beta, in units of |x|_{H_tau^{-1}}."""

    @property
    def live(self) -> bool:
        """Whether the bonus follows H in every round after the first switch (a fault of a published run)."""
        return False

    def explored_weight(self, norms: Floats) -> Floats:
        """By how much an explored arm of squared norm |x|^2_{V^{-1}} counts in V: (...) -> (...)."""
        return np.ones(np.shape(norms))

    def weights(self, theta_o: Floats, features: Floats) -> Floats:
        """w = mu'(<x, theta_o>) / e, at most L_mu / e whatever theta_o is: (*R, d), (*R, n, d) -> (*R, n)."""
        z = (features @ theta_o[..., None])[..., 0]
        return np.minimum(self.model.slope(z), self.model.slope_bound) / math.e

    def decided(self, contexts: Floats, v_inverse: Floats, theta_o: Floats, centre: Floats, inverse: Floats) -> Choice:
        """Criterion I, else `choose`: contexts (*R, n, K, d), matrices (*R, d, d) and vectors (*R, d)."""
        norms = norms_of(contexts, v_inverse[..., None, :, :])
        explore = norms.max(axis=-1) >= self.threshold
        actions = self.choose(contexts, norms, theta_o, centre, inverse)
        return certain(np.where(explore, np.argmax(norms, axis=-1), actions), np.where(explore, EXPLORED, REST))

    def choose(
        self, contexts: Floats, norms: Floats, theta_o: Floats, centre: Floats, inverse: Floats
    ) -> NDArray[np.int64]:
        """The arm of a round without exploration.

        contexts (*R, n, K, d), norms |x|^2_{V^{-1}} (*R, n, K), theta_o and centre (*R, d), H_tau^{-1} (*R, d, d)
        -> (*R, n).
        """
        arms = np.ascontiguousarray(contexts)
        columns = np.concatenate([theta_o[..., None], centre[..., None], inverse], axis=-1)
        parts = arms @ columns[..., None, :, :]  # (*R, n, K, 2 + d), a product for each round
        spread = np.einsum("...i,...i->...", parts[..., 2:], arms)
        index = parts[..., 1] + self.bonus * np.sqrt(np.maximum(spread, 0.0))
        if math.isinf(self.elimination):  # nothing is eliminated, an arm of norm 0 included
            return first_best(index)
        half = self.elimination * np.sqrt(np.maximum(norms, 0.0))
        middle = parts[..., 0]
        kept = middle + half >= np.max(middle - half, axis=-1, keepdims=True)
        return first_best(np.where(kept, index, -np.inf))


def norms_of(contexts: Floats, inverse: Floats) -> Floats:
    """|x|^2_{V^{-1}}: (*R, n, K, d), (*R, 1 or n, d, d) -> (*R, n, K)."""
    return np.asarray(np.einsum("...i,...i->...", contexts @ inverse, contexts))


def first_true(flags: NDArray[np.bool_]) -> Ints:
    """Index of the first True in each row, the row's length where there is none: (..., B) -> (...)."""
    found = np.argmax(flags, axis=-1)
    none = ~np.take_along_axis(flags, found[..., None], axis=-1)[..., 0]
    return np.asarray(np.where(none, flags.shape[-1], found), dtype=np.int64)


def chosen(contexts: Floats, actions: Ints) -> Floats:
    """Features of the arms that are given: (*R, n, K, d), (*R, n) -> (*R, n, d)."""
    return np.asarray(np.take_along_axis(contexts, actions[..., None, None], axis=-2)[..., 0, :])
