"""One JSON line per event, in which no person can be named."""

from __future__ import annotations

import json
import math
import re
import sys
import threading
from datetime import UTC, datetime
from typing import TextIO

from bandanna.roles.serving.refusals import Mistake

Fact = bool | int | float | str | None

FORBIDDEN = frozenset({"address", "client", "ip", "slot", "user", "body", "record", "ticket"})
_KEY = re.compile(r"[a-z][a-z0-9_]{0,39}")
_TEXT = re.compile(r"[A-Za-z0-9_.,:/{}<>+= -]{0,120}")
_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+|::|[0-9A-Fa-f]+:[0-9A-Fa-f]+:")


class Log:
    """What a role says of itself: events and numbers, never of whom it heard.

    Keys that name a person or what one sent are refused, alone or as a part (`client_ip`); plurals are counts
    (`users=200`). Texts are short, of a closed alphabet, and no address of a machine.
    """

    def __init__(self, role: str, stream: TextIO | None = None) -> None:
        self.role = _text("role", role)
        self._stream = sys.stderr if stream is None else stream
        self._lock = threading.Lock()

    def say(self, event: str, **facts: Fact) -> None:
        """Write one line; a stream that fails stops nobody."""
        said: dict[str, Fact] = {"time": _now(), "role": self.role, "event": _text("event", event)}
        for key, value in facts.items():
            if key in said or not _KEY.fullmatch(key) or not FORBIDDEN.isdisjoint(key.split("_")):
                raise Mistake("key", key, f"a short lower-case name of a fact, none of {', '.join(sorted(FORBIDDEN))}")
            said[key] = _fact(key, value)
        line = json.dumps(said, separators=(",", ":"), allow_nan=False) + "\n"
        with self._lock:
            try:
                self._stream.write(line)
                self._stream.flush()
            except (OSError, ValueError):  # a pipe without a reader, a closed file
                pass


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _fact(key: str, value: Fact) -> Fact:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    return _text(key, value)


def _text(key: str, value: object) -> str:
    if not isinstance(value, str) or not _TEXT.fullmatch(value) or _ADDRESS.search(value):
        raise Mistake(key, type(value).__name__, "a number, None, or a short text of letters, digits and _.,:/{}<>+=-")
    return value
