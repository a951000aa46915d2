"""Whom a dashboard calls: whom its operator has named, not whom a document names; real servers listen."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from bandanna.deployment.dashboard.app import board_for_places
from bandanna.deployment.dashboard.poller import HttpRoleClient, RoleUnavailable, TaskPoller
from bandanna.errors import InvalidArgument

from .test_pages import Read
from .town import FILE, ROLES, TOKEN, Net, Seen, Town, run, url


class Listening(BaseHTTPRequestHandler):
    """Remembers what it was asked, and says that all is well."""

    server: Any

    def do_GET(self) -> None:
        """As a role would answer."""
        self.server.asked.append(self.path)
        if self.path.startswith("/drip"):
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):
                while not self.server.enough.is_set():
                    self.wfile.write(b" ")
                    self.server.enough.wait(0.02)
            return
        content = b'{"ok": true}'
        self.send_response(200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Quietly."""


@contextmanager
def listening() -> Iterator[tuple[str, list[str]]]:
    """A server inside, which nobody outside should be able to have called: its address, and what it was asked."""
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Listening)
    server.asked, server.enough = [], threading.Event()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", server.asked
    finally:
        server.enough.set()
        server.shutdown()
        server.server_close()
        thread.join()


class Both(Net):
    """The town by its ports, everybody else really."""

    def __init__(self, net: Net) -> None:
        super().__init__()
        self.apps, self.lies, self._real = net.apps, net.lies, httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """One question."""
        if request.url.port in self.apps:
            return await super().handle_async_request(request)
        return await self._real.handle_async_request(request)

    async def aclose(self) -> None:
        """Hang up."""
        await self._real.aclose()


def hostile(folder: Path, inside: str) -> Town:
    """An honest analyzer whose document says that all other roles are where somebody else listens."""
    roles = {role: url("analyzer") if role == "analyzer" else f"{inside}/{role}" for role in FILE["roles"]}
    return Town(folder, roles=roles)


async def watched(town: Town, **more: Any) -> Seen:
    """A dashboard that has looked everywhere, with an administrator who would see metrics, too."""
    web = HttpRoleClient(transport=Both(town.net))
    seen = Seen(token=TOKEN, watches=(TaskPoller(url("analyzer"), web, inside=True, **more),))
    try:
        return await seen.look()
    finally:
        await web.close()


def test_a_document_from_elsewhere_sends_us_nowhere(tmp_path: Path) -> None:
    with listening() as (inside, asked):
        town = hostile(tmp_path, inside)

        async def work() -> None:
            seen = await watched(town)
            page = f"/tasks/{town.task.id}"
            roles = {each["name"]: each for each in (await seen.twin(f"{page}.json"))["roles"]}
            states = {name: each["state"] for name, each in roles.items()}
            assert states == {"registrar": "unnamed", "analyzer": "well", "shuffler": "unnamed"}
            assert roles["shuffler"]["url"] == f"{inside}/shuffler"
            text = Read(await seen.page(page)).text
            assert "not asked: its address was not given with --ask" in text
            assert "--ask ADDRESS" in text
            assert f"{inside}/shuffler" in text
            assert "Its collector does not say how many have joined." in text

        run(work)
        assert asked == []


def test_addresses_of_the_operator_are_called(tmp_path: Path) -> None:
    with listening() as (inside, asked):
        town = hostile(tmp_path, inside)
        run(lambda: watched(town, named=(f"{inside}/shuffler/",)))
        assert set(asked) == {f"/shuffler/{what}" for what in (f"tasks/{town.task.id}/open", "readyz")}
        asked.clear()
        run(lambda: watched(town, task=town.task))  # the document is the operator's own
        assert {each.split("/")[1] for each in asked} == {"shuffler", "registrar"}


def test_the_analyzer_of_an_address_is_asked_there_alone(tmp_path: Path) -> None:
    with listening() as (inside, asked):
        town = Town(tmp_path, roles=FILE["roles"] | {"analyzer": inside})
        run(lambda: watched(town))
        assert asked == []


@pytest.mark.parametrize("path", ["/task", "/snapshot", "/summary", "/readyz", "/metrics"])
def test_redirects_are_not_followed(path: str, tmp_path: Path) -> None:
    """An analyzer sends the dashboard elsewhere by a redirect."""
    with listening() as (inside, asked):
        town = Town(tmp_path)
        for code in (301, 302, 307, 308):
            town.net.lies[path] = lambda _, code=code: httpx.Response(code, headers={"location": f"{inside}/secret"})

            async def work() -> None:
                with suppress(RoleUnavailable):
                    await watched(town)

            run(work)
        assert asked == []


def test_who_sends_a_byte_now_and_then_is_not_waited_for(tmp_path: Path) -> None:
    with listening() as (inside, asked):

        async def work() -> None:
            web = HttpRoleClient()
            begun = time.monotonic()
            with pytest.raises(RoleUnavailable, match="cannot be reached"):
                await web.get(f"{inside}/drip", seconds=0.3)
            assert time.monotonic() - begun < 300
            await web.close()

        run(work)
        assert asked == ["/drip"]


def test_what_is_no_address_cannot_be_named() -> None:
    with pytest.raises(InvalidArgument, match="--ask"):
        board_for_places([url("analyzer")], HttpRoleClient(), None, ["shuffler.example"])
    board = board_for_places([url("analyzer")], HttpRoleClient(), None, [f"http://127.0.0.1:{ROLES['shuffler']}"])
    assert len(board.watches) == 1
