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
    """Run `work`, a bound method, in a thread after each `wake`. The thread ends with the owner of `work`."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = weakref.WeakMethod(work)
        self._woken = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=_run_when_woken, args=(weakref.ref(self), self._woken), daemon=True)
        self._thread.start()
        weakref.finalize(self, self._woken.set)

    def wake(self) -> None:
        self._woken.set()

    def check(self) -> None:
        """Raise the last failure of the work, once, and run the work again."""
        failure, self._failure = self._failure, None
        if failure is not None:
            self.wake()
            known = isinstance(failure, BandannaError | OSError)  # else its text may hold a user's value
            message = failure if known else ValueSummary.of_failure(failure)
            raise BandannaError(f"a release in the background has failed: {message}") from failure

    def once(self) -> bool:
        """Run the work and return whether its owner still exists."""
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
    """Let one thread at a time run a method, in the agent's process, after an interrupted call is settled."""

    @wraps(method)
    def guarded(agent: Agent, /, *args: Arguments.args, **named: Arguments.kwargs) -> Result:
        agent._check_process()
        with agent._runner.lock:
            if not agent._runner.settled:
                agent._runner.settle()
            return method(agent, *args, **named)

    return guarded


class Agent:
    """Run one policy in one process. Thread-safe.

    This process sees every context and reward. The guarantee covers what leaves it: snapshots, recommendations and
    `ledger`.

    Parameters
    ----------
    policy
        The policy to run, such as `bd.LinTS(...)`.
    arms
        Fixed arms: a list of names, or a mapping from names to features; `act()` then needs none. A policy without
        `n_arms` gets as many arms.
    features
        A `bd.features.Map` from records to features.
    grace
        Number of decisions for which a full batch still accepts rewards.
    release
        When to release a full batch after its grace: "now" (in the next `act`), "background" (in a thread) or
        "manual" (in `release_due`).
    test
        Use seeded noise, which protects nobody.
    seed
        Seed for `test=True`, None otherwise.

    Notes
    -----
    A batch is full after as many decisions as the public schedule says. A decision without a reward counts as a report
    of zeros with full noise. Each release goes through a ledger; without privacy there is none.
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
        self._pid, self._late_warned, self._saved = os.getpid(), False, False
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
            Features of each arm: a mapping {arm: features}, an array (arms, d) or a DataFrame. With fixed arms: the
            features of the user, or nothing.
        user
            Your id of the user. Pass it to enforce `participations`.

        Returns
        -------
        Decision
            Pass it to `observe` together with the reward.
        """
        return self._decide_for_one(self._contexts.one(contexts), user)

    def act_many(self, contexts: Any, users: Sequence[str | int | None] | None = None) -> list[Decision]:
        """Choose an arm for each of several users, in order.

        Everything is checked before anything is recorded. A batch that fills stays open for its rewards until the next
        call. If the next batch depends on what is learned, later users are in none and their rewards are dropped: pass
        at most `next_release` users.

        Parameters
        ----------
        contexts
            An array (users, arms, d), or a list of contexts as for `act`. With fixed arms: the number of users, or an
            array (users, d) of their features.
        users
            Ids of the users, one for each decision.
        """
        sets = self._contexts.many(contexts)
        return self._decide(sets, normalize_users(users, len(sets)), [f"users[{i}]" for i in range(len(sets))])

    @synchronized
    def _decide(self, sets: ArmSets, people: Sequence[Any], names: Sequence[str]) -> list[Decision]:
        runner, users = self._runner, [self._hash_user(*pair) for pair in zip(people, names, strict=True)]
        if not self._clipping.warned:  # before anything is recorded
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
        runner, person = self._runner, None if user is None else self._hash_user(user, "user")
        if not self._clipping.warned:
            self._clipping.check_reports(runner.progress, stacklevel=5)
            self._clipping.check_contexts([one], stacklevel=5)
        if self._background is not None:
            self._background.check()
        decision = runner.decide_one(one, person)
        if self._background is not None and runner.due(runner.grace, runner.before) is not None:
            self._background.wake()
        return decision

    def _hash_user(self, user: Any, name: str) -> str | None:
        if user is None:
            return None
        person = hash_user(self._runner.secret, user, name)
        if self.clients_wanted:
            raise InvalidArgument(
                "user", ValueSummary("an id"), "None for this policy", "Its clients are named by recruit(user)"
            )
        return person

    def recommend(self, contexts: Contexts | None = None, *, explore: bool = False) -> Any:
        """Return the arm with the highest estimated reward. Nothing is recorded or learned.

        Use it after the horizon, or for users who do not take part.

        Parameters
        ----------
        contexts
            As for `act`.
        explore
            Return the arm that `act` would choose, exploration included.
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
        """Add a client, who answers for all rounds of the running episode.

        Only for policies that query a few clients, such as phased elimination.

        Parameters
        ----------
        user
            Your id of the user. Pass it to enforce `participations`.

        Returns
        -------
        str or None
            An id for `observe(..., client=)`; None if there are enough clients.
        """
        runner, person = self._runner, None if user is None else hash_user(self._runner.secret, user, "user")
        place = runner.recruit(person, "user")
        return None if place is None else runner.ids.issue_client_id(runner.clients.episode, place, runner.session)

    def observe(self, decision_id: str | Decision, reward: float, *, client: str | None = None) -> bool:
        """Record the reward of a decision.

        Parameters
        ----------
        decision_id
            The `Decision`, or its `id`.
        reward
            A number, clipped to the policy's reward range, usually [0, 1].
        client
            Only for policies with clients: the id that `recruit` returned.

        Returns
        -------
        bool
            True if the reward was recorded, False if its batch had closed, which `late` counts.
        """
        given = decision_id.id if isinstance(decision_id, Decision) else decision_id
        number = to_reward(reward)
        kept = self._answer(given, number, client)
        if not kept:
            self._warn_late(stacklevel=3)
        elif not self._clipping.warned:
            self._clipping.check_reward(number, stacklevel=3)
        return kept

    def observe_many(self, decisions: Sequence[str | Decision], rewards: Sequence[float]) -> list[bool]:
        """Record the rewards of several decisions. Everything is checked before anything is recorded.

        Parameters
        ----------
        decisions
            Decisions or their ids, each at most once.
        rewards
            As many numbers, in the same order.

        Returns
        -------
        list of bool
            Whether each reward was recorded.
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
        if not self._late_warned:
            self._late_warned = True
            grace, beside = self._runner.grace, self._runner.beside
            why = f"its batch had closed (grace = {grace}). Create the agent with a larger grace"
            if beside:
                why = f"its batch had closed (grace = {grace}), or its decision is one of {beside:,} in no batch. Call "
                why += "act_many for at most agent.next_release users"
            message = LateRewardWarning(f"a reward was dropped because {why}. agent.late counts dropped rewards")
            warnings.warn(message, stacklevel=stacklevel)

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
        """Release the batches that are due, while other threads decide. Return whether there were any.

        Concurrent calls return False.
        """
        return self._release_all(lambda: self._runner.made)

    def _release_closed(self) -> bool:
        """Release the batches due before the newest `act`, whose users can still send rewards."""
        return self._release_all(lambda: self._runner.before)

    def _release_all(self, made: Callable[[], int]) -> bool:
        """Release the batches due after `made()` decisions. Return whether there were any."""
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
        """Begin with a private sum over a `bd.Log` of other users; before any decision.

        `agent.policy.start` states the guarantee of the users in the log, who must not be users of the agent.

        Parameters
        ----------
        log
            A `bd.Log`.
        privacy
            Privacy model of the users in the log; by default that of the log, else of the policy.
        ledger
            The ledger of the log, such as `Ledger(budget, SQLiteStore("log.db"))`, with which the sum is drawn once,
            even after a crash. Without it, each call on a new agent draws a new sum and spends the budget again.
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
        """Stop deciding, and release the full batches without waiting for grace. Later rewards are dropped."""
        runner = self._runner
        runner.close()
        self._clipping.check_reports(runner.progress, stacklevel=4)

    # Save and load

    @synchronized
    def save(self, path: str | PathLike[str]) -> None:
        """Save the agent to `path` atomically.

        From then on, each release is first written to `path`.journal, so a crash never repeats one. Keep both files
        together. They hold raw data and secrets and have mode 0600.
        """
        file, self._saved = validation.path("path", path), True
        save_agent(file, self._runner, self.features)

    @classmethod
    def load(cls, path: str | PathLike[str], *, policy: type[Policy[Any]] | None = None, release: str = "now") -> Agent:
        """Return the agent saved at `path`, with the later releases of its journal.

        Parameters
        ----------
        policy
            The class of your own policy, if any.
        release
            As for a new agent.
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
        """The names of fixed arms, in the policy's order; None without them. Public."""
        return None if self._runner.arms is None else self._runner.arms.ids

    @property
    def features(self) -> Map | None:
        """The map from records to features, if any. Public."""
        return None if self._contexts.records is None else self._contexts.records.map

    @property
    def snapshot(self) -> Any:
        """The newest snapshot, from which a device chooses an arm. Public."""
        return self._runner.now.snapshot

    @property
    def theta(self) -> Floats | None:
        """The newest estimate of the parameter, if any. Public."""
        return self.policy._theta(self.snapshot)

    @property
    def next_release(self) -> int | None:
        """Number of decisions until the next release, grace included; None if not known. Public."""
        return self._runner.waiting()

    @property
    def clients_wanted(self) -> int:
        """Number of clients that the running episode still needs. Public."""
        batch = self._runner.now.batch
        return 0 if batch is None or batch.clients is None else batch.clients - len(self._runner.clients)

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee for everything that leaves this process. Public."""
        return replace(self.policy.guarantee, seeded=self._runner.seed is not None)

    @property
    def ledger(self) -> LedgerView | None:
        """The releases and expenses so far; None without privacy. Public."""
        return self._view_ledger()

    @property
    def budget(self) -> BudgetBalance | None:
        """`spent`, `remaining` and `total` epsilon of the budget; None without privacy. Public."""
        view = self._view_ledger()
        return None if view is None else view.balance()

    @synchronized
    def _view_ledger(self) -> LedgerView | None:
        return None if self._runner.ledger is None else self._runner.ledger.view()

    @property
    def decisions(self) -> int:
        """Number of decisions. Public."""
        return self._runner.made

    @property
    def releases(self) -> int:
        """Number of released batches. Public."""
        return self._runner.progress.closed

    @property
    def release_seconds(self) -> float:
        """Estimated seconds of a release. Public."""
        runner = self._runner
        batch, users = runner.now.batch, 1
        if batch is not None:
            users = batch.users if batch.clients is None else batch.clients
        query = find_first_query(self.policy, runner.progress.state)
        return estimate_release_seconds(self.policy, query, users, secure=runner.source.secure)

    # Properties that are not protected: do not publish them

    @property
    def mapped(self) -> Report:
        """Counts of records out of range, unknown, missing or clipped. Not protected."""
        return Report() if self._contexts.records is None else self._contexts.records.report

    @property
    def late(self) -> int:
        """Number of rewards after their batch had closed. Not protected."""
        return self._runner.late

    @property
    def missing(self) -> int:
        """Number of decisions in closed batches without a reward. Not protected."""
        return self._runner.progress.missing

    @property
    def clipped(self) -> int:
        """Number of clipped reports in closed batches. Not protected."""
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
