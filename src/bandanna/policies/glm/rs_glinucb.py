"""RS-GLinUCB, and the rules of rare switching that GLM-JDP shares."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from bandanna import validation
from bandanna.device.action_selection import Choice, make_certain_choice
from bandanna.device.domain import Estimate
from bandanna.numeric.linalg import first_best
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

State = TypeVar("State")

EXPLORED, REST = 0, 1  # groups of rows


@dataclass(frozen=True, kw_only=True)
class RoundBlock(Generic[State]):
    """The first `taken` rounds of a block are played, then `state` holds.

    Attributes
    ----------
    due
        Whether estimates are refitted before the next round.
    added
        The exact sum of their reports, for the stream. Only the runner sees it.
    """

    actions: Ints  # (s, B)
    groups: Ints  # (s, B)
    taken: Ints  # (s,)
    state: State
    due: Bools  # (s,)
    added: Floats | None = None  # (s, dim)


@dataclass(frozen=True, kw_only=True)
class RareSwitchingPolicy(GLMPolicy[State]):
    """Base of RS-GLinUCB and GLM-JDP: explore where V is uncertain, else act on an estimate that is rarely renewed.

    1. Criterion I, max_x |x|^2_{V^{-1}} >= `threshold`: the device plays the argmax, and V += x x^T.
    2. Otherwise it leaves the arms whose upper bound <x, theta_o> + b |x|_{V^{-1}} reaches the largest lower bound,
       plays the argmax of <x, centre> + beta |x|_{H_tau^{-1}}, and H += w x x^T with w = mu'(<x, theta_o>) / e.
    3. Criterion II, H has outgrown H_tau: the server fits theta_tau again and sets H_tau = H.

    b is `elimination`, beta `bonus`, V and H begin at lambda I (`regulariser`). Simulations decide many rounds at once
    (`decide_block`), exactly. Reference: Sawarni et al. 2024, Algorithm 2; [003], Algorithm 2.
    """

    execution = Execution(retained_groups=("explored", "rest"), has_several_queries=True, learns_every_round=True)

    def decide(self, contexts: Floats, v_inverse: Floats, theta_o: Floats, centre: Floats, inverse: Floats) -> Choice:
        """Apply steps 1 and 2: contexts (*R, n, K, d), matrices (*R, d, d), vectors (*R, d)."""
        norms = compute_norms(contexts, v_inverse[..., None, :, :])
        explore = norms.max(axis=-1) >= self.threshold
        actions = self.choose(contexts, norms, theta_o, centre, inverse)
        return make_certain_choice(
            np.where(explore, np.argmax(norms, axis=-1), actions), np.where(explore, EXPLORED, REST)
        )

    def choose(
        self, contexts: Floats, norms: Floats, theta_o: Floats, centre: Floats, inverse: Floats
    ) -> NDArray[np.int64]:
        """Return the arms (*R, n) of step 2; `norms` are |x|^2_{V^{-1}}, (*R, n, K)."""
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

    def learn(self, state: State, episode: FixedLength) -> Generator[SumQuery, Estimate, State]:
        released = yield self.make_round_query(state)
        return (yield from self.refit(self.record_round(state, released.total)))

    def episode(self, state: Any) -> FixedLength | None:
        rounds = int(np.max(state.rounds))
        return FixedLength(number=rounds, users=1) if rounds < self.horizon else None

    @property
    def stream(self) -> StreamProtocol | None:
        """Return the protocol that sums all rounds' reports, if any."""
        return None

    @abstractmethod
    def make_round_query(self, state: State) -> SumQuery:
        """Return the query of every round."""

    @abstractmethod
    def record_round(self, state: State, released: Floats) -> State:
        """Return the state after one more round, with the same estimates."""

    @abstractmethod
    def needs_refit(self, state: State) -> Bools:
        """Return whether `refit` makes a query, (*R)."""

    @abstractmethod
    def refit(self, state: State) -> Generator[SumQuery, Estimate, State]:
        """Fit the estimates that are due, of several runs where `side_by_side` allows it."""

    @abstractmethod
    def decide_block(self, state: State, contexts: Floats, valid: Bools, totals: Floats | None) -> RoundBlock[State]:
        """Decide the next rounds of runs (s, B, K, d) up to the first event; those not `valid` (s, B) do not exist.

        `totals` (s, B + 1, dim): the stream's releases before each round and after the last, without new reports.
        """

    @property
    @abstractmethod
    def threshold(self) -> float:
        """Threshold of criterion I."""

    @property
    @abstractmethod
    def elimination(self) -> float:
        """Return b, in units of |x|_{V^{-1}}."""

    @property
    @abstractmethod
    def bonus(self) -> float:
        """Return beta, in units of |x|_{H_tau^{-1}}."""

    def weights(self, theta_o: Floats, features: Floats) -> Floats:
        """Return w = mu'(<x, theta_o>) / e <= L_mu / e: (*R, d), (*R, n, d) -> (*R, n)."""
        z = (features @ theta_o[..., None])[..., 0]
        return np.minimum(self.model.slope(z), self.model.slope_bound) / math.e


def compute_norms(contexts: Floats, inverse: Floats) -> Floats:
    """Return |x|^2_{V^{-1}}: (*R, n, K, d), (*R, 1 or n, d, d) -> (*R, n, K)."""
    return np.asarray(np.einsum("...i,...i->...", contexts @ inverse, contexts))


def first_true(flags: NDArray[np.bool_]) -> Ints:
    """Return each row's index of the first True, else its length: (..., B) -> (...)."""
    found = np.argmax(flags, axis=-1)
    none = ~np.take_along_axis(flags, found[..., None], axis=-1)[..., 0]
    return np.asarray(np.where(none, flags.shape[-1], found), dtype=np.int64)


def select_features(contexts: Floats, actions: Ints) -> Floats:
    """Return the features of the chosen arms: (*R, n, K, d), (*R, n) -> (*R, n, d)."""
    return np.asarray(np.take_along_axis(contexts, actions[..., None, None], axis=-2)[..., 0, :])


@stored_as("RSGLinUCBState")
@dataclass(frozen=True, kw_only=True)
class RSGLinUCBState:
    """V, H, H_tau and the estimates: those last used without exploration, and the next ones.

    Attributes
    ----------
    stale, late
        Whether next_o, next_tau are not yet fitted to all rows.
    due
        Whether the next round without exploration switches to next_tau and H_tau = H.
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
class RSGLinUCB(NonPrivateGLMPolicy[RSGLinUCBState], RareSwitchingPolicy[RSGLinUCBState]):
    """RS-GLinUCB without privacy (Sawarni et al. 2024, Algorithm 2).

    1. The server publishes V, H_tau and the estimates.
    2. The device plays by criterion I or by the index, as in `RareSwitchingPolicy`.
    3. The server queries the round's row, adds it to V or H, and fits theta_o to all explored rows, theta_tau when
       det H > growth det H_tau.

    Constants, with spread = sqrt(d log(T/failure)) and estimates penalised by (ridge/2) |theta|^2::

                   lambda                gamma          threshold of I            beta        growth  ridge
        theory     d log(T/failure)/R^2  25 R S spread  1/(gamma^2 kappa R^2)     150 spread  2       lambda
        published  1/2                   R S spread     1/(0.01 kappa R^4 S^2 d)  4 spread    1.5     2e-5

    Further parameters: `GLMPolicy`.

    Parameters
    ----------
    constants
        The row of the table; "published" if `preset` is.
    preset
        "corrected": theta_o and theta_tau are projected onto |theta| <= S, theta_tau also onto
        {|theta - theta_o|_V <= gamma sqrt(kappa)} and fitted to the rounds without exploration; the centre is theta_tau
        (theta_o before the first switch). "published", as run in [003]: V += x x^T / (1 + |x|^2) with the norm of
        V^{-1}, theta_tau fitted to all rounds, centre (theta_o + theta_tau)/2, no projection, and H_tau an alias of H
        after the first switch. Deviation from that run: Newton's method finds the minimum.
    """

    execution = replace(RareSwitchingPolicy.execution, side_by_side=True, player="blocks")

    constants: str = "theory"

    def act(self, snapshot: RSGLinUCBState, contexts: Floats, coins: DeviceRandomness) -> Choice:
        centre = self._centre(snapshot)
        return self.decide(contexts, snapshot.v_inverse, snapshot.next_o, centre, snapshot.h_inverse)

    def make_round_query(self, state: RSGLinUCBState) -> SumQuery:
        return self.query

    def record_round(self, state: RSGLinUCBState, released: Floats) -> RSGLinUCBState:
        x, _, group = self.rows.parts(released)
        explored = self._record_explored(state, x[..., 0, :])
        played = self._record_played(state, x, np.ones_like(state.rounds))[0]
        return merge_states(group[..., 0] == EXPLORED, explored, played)

    def needs_refit(self, state: RSGLinUCBState) -> Bools:
        return state.stale | state.late

    def refit(self, state: RSGLinUCBState) -> Generator[SumQuery, Estimate, RSGLinUCBState]:
        next_o, next_tau, inverse = (np.array(each) for each in (state.next_o, state.next_tau, state.h_inverse))
        if np.any(on := state.stale):
            x, r, _ = self.rows.parts((yield self.query_rows("explored", 1)).total[on])
            next_o[on] = self.fit_o(x, r, state.theta_o[on])
        if np.any(on := state.late):
            rows = (yield self.query_rows("rest", 2)).total[on]
            if self.fits_all_rounds:
                rows = np.concatenate([(yield self.query_rows("explored", 3)).total[on], rows], axis=-2)
            x, r, _ = self.rows.parts(rows)
            next_tau[on] = self.fit_tau(x, r, state.theta_tau[on], next_o[on], state.v[on])
            inverse[on] = np.linalg.inv(state.h[on])
        never = np.zeros_like(state.stale)
        return replace(state, next_o=next_o, next_tau=next_tau, h_inverse=inverse, stale=never, late=never)

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.one_of("constants", self.constants, ("theory", "published"))
        if self.preset == "published":
            object.__setattr__(self, "constants", "published")

    @property
    def _spread(self) -> float:
        return math.sqrt(self.dim * self.log_term)

    @property
    def gamma(self) -> float:
        factor = 25 if self.constants == "theory" else 1
        return factor * self.model.reward_bound * self.parameter_bound * self._spread

    @property
    def regulariser(self) -> float:
        return self.dim * self.log_term / self.model.reward_bound**2 if self.constants == "theory" else 0.5

    @property
    def threshold(self) -> float:
        r, s = self.model.reward_bound, self.parameter_bound
        if self.constants == "theory":
            return 1 / (self.gamma**2 * self.curvature * r**2)
        return 1 / (0.01 * self.curvature * r**4 * s**2 * self.dim)

    @property
    def elimination(self) -> float:
        return self.gamma * math.sqrt(self.curvature)

    @property
    def bonus(self) -> float:
        return (150 if self.constants == "theory" else 4) * self._spread

    @property
    def growth(self) -> float:
        return 2.0 if self.constants == "theory" else 1.5

    @property
    def ridge(self) -> float:
        return 2e-5 if self.constants == "published" else self.regulariser

    @property
    def bonus_follows_h(self) -> bool:
        """Return whether H_tau becomes an alias of H."""
        return self.preset == "published"

    @property
    def fits_all_rounds(self) -> bool:
        return self.preset == "published"

    def explored_weight(self, norms: Floats) -> Floats:
        """Return the weight in V of an explored arm, from |x|^2_{V^{-1}}."""
        return 1 / (1 + norms) if self.preset == "published" else np.ones(np.shape(norms))

    def centre(self, theta_o: Floats, theta_tau: Floats, switches: NDArray[np.int64]) -> Floats:
        if self.preset == "published":
            return (theta_o + theta_tau) / 2
        return np.where((switches > 0)[..., None], theta_tau, theta_o)

    def has_grown(self, matrix: Floats, snapshot: Floats) -> Bools:
        return np.asarray(np.linalg.det(matrix) > self.growth * np.linalg.det(snapshot))

    def fit_o(self, features: Floats, rewards: Floats, start: Floats) -> Floats:
        theta = self._fit(features, rewards, start)
        return theta if self.preset == "published" else project_onto_ball(theta, self.parameter_bound)

    def fit_tau(self, features: Floats, rewards: Floats, start: Floats, theta_o: Floats, matrix: Floats) -> Floats:
        theta = self._fit(features, rewards, start)
        if self.preset == "published":
            return theta
        return project_onto_intersection(
            theta, ball=self.parameter_bound, centre=theta_o, matrix=matrix, radius=self.elimination
        )

    def _fit(self, features: Floats, rewards: Floats, start: Floats) -> Floats:
        return maximum_likelihood(self.model, features, rewards, ridge=self.ridge, start=start, tolerance=1e-7).theta

    def _theta(self, snapshot: RSGLinUCBState) -> Floats:
        return snapshot.next_tau

    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> RSGLinUCBState:
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
        return contextual_bounds.find_rs_glinucb_bounds(setting)

    def _run_counts(self, state: RSGLinUCBState) -> dict[str, Ints]:
        return {"switches": state.switches}

    def _centre(self, state: RSGLinUCBState) -> Floats:
        return self.centre(state.next_o, state.next_tau, state.switches + state.due)

    def _record_explored(self, state: RSGLinUCBState, x: Floats) -> RSGLinUCBState:
        norm = np.einsum("...i,...ij,...j->...", x, state.v_inverse, x)
        v = state.v + (self.explored_weight(norm)[..., None] * x)[..., :, None] * x[..., None, :]
        inverse = np.asarray(np.linalg.inv(v), dtype=float)
        late, stale = state.late | state.due, np.ones_like(state.stale)
        return replace(state, rounds=state.rounds + 1, v=v, v_inverse=inverse, stale=stale, late=late)

    def _record_played(self, state: RSGLinUCBState, x: Floats, limit: Ints) -> tuple[RSGLinUCBState, Ints]:
        """Return the state after at most `limit` rounds, up to criterion II, and their number."""
        switches, h_tau = state.switches + state.due, np.where(state.due[..., None, None], state.h, state.h_tau)
        live = self.bonus_follows_h & (switches > 0)  # the bonus follows H: one round at a time
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
        running = h[..., None, :, :] + np.cumsum(steps, axis=-3)  # (*R, B, d, d): H after each round
        grown = self.has_grown(running, h_tau[..., None, :, :]) & ~live[..., None]
        taken = np.minimum(np.where(live, np.minimum(limit, 1), limit), first_true(grown) + 1)
        last = np.maximum(taken - 1, 0)[..., None]
        due = np.take_along_axis(grown, last, axis=-1)[..., 0]
        return np.take_along_axis(running, last[..., None, None], axis=-3)[..., 0, :, :], due, taken

    def decide_block(
        self, state: RSGLinUCBState, contexts: Floats, valid: Bools, totals: Floats | None
    ) -> RoundBlock[RSGLinUCBState]:
        if self.bonus_follows_h and np.all(state.switches > 0):
            contexts, valid = contexts[:, :1], valid[:, :1]
        index, rounds = np.arange(len(contexts)), valid.sum(axis=1)
        norms = compute_norms(contexts, state.v_inverse[:, None])
        explore = valid & (norms.max(axis=2) >= self.threshold)
        if explore[:, 0].all():
            return self._all_explore(state, contexts[:, 0], norms[:, 0])
        waits = self.needs_refit(state) & ~explore[:, 0]  # for estimates, which explored rounds do without
        actions = self.choose(contexts, norms, state.next_o, self._centre(state), state.h_inverse)
        limit = np.where(waits, 0, np.minimum(first_true(explore), rounds))
        after, taken = self._record_played(state, select_features(contexts, actions), limit)
        following = np.minimum(taken, explore.shape[1] - 1)
        known = (taken < rounds) & ~waits
        explores = np.flatnonzero(known & explore[index, following])
        groups = np.full(actions.shape, REST)
        if len(explores):
            place = explores, following[explores]
            actions[place], groups[place] = np.argmax(norms[place], axis=-1), EXPLORED
            x = contexts[(*place, actions[place])]
            after = replace_states(after, explores, self._record_explored(select_states(after, explores), x))
            taken = taken + (known & explore[index, following])
        due = waits | (after.late & known & ~explore[index, following])
        return RoundBlock(actions=actions, groups=groups, taken=taken, state=after, due=due)

    def _all_explore(self, state: RSGLinUCBState, contexts: Floats, norms: Floats) -> RoundBlock[RSGLinUCBState]:
        arms, everyone = np.argmax(norms, axis=-1), np.arange(len(norms))
        groups, once = np.full((len(norms), 1), EXPLORED), np.ones(len(norms), dtype=np.int64)
        after = self._record_explored(state, contexts[everyone, arms])
        return RoundBlock(actions=arms[:, None], groups=groups, taken=once, state=after, due=np.zeros_like(state.stale))
