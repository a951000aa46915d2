"""The agent's properties, and its lock."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from bandanna.agent.preflight import RecordMapper, estimate_release_seconds, find_first_query
from bandanna.agent.runner import AgentRunner
from bandanna.data.features.columns import Report
from bandanna.data.features.map import Map
from bandanna.errors import BandannaError
from bandanna.policies.base import Policy
from bandanna.privacy.guarantee import Guarantee
from bandanna.privacy.ledger import LedgerView
from bandanna.types import Floats

# One caller at a time: what every method of an agent that changes something is wrapped in.


Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class SingleProcess:
    """Something that lives in one process and is used by one thread at a time."""

    _loop: AgentRunner
    _lock: threading.RLock
    _pid: int

    def _at_home(self) -> None:
        if os.getpid() != self._pid:  # where a lock may be held by a thread that does not exist
            raise BandannaError("an agent lives in the process that made it: load a save in this one instead")


Self = TypeVar("Self", bound=SingleProcess)


def synchronized(
    method: Callable[Concatenate[Self, Arguments], Result],
) -> Callable[Concatenate[Self, Arguments], Result]:
    """One thread at a time, in the process that made the agent, from where an interrupted call has left it."""

    @wraps(method)
    def guarded(agent: Self, /, *args: Arguments.args, **named: Arguments.kwargs) -> Result:
        agent._at_home()
        with agent._lock:
            if not agent._loop.settled:
                agent._loop.settle()
            return method(agent, *args, **named)

    return guarded


# What an agent tells of itself: what runs, what it promises, how far it is; and what is for its host alone.


class AgentProperties(SingleProcess):
    """The part of an agent that can be looked at."""

    _seed: int | None
    _records: RecordMapper | None

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
        """What is promised for all that leaves this process, to whom, against whom: that of the policy."""
        return replace(self.policy.guarantee, seeded=self._seed is not None)

    @property
    def ledger(self) -> LedgerView | None:
        """What was released and spent so far, as everybody may see it; None where nothing is promised."""
        return self._shown()

    @synchronized
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
        ask, users = find_first_query(self.policy, self._loop.progress.state), 1
        if batch is not None:
            users = batch.users if batch.clients is None else batch.clients
        return estimate_release_seconds(self.policy, ask, users, secure=self._loop.source.secure)

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
