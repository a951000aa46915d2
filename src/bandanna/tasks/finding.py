"""A task where somebody has put it: in a folder, in a file, or at the address of its analyzer."""

from __future__ import annotations

import re

from bandanna.core import require
from bandanna.errors import BandannaError, MissingExtra
from bandanna.tasks.document import Task
from bandanna.wire.authorities import authorities

_MOST = 1 << 24  # bytes of a document
_SECONDS = 10.0


class NotThere(BandannaError):
    """An address that answers 404."""


def is_url(place: str) -> bool:
    """Whether a place is an address, of some host."""
    return re.match(r"https?://[^/?#\s]", place) is not None


def find_task(place: str) -> Task:
    """The task of a folder, of a file, or of the analyzer that serves it: `GET {place}/task`."""
    if not re.match(r"https?://", place):
        path = require.path("task", place, folder=True)
        return Task.read(path / "task.json" if path.is_dir() else path)
    url = f"{place.rstrip('/')}/task"
    try:
        return Task.from_bytes(fetched(url)[0])
    except BandannaError as error:
        raise BandannaError(f"{url} has no task: {error}") from error


def analyzer_of(task: Task, place: str) -> str:
    """Where its analyzer is asked: where the task was read, if that was an address; else where the task says."""
    return place.rstrip("/") if is_url(place) else task.url("analyzer")


def fetched(url: str) -> tuple[bytes, dict[str, str]]:
    """What is at an address, and its headers in lower case; BandannaError if it cannot be had."""
    try:
        import httpx
    except ImportError as error:  # pragma: no cover - tests have it
        raise MissingExtra("serve", "reading a task from an address") from error
    content, known = bytearray(), authorities(environment=True)
    try:
        with httpx.stream(
            "GET", url, timeout=_SECONDS, headers={"accept-encoding": "identity"}, verify=known
        ) as answer:
            if answer.status_code != 200:
                kind = NotThere if answer.status_code == 404 else BandannaError
                raise kind(f"it answers {answer.status_code}")
            for part in answer.iter_bytes():
                content += part
                if len(content) > _MOST:
                    raise BandannaError(f"it sends more than {_MOST} bytes")
            headers = {name.lower(): value for name, value in answer.headers.items()}
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise BandannaError(f"it cannot be reached: {error or type(error).__name__}") from error
    return bytes(content), headers
