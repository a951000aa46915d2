"""How much a server takes, keeps and waits for."""

from __future__ import annotations

from dataclasses import dataclass

from bandanna.core import require


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds on what strangers can cost: sizes in bytes, times in seconds.

    Beyond them a client is answered 413 (`body`), 431 (`head`), 408 (`seconds`) or 503 with Retry-After (`waiting`,
    `held`); one that does not read its answers is cut off after `seconds`, an idle connection after `idle`.
    """

    body: int = 1 << 20  # of one request
    head: int = 1 << 16  # request line and headers
    held: int = 1 << 26  # of all bodies in memory
    waiting: int = 1024  # requests in flight
    seconds: float = 10.0  # to send a request, or to take an answer
    drain: float = 10.0  # for requests that run when the server is told to stop
    idle: float = 65.0  # between two requests of a connection: longer than proxies keep theirs
    threads: int = 8  # for what blocks

    def __post_init__(self) -> None:
        """Every bound is positive; times may be fractions."""
        require.store(self, require.whole, "body", "head", "held", "waiting", "threads")
        require.store(self, require.positive, "seconds", "drain", "idle")
