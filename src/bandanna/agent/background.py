"""A thread that releases what is due, so that nobody who decides waits for noise."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from bandanna.errors import BandannaError, Summary


class Background:
    """Runs `work`, a bound method, whenever it is woken; ends with its owner."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = weakref.WeakMethod(work)
        self._woken = threading.Event()
        self._trouble: Exception | None = None
        self._thread = threading.Thread(target=_run, args=(weakref.ref(self), self._woken), daemon=True)
        self._thread.start()
        weakref.finalize(self, self._woken.set)

    def wake(self) -> None:
        """There is something to do."""
        self._woken.set()

    def check(self) -> None:
        """Raise, once, what the work has raised; it is tried again when it is due."""
        trouble, self._trouble = self._trouble, None
        if trouble is not None:
            self.wake()
            known = isinstance(trouble, BandannaError | OSError)  # else its text may hold a user's value
            told = trouble if known else Summary.of_failure(trouble)
            raise BandannaError(f"a release in the background has failed: {told}") from trouble

    def once(self) -> bool:
        """Do it; whether there is still an owner."""
        work = self._work()
        if work is None:
            return False
        try:
            work()
        except Exception as error:
            self._trouble = error
        return True


def _run(owner: weakref.ref[Background], woken: threading.Event) -> None:
    while True:
        woken.wait()
        woken.clear()
        background = owner()
        if background is None or not background.once():
            return
        del background
