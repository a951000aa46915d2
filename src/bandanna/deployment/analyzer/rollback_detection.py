"""The analyzer's calls of the registrar, which cosigns publications and detects a restored database."""

from __future__ import annotations

import threading
import time
from typing import Any

from bandanna.deployment.analyzer.processor import BatchProcessor
from bandanna.deployment.calls import RoleConnection, RoleUnreachable
from bandanna.deployment.http.metrics import EventLog
from bandanna.deployment.messages.canonical import loads
from bandanna.errors import BandannaError

_TICK, _LONGEST = 0.02, 2.0
_PATIENCE = 60.0  # seconds for which a registrar may be away before somebody has to look


class WitnessCall:
    """Call the registrar, which cosigns publications.

    Parameters
    ----------
    registrar
        The connection to it.
    task
        The id of the task.
    """

    def __init__(self, registrar: RoleConnection, task: str) -> None:
        self._registrar, self._path = registrar, f"/tasks/{task}/witness"

    def __call__(self, content: bytes) -> tuple[int, Any]:
        """Return the registrar's answer to the analyzer's statement; RoleUnreachable if there is none."""
        status, answer, _ = self._registrar.ask("PUT", self._path, content)
        try:
            return status, loads(answer)
        except BandannaError as error:
            raise RoleUnreachable("the registrar answers what is no document") from error


class WitnessThread:
    """A thread that gets pending publications cosigned, from the start and whenever the registrar was away."""

    def __init__(self, learner: BatchProcessor, *, log: EventLog) -> None:
        self._learner, self._log = learner, log
        self._stop, self._thread = threading.Event(), threading.Thread(target=self._run, name="witness", daemon=True)
        self._since: float | None = None  # when something began to wait for the registrar

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; what is pending stays so until the next process."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        pause = _TICK
        while not self._learner.rolled_back:
            try:
                settled = self.step()
            except Exception as error:  # a full disk, a lost database: they may come back
                self._log.say("step failed", level="error", type=type(error).__name__)
                settled = False
            pause = _TICK if settled else min(2 * pause, _LONGEST)
            if self._stop.wait(pause):
                return

    def step(self) -> bool:
        """Get pending publications cosigned; return whether none is left."""
        settled, pending = self._learner.settle(), self._learner.pending
        if self._learner.rolled_back:
            self._log.say("rolled back", level="error")
        elif (self._since is None) != settled:
            number = None if pending is None else pending.number
            self._log.say("witnessed" if settled else "unwitnessed", number=number)
            self._since = None if settled else time.monotonic()
        return settled

    @property
    def late(self) -> bool:
        """Tell whether a publication has waited for the registrar for a minute."""
        since = self._since
        return since is not None and time.monotonic() - since > _PATIENCE
