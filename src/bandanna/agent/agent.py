"""The agent: act, observe, release, save and load."""

from __future__ import annotations

import hashlib
import itertools
import os
import secrets
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np

from bandanna import validation
from bandanna.agent.episodes import Decision
from bandanna.agent.persistence import PersistentAgent, agent_arguments_from_save, read_save
from bandanna.agent.preflight import (
    EarlyRangeCheck,
    RecordMapper,
    count_features,
    fixed_arms,
    normalize_users,
    to_reward,
)
from bandanna.agent.release import EpisodeRelease, ReleaseOvertaken, device_randomness
from bandanna.agent.reporting import AgentProperties, synchronized
from bandanna.agent.runner import AgentRunner
from bandanna.data.features.map import Map
from bandanna.device.arm_sets import ArmSets, Contexts, parse_arm_sets, parse_arms, repeat_user_features
from bandanna.errors import (
    BandannaError,
    ClippingWarning,
    InvalidArgument,
    InvalidStatistic,
    LateRewardWarning,
    SlowReleaseWarning,
    ValueSummary,
)
from bandanna.policies.base import AssignedArms, Policy, RunningSumPolicy
from bandanna.policies.serialization import make_encoding, make_save_format
from bandanna.privacy.ledger import Ledger, hash_user
from bandanna.protocols.privacy_model import Privacy
from bandanna.types import Floats
from bandanna.validation import check_memory, checked_keywords

# A thread that releases what is due, so that nobody who decides waits for noise.


class BackgroundWorker:
    """Runs `work`, a bound method, whenever it is woken; ends with its owner."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = weakref.WeakMethod(work)
        self._woken = threading.Event()
        self._trouble: Exception | None = None
        self._thread = threading.Thread(target=_run_when_woken, args=(weakref.ref(self), self._woken), daemon=True)
        self._thread.start()
        weakref.finalize(self, self._woken.set)

    def wake(self) -> None:
        """There is something to do."""
        self._woken.set()

    def check(self) -> None:
        """Raise, once, what the work has raised; it is tried again when it is due."""
        trouble, self._trouble = self._trouble, None
        if trouble is not None:
            self.wake()
            known = isinstance(trouble, BandannaError | OSError)  # else its text may hold a user's value
            told = trouble if known else ValueSummary.of_failure(trouble)
            raise BandannaError(f"a release in the background has failed: {told}") from trouble

    def once(self) -> bool:
        """Do it; whether there is still an owner."""
        work = self._work()
        if work is None:
            return False
        try:
            work()
        except Exception as error:
            self._trouble = error
        return True


def _run_when_woken(owner: weakref.ref[BackgroundWorker], woken: threading.Event) -> None:
    while True:
        woken.wait()
        woken.clear()
        background = owner()
        if background is None or not background.once():
            return
        del background


# Deciding and observing: how callers' arms, users and rewards reach an agent's loop, and what is said about them.


class ActingAgent(AgentProperties):
    """The part of an agent that decides and takes rewards."""

    _early: EarlyRangeCheck
    _background: BackgroundWorker | None
    _told: bool  # whether somebody was told of clips
    _late_warned: bool  # of a reward that was dropped

    def act(self, contexts: Contexts | None = None, user: str | int | None = None) -> Decision:
        """Decide for one user among these arms: a mapping from ids to features, an array (arms, d) or a DataFrame.

        Without contexts where the arms stay; of a policy that asks clients, one action for everybody.
        """
        return self._decide_for_one(self._set(contexts), user)

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
            people = validation.list_entries("contexts", contexts, "the features of every user, an array (users, d)")
            sets: ArmSets = [repeat_user_features(fixed, one, f"contexts[{i}]") for i, one in enumerate(people)]
        elif fixed is not None:
            sets = [self._set(None)] * validation.integer("contexts", contexts, most=10**7, error=InvalidStatistic)
        else:
            if self._records is not None:
                contexts = list(
                    map(self._records.of_arms, validation.list_entries("contexts", contexts, "a list of sets"))
                )
            sets = parse_arm_sets(contexts, count_features(self.policy))
        return self._decide(sets, normalize_users(users, len(sets)), [f"users[{i}]" for i in range(len(sets))])

    def _set(self, contexts: Any) -> tuple[Sequence[Any], Floats]:
        """Ids and features of one user's arms: those of the call, or those that stay."""
        fixed = self._loop.arms
        if self._records is not None and contexts is not None and (fixed is None or fixed.of_users):
            contexts = (self._records.of_arms if fixed is None else self._records.of_user)(contexts)
        if fixed is not None and fixed.of_users:
            return repeat_user_features(fixed, contexts)
        if fixed is not None and contexts is not None:
            raise InvalidStatistic("contexts", contexts, "none: the arms of this agent stay the same")
        if fixed is None and contexts is None:
            allowed = f"the arms of this user, {count_features(self.policy)} features each (or arms= of the agent)"
            raise InvalidArgument("contexts", None, allowed)
        return parse_arms(contexts, count_features(self.policy)) if fixed is None else (fixed.ids, fixed.features)

    @synchronized
    def _decide(self, sets: ArmSets, people: Sequence[Any], names: Sequence[str]) -> list[Decision]:
        loop, users = self._loop, [self._hash_user(*pair) for pair in zip(people, names, strict=True)]
        self._tell(stacklevel=5)  # before anything is recorded
        self._warn(self._early.contexts(sets), stacklevel=5)
        if self._background is not None:
            self._background.check()
        decisions = loop.decide(sets, users, names)
        if self._background is not None and loop.due(loop.grace, loop.before) is not None:
            self._background.wake()
        return decisions

    @synchronized
    def _decide_for_one(self, one: tuple[Sequence[Any], Floats], user: Any) -> Decision:
        """`_decide` for one user, in fewer steps."""
        loop, person = self._loop, None if user is None else self._hash_user(user, "user")
        if not self._told:
            self._tell(stacklevel=5)
            self._warn(self._early.contexts([one]), stacklevel=5)
        if self._background is not None:
            self._background.check()
        decision = loop.decide_one(one, person)
        if self._background is not None and loop.due(loop.grace, loop.before) is not None:
            self._background.wake()
        return decision

    def _hash_user(self, user: Any, name: str) -> str | None:
        """Who takes part, as the loop knows people."""
        if user is None:
            return None
        person = hash_user(self._loop.secret, user, name)
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
            if not validation.boolean("explore", explore):
                return ids[int(policy.best(now.snapshot, features[None])[0])]
            if now.batch is not None and isinstance(now.batch.episode, AssignedArms):
                place = (self._loop.made - now.batch.begin) % now.batch.users
                return ids[int(now.batch.episode.arms_at(np.array([place]))[0])]
            coins = device_randomness(self._seed, self._loop.made)
            return ids[int(policy.act(now.snapshot, policy.seen(features[None]), coins).actions[0])]

    @synchronized
    def recruit(self, user: str | int | None = None) -> str | None:
        """A client who answers for all rounds of the running episode: an id for `observe`, or None if there are enough.

        For policies that play one action for everybody and ask a few (phased elimination); how many is public.
        """
        person = None if user is None else hash_user(self._loop.secret, user, "user")
        place = self._loop.recruit(person, "user")
        if place is None:
            return None
        return self._loop.ids.issue_client_id(self._loop.clients.episode, place, self._loop.session)

    def observe(self, decision_id: str | Decision, reward: float, *, client: str | None = None) -> bool:
        """The reward of a decision (or of its id), once, or a client's; False if it came too late, and was dropped and
        counted.
        """
        given = decision_id.id if isinstance(decision_id, Decision) else decision_id
        told = to_reward(reward)
        kept = self._answer(given, told, client)
        if not kept:
            self._warn_late(stacklevel=3)
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
            for each in validation.list_entries("decisions", decisions, "a list of decisions, or of their ids")
        ]
        given = validation.list_entries("rewards", rewards, f"a list or an array of {len(ids)}, one for each decision")
        if len(given) != len(ids):
            raise InvalidArgument("rewards", f"{len(given)} rewards", f"{len(ids)}, one for each decision")
        told = [to_reward(reward, f"rewards[{place}]") for place, reward in enumerate(given)]
        kept = self._answer_many(ids, told)
        if not all(kept):
            self._warn_late(stacklevel=3)
        for reward in itertools.compress(told, kept):
            if self._told:
                break
            self._warn(self._early.reward(reward), stacklevel=3)
        return kept

    def _warn_late(self, stacklevel: int) -> None:
        """Once: a reward was dropped."""
        if not self._late_warned:
            self._late_warned = True
            warnings.warn(LateRewardWarning(self._loop.grace, self._loop.beside), stacklevel=stacklevel)

    @synchronized
    def _answer(self, decision_id: str, reward: float, client: str | None) -> bool:
        number, session = self._loop.ids.recognise(decision_id)
        if client is None:
            return self._loop.answer(number, session, reward)
        episode, place, joined = self._loop.ids.parse_client_id(client)
        return self._loop.record_client_reward((episode, place, joined), number, reward)

    @synchronized
    def _answer_many(self, ids: Sequence[str], rewards: Sequence[float]) -> list[bool]:
        recognise, names = self._loop.ids.recognise, [f"decisions[{place}]" for place in range(len(ids))]
        return self._loop.answer_many(list(map(recognise, ids, names)), rewards, names)


# A policy inside one's own program: `act` for every user, `observe` what came of it, in any order, or never.


_PATIENCE = 1.0  # seconds of a release without a warning


class Agent(ActingAgent, PersistentAgent):
    """Decides, learns and saves: one policy in one process. Safe to use from several threads.

    policy   what to run: `bd.LinUCB(...)`, `bd.make(...)`, or a policy of one's own
    arms     arms that stay: names, of a policy on `n_arms` arms without features (0, 1, ... by default), or features as
             `act` takes them; then `act()` needs no contexts
    features a public map, `bd.features.Map(...)`: then records - dictionaries, rows of a DataFrame - stand wherever
             features do
    grace    how many further decisions a complete batch waits for late rewards
    release  "now": the first call of `act` or `act_many` after that releases it; "background": a thread does from that
             call on, while decisions go on; "manual": `release_due` does
    test     seeded noise and coins, which protect nobody; needs `seed`

    A batch is complete after as many decisions as the public schedule says. It is closed at the first call of `act` or
    `act_many` after `grace` more: by the count of decisions and calls, never by who answered. So a batch that fills
    inside a call of `act_many` takes the rewards of that call. A slot without a reward is a report of zeros, noised in
    full.
    Noise, and the coins that decide between tied arms, come from the operating system. Everything released goes through
    a ledger; `ledger` is what may be seen of it. Where the policy promises nothing (`bd.none()`, epsilon = infinity)
    there is none: nobody is counted and no journal is kept. A call that was interrupted needs nothing from the caller:
    the next one puts things right.
    """

    @checked_keywords("bd.Agent")
    def __init__(
        self,
        *,
        policy: Policy[Any],
        arms: Any = None,
        features: Map | None = None,
        grace: int = 0,
        release: str = "now",
        test: bool = False,
        seed: int | None = None,
    ) -> None:
        validation.instance("policy", policy, Policy, "a Policy: bd.LinUCB(...), bd.make(...), your own")
        if validation.boolean("test", test) != (seed is not None):
            raise InvalidArgument("seed", seed, "a whole number with test=True, None without: noise is secure")
        seed = None if seed is None else validation.integer("seed", seed, least=0, most=validation.SEED_LIMIT)
        validation.one_of("release", release, ("now", "background", "manual"))
        self._seed, self._pid = seed, os.getpid()
        self._name, self._told, self._late_warned, self._kept = secrets.token_hex(16), False, False, False
        self._early = EarlyRangeCheck(policy)
        secret = secrets.token_bytes(32) if seed is None else hashlib.sha256(f"agent {seed}".encode()).digest()
        session = secrets.token_hex(8) if seed is None else secret.hex()[:16]
        self._records = None if features is None else RecordMapper(features, policy)
        if self._records is not None and arms is not None and getattr(policy, "n_arms", None) is None:
            arms = self._records.of_arms(arms, "arms")
        fixed = fixed_arms(policy, arms)
        if isinstance(policy, RunningSumPolicy):
            _check_memory(policy)
        self._loop = AgentRunner(policy, fixed, validation.integer("grace", grace, least=0), seed, secret, session)
        self._loop.at_once = release == "now"
        self._lock = self._loop.lock
        self._encoding = make_encoding(type(policy))
        self._can_be_saved()
        self._loop.open_ledger(self._new_journals())
        self._background = BackgroundWorker(self._release_closed) if release == "background" else None
        if release == "now" and self.release_seconds > _PATIENCE:
            warnings.warn(
                f"a release takes about {self.release_seconds:.2g} seconds, during which nobody is answered: fewer "
                'features, smaller batches, or release="background" make it shorter',
                SlowReleaseWarning,
                stacklevel=3,
            )

    def release_due(self) -> bool:
        """Release what is due, while others may decide; whether there was something. One call at a time does it."""
        return self._release_all(lambda: self._loop.made)

    def _release_closed(self) -> bool:
        """`release_due` of what was due before the newest call that decides, whose rewards are still to come."""
        return self._release_all(lambda: self._loop.before)

    def _release_all(self, made: Callable[[], int]) -> bool:
        """Release what is due after so many decisions."""
        self._at_home()
        loop, released = self._loop, False
        if not loop.releasing.acquire(blocking=False):
            return False
        try:
            while True:
                with self._lock:
                    loop.settle()
                    batch = None if loop.over else loop.due(loop.grace, made())
                    work = None if batch is None else EpisodeRelease(loop, batch)
                if work is None:
                    return released
                released = True
                with suppress(ReleaseOvertaken):  # by a decision or by `close`
                    work.run()
        finally:
            loop.releasing.release()

    @synchronized
    def warm_start(self, log: Any, *, privacy: Privacy | None = None, ledger: Ledger | None = None) -> None:
        """Begin with what a `bd.Log` of other people teaches, released once in a private sum; before any decision.

        privacy: a trust model and budget for the people in the log; the policy's own by default. They are promised what
        `agent.policy.start` says, and the ledger is about the agent's users, as before: nobody may be both. The noise
        of the sum is known to the policy, which trusts it as far as that goes.

        ledger: where the expense of the people in the log is recorded, such as `Ledger(budget, SQLiteStore("log.db"))`.
        With it the sum is drawn once: after a crash, and for another agent with the same reports, the same one comes
        back. Without it, every call on a new agent draws anew, and costs these people their budget again.
        """
        loop = self._loop
        if loop.made or loop.progress.closed or self._kept:
            raise BandannaError("a warm start comes first: this agent has made decisions, or was saved")
        if getattr(self.policy, "start", None) is not None:
            raise BandannaError("this agent has its start: to draw another one is to spend the log's budget again")
        if not hasattr(log, "start"):
            raise InvalidArgument("log", type(log).__name__, "a bd.Log: bd.Log.from_frame(...)")
        arms = None if loop.arms is None else loop.arms.ids
        start = log.start(self.policy, privacy=privacy, arms=arms, seed=self._seed, ledger=ledger)
        policy = replace(self.policy, start=start)  # type: ignore[type-var]
        self._loop = AgentRunner(policy, loop.arms, loop.grace, self._seed, loop.secret, loop.session)
        self._loop.at_once, self._loop.lock, self._loop.releasing = loop.at_once, loop.lock, loop.releasing
        self._loop.open_ledger(self._new_journals())

    @synchronized
    def close(self) -> None:
        """No more decisions: release the complete batches without waiting for grace; an incomplete one never is.

        Rewards that come after this are late.
        """
        self._loop.close()
        self._tell(stacklevel=4)

    @classmethod
    def load(cls, path: str | PathLike[str], *, policy: type[Policy[Any]] | None = None, release: str = "now") -> Agent:
        """The agent that was saved at `path`. What it has released since then is taken from the journal.

        policy: the class of a policy of one's own; a save says which it was made with, and is not believed.
        """
        if policy is not None and not (isinstance(policy, type) and issubclass(policy, Policy)):
            raise InvalidArgument("policy", policy, "the class of a Policy")
        file, saves = validation.path("path", path), make_save_format(*(() if policy is None else (policy,)))
        content = read_save(file, saves, policy)
        with saves.errors_of(file):
            agent = cls(**agent_arguments_from_save(content, policy), release=release)
            agent._restore(file, content)
        return agent


def _check_memory(policy: RunningSumPolicy[Any]) -> None:
    """Refuse batches whose reports would not fit: they are formed when a batch is released."""
    most, numbers = max(next(policy.phases()).channel.sizes.counts()), policy.domain.dim
    needed = 24 * most * numbers  # as reports, as messages, as what is added
    check_memory("batch", most, needed, of=f"reports of {most:,} users with {numbers:,} numbers each")
