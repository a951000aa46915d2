"""RS-GLinUCB: kappa only where it explores, few estimates (Sawarni, Das, Barman and Sinha 2024, Algorithm 2).

The rules of `rarely_switching`, with rows in the clear and the constants of `rs_rules`. theta_o is that of all explored
rows, theta_tau is fitted when criterion II holds; both begin at what the last round without exploration used: it does
not matter how often they are fitted in between.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bandanna.core.arrays import Bools, Floats, Ints
from bandanna.core.coins import Coins
from bandanna.core.estimate import Estimate
from bandanna.device.choice import Choice
from bandanna.policies.base import Ask, at, blended, put
from bandanna.policies.glm.rarely_switching import EXPLORED, REST, Ahead, chosen, first_true, norms_of
from bandanna.policies.glm.rs_rules import RSRules
from bandanna.policies.named import algorithm
from bandanna.storage.declared import stored_as
from bandanna.theory import generalised
from bandanna.theory.settings import Found, Setting


@stored_as("RSGLinUCBState")
@dataclass(frozen=True, kw_only=True)
class RSState:
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


@algorithm("RS-GLinUCB", paper="003")
@stored_as("RSGLinUCB")
@dataclass(frozen=True, kw_only=True)
class RSGLinUCB(RSRules[RSState]):
    """RS-GLinUCB; without privacy."""

    side_by_side = True
    player = "blocks"

    def theta(self, snapshot: RSState) -> Floats:
        """theta_tau, as the next round has it."""
        return snapshot.next_tau

    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> RSState:
        """V = H = lambda I."""
        matrix = np.tile(self.regulariser * np.eye(self.dim), (*replicates, 1, 1))
        inverse, nothing = matrix / self.regulariser**2, np.zeros((*replicates, self.dim))
        never, none = np.zeros(replicates, dtype=bool), np.zeros(replicates, dtype=np.int64)
        return RSState(
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
    def bounds(cls, setting: Setting) -> Found:
        """A rate."""
        return generalised.of_rs_glinucb(setting)

    def counts(self, state: RSState) -> dict[str, Ints]:
        """Switches that a round has used."""
        return {"switches": state.switches}

    def act(self, snapshot: RSState, contexts: Floats, coins: Coins) -> Choice:
        """Criterion I, or the index around the centre."""
        centre = self._centre(snapshot)
        return self.decided(contexts, snapshot.v_inverse, snapshot.next_o, centre, snapshot.h_inverse)

    def _centre(self, state: RSState) -> Floats:
        """Of the next index."""
        return self.centre(state.next_o, state.next_tau, state.switches + state.due)

    def round_ask(self, state: RSState) -> Ask:
        """The row."""
        return self.ask

    def noted(self, state: RSState, released: Floats) -> RSState:
        """V or H, by where the round went; rows (*R, 1, ...)."""
        x, _, group = self.rows.parts(released)
        explored = self._explored(state, x[..., 0, :])
        return blended(group[..., 0] == EXPLORED, explored, self._used(state, x, np.ones_like(state.rounds))[0])

    def _explored(self, state: RSState, x: Floats) -> RSState:
        """After one explored round."""
        norm = np.einsum("...i,...ij,...j->...", x, state.v_inverse, x)
        v = state.v + (self.explored_weight(norm)[..., None] * x)[..., :, None] * x[..., None, :]
        inverse = np.asarray(np.linalg.inv(v), dtype=float)
        late, stale = state.late | state.due, np.ones_like(state.stale)
        return replace(state, rounds=state.rounds + 1, v=v, v_inverse=inverse, stale=stale, late=late)

    def _used(self, state: RSState, x: Floats, limit: Ints) -> tuple[RSState, Ints]:
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
        return after if taken.all() else blended(taken > 0, after, state), taken

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

    def due(self, state: RSState) -> NDArray[np.bool_]:
        """Rows have come that an estimate is not fitted to."""
        return state.stale | state.late

    def settled(self, state: RSState) -> Generator[Ask, Estimate, RSState]:
        """Fits that begin at what was used last; of runs side by side, of those for which they are due."""
        next_o, next_tau, inverse = (np.array(each) for each in (state.next_o, state.next_tau, state.h_inverse))
        if np.any(on := state.stale):
            x, r, _ = self.rows.parts((yield self.ask_of("explored", 1)).total[on])
            next_o[on] = self.fit_o(x, r, state.theta_o[on])
        if np.any(on := state.late):
            told = (yield self.ask_of("rest", 2)).total[on]
            if self.uses_everything:
                told = np.concatenate([(yield self.ask_of("explored", 3)).total[on], told], axis=-2)
            x, r, _ = self.rows.parts(told)
            next_tau[on] = self.fit_tau(x, r, state.theta_tau[on], next_o[on], state.v[on])
            inverse[on] = np.linalg.inv(state.h[on])
        never = np.zeros_like(state.stale)
        return replace(state, next_o=next_o, next_tau=next_tau, h_inverse=inverse, stale=never, late=never)

    def ahead(
        self, state: RSState, contexts: Floats, valid: NDArray[np.bool_], totals: Floats | None
    ) -> Ahead[RSState]:
        """Up to the first explored round, that one included, or to criterion II."""
        if self.live and np.all(state.switches > 0):
            contexts, valid = contexts[:, :1], valid[:, :1]
        index, rounds = np.arange(len(contexts)), valid.sum(axis=1)
        norms = norms_of(contexts, state.v_inverse[:, None])
        explore = valid & (norms.max(axis=2) >= self.threshold)
        if explore[:, 0].all():
            return self._all_explore(state, contexts[:, 0], norms[:, 0])
        waits = self.due(state) & ~explore[:, 0]  # for estimates, which explored rounds do without
        actions = self.choose(contexts, norms, state.next_o, self._centre(state), state.h_inverse)
        limit = np.where(waits, 0, np.minimum(first_true(explore), rounds))
        after, taken = self._used(state, chosen(contexts, actions), limit)
        following = np.minimum(taken, explore.shape[1] - 1)
        known = (taken < rounds) & ~waits
        explores = np.flatnonzero(known & explore[index, following])
        groups = np.full(actions.shape, REST)
        if len(explores):
            place = explores, following[explores]
            actions[place], groups[place] = np.argmax(norms[place], axis=-1), EXPLORED
            x = contexts[(*place, actions[place])]
            after = put(after, explores, self._explored(at(after, explores), x))
            taken = taken + (known & explore[index, following])
        due = waits | (after.late & known & ~explore[index, following])
        return Ahead(actions=actions, groups=groups, taken=taken, state=after, due=due)

    def _all_explore(self, state: RSState, contexts: Floats, norms: Floats) -> Ahead[RSState]:
        """One round that all runs explore: (s, K, d), (s, K)."""
        arms, everyone = np.argmax(norms, axis=-1), np.arange(len(norms))
        groups, once = np.full((len(norms), 1), EXPLORED), np.ones(len(norms), dtype=np.int64)
        after = self._explored(state, contexts[everyone, arms])
        return Ahead(actions=arms[:, None], groups=groups, taken=once, state=after, due=np.zeros_like(state.stale))
