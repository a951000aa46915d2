"""A lock that is a file: held by one process, and let go by its end, whatever ends it."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from bandanna.storage import files

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


class Lock:
    """The file stays when the lock is free: to remove it would let two processes hold two files of one name."""

    def __init__(self, path: Path) -> None:
        self._path, self._handle = path, -1

    def taken(self) -> bool:
        """Whether it is ours, now or before; False if another one has it."""
        if self._handle >= 0:
            return True
        files.refuse_others(self._path)
        handle = os.open(self._path, os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            if sys.platform == "win32":
                msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
            else:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            os.close(handle)
            return False
        except BaseException:
            os.close(handle)
            raise
        self._handle = handle
        return True

    def free(self) -> None:
        """If it is ours."""
        if self._handle >= 0:
            handle, self._handle = self._handle, -1
            with contextlib.suppress(OSError):
                os.close(handle)
