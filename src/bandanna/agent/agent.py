"""A policy inside one's own program: `act` for every user, `observe` what came of it, in any order, or never."""

from __future__ import annotations

import hashlib
import os
import secrets
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from os import PathLike
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from bandanna.accounting.guarantee import Guarantee
from bandanna.accounting.ledger import Ledger
from bandanna.accounting.people import hashed
from bandanna.accounting.stores.journals import Journals, journal_of, refuse_journal
from bandanna.accounting.view import LedgerView
from bandanna.agent.arms import features_of, fixed_arms
from bandanna.agent.background import Background
from bandanna.agent.decisions import Decision, issue_client, recognise, recognise_client
from bandanna.agent.early import Early
from bandanna.agent.kinds import encoding_of, saves_of
from bandanna.agent.loop import Loop, as_columns
from bandanna.agent.records import Records
from bandanna.agent.release import Overtaken, Release, coins_for
from bandanna.agent.releases import calibrations, first_ask, recalibrate, release_seconds, reward_of
from bandanna.agent.resume import resume
from bandanna.agent.schema import check_arms, check_save, completed
from bandanna.agent.users import listed
from bandanna.core import require
from bandanna.core.arm_sets import Contexts, Sets, arms_of, many_arms_of, of_user
from bandanna.core.arrays import Floats
from bandanna.core.calling import by_name
from bandanna.core.memory import require_room
from bandanna.errors import BandannaError, ClippingWarning, InvalidArgument, SlowReleaseWarning
from bandanna.features.counts import Report
from bandanna.features.map import Map
from bandanna.policies.base import Assigned, Policy, RunningSums
from bandanna.protocols.trust import Privacy
from bandanna.storage import files

Self = TypeVar("Self", bound="Agent")
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_PATIENCE = 1.0  # seconds of a release without a warning


def _alone(method: Callable[Concatenate[Self, Arguments], Result]) -> Callable[Concatenate[Self, Arguments], Result]:
    """One thread at a time, in the process that made the agent, from where an interrupted call has left it."""

    @wraps(method)
    def guarded(agent: Self, /, *args: Arguments.args, **named: Arguments.kwargs) -> Result:
        agent._at_home()
        with agent._lock:
            agent._loop.settle()
            return method(agent, *args, **named)

    return guarded


class Agent:
    """Decides, learns and saves: one policy in one process. Safe to use from several threads.

    policy   what to run: `bd.LinUCB(...)`, `bd.make(...)`, or a policy of one's own
    arms     arms that stay: names, of a policy on `n_arms` arms without features (0, 1, ... by default), or features as
             `act` takes them; then `act()` needs no contexts
    features a public map, `bd.features.Map(...)`: then records - dictionaries, rows of a DataFrame - stand wherever
             features do
    grace    how many further decisions a complete batch waits for late rewards
    release  "now": the first decision after that releases it; "background": a thread does, while decisions go on;
             "manual": whoever calls `release_due`
    test     seeded noise and coins, which protect nobody; needs `seed`

    A batch is complete after as many decisions as the public schedule says, and closed at the first decision after
    `grace` more: by count, never by who answered. A slot without a reward is a report of zeros, noised in full.
    Noise, and the coins that decide between tied arms, come from the operating system. Everything released goes through
    a ledger; `ledger` is what may be seen of it. Where the policy promises nothing (`bd.none()`, epsilon = infinity)
    there is none: nobody is counted and no journal is kept. A call that was interrupted needs nothing from the caller:
    the next one puts things right.
    """

    @by_name("bd.Agent")
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
        if not isinstance(policy, Policy):
            raise InvalidArgument("policy", type(policy).__name__, "a Policy: bd.LinUCB(...), bd.make(...), your own")
        if require.flag("test", test) != (seed is not None):
            raise InvalidArgument("seed", seed, "a whole number with test=True, None without: noise is secure")
        seed = None if seed is None else require.whole("seed", seed, least=0, most=require.SEEDS)
        require.one_of("release", release, ("now", "background", "manual"))
        self._seed, self._pid = seed, os.getpid()
        self._name, self._told, self._kept = secrets.token_hex(16), False, False
        self._early = Early(policy)
        secret = secrets.token_bytes(32) if seed is None else hashlib.sha256(f"agent {seed}".encode()).digest()
        session = secrets.token_hex(8) if seed is None else secret.hex()[:16]
        self._records = None if features is None else Records(features, policy)
        if self._records is not None and arms is not None and getattr(policy, "n_arms", None) is None:
            arms = self._records.of_arms(arms, "arms")
        fixed = fixed_arms(policy, arms)
        if isinstance(policy, RunningSums):
            _room_for(policy)
        self._loop = Loop(policy, fixed, require.whole("grace", grace, least=0), seed, secret, session)
        self._loop.at_once = release == "now"
        self._lock = self._loop.lock
        self._encoding = encoding_of(type(policy))
        self._can_be_saved()
        self._loop.open_ledger(Journals(agent=self._name, terms=self._terms(), secret=secret, encoding=self._encoding))
        self._background = Background(self.release_due) if release == "background" else None
        if release == "now" and self.release_seconds > _PATIENCE:
            warnings.warn(
                f"a release takes about {self.release_seconds:.2g} seconds, during which nobody is answered: fewer "
                'features, smaller batches, or release="background" make it shorter',
                SlowReleaseWarning,
                stacklevel=3,
            )

    def _can_be_saved(self) -> None:
        """A state that no save can hold is refused before anybody has decided: `save` would be too late."""
        try:
            self._encoding.encode(self._loop.progress.state)
        except InvalidArgument as fault:
            name, given = type(self.policy).__name__, fault.value
            allowed = f"{name}.init must say what it returns, `-> State`, a dataclass of numbers, texts and arrays"
            raise InvalidArgument("policy", f"a state with a {given}", f"{allowed} (docs/own-policy.md)") from None

    def _terms(self) -> Any:
        """What the journals are for."""
        loop, records = self._loop, self._records
        mapped = () if records is None else (records.map.to_json(),)
        arms = () if loop.arms is None else loop.arms.as_terms()
        return (loop.policy, *arms, *mapped) if arms or mapped else loop.policy

    @property
    def policy(self) -> Policy[Any]:
        """What runs."""
        return self._loop.policy

    @property
    def arms(self) -> tuple[Any, ...] | None:
        """The names of arms that stay, in the policy's order; None where every user brings arms: public."""
        return None if self._loop.arms is None else self._loop.arms.ids

    @property
    def features(self) -> Map | None:
        """The map from records to features, where there is one: public."""
        return None if self._records is None else self._records.map

    @property
    def mapped(self) -> Report:
        """How many records were out of range, unknown, missing or clipped, since the agent was made or loaded. Not
        protected: do not publish.
        """
        return Report() if self._records is None else self._records.report

    @property
    def snapshot(self) -> Any:
        """All that a device needs to decide: public."""
        return self._loop.now.snapshot

    @property
    def theta(self) -> Floats | None:
        """The newest estimate of the parameter, where the policy has one: public."""
        return self.policy.theta(self.snapshot)

    @property
    def next_release(self) -> int | None:
        """How many decisions the running batch still waits for, grace included: public. None: that is not known."""
        return self._loop.waiting()

    @property
    def clients_wanted(self) -> int:
        """How many more clients the running episode asks for; 0 where every round has its own user."""
        batch = self._loop.now.batch
        return 0 if batch is None or batch.clients is None else batch.clients - len(self._loop.clients)

    @property
    def guarantee(self) -> Guarantee:
        """What is promised for all that leaves this process, to whom, against whom."""
        process = ("this process and its files", "every context and reward, without noise")
        seeded = (("whoever knows the seed", "everything, because this is a test"),) * (self._seed is not None)
        stated = self.policy.guarantee
        return replace(stated, observers=(process, *seeded, *stated.observers))

    @property
    def ledger(self) -> LedgerView | None:
        """What was released and spent so far, as everybody may see it; None where nothing is promised."""
        return self._shown()

    @_alone
    def _shown(self) -> LedgerView | None:
        return None if self._loop.ledger is None else self._loop.ledger.view()

    @property
    def decisions(self) -> int:
        """How many decisions were made: public."""
        return self._loop.made

    @property
    def releases(self) -> int:
        """How many batches were released: public."""
        return self._loop.progress.closed

    @property
    def release_seconds(self) -> float:
        """About how long a release takes, by the random numbers that it draws. Public."""
        batch = self._loop.now.batch
        ask, users = first_ask(self.policy, self._loop.progress.state), 1
        if batch is not None:
            users = batch.users if batch.clients is None else batch.clients
        return release_seconds(self.policy, ask, users, secure=self._loop.source.secure)

    @property
    def late(self) -> int:
        """Rewards that came after their batch was closed. Not protected: do not publish."""
        return self._loop.late

    @property
    def missing(self) -> int:
        """Slots that were closed without a reward. Not protected: do not publish."""
        return self._loop.progress.missing

    @property
    def clipped(self) -> int:
        """Reports whose features or reward were out of range, in closed batches. Not protected: do not publish."""
        return self._loop.progress.clipped

    def __repr__(self) -> str:
        kind = "Agent" if self._seed is None else "Agent for tests"
        return f"<{kind} of {self.policy!r}: {self.decisions} decisions, {self.releases} batches released>"

    def act(self, contexts: Contexts | None = None, user: str | int | None = None) -> Decision:
        """Decide for one user among these arms: a mapping from ids to features, an array (arms, d) or a DataFrame.

        Without contexts where the arms stay; of a policy that asks clients, one action for everybody.
        """
        return self._decide([self._set(contexts)], [user], ["user"])[0]

    def act_many(self, contexts: Any, users: Sequence[str | int | None] | None = None) -> list[Decision]:
        """Decide for several users in order, as `act` one by one: an array (users, arms, d) or a list of sets of arms;
        where the arms stay, how many users.

        Everything is checked before anything is recorded. Where the users go beyond a batch, it is closed on the way,
        and those of this call who are in it cannot answer any more, unless there is grace.
        """
        fixed = self._loop.arms
        if fixed is not None and fixed.of_users:
            contexts = contexts if self._records is None else self._records.of_users(contexts)
            people = require.several("contexts", contexts, "the features of every user, an array (users, d)")
            sets: Sets = [of_user(fixed, one, f"contexts[{i}]") for i, one in enumerate(people)]
        elif fixed is not None:
            sets = [self._set(None)] * require.whole("contexts", contexts, most=10**7)
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
            raise InvalidArgument("contexts", contexts, "none: the arms of this agent stay the same")
        if fixed is None and contexts is None:
            allowed = f"the arms of this user, {features_of(self.policy)} features each (or arms= of the agent)"
            raise InvalidArgument("contexts", None, allowed)
        return arms_of(contexts, features_of(self.policy)) if fixed is None else (fixed.ids, fixed.features)

    @_alone
    def _decide(self, sets: Sets, people: Sequence[Any], names: Sequence[str]) -> list[Decision]:
        pairs = zip(people, names, strict=True)
        users = [None if user is None else hashed(self._loop.secret, user, name) for user, name in pairs]
        if self.clients_wanted and any(user is not None for user in users):
            raise InvalidArgument("user", "an id", "none: one action is for everybody, and recruit(user) names clients")
        self._tell(stacklevel=5)  # before anything is recorded
        self._warn(self._early.contexts(sets), stacklevel=5)
        if self._background is not None:
            self._background.check()
        decisions = self._loop.decide(sets, users, names)
        if self._background is not None and self._loop.due(self._loop.grace) is not None:
            self._background.wake()
        return decisions

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

    @_alone
    def recruit(self, user: str | int | None = None) -> str | None:
        """A client who answers for all rounds of the running episode: an id for `observe`, or None if there are enough.

        For policies that play one action for everybody and ask a few (phased elimination); how many is public.
        """
        person = None if user is None else hashed(self._loop.secret, user, "user")
        place = self._loop.recruit(person, "user")
        if place is None:
            return None
        return issue_client(self._loop.secret, self._loop.clients.episode, place, self._loop.session)

    def observe(self, decision_id: str | Decision, reward: float, *, client: str | None = None) -> bool:
        """The reward of a decision (or of its id), once, or a client's; False if it came too late, and was dropped and
        counted.
        """
        given = decision_id.id if isinstance(decision_id, Decision) else decision_id
        told = reward_of(reward)
        if kept := self._answer(given, told, client):
            self._warn(self._early.reward(told), stacklevel=3)
        return kept

    @_alone
    def _answer(self, decision_id: str, reward: float, client: str | None) -> bool:
        number, session = recognise(self._loop.secret, decision_id)
        if client is None:
            return self._loop.answer(number, session, reward)
        episode, place, joined = recognise_client(self._loop.secret, client)
        return self._loop.client_answer((episode, place, joined), number, reward)

    def release_due(self) -> bool:
        """Release what is due, while others may decide; whether there was something. One call at a time does it."""
        self._at_home()
        loop = self._loop
        if not loop.releasing.acquire(blocking=False):
            return False
        try:
            with self._lock:
                loop.settle()
                batch = None if loop.over else loop.due(loop.grace)
                work = None if batch is None else Release(loop, batch)
            if work is None:
                return False
            with suppress(Overtaken):  # by a decision or by `close`
                work.run()
        finally:
            loop.releasing.release()
        self.release_due()
        return True

    @_alone
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
        self._loop = Loop(policy, loop.arms, loop.grace, self._seed, loop.secret, loop.session)
        self._loop.at_once, self._loop.lock, self._loop.releasing = loop.at_once, loop.lock, loop.releasing
        terms = self._terms()
        self._loop.open_ledger(Journals(agent=self._name, terms=terms, secret=loop.secret, encoding=self._encoding))

    @_alone
    def close(self) -> None:
        """No more decisions: release the complete batches without waiting for grace; an incomplete one never is.

        Rewards that come after this are late.
        """
        self._loop.close()
        self._tell(stacklevel=4)

    @_alone
    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to `path`, whole or not at all, and from now on every release to `path`.journal first.

        Both files hold raw data and secrets, and are readable by their owner only.
        """
        file, loop, self._kept = require.path("path", path), self._loop, True
        files.refuse_others(file)
        content = {
            "name": self._name,
            "policy": loop.policy,
            "calibrations": calibrations(loop.policy),
            "grace": loop.grace,
            "seed": self._seed,
            "secret": loop.secret.hex(),
            "slots": loop.slots.to_columns(),
            "clients": loop.clients.to_columns(),
            "kept": {number: as_columns(rows) for number, rows in loop.kept.items()},
            "arms": None if loop.arms is None else (loop.arms.ids, loop.arms.features),
            "features": None if self._records is None else self._records.map.to_json(),
        }
        plain = {name: getattr(loop, name) for name in Loop.PLAIN}
        text = saves_of(type(loop.policy)).text_of(content | plain | loop.progress.note())
        if loop.ledger is None:
            refuse_journal(file)
            files.write(file, text)
            return
        loop.journals.attach(file, loop.all_notes())
        files.write(file, text)
        loop.journals.saved(file)

    @classmethod
    def load(cls, path: str | PathLike[str], *, policy: type[Policy[Any]] | None = None, release: str = "now") -> Agent:
        """The agent that was saved at `path`. What it has released since then is taken from the journal.

        policy: the class of a policy of one's own; a save says which it was made with, and is not believed.
        """
        if policy is not None and not (isinstance(policy, type) and issubclass(policy, Policy)):
            raise InvalidArgument("policy", policy, "the class of a Policy")
        file, saves = require.path("path", path), saves_of(*(() if policy is None else (policy,)))
        try:
            content = completed(saves.read(file))
        except BandannaError as error:
            if policy is None and "not the name of a known value" in str(error):
                raise BandannaError(f"{error}: of a policy of one's own load(..., policy=) takes the class") from error
            raise
        with saves.errors_of(file):
            check_save(content)
            made, seed = content["policy"], content["seed"]
            if policy is not None and not isinstance(made, policy):
                raise InvalidArgument("policy", policy.__name__, f"{type(made).__name__}, whose save it is")
            recalibrate(made, content["calibrations"])
            arms = check_arms(content["arms"], made)
            agent = cls(
                policy=made, arms=arms, grace=content["grace"], release=release, test=seed is not None, seed=seed
            )
            if content["features"] is not None:
                agent._records = Records(Map.from_json(content["features"]), made)
            agent._restore(file, content)
        return agent

    def _restore(self, file: Path, content: dict[str, Any]) -> None:
        loop, self._name, self._kept = self._loop, content["name"], True
        loop.secret = bytes.fromhex(content["secret"])
        notes: dict[str, Any] = {}
        if loop.ledger is None:
            refuse_journal(file)
        else:
            journals, notes = Journals.load(
                journal_of(file), agent=self._name, terms=self._terms(), secret=loop.secret, encoding=self._encoding
            )
            loop.open_ledger(journals)
        resume(loop, content, notes)

    def _at_home(self) -> None:
        if os.getpid() != self._pid:  # where a lock may be held by a thread that does not exist
            raise BandannaError("an agent lives in the process that made it: load a save in this one instead")


def _room_for(policy: RunningSums[Any]) -> None:
    """Refuse batches whose reports would not fit: they are formed when a batch is released."""
    most, numbers = max(next(policy.phases()).channel.sizes.counts()), policy.domain.dim
    needed = 24 * most * numbers  # as reports, as messages, as what is added
    require_room("batch", most, needed, of=f"reports of {most:,} users with {numbers:,} numbers each")
