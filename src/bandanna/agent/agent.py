"""A policy inside one's own program: `act` for every user, `observe` what came of it, in any order, or never."""

from __future__ import annotations

import hashlib
import os
import secrets
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from os import PathLike
from typing import Any

from bandanna.accounting.ledger import Ledger
from bandanna.agent.acting import Acting
from bandanna.agent.alone import alone
from bandanna.agent.arms import fixed_arms
from bandanna.agent.background import Background
from bandanna.agent.early import Early
from bandanna.agent.kinds import encoding_of, saves_of
from bandanna.agent.loop import Loop
from bandanna.agent.records import Records
from bandanna.agent.release import Overtaken, Release
from bandanna.agent.saving import Saving, arguments_of, read_save
from bandanna.core import require
from bandanna.core.calling import by_name
from bandanna.core.memory import require_room
from bandanna.errors import BandannaError, InvalidArgument, SlowReleaseWarning
from bandanna.features.map import Map
from bandanna.policies.base import Policy, RunningSums
from bandanna.protocols.trust import Privacy

_PATIENCE = 1.0  # seconds of a release without a warning


class Agent(Acting, Saving):
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
        require.instance("policy", policy, Policy, "a Policy: bd.LinUCB(...), bd.make(...), your own")
        if require.flag("test", test) != (seed is not None):
            raise InvalidArgument("seed", seed, "a whole number with test=True, None without: noise is secure")
        seed = None if seed is None else require.whole("seed", seed, least=0, most=require.SEEDS)
        require.one_of("release", release, ("now", "background", "manual"))
        self._seed, self._pid = seed, os.getpid()
        self._name, self._told, self._told_late, self._kept = secrets.token_hex(16), False, False, False
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
        self._loop.open_ledger(self._new_journals())
        self._background = Background(self._release_closed) if release == "background" else None
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
                    work = None if batch is None else Release(loop, batch)
                if work is None:
                    return released
                released = True
                with suppress(Overtaken):  # by a decision or by `close`
                    work.run()
        finally:
            loop.releasing.release()

    @alone
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
        self._loop.open_ledger(self._new_journals())

    @alone
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
        file, saves = require.path("path", path), saves_of(*(() if policy is None else (policy,)))
        content = read_save(file, saves, policy)
        with saves.errors_of(file):
            agent = cls(**arguments_of(content, policy), release=release)
            agent._restore(file, content)
        return agent


def _room_for(policy: RunningSums[Any]) -> None:
    """Refuse batches whose reports would not fit: they are formed when a batch is released."""
    most, numbers = max(next(policy.phases()).channel.sizes.counts()), policy.domain.dim
    needed = 24 * most * numbers  # as reports, as messages, as what is added
    require_room("batch", most, needed, of=f"reports of {most:,} users with {numbers:,} numbers each")
