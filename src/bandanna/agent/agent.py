"""The agent: act, observe, release, save and load."""

from __future__ import annotations

import itertools
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from os import PathLike
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar

import numpy as np

from bandanna import validation
from bandanna.agent.episodes import Decision, ReleaseOvertaken, device_randomness
from bandanna.agent.persistence import (
    arguments_from_save,
    check_can_be_saved,
    new_journals,
    read_save,
    resume,
    save_agent,
)
from bandanna.agent.preflight import (
    ClippingCheck,
    ContextReader,
    RecordMapper,
    check_batch_memory,
    estimate_release_seconds,
    find_first_query,
    fixed_arms,
    normalize_users,
    to_reward,
)
from bandanna.agent.runner import AgentRunner
from bandanna.data.features.columns import Report
from bandanna.data.features.map import Map
from bandanna.device.arm_sets import ArmSets, Contexts
from bandanna.errors import (
    BandannaError,
    InvalidArgument,
    InvalidStatistic,
    LateRewardWarning,
    SlowReleaseWarning,
    ValueSummary,
)
from bandanna.policies.base import AssignedArms, Policy
from bandanna.policies.registry import make_encoding, make_save_format
from bandanna.privacy.guarantee import Guarantee
from bandanna.privacy.ledger import BudgetBalance, Ledger, LedgerView, hash_user
from bandanna.protocols.privacy_model import Privacy
from bandanna.types import Floats
from bandanna.validation import checked_keywords


class BackgroundWorker:
    """Run `work`, a bound method, in a thread whenever `wake` is called. The thread ends with the owner of `work`."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = weakref.WeakMethod(work)
        self._woken = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=_run_when_woken, args=(weakref.ref(self), self._woken), daemon=True)
        self._thread.start()
        weakref.finalize(self, self._woken.set)

    def wake(self) -> None:
        """Run the work once more."""
        self._woken.set()

    def check(self) -> None:
        """Raise the last failure of the work, once, and run the work again."""
        failure, self._failure = self._failure, None
        if failure is not None:
            self.wake()
            known = isinstance(failure, BandannaError | OSError)  # else its text may hold a user's value
            told = failure if known else ValueSummary.of_failure(failure)
            raise BandannaError(f"a release in the background has failed: {told}") from failure

    def once(self) -> bool:
        """Run the work. Return whether its owner still exists."""
        work = self._work()
        if work is None:
            return False
        try:
            work()
        except Exception as error:
            self._failure = error
        return True


def _run_when_woken(owner: weakref.ref[BackgroundWorker], woken: threading.Event) -> None:
    while True:
        woken.wait()
        woken.clear()
        background = owner()
        if background is None or not background.once():
            return
        del background


# The agent


_SLOW = 1.0  # seconds: a release that takes longer is warned of

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def synchronized(
    method: Callable[Concatenate[Agent, Arguments], Result],
) -> Callable[Concatenate[Agent, Arguments], Result]:
    """Run a method in one thread at a time, in the agent's process, after an interrupted call is settled."""

    @wraps(method)
    def guarded(agent: Agent, /, *args: Arguments.args, **named: Arguments.kwargs) -> Result:
        agent._check_process()
        with agent._runner.lock:
            if not agent._runner.settled:
                agent._runner.settle()
            return method(agent, *args, **named)

    return guarded


class Agent:
    """Run one policy in one process: decide, learn and save. Safe to use from several threads.

    This process sees every context and reward. The guarantee covers what leaves it: snapshots, recommendations and
    `ledger`.

    Parameters
    ----------
    policy
        What to run: `bd.LinUCB(...)`, `bd.make(...)`, or a policy of one's own.
    arms
        Arms that stay, so that `act()` needs no contexts: names for a policy on `n_arms` arms without features
        (0, 1, ... by default), or features as `act` takes them.
    features
        A public map, `bd.features.Map(...)`. Records - dictionaries, rows of a DataFrame - then stand wherever
        features do.
    grace
        How many further decisions a complete batch waits for late rewards.
    release
        Who releases a complete batch after its grace: "now": the first call of `act` or `act_many`; "background": a
        thread from that call on, while decisions go on; "manual": `release_due`.
    test
        Seeded noise and coins, which protect nobody; needs `seed`.
    seed
        The seed with `test=True`; None without.

    Notes
    -----
    A batch is complete after as many decisions as the public schedule says. The count of decisions and calls closes it,
    never who answered. A batch that fills inside a call of `act_many` takes the rewards of that call. A slot without a
    reward is a report of zeros, noised in full.

    Noise, and the coins that decide between tied arms, come from the operating system. Every release goes through a
    ledger. Where the policy promises nothing (`bd.none()`, epsilon = infinity) there is no ledger and no journal, and
    nobody is counted. After an interrupted call the caller does nothing: the next call puts things right.
    """

    @checked_keywords("bd.Agent")
    def __init__(
        self,
        policy: Policy[Any],
        *,
        arms: Any = None,
        features: Map | None = None,
        grace: int = 0,
        release: str = "now",
        test: bool = False,
        seed: int | None = None,
    ) -> None:
        validation.instance("policy", policy, Policy, "a policy such as bd.LinTS(...) or bd.make(...)")
        if validation.boolean("test", test) != (seed is not None):
            raise InvalidArgument("seed", seed, "an integer with test=True and None otherwise")
        seed = None if seed is None else validation.integer("seed", seed, least=0, most=validation.SEED_LIMIT)
        validation.one_of("release", release, ("now", "background", "manual"))
        if policy._lacks_arms:
            arms = validation.list_entries("arms", arms, "a list with the names of all arms")
            policy = policy.with_arms(len(arms))
        records = None if features is None else RecordMapper(features, policy)
        if records is not None and arms is not None and getattr(policy, "n_arms", None) is None:
            arms = records.of_arms(arms, "arms")
        fixed = fixed_arms(policy, arms)
        check_batch_memory(policy)
        self._contexts, self._clipping = ContextReader(policy, fixed, records), ClippingCheck(policy)
        self._pid, self._late_told, self._saved = os.getpid(), False, False
        grace = validation.integer("grace", grace, least=0)
        self._runner = AgentRunner(policy, arms=fixed, grace=grace, seed=seed, at_once=release == "now")
        self._encoding = make_encoding(type(policy))
        check_can_be_saved(policy, self._runner.progress.state, self._encoding)
        self._runner.open_ledger(new_journals(self._runner, self.features, self._encoding))
        self._background = BackgroundWorker(self._release_closed) if release == "background" else None
        if release == "now" and self.release_seconds > _SLOW:
            warnings.warn(
                f"a release takes about {self.release_seconds:.2g} seconds, and no call is answered meanwhile. Use "
                'release="background", smaller batches or fewer features',
                SlowReleaseWarning,
                stacklevel=3,
            )

    def _check_process(self) -> None:
        if os.getpid() != self._pid:  # where a lock may be held by a thread that does not exist
            raise BandannaError("an agent works only in the process that made it. Use bd.Agent.load(path) in this one")

    # Decide

    def act(self, contexts: Contexts | None = None, user: str | int | None = None) -> Decision:
        """Choose an arm for one user.

        Parameters
        ----------
        contexts
            The arms of this user: a mapping from ids to features, an array (arms, d) or a DataFrame; none where the
            arms stay.
        user
            Who it is, where participations are counted. None for policies that ask clients: their action is for
            everybody.

        Returns
        -------
        Decision
            The arm, and the id that `observe` takes.
        """
        return self._decide_for_one(self._contexts.one(contexts), user)

    def act_many(self, contexts: Any, users: Sequence[str | int | None] | None = None) -> list[Decision]:
        """Choose an arm for each of several users by one snapshot.

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
        sets = self._contexts.many(contexts)
        return self._decide(sets, normalize_users(users, len(sets)), [f"users[{i}]" for i in range(len(sets))])

    @synchronized
    def _decide(self, sets: ArmSets, people: Sequence[Any], names: Sequence[str]) -> list[Decision]:
        runner, users = self._runner, [self._hash_user(*pair) for pair in zip(people, names, strict=True)]
        if not self._clipping.told:  # before anything is recorded
            self._clipping.check_reports(runner.progress, stacklevel=5)
            self._clipping.check_contexts(sets, stacklevel=5)
        if self._background is not None:
            self._background.check()
        decisions = runner.decide(sets, users, names)
        if self._background is not None and runner.due(runner.grace, runner.before) is not None:
            self._background.wake()
        return decisions

    @synchronized
    def _decide_for_one(self, one: tuple[Sequence[Any], Floats], user: Any) -> Decision:
        """Decide for one user: `_decide` in fewer steps."""
        runner, person = self._runner, None if user is None else self._hash_user(user, "user")
        if not self._clipping.told:
            self._clipping.check_reports(runner.progress, stacklevel=5)
            self._clipping.check_contexts([one], stacklevel=5)
        if self._background is not None:
            self._background.check()
        decision = runner.decide_one(one, person)
        if self._background is not None and runner.due(runner.grace, runner.before) is not None:
            self._background.wake()
        return decision

    def _hash_user(self, user: Any, name: str) -> str | None:
        """Return the keyed hash of a user who decides."""
        if user is None:
            return None
        person = hash_user(self._runner.secret, user, name)
        if self.clients_wanted:
            raise InvalidArgument(
                "user", ValueSummary("an id"), "None for this policy", "Its clients are named by recruit(user)"
            )
        return person

    def recommend(self, contexts: Contexts | None = None, *, explore: bool = False) -> Any:
        """Return the arm that looks best by the newest snapshot. Nothing is recorded, and nothing learned from it.

        Use it for users who may not take part, or not any more, and after the horizon. It uses released numbers only.

        Parameters
        ----------
        contexts
            As for `act`.
        explore
            Return the arm that `act` would choose, by its exploration and its coins.

        Returns
        -------
        object
            The id of an arm.
        """
        policy, (ids, features) = self.policy, self._contexts.one(contexts)
        self._check_process()
        with self._runner.lock:
            runner, now = self._runner, self._runner.now
            if not validation.boolean("explore", explore):
                return ids[int(policy.best(now.snapshot, features[None])[0])]
            if now.batch is not None and isinstance(now.batch.episode, AssignedArms):
                place = (runner.made - now.batch.begin) % now.batch.users
                return ids[int(now.batch.episode.arms_at(np.array([place]))[0])]
            coins = device_randomness(runner.seed, runner.made)
            return ids[int(policy.act(now.snapshot, policy.clip_features(features[None]), coins).actions[0])]

    # Observe

    @synchronized
    def recruit(self, user: str | int | None = None) -> str | None:
        """Take a client who answers for all rounds of the running episode.

        For policies that play one action for everybody and ask a few (phased elimination); how many is public.

        Parameters
        ----------
        user
            Who it is, where participations are counted.

        Returns
        -------
        str or None
            An id for `observe(..., client=)`; None if there are enough clients.
        """
        runner, person = self._runner, None if user is None else hash_user(self._runner.secret, user, "user")
        place = runner.recruit(person, "user")
        return None if place is None else runner.ids.issue_client_id(runner.clients.episode, place, runner.session)

    def observe(self, decision_id: str | Decision, reward: float, *, client: str | None = None) -> bool:
        """Record the reward of a decision, once, or a client's reward of its round.

        Parameters
        ----------
        decision_id
            What `act` returned, or the id of that.
        reward
            A finite number; True and False are 1 and 0. What is outside of the policy's range is clipped.
        client
            What `recruit` returned, for policies that ask clients.

        Returns
        -------
        bool
            Whether the reward was kept; False: it came too late, and was dropped and counted.
        """
        given = decision_id.id if isinstance(decision_id, Decision) else decision_id
        number = to_reward(reward)
        kept = self._answer(given, number, client)
        if not kept:
            self._warn_late(stacklevel=3)
        elif not self._clipping.told:
            self._clipping.check_reward(number, stacklevel=3)
        return kept

    def observe_many(self, decisions: Sequence[str | Decision], rewards: Sequence[float]) -> list[bool]:
        """Record the rewards of several decisions, one for each.

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
            raise InvalidStatistic(
                "rewards", ValueSummary(f"{len(given)}"), f"{len(ids)} numbers, one for each decision"
            )
        numbers = [to_reward(reward, f"rewards[{place}]") for place, reward in enumerate(given)]
        kept = self._answer_many(ids, numbers)
        if not all(kept):
            self._warn_late(stacklevel=3)
        for number in itertools.compress(numbers, kept):
            self._clipping.check_reward(number, stacklevel=3)
        return kept

    def _warn_late(self, stacklevel: int) -> None:
        """Warn once that a reward was dropped."""
        if not self._late_told:
            self._late_told = True
            warnings.warn(LateRewardWarning(self._runner.grace, self._runner.beside), stacklevel=stacklevel)

    @synchronized
    def _answer(self, decision_id: str, reward: float, client: str | None) -> bool:
        runner = self._runner
        number, session = runner.ids.recognise(decision_id)
        if client is None:
            return runner.answer(number, session, reward)
        return runner.record_client_reward(runner.ids.parse_client_id(client), number, reward)

    @synchronized
    def _answer_many(self, ids: Sequence[str], rewards: Sequence[float]) -> list[bool]:
        recognise, names = self._runner.ids.recognise, [f"decisions[{place}]" for place in range(len(ids))]
        return self._runner.answer_many(list(map(recognise, ids, names)), rewards, names)

    # Release

    def release_due(self) -> bool:
        """Release what is due, while others may decide. One call at a time does it; others return False.

        Returns
        -------
        bool
            Whether there was something to release.
        """
        return self._release_all(lambda: self._runner.made)

    def _release_closed(self) -> bool:
        """Release what was due before the newest call that decides, whose rewards are still to come."""
        return self._release_all(lambda: self._runner.before)

    def _release_all(self, made: Callable[[], int]) -> bool:
        """Release what is due after so many decisions."""
        self._check_process()
        runner, released = self._runner, False
        if not runner.releasing.acquire(blocking=False):
            return False
        try:
            while True:
                with runner.lock:
                    runner.settle()
                    batch = None if runner.over else runner.due(runner.grace, made())
                    work = None if batch is None else runner.prepare_release(batch)
                if work is None:
                    return released
                released = True
                with suppress(ReleaseOvertaken):  # by a decision or by `close`
                    runner.release(work)
        finally:
            runner.releasing.release()

    @synchronized
    def warm_start(self, log: Any, *, privacy: Privacy | None = None, ledger: Ledger | None = None) -> None:
        """Begin with what a `bd.Log` of other people teaches, released once in a private sum; before any decision.

        The people in the log are promised what `agent.policy.start` says. `agent.ledger` is about the agent's users, as
        before: nobody may be both. The policy knows the noise of the sum, and trusts it as far as that goes.

        Parameters
        ----------
        log
            A `bd.Log`.
        privacy
            A trust model and budget for the people in the log; the policy's own by default.
        ledger
            Where the expense of the people in the log is recorded, such as `Ledger(budget, SQLiteStore("log.db"))`.
            With it the sum is drawn once: after a crash, and for another agent with the same reports, the same one
            comes back. Without it, every call on a new agent draws anew, and costs these people their budget again.
        """
        runner = self._runner
        if runner.made or runner.progress.closed or self._saved:
            raise BandannaError("warm_start must come before the first decision and the first save of an agent")
        if getattr(self.policy, "start", None) is not None:
            raise BandannaError("this agent has a warm start already. Another one would spend the log's budget again")
        if not hasattr(log, "start"):
            raise InvalidArgument("log", ValueSummary.of(log), "a bd.Log, as bd.Log.from_frame(...) returns")
        start = log.start(self.policy, privacy=privacy, arms=self.arms, seed=runner.seed, ledger=ledger)
        begun = runner.with_policy(replace(self.policy, start=start))  # type: ignore[type-var]
        begun.open_ledger(new_journals(begun, self.features, self._encoding))
        self._runner = begun

    @synchronized
    def close(self) -> None:
        """Make no more decisions: release the complete batches without waiting for grace; an incomplete one never is.

        Rewards that come after this are late.
        """
        runner = self._runner
        runner.close()
        self._clipping.check_reports(runner.progress, stacklevel=4)

    # Save and load

    @synchronized
    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to `path`, whole or not at all, and from now on every release to `path`.journal first.

        Both files hold raw data and secrets, and are readable by their owner only.

        Parameters
        ----------
        path
            The file of the save.
        """
        file, self._saved = validation.path("path", path), True
        save_agent(file, self._runner, self.features)

    @classmethod
    def load(cls, path: str | PathLike[str], *, policy: type[Policy[Any]] | None = None, release: str = "now") -> Agent:
        """Return the agent that was saved at `path`, with what it has released since then, from the journal.

        Parameters
        ----------
        path
            The file of the save.
        policy
            The class of a policy of one's own; a save says which it was made with, and is not believed.
        release
            As for a new agent: a save does not hold it.

        Returns
        -------
        Agent
            It goes on where the save and the journal end.
        """
        if policy is not None and not (isinstance(policy, type) and issubclass(policy, Policy)):
            raise InvalidArgument("policy", policy, "a subclass of bd.Policy")
        file, saves = validation.path("path", path), make_save_format(*(() if policy is None else (policy,)))
        content = read_save(file, saves, policy)
        with saves.errors_of(file):
            agent = cls(**arguments_from_save(content, policy), release=release)
            agent._saved = True
            if content["features"] is not None:
                agent._contexts.records = RecordMapper(Map.from_json(content["features"]), agent.policy)
            resume(agent._runner, file, content, agent.features, agent._encoding)
        return agent

    # Properties that are public

    @property
    def policy(self) -> Policy[Any]:
        """The policy that runs."""
        return self._runner.policy

    @property
    def arms(self) -> tuple[Any, ...] | None:
        """The names of arms that stay, in the policy's order; None where every user brings arms. Public."""
        return None if self._runner.arms is None else self._runner.arms.ids

    @property
    def features(self) -> Map | None:
        """The map from records to features, if there is one. Public."""
        return None if self._contexts.records is None else self._contexts.records.map

    @property
    def snapshot(self) -> Any:
        """All that a device needs to decide. Public."""
        return self._runner.now.snapshot

    @property
    def theta(self) -> Floats | None:
        """The newest estimate of the parameter, if the policy has one. Public."""
        return self.policy._theta(self.snapshot)

    @property
    def next_release(self) -> int | None:
        """How many decisions the running batch waits for, grace included; None where that is not known. Public."""
        return self._runner.waiting()

    @property
    def clients_wanted(self) -> int:
        """How many more clients the running episode asks for; 0 where every round has its own user. Public."""
        batch = self._runner.now.batch
        return 0 if batch is None or batch.clients is None else batch.clients - len(self._runner.clients)

    @property
    def guarantee(self) -> Guarantee:
        """What the policy promises for all that leaves this process, to whom, against whom. Public."""
        return replace(self.policy.guarantee, seeded=self._runner.seed is not None)

    @property
    def ledger(self) -> LedgerView | None:
        """What was released and spent so far, as everybody may see it; None where nothing is promised. Public."""
        return self._view_ledger()

    @property
    def budget(self) -> BudgetBalance | None:
        """`spent`, `remaining` and `total` epsilon of the budget; None where nothing is promised. Public."""
        view = self._view_ledger()
        return None if view is None else view.balance()

    @synchronized
    def _view_ledger(self) -> LedgerView | None:
        return None if self._runner.ledger is None else self._runner.ledger.view()

    @property
    def decisions(self) -> int:
        """How many decisions were made. Public."""
        return self._runner.made

    @property
    def releases(self) -> int:
        """How many batches were released. Public."""
        return self._runner.progress.closed

    @property
    def release_seconds(self) -> float:
        """About how long a release takes, by the random numbers that it draws. Public."""
        runner = self._runner
        batch, users = runner.now.batch, 1
        if batch is not None:
            users = batch.users if batch.clients is None else batch.clients
        ask = find_first_query(self.policy, runner.progress.state)
        return estimate_release_seconds(self.policy, ask, users, secure=runner.source.secure)

    # Properties that are not protected: do not publish them

    @property
    def mapped(self) -> Report:
        """How many records were out of range, unknown, missing or clipped, since the agent was made or loaded. Not
        protected.
        """
        return Report() if self._contexts.records is None else self._contexts.records.report

    @property
    def late(self) -> int:
        """How many rewards came after their batch was closed. Not protected."""
        return self._runner.late

    @property
    def missing(self) -> int:
        """How many slots were closed without a reward. Not protected."""
        return self._runner.progress.missing

    @property
    def clipped(self) -> int:
        """How many reports in closed batches had features or a reward out of range. Not protected."""
        return self._runner.progress.clipped

    def __repr__(self) -> str:
        kind = "Agent" if self._runner.seed is None else "Agent for tests"
        return f"<{kind} of {self.policy!r}: {self.decisions} decisions, {self.releases} batches released>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Refuse to be pickled or copied: two agents would spend one budget twice."""
        raise BandannaError(
            "an agent cannot be pickled or copied, because both copies would spend its budget: use agent.save(path) "
            "and bd.Agent.load(path)"
        )
