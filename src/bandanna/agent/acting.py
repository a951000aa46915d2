"""Deciding and observing: how callers' arms, users and rewards reach an agent's loop, and what is said about them."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from bandanna.accounting.people import hashed
from bandanna.agent.alone import alone
from bandanna.agent.arms import features_of
from bandanna.agent.background import Background
from bandanna.agent.decisions import Decision
from bandanna.agent.early import Early
from bandanna.agent.release import coins_for
from bandanna.agent.releases import reward_of
from bandanna.agent.reporting import Reporting
from bandanna.agent.users import listed
from bandanna.core import require
from bandanna.core.arm_sets import Contexts, Sets, arms_of, many_arms_of, of_user
from bandanna.core.arrays import Floats
from bandanna.errors import ClippingWarning, InvalidArgument, InvalidStatistic, LateRewardWarning
from bandanna.policies.base import Assigned


class Acting(Reporting):
    """The part of an agent that decides and takes rewards."""

    _early: Early
    _background: Background | None
    _told: bool  # whether somebody was told of clips
    _told_late: bool  # of a reward that was dropped

    def act(self, contexts: Contexts | None = None, user: str | int | None = None) -> Decision:
        """Decide for one user among these arms: a mapping from ids to features, an array (arms, d) or a DataFrame.

        Without contexts where the arms stay; of a policy that asks clients, one action for everybody.
        """
        return self._decide_one(self._set(contexts), user)

    def act_many(self, contexts: Any, users: Sequence[str | int | None] | None = None) -> list[Decision]:
        """Decide for several users by one snapshot: an array (users, arms, d) or a list of sets of arms; where the arms
        stay, how many users.

        Everything is checked before anything is recorded. The call closes the batches that were due before it. A batch
        that fills inside the call stays open for its rewards, at least until the next call of `act` or `act_many`. The
        users after it are in the next batches of the schedule. Where the next batch depends on what is learned, they
        are in none, and their rewards are dropped: there, decide for at most `next_release` users in a call.

        Parameters
        ----------
        contexts
            An array (users, arms, d) or a list of what `act` takes; where the arms stay, how many users; where users
            have features and arms have none, an array (users, d).
        users
            Who they are, one for each decision; None where nobody is counted.

        Returns
        -------
        list of Decision
            One for each user, in the same order.
        """
        fixed = self._loop.arms
        if fixed is not None and fixed.of_users:
            contexts = contexts if self._records is None else self._records.of_users(contexts)
            people = require.several("contexts", contexts, "the features of every user, an array (users, d)")
            sets: Sets = [of_user(fixed, one, f"contexts[{i}]") for i, one in enumerate(people)]
        elif fixed is not None:
            sets = [self._set(None)] * require.whole("contexts", contexts, most=10**7, error=InvalidStatistic)
        else:
            if self._records is not None:
                contexts = list(map(self._records.of_arms, require.several("contexts", contexts, "a list of sets")))
            sets = many_arms_of(contexts, features_of(self.policy))
        return self._decide(sets, listed(users, len(sets)), [f"users[{i}]" for i in range(len(sets))])

    def _set(self, contexts: Any) -> tuple[Sequence[Any], Floats]:
        """Ids and features of one user's arms: those of the call, or those that stay."""
        fixed = self._loop.arms
        if self._records is not None and contexts is not None and (fixed is None or fixed.of_users):
            contexts = (self._records.of_arms if fixed is None else self._records.of_user)(contexts)
        if fixed is not None and fixed.of_users:
            return of_user(fixed, contexts)
        if fixed is not None and contexts is not None:
            raise InvalidStatistic("contexts", contexts, "none: the arms of this agent stay the same")
        if fixed is None and contexts is None:
            allowed = f"the arms of this user, {features_of(self.policy)} features each (or arms= of the agent)"
            raise InvalidArgument("contexts", None, allowed)
        return arms_of(contexts, features_of(self.policy)) if fixed is None else (fixed.ids, fixed.features)

    @alone
    def _decide(self, sets: Sets, people: Sequence[Any], names: Sequence[str]) -> list[Decision]:
        loop, users = self._loop, [self._hashed(*pair) for pair in zip(people, names, strict=True)]
        self._tell(stacklevel=5)  # before anything is recorded
        self._warn(self._early.contexts(sets), stacklevel=5)
        if self._background is not None:
            self._background.check()
        decisions = loop.decide(sets, users, names)
        if self._background is not None and loop.due(loop.grace, loop.before) is not None:
            self._background.wake()
        return decisions

    @alone
    def _decide_one(self, one: tuple[Sequence[Any], Floats], user: Any) -> Decision:
        """`_decide` for one user, in fewer steps."""
        loop, person = self._loop, None if user is None else self._hashed(user, "user")
        if not self._told:
            self._tell(stacklevel=5)
            self._warn(self._early.contexts([one]), stacklevel=5)
        if self._background is not None:
            self._background.check()
        decision = loop.decide_one(one, person)
        if self._background is not None and loop.due(loop.grace, loop.before) is not None:
            self._background.wake()
        return decision

    def _hashed(self, user: Any, name: str) -> str | None:
        """Who takes part, as the loop knows people."""
        if user is None:
            return None
        person = hashed(self._loop.secret, user, name)
        if self.clients_wanted:
            raise InvalidArgument("user", "an id", "none: one action is for everybody, and recruit(user) names clients")
        return person

    def _tell(self, stacklevel: int) -> None:
        """Once: most of the reports so far had to be clipped."""
        clipped = self._loop.progress.clipped
        if clipped and not self._told and (said := ClippingWarning.of(clipped, self._loop.answered())):
            self._told = True
            warnings.warn(said, stacklevel=stacklevel)

    def _warn(self, said: ClippingWarning | None, stacklevel: int) -> None:
        """Once: most of the first features or rewards are out of range."""
        if said is not None and not self._told:
            self._told = True
            warnings.warn(said, stacklevel=stacklevel)

    def recommend(self, contexts: Contexts | None = None, *, explore: bool = False) -> Any:
        """The arm that looks best by the newest snapshot, without a slot: nothing is recorded, nothing learned from it.

        With `explore` the arm that `act` would give, by its bonus for what is not known and its coins. For users who
        may not take part, or not any more, and after the horizon. It uses released numbers only.
        """
        policy, (ids, features) = self.policy, self._set(contexts)
        self._at_home()
        with self._lock:
            now = self._loop.now
            if not require.flag("explore", explore):
                return ids[int(policy.best(now.snapshot, features[None])[0])]
            if now.batch is not None and isinstance(now.batch.episode, Assigned):
                place = (self._loop.made - now.batch.begin) % now.batch.users
                return ids[int(now.batch.episode.arms_at(np.array([place]))[0])]
            coins = coins_for(self._seed, self._loop.made)
            return ids[int(policy.act(now.snapshot, policy.seen(features[None]), coins).actions[0])]

    @alone
    def recruit(self, user: str | int | None = None) -> str | None:
        """A client who answers for all rounds of the running episode: an id for `observe`, or None if there are enough.

        For policies that play one action for everybody and ask a few (phased elimination); how many is public.
        """
        person = None if user is None else hashed(self._loop.secret, user, "user")
        place = self._loop.recruit(person, "user")
        if place is None:
            return None
        return self._loop.ids.issue_client(self._loop.clients.episode, place, self._loop.session)

    def observe(self, decision_id: str | Decision, reward: float, *, client: str | None = None) -> bool:
        """The reward of a decision (or of its id), once, or a client's; False if it came too late, and was dropped and
        counted.
        """
        given = decision_id.id if isinstance(decision_id, Decision) else decision_id
        told = reward_of(reward)
        kept = self._answer(given, told, client)
        if not kept:
            self._tell_late(stacklevel=3)
        elif not self._told:
            self._warn(self._early.reward(told), stacklevel=3)
        return kept

    def observe_many(self, decisions: Sequence[str | Decision], rewards: Sequence[float]) -> list[bool]:
        """Take the rewards of several decisions, one for each, and say which were kept.

        Everything is checked before anything is recorded. The call closes no batch: who answers, and when, decides
        nothing about a release.

        Parameters
        ----------
        decisions
            What `act` or `act_many` returned, or the ids of that; each decision at most once.
        rewards
            As many finite numbers, in the same order.

        Returns
        -------
        list of bool
            For each decision whether its reward was kept; False: it came too late, and was dropped and counted.
        """
        ids = [
            each.id if isinstance(each, Decision) else each
            for each in require.several("decisions", decisions, "a list of decisions, or of their ids")
        ]
        given = require.several("rewards", rewards, f"a list or an array of {len(ids)}, one for each decision")
        if len(given) != len(ids):
            raise InvalidArgument("rewards", f"{len(given)} rewards", f"{len(ids)}, one for each decision")
        told = [reward_of(reward, f"rewards[{place}]") for place, reward in enumerate(given)]
        kept = self._answer_many(ids, told)
        if not all(kept):
            self._tell_late(stacklevel=3)
        for reward in itertools.compress(told, kept):
            if self._told:
                break
            self._warn(self._early.reward(reward), stacklevel=3)
        return kept

    def _tell_late(self, stacklevel: int) -> None:
        """Once: a reward was dropped."""
        if not self._told_late:
            self._told_late = True
            warnings.warn(LateRewardWarning(self._loop.grace, self._loop.beside), stacklevel=stacklevel)

    @alone
    def _answer(self, decision_id: str, reward: float, client: str | None) -> bool:
        number, session = self._loop.ids.recognise(decision_id)
        if client is None:
            return self._loop.answer(number, session, reward)
        episode, place, joined = self._loop.ids.recognise_client(client)
        return self._loop.client_answer((episode, place, joined), number, reward)

    @alone
    def _answer_many(self, ids: Sequence[str], rewards: Sequence[float]) -> list[bool]:
        recognise, names = self._loop.ids.recognise, [f"decisions[{place}]" for place in range(len(ids))]
        return self._loop.answer_many(list(map(recognise, ids, names)), rewards, names)
