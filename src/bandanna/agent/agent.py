"""A policy inside one's own program: `act` for every user, `observe` what came of it, in any order, or never."""

from __future__ import annotations

import hashlib
import os
import secrets
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from os import PathLike
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from bandanna.accounting.guarantee import Guarantee
from bandanna.accounting.people import hashed
from bandanna.accounting.stores.journals import Journals, journal_of, refuse_journal
from bandanna.accounting.view import LedgerView
from bandanna.agent.contexts import Contexts, arms_of, many_arms_of
from bandanna.agent.decisions import Decision, recognise
from bandanna.agent.kinds import ENCODING, SAVES
from bandanna.agent.loop import Loop, Sets
from bandanna.agent.plan import Policy
from bandanna.agent.releases import calibrations, recalibrate, release_seconds, reward_of
from bandanna.agent.schema import check_save, check_snapshot
from bandanna.agent.slots import Slots
from bandanna.agent.users import listed
from bandanna.core import require
from bandanna.core.coins import NoCoins
from bandanna.errors import BandannaError, ClippingWarning, InvalidArgument, SlowReleaseWarning
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

    policy  what to run: `bd.LinUCB(...)` or an anytime policy
    grace   how many further decisions a complete batch waits for late rewards
    test    seeded noise and coins, which protect nobody; needs `seed`

    A batch is complete after as many decisions as the public schedule says, and closed at the first decision after
    `grace` more: by count, never by who answered. A slot without a reward is a report of zeros, noised in full.
    Noise, and the coins that decide between tied arms, come from the operating system. Everything released goes through
    a ledger; `ledger` is what may be seen of it. Where the policy promises nothing (`bd.none()`, epsilon = infinity)
    there is none: nobody is counted and no journal is kept. A call that was interrupted needs nothing from the caller:
    the next one puts things right.
    """

    def __init__(self, *, policy: Policy, grace: int = 0, test: bool = False, seed: int | None = None) -> None:
        if not isinstance(policy, Policy):
            raise InvalidArgument("policy", type(policy).__name__, "bd.LinUCB(...) or an anytime policy")
        if require.flag("test", test) != (seed is not None):
            raise InvalidArgument("seed", seed, "a whole number with test=True, None without: noise is secure")
        seed = None if seed is None else require.whole("seed", seed, least=0, most=require.SEEDS)
        self._seed, self._pid, self._lock = seed, os.getpid(), threading.RLock()
        self._name, self._told = secrets.token_hex(16), False
        secret = secrets.token_bytes(32) if seed is None else hashlib.sha256(f"agent {seed}".encode()).digest()
        session = secrets.token_hex(8) if seed is None else secret.hex()[:16]
        self._loop = Loop(policy, require.whole("grace", grace, least=0), seed, secret, session)
        self._loop.open_ledger(Journals(agent=self._name, terms=policy, secret=secret, encoding=ENCODING))
        if self.release_seconds > _PATIENCE:
            warnings.warn(
                f"a release takes about {self.release_seconds:.2g} seconds, during which nobody is answered: fewer "
                "features, smaller batches, or a trust model with less noise to draw make it shorter",
                SlowReleaseWarning,
                stacklevel=2,
            )

    @property
    def policy(self) -> Policy:
        """What runs."""
        policy: Policy = self._loop.policy
        return policy

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
        """About how long a release takes, by the random numbers that it draws; the agent waits for it. Public."""
        return release_seconds(self.policy, secure=self._loop.source.secure)

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

    def act(self, contexts: Contexts, user: str | int | None = None) -> Decision:
        """Decide for one user among these arms: a mapping from ids to features, an array (arms, d) or a DataFrame."""
        return self._decide([arms_of(contexts, self.policy.dim)], [user], ["user"])[0]

    def act_many(self, contexts: Any, users: Sequence[str | int | None] | None = None) -> list[Decision]:
        """Decide for several users in order, as `act` one by one: an array (users, arms, d) or a list of sets of arms.

        Everything is checked before anything is recorded. Where the users go beyond a batch, it is closed on the way,
        and those of this call who are in it cannot answer any more, unless there is grace.
        """
        sets = many_arms_of(contexts, self.policy.dim)
        return self._decide(sets, listed(users, len(sets)), [f"users[{i}]" for i in range(len(sets))])

    @_alone
    def _decide(self, sets: Sets, people: Sequence[Any], names: Sequence[str]) -> list[Decision]:
        pairs = zip(people, names, strict=True)
        users = [None if user is None else hashed(self._loop.secret, user, name) for user, name in pairs]
        self._tell(stacklevel=5)  # before anything is recorded
        return self._loop.decide(sets, users, names)

    def _tell(self, stacklevel: int) -> None:
        """Once: most of the reports so far had to be clipped."""
        clipped = self._loop.progress.clipped
        if clipped and not self._told and (said := ClippingWarning.of(clipped, self._loop.answered())):
            self._told = True
            warnings.warn(said, stacklevel=stacklevel)

    def recommend(self, contexts: Contexts) -> Any:
        """The arm that the newest snapshot favours, without a slot: nothing is recorded, nothing learned from it.

        Of tied arms it is the first: no coin is flipped.
        For users who may not take part, or not any more, and after the horizon. It uses released numbers only.
        """
        ids, features = arms_of(contexts, self.policy.dim)
        self._at_home()
        with self._lock:
            choice = self.policy.act(self._loop.progress.snapshot, features[None], NoCoins())
            return ids[int(choice.actions[0])]

    def observe(self, decision_id: str, reward: float) -> bool:
        """The reward of a decision, once; False if it came too late, and was dropped and counted."""
        return self._answer(decision_id, reward_of(reward))

    @_alone
    def _answer(self, decision_id: str, reward: float) -> bool:
        return self._loop.answer(*recognise(self._loop.secret, decision_id), reward)

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
        file, loop = require.path("path", path), self._loop
        files.refuse_others(file)
        content = {
            "name": self._name,
            "policy": loop.policy,
            "calibrations": calibrations(loop.policy),
            "grace": loop.grace,
            "seed": self._seed,
            "secret": loop.secret.hex(),
            "slots": loop.slots.to_columns(),
        }
        plain = {name: getattr(loop, name) for name in Loop.PLAIN}
        text = SAVES.text_of(content | plain | loop.progress.note())
        if loop.ledger is None:
            refuse_journal(file)
            files.write(file, text)
            return
        loop.journals.attach(file, loop.notes(loop.progress.note()))
        files.write(file, text)
        loop.journals.saved(file)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Agent:
        """The agent that was saved at `path`. What it has released since then is taken from the journal."""
        file = require.path("path", path)
        content = SAVES.read(file)
        with SAVES.errors_of(file):
            check_save(content)
            policy, seed = content["policy"], content["seed"]
            recalibrate(policy, content["calibrations"])
            agent = cls(policy=policy, grace=content["grace"], test=seed is not None, seed=seed)
            agent._restore(file, content)
        return agent

    def _restore(self, file: Path, content: dict[str, Any]) -> None:
        loop, self._name = self._loop, content["name"]
        for name in Loop.PLAIN:
            setattr(loop, name, content[name])
        loop.secret = bytes.fromhex(content["secret"])
        loop.slots = Slots.from_columns(loop.policy.dim, content["slots"])
        loop.check_counts(content["closed"])
        notes: dict[str, Any] = {}
        if loop.ledger is None:
            refuse_journal(file)
        else:
            journals, notes = Journals.load(
                journal_of(file), agent=self._name, terms=loop.policy, secret=loop.secret, encoding=ENCODING
            )
            loop.open_ledger(journals)
        loop.resume(content, notes)
        check_snapshot(loop.progress.snapshot)

    def _at_home(self) -> None:
        if os.getpid() != self._pid:  # where a lock may be held by a thread that does not exist
            raise BandannaError("an agent lives in the process that made it: load a save in this one instead")
