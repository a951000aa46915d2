"""The collector's own thread: closes what is due, forwards what waits, and learns what is planned."""

from __future__ import annotations

import threading
from collections.abc import Callable

from bandanna.roles.collector.collector import Closed, Collector, Plan
from bandanna.roles.serving import Log
from bandanna.roles.serving.refusals import place

_TICK = 0.02  # seconds between two looks at the clock
_PATIENCE = 2.0  # at most so many seconds before what has failed is tried again


class Pump:
    """One thread.

    forward  sends a closed round on; its receipt, or None if it has to be sent again later
    plan     the newest public plan, or None if there is no newer one than it has told
    """

    def __init__(
        self,
        collector: Collector,
        *,
        forward: Callable[[Closed], bytes | None],
        plan: Callable[[], Plan | None],
        log: Log,
    ) -> None:
        self._collector, self._forward, self._plan, self._log = collector, forward, plan, log
        self._stop, self._thread = threading.Event(), threading.Thread(target=self._run, name="pump", daemon=True)
        self._planned: Plan | None = None  # what the collector could not take yet
        self.failing = ""  # the type of what went wrong in the last step

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after the step that is running."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        pause = _TICK
        while not self._stop.wait(pause):
            try:
                self.step()
                pause, self.failing = _TICK, ""
            except Exception as error:
                if self.failing != type(error).__name__:
                    self._log.say("step failed", type=type(error).__name__, place=place(error))
                self.failing, pause = type(error).__name__, min(_PATIENCE, 2 * pause)

    def step(self) -> None:
        """Everything that can be done now; what waits for its receipt first, since a plan may go beyond it."""
        self._send()
        self._planned = self._plan() or self._planned
        if self._planned is not None:
            self._collector.plan(*self._planned)
            self._planned = None
        if self._collector.close_due():
            self._log.say("closed", epoch=self._collector.running[0], round=self._collector.running[1])
            self._send()

    def _send(self) -> None:
        for closed in self._collector.waiting():
            self._collector.check_claim()
            receipt = self._forward(closed)
            if receipt is not None:
                self._collector.receipted(closed.epoch, closed.round, receipt)
