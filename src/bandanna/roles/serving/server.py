"""A process that serves an application until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from bandanna.core import require
from bandanna.errors import InvalidArgument
from bandanna.roles.serving.app import Application
from bandanna.roles.serving.limits import Limits
from bandanna.roles.serving.log import Log
from bandanna.roles.serving.protocol import Connection, bounded
from bandanna.roles.serving.refusals import place

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def serve(
    app: ASGIApp,
    *,
    host: str,
    port: int,
    cert: Path | None,
    key: Path | None,
    log: Log,
    ready: Callable[[int], None] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT: then accept nobody, finish what runs (`Limits.drain`), stop the role, return.

    Port 0 is any free one; `ready` is told which, when requests are accepted. What the role's start or stop raises is
    raised here.
    """
    limits = app.limits if isinstance(app, Application) else Limits()
    refused = app.tallies.refused if isinstance(app, Application) else None
    listening = _listen(host, port)
    try:
        config = uvicorn.Config(
            app,
            http=bounded(limits, refused),
            ws="none",
            lifespan="on" if isinstance(app, Application) else "auto",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=math.ceil(limits.idle),
            timeout_graceful_shutdown=math.ceil(limits.drain),
            **_tls(cert, key),
        )
        server = _Server(config, log, ready, app.ending if isinstance(app, Application) else None)
        with _quiet(log), asyncio.Runner(loop_factory=_loop()) as runner:
            runner.run(server.accept(listening))
    finally:
        listening.close()
    if isinstance(app, Application) and app.life.failure is not None:
        raise app.life.failure


class _Server(uvicorn.Server):
    """uvicorn's, which returns after a signal instead of dying of it, and looks after its connections."""

    def __init__(
        self,
        config: uvicorn.Config,
        log: Log,
        ready: Callable[[int], None] | None,
        ending: Callable[[], None] | None,
    ) -> None:
        super().__init__(config)
        self._log = log
        self._ready = ready
        self._ending = ending

    async def accept(self, listening: socket.socket) -> None:
        """Until the end."""
        asyncio.get_running_loop().set_exception_handler(self._unhandled)
        try:
            await self.serve(sockets=[listening])
        except SystemExit:  # the application could not start, and has said so
            return
        self._log.say("stopped")

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept requests, and say on which port."""
        await super().startup(sockets)
        gc.collect()
        gc.freeze()  # what is loaded now stays: no collection looks at it again
        if self.started and sockets:
            port = sockets[0].getsockname()[1]
            self._log.say("serving", port=port, tls=bool(self.config.is_ssl))
            if self._ready is not None:
                self._ready(port)

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second; connections are looked at once."""
        if counter % 10 == 0:
            self._expire(asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    def _expire(self, now: float) -> None:
        for connection in list(self.server_state.connections):
            try:
                if isinstance(connection, Connection):
                    connection.expire(now)
            except Exception as error:  # one connection stops no server
                self._log.say("unhandled", type=type(error).__name__, place=place(error))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish what runs."""
        self._log.say("stopping", running=len(self.server_state.tasks))
        if self._ending is not None:
            self._ending()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals ask to stop, and are answered by that."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {each: signal.signal(each, self.handle_exit) for each in _SIGNALS}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop; a second Ctrl+C does not wait for clients."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True

    def _unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None and not isinstance(error, OSError):  # broken connections and handshakes are no news
            self._log.say("unhandled", type=type(error).__name__, place=place(error))


def _loop() -> Callable[[], asyncio.AbstractEventLoop]:
    if sys.platform == "win32":  # where uvloop is not to be had
        return asyncio.new_event_loop
    import uvloop

    return uvloop.new_event_loop


def _listen(host: str, port: int) -> socket.socket:
    port = require.whole("port", port, least=0, most=65535)
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InvalidArgument("host", host, "a name or address of this machine") from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as error:
        listening.close()
        raise InvalidArgument("port", port, f"one that is free, and allowed, on {host} ({error.strerror})") from error
    return listening


def _tls(cert: Path | None, key: Path | None) -> dict[str, Any]:
    if cert is None and key is None:
        return {}
    if cert is None or key is None:
        raise InvalidArgument("key" if key is None else "cert", None, "a file, as the other is: TLS needs both")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key)
    except (OSError, ValueError) as error:
        raise InvalidArgument("cert", str(cert), f"a readable PEM certificate, and its key in {key}") from error
    return {"ssl_certfile": cert, "ssl_keyfile": key}


class _Errors(logging.Handler):
    """Errors that uvicorn or asyncio report, by type and place: their words may quote what a client sent."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.ERROR)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """One line."""
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            self._log.say("server", type=type(error).__name__, place=place(error))


@contextmanager
def _quiet(log: Log) -> Iterator[None]:
    """Nothing but `log` writes of uvicorn and asyncio, as long as the server runs."""
    loggers = [logging.getLogger(name) for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "asyncio")]
    before = [(each.handlers, each.propagate, each.level) for each in loggers]
    handler = _Errors(log)
    for each in loggers:
        each.handlers, each.propagate = [handler], False
        each.setLevel(logging.ERROR)
    loggers[2].handlers = []
    try:
        yield
    finally:
        for each, (handlers, propagate, level) in zip(loggers, before, strict=True):
            each.handlers, each.propagate = handlers, propagate
            each.setLevel(level)
