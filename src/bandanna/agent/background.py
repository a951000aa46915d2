"""Release complete batches in a thread, so that no decision waits for noise."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from bandanna.errors import BandannaError, ValueSummary


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
