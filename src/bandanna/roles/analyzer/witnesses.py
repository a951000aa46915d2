"""The registrar as a witness of what was published: an analyzer whose database was rolled back must not go on.

In the central model nobody else would notice, and noise that was released would be drawn anew.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from bandanna.roles.analyzer.learner import Conflict, Learner
from bandanna.roles.calls import Calls, Unreachable
from bandanna.roles.serving import Log
from bandanna.wire.canonical import dumps, loads

_TICK, _LONGEST = 0.02, 2.0


class Witnesses:
    """One thread: at first asks what the registrar has seen, then tells it of every publication.

    seen  whether the registrar has been asked since the process began: before, nothing is released
    """

    def __init__(self, learner: Learner, registrar: Calls, *, sign: Callable[[bytes], str], log: Log) -> None:
        self._learner, self._registrar, self._sign, self._log = learner, registrar, sign, log
        self._path = f"/tasks/{learner.task.id}/witness"
        self._stop, self._thread = threading.Event(), threading.Thread(target=self._run, name="witness", daemon=True)
        self.seen = False
        self._told = -1

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, after the newest publication was told if that is possible now."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        if self.seen and not self._learner.rolled_back:
            try:
                self.step()
            except (Unreachable, Conflict):
                return

    def _run(self) -> None:
        pause = _TICK
        while not self._stop.wait(pause) and not self._learner.rolled_back:
            try:
                self.step()
                pause = _TICK
            except Unreachable:
                pause = min(2 * pause, _LONGEST)
            except Conflict:
                self._log.say("rolled back")

    def step(self) -> None:
        """Ask once, then tell what is new."""
        if not self.seen:
            status, content, _ = self._registrar.ask("GET", self._path)
            if status not in (200, 404):
                raise Unreachable(f"no witness: {status}")
            self._learner.check_witness(loads(content) if status == 200 else None)
            self.seen = True
        published, epoch = self._learner.published, self._learner.running[0]
        if published.number > self._told:
            self._tell(published.number, published.chain, epoch)

    def _tell(self, number: int, chain: str, epoch: int) -> None:
        plain = {"number": number, "chain": chain, "epoch": epoch}
        content = dumps({**plain, "signature": self._sign(dumps(plain))})
        status, answer, _ = self._registrar.ask("PUT", self._path, content)
        if status == 409:
            self._learner.check_witness(loads(answer).get("witness"))
            return
        if status not in (200, 201):
            raise Unreachable(f"the registrar refuses a witness: {status}")
        self._told = number
