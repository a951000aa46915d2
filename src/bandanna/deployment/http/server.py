"""The uvicorn server of a role: listeners, TLS, logging, and the end of the process."""

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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from bandanna import validation
from bandanna.deployment.http.application import Application
from bandanna.deployment.http.limits import AMONG, INSIDE, LimitedConnection, make_connection_class
from bandanna.deployment.http.metrics import EventLog
from bandanna.deployment.http.routes import locate_error
from bandanna.errors import InvalidArgument

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def serve(
    app: Application,
    *,
    host: str,
    port: int,
    cert: Path | None,
    key: Path | None,
    log: EventLog,
    ready: Callable[[int], None] | None = None,
    inside: tuple[str, int] | None = None,
    peers: tuple[str, int] | None = None,
    names: Sequence[str] = (),
    proxies: Sequence[str] = (),
) -> None:
    """Serve until SIGTERM or SIGINT, or until the process is fenced.

    At the end, running requests have `Limits.drain` seconds to finish. Errors of the role's start or stop are raised.

    Parameters
    ----------
    host, port
        Where to listen. Port 0 is any free one.
    ready
        Called with the port when requests are accepted.
    inside, peers
        Addresses of two more listeners, for the operator and for other roles.
    names, proxies
        More host names, and proxies that are believed: see `Listeners.open`.
    """
    more = {kind: at for kind, at in ((INSIDE, inside), (AMONG, peers)) if at is not None}
    _raise_file_limit()
    listening: list[socket.socket] = []
    try:
        for at in ((host, port), *more.values()):
            listening.append(_listen(*at))
        ports = [each.getsockname()[1] for each in listening]
        if len(set(ports)) < len(ports):
            raise InvalidArgument("port", ports[0], "another port for each listener")
        app.listeners.open(dict(zip(ports[1:], more, strict=True)), names=names, proxies=proxies)
        config = uvicorn.Config(
            app,
            http=make_connection_class(app.limits, app.metrics.refused),
            ws="none",
            lifespan="on",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=math.ceil(app.limits.idle),
            timeout_graceful_shutdown=math.ceil(app.limits.drain),
            **_make_tls_context(cert, key),
        )
        server = _RoleServer(config, log, ready, app)
        with _redirect_logging(log), asyncio.Runner(loop_factory=_make_event_loop) as runner:
            runner.run(server.accept(listening))
    finally:
        for each in listening:
            each.close()
    if app.life.failure is not None:
        raise app.life.failure


class _RoleServer(uvicorn.Server):
    """A uvicorn server that returns after a signal and ends slow connections."""

    def __init__(
        self, config: uvicorn.Config, log: EventLog, ready: Callable[[int], None] | None, app: Application
    ) -> None:
        super().__init__(config)
        self._log = log
        self._ready = ready
        self._app = app

    async def accept(self, listening: list[socket.socket]) -> None:
        asyncio.get_running_loop().set_exception_handler(self._unhandled)
        try:
            await self.serve(sockets=listening)
        except SystemExit:  # the application could not start, which is logged
            return
        self._log.say("stopped")

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        gc.collect()
        gc.freeze()  # no collection visits what is loaded now
        if self.started and sockets:
            port, *more = (each.getsockname()[1] for each in sockets)
            for each in (port, *more):
                self._log.say("serving", port=each, tls=bool(self.config.is_ssl))
            if self._ready is not None:
                self._ready(port)

    async def on_tick(self, counter: int) -> bool:
        """End slow connections once a second, and stop a process that was fenced."""
        if counter % 10 == 0:
            self._expire(asyncio.get_running_loop().time())
        self.should_exit = self.should_exit or self._app.fenced()
        return await super().on_tick(counter)

    def _expire(self, now: float) -> None:
        half_open: dict[str, int] = {}
        for connection in list(self.server_state.connections):
            try:
                if isinstance(connection, LimitedConnection):
                    connection.expire(now)
                    self._limit_half_open(connection, half_open, now)
            except Exception as error:  # one connection stops no server
                self._log.say("unhandled", level="error", type=type(error).__name__, place=locate_error(error))

    def _limit_half_open(self, connection: LimitedConnection, half_open: dict[str, int], now: float) -> None:
        """End a connection without a complete head if its address has too many."""
        if connection.client is None or not connection.is_half_open(now):
            return
        address = self._app.listeners.client(connection.client[0])
        if address is None:
            return
        half_open[address] = half_open.get(address, 0) + 1
        if half_open[address] > 4 * self._app.limits.unfinished:
            connection.count_refusal("unfinished")
            connection.abort()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._log.say("stopping", running=len(self.server_state.tasks))
        self._app.ending()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
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
        """Stop the server; on a second Ctrl+C, at once."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True

    def _unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None and not isinstance(error, OSError):  # broken connections and handshakes are not logged
            self._log.say("unhandled", level="error", type=type(error).__name__, place=locate_error(error))


def _make_event_loop() -> asyncio.AbstractEventLoop:
    if sys.platform == "win32":  # without uvloop
        return asyncio.new_event_loop()
    import uvloop

    return uvloop.new_event_loop()


def _listen(host: str, port: int) -> socket.socket:
    port = validation.integer("port", port, least=0, most=65535)
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InvalidArgument("host", host, "a host name or address of this machine") from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as error:
        listening.close()
        raise InvalidArgument("port", port, f"a free port on {host} that may be used ({error.strerror})") from error
    return listening


def _raise_file_limit() -> None:
    """Allow as many open files as possible, one for each connection."""
    if sys.platform != "win32":
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        with suppress(OSError, ValueError):  # some systems allow less
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _make_tls_context(cert: Path | None, key: Path | None) -> dict[str, Any]:
    if cert is None and key is None:
        return {}
    if cert is None or key is None:
        raise InvalidArgument("key" if key is None else "cert", None, "a file, because TLS needs both")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key)
    except (OSError, ValueError) as error:
        raise InvalidArgument("cert", str(cert), f"a readable PEM certificate with its key in {key}") from error
    return {"ssl_certfile": cert, "ssl_keyfile": key}


class _ErrorHandler(logging.Handler):
    """Logs errors of uvicorn and asyncio by type and place: their messages may quote a request."""

    def __init__(self, log: EventLog) -> None:
        super().__init__(logging.ERROR)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            self._log.say("server", level="error", type=type(error).__name__, place=locate_error(error))


@contextmanager
def _redirect_logging(log: EventLog) -> Iterator[None]:
    """Send the logs of uvicorn and asyncio to `log` only."""
    loggers = [logging.getLogger(name) for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "asyncio")]
    before = [(each.handlers, each.propagate, each.level) for each in loggers]
    handler = _ErrorHandler(log)
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
