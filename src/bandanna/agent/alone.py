"""One caller at a time: what every method of an agent that changes something is wrapped in."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from bandanna.agent.loop import Loop
from bandanna.errors import BandannaError

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Alone:
    """Something that lives in one process and is used by one thread at a time."""

    _loop: Loop
    _lock: threading.RLock
    _pid: int

    def _at_home(self) -> None:
        if os.getpid() != self._pid:  # where a lock may be held by a thread that does not exist
            raise BandannaError("an agent lives in the process that made it: load a save in this one instead")


Self = TypeVar("Self", bound=Alone)


def alone(method: Callable[Concatenate[Self, Arguments], Result]) -> Callable[Concatenate[Self, Arguments], Result]:
    """One thread at a time, in the process that made the agent, from where an interrupted call has left it."""

    @wraps(method)
    def guarded(agent: Self, /, *args: Arguments.args, **named: Arguments.kwargs) -> Result:
        agent._at_home()
        with agent._lock:
            if not agent._loop.settled:
                agent._loop.settle()
            return method(agent, *args, **named)

    return guarded
