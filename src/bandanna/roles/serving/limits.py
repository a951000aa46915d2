"""How much a server takes, keeps and waits for."""

from __future__ import annotations

from dataclasses import dataclass

from bandanna.core import require


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds on what strangers can cost: sizes in bytes, times in seconds.

    Beyond them a client is answered 413 (`body`), 431 (`head`), 408 (`seconds`, `rate`) or 503 with Retry-After
    (`uploads`, `peers`, `others`, `held`, `unfinished`); one that does not read its answers is cut off after
    `seconds`, an idle connection after `idle`. Each class of requests has places of its own.
    """

    body: int = 1 << 20  # of one request
    head: int = 1 << 16  # request line and headers
    held: int = 1 << 26  # of all bodies of a class in memory
    uploads: int = 512  # uploads in flight
    waiters: int = 256  # requests that wait for news
    peers: int = 64  # requests of other roles in flight
    others: int = 192  # all other requests in flight
    unfinished: int = 16  # bodies of one address that are not complete; four times as many heads
    rate: int = 2000  # bytes a second of a request, after `patience`
    patience: float = 3.0
    seconds: float = 10.0  # to send a request, or to take an answer
    drain: float = 10.0  # for requests that run when the server is told to stop
    idle: float = 65.0  # between two requests of a connection: longer than proxies keep theirs
    threads: int = 8  # for what blocks

    def __post_init__(self) -> None:
        """Every bound is positive; times may be fractions."""
        whole = ("body", "head", "held", "uploads", "waiters", "peers", "others", "unfinished", "rate", "threads")
        require.store(self, require.whole, *whole)
        require.store(self, require.positive, "patience", "seconds", "drain", "idle")

    def slow(self, taken: int, seconds: float) -> bool:
        """Whether a request of which so many bytes came in so many seconds is not waited for any more.

        Parameters
        ----------
        taken : int
            Bytes that came.
        seconds : float
            Seconds since its first byte was awaited.

        Returns
        -------
        bool
            True if it is slower than `rate` after `patience`, or takes longer than `seconds`.
        """
        return seconds > self.seconds or (seconds - self.patience) * self.rate > taken
