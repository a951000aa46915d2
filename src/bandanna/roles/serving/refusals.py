"""What a client is told when something is not done, and what it never is told."""

from __future__ import annotations

import math
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

from bandanna.errors import BandannaError, InvalidArgument

_REASON = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_STATUSES = frozenset(status.value for status in HTTPStatus if status.value >= 400)
_BUSY = 1.0  # seconds after which to come again


class Mistake(InvalidArgument):
    """A fault of the program, not of a client: answered 500 wherever it comes from."""


class Refused(Exception):
    """What a handler raises instead of answering: {"error": text, "reason": reason, **details}, counted by reason.

    The text is the status' own phrase unless `error=` is among the details. A reason is a short word from the program,
    never a client's; details are what JSON can say.
    """

    def __init__(self, status: int, reason: str, *, retry_after: float | None = None, **details: Any) -> None:
        if status not in _STATUSES:
            raise Mistake("status", status, "a known status from 400 on")
        if not isinstance(reason, str) or not _REASON.fullmatch(reason):
            raise Mistake("reason", reason, "a short word of lower-case letters, digits, - and _, a letter first")
        if retry_after is not None and not 0 <= retry_after < math.inf:
            raise Mistake("retry_after", retry_after, "seconds, a finite number >= 0")
        self.status, self.reason, self.retry_after, self.details = status, reason, retry_after, details
        super().__init__(reason)

    @property
    def document(self) -> dict[str, Any]:
        """What the client is sent."""
        return {"error": HTTPStatus(self.status).phrase.lower(), **self.details, "reason": self.reason}

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Retry-After, in whole seconds, rounded up; how to identify oneself."""
        headers = [] if self.retry_after is None else [(b"retry-after", b"%d" % math.ceil(self.retry_after))]
        return [*headers, (b"www-authenticate", b"Bearer")] if self.status == 401 else headers


class Late(Refused):
    """A client took too long to send its request."""

    def __init__(self) -> None:
        super().__init__(408, "slow")


class Unfinished(Refused):
    """An address has too many requests whose bodies are not complete."""

    def __init__(self) -> None:
        super().__init__(503, "unfinished", retry_after=_BUSY)

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """The rest of the body is not read."""
        return [*super().headers, (b"connection", b"close")]


def busy(reason: str = "busy") -> Refused:
    """Come again soon."""
    return Refused(503, reason, retry_after=_BUSY)


@contextmanager
def safe(status: int = 400, reason: str = "invalid") -> Iterator[None]:
    """Mark what is inside as free of other people's data: its errors' messages may be sent to whoever asked."""
    try:
        yield
    except Mistake:
        raise
    except BandannaError as error:
        raise Refused(status, reason, error=str(error)) from error


def refusal_of(error: BaseException) -> Refused:
    """What to answer: errors of clients by their reason alone, failures of ours without any word of theirs."""
    if isinstance(error, Refused):
        return error
    if is_storage(error):
        return busy("fenced" if _is_a("Fenced", error) else "storage")
    if isinstance(error, BandannaError) and not isinstance(error, Mistake):
        return Refused(400, "invalid")
    return Refused(500, "internal", error="internal error")


def is_storage(error: BaseException) -> bool:
    """Whether a store failed: known by name, so that a role without a database loads none."""
    return _is_a("StorageFailed", error)


def _is_a(name: str, error: BaseException) -> bool:
    return any(each.__name__ == name for each in type(error).__mro__)


def place(error: BaseException) -> str:
    """Where it was raised, as file:line: all that a log says of an exception beside its type."""
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    if not frames:
        return "unknown"
    file, line = frames[-1]
    return f"{re.sub(r'[^A-Za-z0-9_.]', '_', Path(file).name)[:60]}:{line}"
