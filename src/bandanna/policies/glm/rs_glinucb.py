"""Rare switching: RS-GLinUCB and its rules."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from bandanna import validation
from bandanna.device.action_selection import Choice, make_certain_choice
from bandanna.device.domain import Ball, Estimate, Statistic, check_all_finite, clip_norm
from bandanna.numeric.linalg import first_best, upper_triangle
from bandanna.numeric.rng import DeviceRandomness
from bandanna.policies import contextual_bounds
from bandanna.policies.algorithm import register_algorithm
from bandanna.policies.base import Execution, FixedLength, SumQuery, merge_states, replace_states, select_states
from bandanna.policies.glm.base import GLMPolicy, NonPrivateGLMPolicy
from bandanna.policies.glm.estimation import maximum_likelihood, project_onto_ball, project_onto_intersection
from bandanna.policies.regret_bounds import BoundCalls, RunSetting
from bandanna.protocols.base import StreamProtocol
from bandanna.storage.encoding import stored_as
from bandanna.types import Bools, Floats, Ints

# What RS-GLinUCB and GLM-JDP share: explore where V is uncertain, else act on an estimate that is rarely renewed.
#
#     criterion I   max_x |x|^2_{V^{-1}} >= threshold: play the argmax, into T_o; V += x x^T
#     otherwise     X' = arms whose upper bound <x, theta_o> + b |x|_{V^{-1}} reaches the largest lower bound,
#                   play argmax_{X'} <x, centre> + beta |x|_{H_tau^{-1}};  H += w x x^T,  w = mu'(<x, theta_o>) / e
#     criterion II  H has grown over H_tau: renew theta_tau, H_tau = H
#
# A round is asked about (`round_ask`) and `noted`; then `settled` asks for what new estimates need, if any are due.
# Between two events nothing that decides changes, so a simulation may decide many rounds `ahead`, an exact
# acceleration.
#
# Symbols: b = gamma sqrt(kappa) `elimination`, beta `bonus`, lambda `regulariser`.
# Reference: Sawarni et al. 2024, Algorithm 2; paper [003], Algorithm 2.


State = TypeVar("State")

EXPLORED, REST = 0, 1  # groups of rows


@dataclass(frozen=True, kw_only=True)
class RoundBlock(Generic[State]):
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
class RareSwitchingPolicy(GLMPolicy[State]):
    """Decisions of both algorithms; a subclass says with which constants, and how estimates are made."""

    execution = Execution(retained_groups=("explored", "rest"), has_several_queries=True, learns_every_round=True)

    @property
    def stream(self) -> StreamProtocol | None:
        """Into which the reports of all rounds go, if there is one."""
        return None

    @abstractmethod
    def make_round_query(self, state: State) -> SumQuery:
        """What is asked about every round."""

    @abstractmethod
    def noted(self, state: State, released: Floats) -> State:
        """After one more round, (*R, ...) each; estimates are as they were."""

    @abstractmethod
    def due(self, state: State) -> NDArray[np.bool_]:
        """Whether `settled` would ask for anything, (*R)."""

    @abstractmethod
    def settled(self, state: State) -> Generator[SumQuery, Estimate, State]:
        """With the estimates that are due; of one run, of several where `side_by_side` says so."""

    @abstractmethod
    def ahead(
        self, state: State, contexts: Floats, valid: NDArray[np.bool_], totals: Floats | None
    ) -> RoundBlock[State]:
        """Decide the next rounds of runs (s, B, K, d) up to the first event; those not `valid` (s, B) do not exist.

        totals (s, B + 1, dim): what the stream releases before each round and after the last, if nothing were added.
        """

    def episode(self, state: Any) -> FixedLength | None:
        """One round."""
        rounds = int(np.max(state.rounds))
        return FixedLength(number=rounds, users=1) if rounds < self.horizon else None

    def learn(self, state: State, episode: FixedLength) -> Generator[SumQuery, Estimate, State]:
        """Note the round, then settle what it makes due."""
        released = yield self.make_round_query(state)
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
        norms = compute_norms(contexts, v_inverse[..., None, :, :])
        explore = norms.max(axis=-1) >= self.threshold
        actions = self.choose(contexts, norms, theta_o, centre, inverse)
        return make_certain_choice(
            np.where(explore, np.argmax(norms, axis=-1), actions), np.where(explore, EXPLORED, REST)
        )

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


def compute_norms(contexts: Floats, inverse: Floats) -> Floats:
    """|x|^2_{V^{-1}}: (*R, n, K, d), (*R, 1 or n, d, d) -> (*R, n, K)."""
    return np.asarray(np.einsum("...i,...i->...", contexts @ inverse, contexts))


def first_true(flags: NDArray[np.bool_]) -> Ints:
    """Index of the first True in each row, the row's length where there is none: (..., B) -> (...)."""
    found = np.argmax(flags, axis=-1)
    none = ~np.take_along_axis(flags, found[..., None], axis=-1)[..., 0]
    return np.asarray(np.where(none, flags.shape[-1], found), dtype=np.int64)


def select_features(contexts: Floats, actions: Ints) -> Floats:
    """Features of the arms that are given: (*R, n, K, d), (*R, n) -> (*R, n, d)."""
    return np.asarray(np.take_along_axis(contexts, actions[..., None, None], axis=-2)[..., 0, :])


# Constants and fits of RS-GLinUCB.
#
#     constants  lambda                 gamma           threshold of I             beta     switch at det H >
#     theory     d log(T/failure)/R^2   25 R S spread   1/(gamma^2 kappa R^2)      150 spread   2 det H_tau
#     published  1/2                    R S spread      1/(0.01 kappa R^4 S^2 d)   4 spread     1.5 det H_tau
#
# with spread = sqrt(d log(T/failure)); estimates are penalised by (lambda/2) |theta|^2 by theory, by 1e-5 |theta|^2 as
# published. `constants` chooses the row, presets choose the rules.
#
# `corrected`: theta_o and theta_tau are projected onto |theta| <= S, theta_tau also onto {|theta - theta_o|_V <= gamma
# sqrt(kappa)} and fitted to the rounds without exploration; the centre of the index is theta_tau (theta_o before the
# first switch); H_tau is a copy.
#
# `published`, as run by the authors of [003]: V += x x^T / (1 + |x|^2_{V^{-1}}), a misplaced denominator (erratum K1);
# no projection of estimates that next to nothing penalises (K10); theta_tau on all rounds, the centre (theta_o +
# theta_tau)/2; and H_tau an alias of H, so that the criterion fires once and the bonus follows H in every round after
# that (K6). Deviation from that run: estimates by Newton's method on the matching loss, where theirs stopped early in
# some rounds (K7).


@dataclass(frozen=True, kw_only=True)
class RSGLinUCBBase(NonPrivateGLMPolicy[State], RareSwitchingPolicy[State]):
    """What the presets differ in."""

    constants: str = "theory"

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.one_of("constants", self.constants, ("theory", "published"))
        if self.preset == "published":
            object.__setattr__(self, "constants", "published")

    @property
    def _spread(self) -> float:
        """sqrt(d log(T/failure))."""
        return math.sqrt(self.dim * self.log_term)

    @property
    def gamma(self) -> float:
        """gamma of the table above."""
        factor = 25 if self.constants == "theory" else 1
        return factor * self.model.reward_bound * self.parameter_bound * self._spread

    @property
    def regulariser(self) -> float:
        """lambda of the table above."""
        return self.dim * self.log_term / self.model.reward_bound**2 if self.constants == "theory" else 0.5

    @property
    def threshold(self) -> float:
        """Of criterion I, by the table above."""
        r, s = self.model.reward_bound, self.parameter_bound
        if self.constants == "theory":
            return 1 / (self.gamma**2 * self.curvature * r**2)
        return 1 / (0.01 * self.curvature * r**4 * s**2 * self.dim)

    @property
    def elimination(self) -> float:
        """gamma sqrt(kappa)."""
        return self.gamma * math.sqrt(self.curvature)

    @property
    def bonus(self) -> float:
        """beta of the table above."""
        return (150 if self.constants == "theory" else 4) * self._spread

    @property
    def growth(self) -> float:
        """Of the determinant, between two switches."""
        return 2.0 if self.constants == "theory" else 1.5

    @property
    def live(self) -> bool:
        """K6."""
        return self.preset == "published"

    @property
    def fits_all_rounds(self) -> bool:
        """Whether theta_tau is fitted to explored rounds too."""
        return self.preset == "published"

    @property
    def ridge(self) -> float:
        """Of the estimates: (ridge/2) |theta|^2."""
        return 2e-5 if self.constants == "published" else self.regulariser

    def explored_weight(self, norms: Floats) -> Floats:
        """1, or the misplaced denominator of K1."""
        return 1 / (1 + norms) if self.preset == "published" else np.ones(np.shape(norms))

    def centre(self, theta_o: Floats, theta_tau: Floats, switches: NDArray[np.int64]) -> Floats:
        """Of the index; `corrected`: theta_o until there is a theta_tau."""
        if self.preset == "published":
            return (theta_o + theta_tau) / 2
        return np.where((switches > 0)[..., None], theta_tau, theta_o)

    def grown(self, matrix: Floats, snapshot: Floats) -> NDArray[np.bool_]:
        """Criterion II: (*R, d, d), (*R, d, d) -> (*R)."""
        return np.asarray(np.linalg.det(matrix) > self.growth * np.linalg.det(snapshot))

    def fit_o(self, features: Floats, rewards: Floats, start: Floats) -> Floats:
        """theta_o from explored rounds (*R, n, d)."""
        theta = self._fit(features, rewards, start)
        return theta if self.preset == "published" else project_onto_ball(theta, self.parameter_bound)

    def fit_tau(self, features: Floats, rewards: Floats, start: Floats, theta_o: Floats, matrix: Floats) -> Floats:
        """theta_tau, near theta_o in the norm of V = `matrix`."""
        theta = self._fit(features, rewards, start)
        if self.preset == "published":
            return theta
        return project_onto_intersection(
            theta, ball=self.parameter_bound, centre=theta_o, matrix=matrix, radius=self.elimination
        )

    def _fit(self, features: Floats, rewards: Floats, start: Floats) -> Floats:
        return maximum_likelihood(self.model, features, rewards, ridge=self.ridge, start=start, tolerance=1e-7).theta


# RS-GLinUCB: kappa only where it explores, few estimates (Sawarni, Das, Barman and Sinha 2024, Algorithm 2).
#
# The rules of `RareSwitchingPolicy`, with rows in the clear and the constants of `rs_rules`. theta_o is that of all
# explored rows, theta_tau is fitted when criterion II holds; both begin at what the last round without exploration
# used: it does not matter how often they are fitted in between.


@stored_as("RSGLinUCBState")
@dataclass(frozen=True, kw_only=True)
class RSGLinUCBState:
    """V, H, H_tau and the estimates: those that the last round without exploration used, and the next one's.

    stale, late  next_o, next_tau is not yet fitted to all rows
    due          criterion II holds: the next round without exploration switches, to next_tau and H_tau = H
    """

    rounds: Ints  # (*R)
    v: Floats  # (*R, d, d)
    v_inverse: Floats  # (*R, d, d)
    h: Floats  # (*R, d, d)
    h_tau: Floats  # (*R, d, d)
    h_inverse: Floats  # (*R, d, d): of the next bonus
    theta_o: Floats  # (*R, d)
    theta_tau: Floats  # (*R, d)
    next_o: Floats  # (*R, d)
    next_tau: Floats  # (*R, d)
    stale: NDArray[np.bool_]  # (*R)
    late: NDArray[np.bool_]  # (*R)
    due: NDArray[np.bool_]  # (*R)
    switches: Ints  # (*R)


@register_algorithm("RS-GLinUCB", paper="003")
@stored_as("RSGLinUCB")
@dataclass(frozen=True, kw_only=True)
class RSGLinUCB(RSGLinUCBBase[RSGLinUCBState]):
    """RS-GLinUCB; without privacy."""

    execution = replace(RareSwitchingPolicy.execution, side_by_side=True, player="blocks")

    def act(self, snapshot: RSGLinUCBState, contexts: Floats, coins: DeviceRandomness) -> Choice:
        """Criterion I, or the index around the centre."""
        centre = self._centre(snapshot)
        return self.decided(contexts, snapshot.v_inverse, snapshot.next_o, centre, snapshot.h_inverse)

    def _theta(self, snapshot: RSGLinUCBState) -> Floats:
        """theta_tau, as the next round has it."""
        return snapshot.next_tau

    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> RSGLinUCBState:
        """V = H = lambda I."""
        matrix = np.tile(self.regulariser * np.eye(self.dim), (*replicates, 1, 1))
        inverse, nothing = matrix / self.regulariser**2, np.zeros((*replicates, self.dim))
        never, none = np.zeros(replicates, dtype=bool), np.zeros(replicates, dtype=np.int64)
        return RSGLinUCBState(
            rounds=none,
            v=matrix,
            v_inverse=inverse,
            h=matrix,
            h_tau=matrix,
            h_inverse=inverse,
            theta_o=nothing,
            theta_tau=nothing,
            next_o=nothing,
            next_tau=nothing,
            stale=never,
            late=never,
            due=never,
            switches=none,
        )

    @classmethod
    def _regret_bounds(cls, setting: RunSetting) -> BoundCalls:
        """A rate."""
        return contextual_bounds.find_rs_glinucb_bounds(setting)

    def _run_counts(self, state: RSGLinUCBState) -> dict[str, Ints]:
        """Switches that a round has used."""
        return {"switches": state.switches}

    def _centre(self, state: RSGLinUCBState) -> Floats:
        """Of the next index."""
        return self.centre(state.next_o, state.next_tau, state.switches + state.due)

    def make_round_query(self, state: RSGLinUCBState) -> SumQuery:
        """The row."""
        return self.ask

    def noted(self, state: RSGLinUCBState, released: Floats) -> RSGLinUCBState:
        """V or H, by where the round went; rows (*R, 1, ...)."""
        x, _, group = self.rows.parts(released)
        explored = self._explored(state, x[..., 0, :])
        return merge_states(group[..., 0] == EXPLORED, explored, self._used(state, x, np.ones_like(state.rounds))[0])

    def _explored(self, state: RSGLinUCBState, x: Floats) -> RSGLinUCBState:
        """After one explored round."""
        norm = np.einsum("...i,...ij,...j->...", x, state.v_inverse, x)
        v = state.v + (self.explored_weight(norm)[..., None] * x)[..., :, None] * x[..., None, :]
        inverse = np.asarray(np.linalg.inv(v), dtype=float)
        late, stale = state.late | state.due, np.ones_like(state.stale)
        return replace(state, rounds=state.rounds + 1, v=v, v_inverse=inverse, stale=stale, late=late)

    def _used(self, state: RSGLinUCBState, x: Floats, limit: Ints) -> tuple[RSGLinUCBState, Ints]:
        """After rounds x (*R, B, d) without exploration, at most `limit`, none after criterion II; how many, (*R)."""
        switches, h_tau = state.switches + state.due, np.where(state.due[..., None, None], state.h, state.h_tau)
        live = self.live & (switches > 0)  # the bonus follows H: one round at a time
        steps = (self.weights(state.next_o, x)[..., None] * x)[..., :, None] * x[..., None, :]
        if live.all() and x.shape[-2] == 1:  # none of them switches any more
            h, due, taken = state.h + steps[..., 0, :, :], np.zeros_like(state.due), np.minimum(limit, 1)
        else:
            h, due, taken = self._until_grown(state.h, steps, h_tau, live, limit)
        inverse = state.h_inverse
        if live.any():
            inverse = np.where(live[..., None, None], np.linalg.inv(h), inverse)
        after = replace(
            state,
            rounds=state.rounds + taken,
            h=h,
            h_tau=h_tau,
            h_inverse=inverse,
            theta_o=state.next_o,
            theta_tau=state.next_tau,
            late=due,
            due=due,
            switches=switches,
        )
        return after if taken.all() else merge_states(taken > 0, after, state), taken

    def _until_grown(
        self, h: Floats, steps: Floats, h_tau: Floats, live: Bools, limit: Ints
    ) -> tuple[Floats, Bools, Ints]:
        """H after the rounds that are taken, whether criterion II has ended them, and how many they are."""
        running = h[..., None, :, :] + np.cumsum(steps, axis=-3)  # (*R, B, d, d): H after each round
        grown = self.grown(running, h_tau[..., None, :, :]) & ~live[..., None]
        taken = np.minimum(np.where(live, np.minimum(limit, 1), limit), first_true(grown) + 1)
        last = np.maximum(taken - 1, 0)[..., None]
        due = np.take_along_axis(grown, last, axis=-1)[..., 0]
        return np.take_along_axis(running, last[..., None, None], axis=-3)[..., 0, :, :], due, taken

    def due(self, state: RSGLinUCBState) -> NDArray[np.bool_]:
        """Rows have come that an estimate is not fitted to."""
        return state.stale | state.late

    def settled(self, state: RSGLinUCBState) -> Generator[SumQuery, Estimate, RSGLinUCBState]:
        """Fits that begin at what was used last; of runs side by side, of those for which they are due."""
        next_o, next_tau, inverse = (np.array(each) for each in (state.next_o, state.next_tau, state.h_inverse))
        if np.any(on := state.stale):
            x, r, _ = self.rows.parts((yield self.query_rows("explored", 1)).total[on])
            next_o[on] = self.fit_o(x, r, state.theta_o[on])
        if np.any(on := state.late):
            told = (yield self.query_rows("rest", 2)).total[on]
            if self.fits_all_rounds:
                told = np.concatenate([(yield self.query_rows("explored", 3)).total[on], told], axis=-2)
            x, r, _ = self.rows.parts(told)
            next_tau[on] = self.fit_tau(x, r, state.theta_tau[on], next_o[on], state.v[on])
            inverse[on] = np.linalg.inv(state.h[on])
        never = np.zeros_like(state.stale)
        return replace(state, next_o=next_o, next_tau=next_tau, h_inverse=inverse, stale=never, late=never)

    def ahead(
        self, state: RSGLinUCBState, contexts: Floats, valid: NDArray[np.bool_], totals: Floats | None
    ) -> RoundBlock[RSGLinUCBState]:
        """Up to the first explored round, that one included, or to criterion II."""
        if self.live and np.all(state.switches > 0):
            contexts, valid = contexts[:, :1], valid[:, :1]
        index, rounds = np.arange(len(contexts)), valid.sum(axis=1)
        norms = compute_norms(contexts, state.v_inverse[:, None])
        explore = valid & (norms.max(axis=2) >= self.threshold)
        if explore[:, 0].all():
            return self._all_explore(state, contexts[:, 0], norms[:, 0])
        waits = self.due(state) & ~explore[:, 0]  # for estimates, which explored rounds do without
        actions = self.choose(contexts, norms, state.next_o, self._centre(state), state.h_inverse)
        limit = np.where(waits, 0, np.minimum(first_true(explore), rounds))
        after, taken = self._used(state, select_features(contexts, actions), limit)
        following = np.minimum(taken, explore.shape[1] - 1)
        known = (taken < rounds) & ~waits
        explores = np.flatnonzero(known & explore[index, following])
        groups = np.full(actions.shape, REST)
        if len(explores):
            place = explores, following[explores]
            actions[place], groups[place] = np.argmax(norms[place], axis=-1), EXPLORED
            x = contexts[(*place, actions[place])]
            after = replace_states(after, explores, self._explored(select_states(after, explores), x))
            taken = taken + (known & explore[index, following])
        due = waits | (after.late & known & ~explore[index, following])
        return RoundBlock(actions=actions, groups=groups, taken=taken, state=after, due=due)

    def _all_explore(self, state: RSGLinUCBState, contexts: Floats, norms: Floats) -> RoundBlock[RSGLinUCBState]:
        """One round that all runs explore: (s, K, d), (s, K)."""
        arms, everyone = np.argmax(norms, axis=-1), np.arange(len(norms))
        groups, once = np.full((len(norms), 1), EXPLORED), np.ones(len(norms), dtype=np.int64)
        after = self._explored(state, contexts[everyone, arms])
        return RoundBlock(actions=arms[:, None], groups=groups, taken=once, state=after, due=np.zeros_like(state.stale))


# What a round of GLM-JDP adds to the stream: one of two matrices, the other being zero.
#
# A leaf is (x x^T, 0) if the round explored, else (0, w x x^T) with 0 <= w <= 1: a block-diagonal positive semi-
# definite matrix of Frobenius norm at most 1. Two of them have <A, B> >= 0, so |A - B| <= sqrt 2, whichever blocks they
# are in. Stacked, each block by its upper triangle, with off-diagonal entries times sqrt 2: an isometry.


@stored_as("Leaves")
@dataclass(frozen=True, kw_only=True)
class LeafDomain(Ball):
    """Stacks of two blocks of `size` rows."""

    dim: int = 0  # derived from `size`
    size: int

    def __post_init__(self) -> None:
        size = validation.integer("size", self.size)
        object.__setattr__(self, "dim", size * (size + 1))
        super().__post_init__()

    @property
    def sensitivity(self) -> float:
        """sqrt 2 times the bound."""
        return math.sqrt(2) * self.bound

    @cached_property
    def _scale(self) -> Floats:
        rows, columns = upper_triangle(self.size)
        return np.where(rows == columns, 1.0, math.sqrt(2))

    @cached_property
    def _places(self) -> tuple[NDArray[np.intp], Floats]:
        """Where in one part of the stack each entry of the matrix stands, and what undoes its scaling: (d, d) each."""
        rows, columns = upper_triangle(self.size)
        place = np.zeros((self.size, self.size), dtype=np.intp)
        place[rows, columns] = place[columns, rows] = np.arange(len(rows))
        return place, np.where(np.eye(self.size, dtype=bool), 1.0, math.sqrt(0.5))

    def project(self, values: Floats) -> Floats:
        """Negative eigenvalues of both blocks are cut off, then the norm."""
        parts = []
        for block in self.unpack(values):
            eigenvalues, vectors = np.linalg.eigh(block)
            positive = (vectors * np.maximum(eigenvalues, 0.0)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
            parts.append(positive[..., *upper_triangle(self.size)] * self._scale)
        return clip_norm(np.concatenate(parts, axis=-1), self.bound)

    def unpack(self, stacked: Floats) -> tuple[Floats, Floats]:
        """Both blocks of a stack: (..., dim) -> (..., d, d) each."""
        place, unscaled = self._places
        half = self.dim // 2
        return stacked[..., :half][..., place] * unscaled, stacked[..., half:][..., place] * unscaled

    def of(self, features: Floats, weights: Floats, explored: NDArray[np.bool_]) -> Floats:
        """Leaves of |x| <= 1 (..., d) and w (...), in the first block if explored, else in the second: (..., dim)."""
        rows, columns = upper_triangle(self.size)
        outer = features[..., rows] * features[..., columns] * self._scale
        relative, flags = np.clip(weights, 0.0, 1.0)[..., None], explored[..., None]
        return np.concatenate([np.where(flags, outer, 0.0), np.where(flags, 0.0, relative * outer)], axis=-1)

    def statistic(self, features: Floats, weights: Floats, explored: NDArray[np.bool_]) -> Statistic:
        """Leaves of users (..., users, d), clipped before they are formed, and counted."""
        check_all_finite("features", features)
        check_all_finite("weights", weights)
        x = clip_norm(features, 1.0)
        moved = np.any(np.abs(x - features) > 1e-9, axis=-1)
        return self.sealed(self.of(x, weights, explored), clipped=np.sum(moved, axis=-1, dtype=np.int64))
