"""A task where somebody has put it: in a folder, in a file, or at the address of its analyzer."""

from __future__ import annotations

import re

from bandanna.core import require
from bandanna.errors import BandannaError, MissingExtra
from bandanna.tasks.document import Task

_MOST = 1 << 24  # bytes of a document
_SECONDS = 10.0


def is_url(place: str) -> bool:
    """Whether a place is an address."""
    return re.match(r"https?://", place) is not None


def find_task(place: str) -> Task:
    """The task of a folder, of a file, or of the analyzer that serves it: `GET {place}/task`."""
    if not is_url(place):
        path = require.path("task", place, folder=True)
        return Task.read(path / "task.json" if path.is_dir() else path)
    url = f"{place.rstrip('/')}/task"
    try:
        return Task.from_bytes(_fetched(url))
    except BandannaError as error:
        raise BandannaError(f"{url} has no task: {error}") from error


def _fetched(url: str) -> bytes:
    try:
        import httpx
    except ImportError as error:  # pragma: no cover - tests have it
        raise MissingExtra("serve", "reading a task from an address") from error
    content = bytearray()
    try:
        with httpx.stream("GET", url, timeout=_SECONDS, headers={"accept-encoding": "identity"}) as answer:
            if answer.status_code != 200:
                raise BandannaError(f"it answers {answer.status_code}")
            for part in answer.iter_bytes():
                content += part
                if len(content) > _MOST:
                    raise BandannaError(f"it sends more than {_MOST} bytes")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise BandannaError(f"it cannot be reached: {error or type(error).__name__}") from error
    return bytes(content)


def progress(place: str) -> list[str]:
    """What is to be said of a running task: nothing, unless it is read from an analyzer that tells."""
    return []
