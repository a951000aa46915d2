"""The administrator's token: what it opens, how it travels, and that nobody has anything of it without it."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.main import get_command

from bandanna.cli.main import app as commands
from bandanna.deployment.dashboard import app
from bandanna.deployment.dashboard.app import (
    _LISTENERS,
    COOKIE,
    MIN_TOKEN_LENGTH,
    VARIABLE,
    AdminSessions,
    DashboardRoutes,
    TaskBoard,
    admin_from_token,
    board_for_places,
)
from bandanna.deployment.dashboard.poller import HttpRoleClient
from bandanna.deployment.dashboard.views import MOST, PAGE
from bandanna.deployment.task import creation
from bandanna.errors import BandannaError, InvalidArgument

from .test_pages import Read
from .town import ROLES, TOKEN, Seen, Town, made


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Town:
    made = Town(tmp_path_factory.mktemp("town"))
    made.play(40)
    return made


def flags(header: str) -> Any:
    (cookie,) = SimpleCookie(header).values()
    return cookie


async def entered(seen: Seen, token: str = TOKEN, host: str = "127.0.0.1:8710", **headers: str) -> Any:
    return await seen.client.post("/login", data={"token": token}, headers={"host": host, **headers})


async def test_private_parts_need_the_token(town: Town) -> None:
    seen = await Seen(town, token=TOKEN, given=True).look()
    root = f"/tasks/{town.task.id}"
    for path in ("/", root, f"{root}.json", f"{root}/releases", f"{root}/releases/1"):
        text = await seen.page(path)
        assert "bandanna_requests_total" not in text
        assert "bandanna_refusals_total" not in text
        assert "secret" not in text
        assert '"admin"' not in text
    answer = await entered(seen)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    page = Read(await seen.page(root)).text
    assert "For administrators" in page
    assert "bandanna_received_bytes_total" in page
    assert '"secret":"of the shuffler"' in page
    bearer = {"authorization": f"Bearer {TOKEN}"}
    seen.client.cookies.clear()
    told = await seen.twin(f"{root}.json", headers=bearer)
    assert {each["role"] for each in told["admin"]["statuses"]} == {"registrar", "analyzer", "shuffler"}
    assert "admin" not in await seen.twin(f"{root}.json")
    assert "admin" not in await seen.twin(f"{root}.json", headers={"authorization": f"Bearer {TOKEN}x"})


async def test_a_cookie_is_never_without_its_flags(town: Town) -> None:
    seen = await Seen(town, token=TOKEN).look()
    seen.app.listeners.open({}, names=["board.example", "127.0.0.1.evil.example"])
    for path in ("/", "/login", f"/tasks/{town.task.id}", "/tasks/none", "/assets/style.css"):
        assert "set-cookie" not in (await seen.client.get(path)).headers
    assert "set-cookie" not in (await entered(seen, token="not the token at all")).headers
    for host, https, secure in (
        ("127.0.0.1:8710", False, False),
        ("localhost:8710", False, False),
        ("[::1]:8710", False, False),
        ("board.example", False, True),
        ("127.0.0.1.evil.example", False, True),
        ("127.0.0.1:8710", True, True),
    ):
        seen.client.base_url = f"http{'s' * https}://127.0.0.1:8710"
        answer = await entered(seen, host=host)
        given = flags(answer.headers["set-cookie"])
        assert given["httponly"]
        assert given["samesite"] == "Strict"
        assert given["path"] == "/"
        assert bool(given["secure"]) is secure, host
        assert TOKEN not in answer.headers["set-cookie"]
        left = await seen.client.post("/logout", headers={"host": host})
        assert flags(left.headers["set-cookie"])["httponly"]


def test_sessions_end_by_logout_or_time_and_cannot_be_guessed(town: Town) -> None:
    now = [0.0]
    admin = AdminSessions(TOKEN, clock=lambda: now[0])
    own = {"host": "127.0.0.1"}
    name = flags(admin.open(own, https=False)).value
    shown = {"cookie": f"other=1; {COOKIE}={name}"}
    assert len(name) >= 43
    assert admin.is_admin(shown)
    for wrong in ("", "; ;", f"{COOKIE}=", f"{COOKIE}={name}x", f"{COOKIE}={TOKEN}", f"{COOKIE}=\xff", "a" * 10_000):
        assert not admin.is_admin({"cookie": wrong})
    now[0] = 13 * 3600.0
    assert not admin.is_admin(shown)
    another = {"cookie": f"{COOKIE}={flags(admin.open(own, https=False)).value}"}
    assert admin.is_admin(another)
    admin.close({**own, **another}, https=False)
    assert not admin.is_admin(another)
    first = {"cookie": f"{COOKIE}={flags(admin.open(own, https=False)).value}"}
    for _ in range(64):
        admin.open(own, https=False)
    assert not admin.is_admin(first)
    assert len(admin._sessions) == 64


async def test_forms_of_other_sites_are_refused(town: Town) -> None:
    seen = await Seen(town, token=TOKEN).look()
    for headers in (
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:8710.evil.example"},
    ):
        assert (await entered(seen, **headers)).status_code == 403
        assert (await seen.client.post("/logout", headers=headers)).status_code == 403
    for good in (
        {"sec-fetch-site": "same-origin", "origin": "http://127.0.0.1:8710"},
        {"sec-fetch-site": "same-origin", "origin": "null"},  # of a browser that sends no referrer
        {"origin": "http://127.0.0.1:8710"},
    ):
        assert (await entered(seen, **good)).status_code == 303


async def test_a_wrong_token_gets_an_error_and_nothing_else(town: Town) -> None:
    seen = await Seen(town, token=TOKEN).look()
    for body in (
        b"",
        b"token=",
        b"token=%ff%fe",
        b"\xff",
        b"token=a&" * 100,
        b"x" * 10_000,
        f"token={TOKEN}x".encode(),
    ):
        answer = await seen.client.post("/login", content=body)
        assert answer.status_code == 401
        assert "That is not the token." in answer.text
    assert (await seen.client.post("/login", content=b"x" * 20_000)).status_code == 413
    none = await Seen(town).look()
    assert (await entered(none)).status_code == 404
    assert "Log in" not in await none.page("/")
    for path in ("/status", "/admin/x"):
        assert (await none.client.get(path)).status_code == 403
        assert (await seen.client.get(path)).status_code == 401


async def test_tokens_of_roles_go_only_where_our_own_document_says(town: Town) -> None:
    town.net.headers.clear()
    await Seen(town, token=TOKEN).look()  # the document came from the analyzer
    assert not [each for each in town.net.headers if "authorization" in each]
    town.net.requested.clear()
    town.net.headers.clear()
    await Seen(town, token=TOKEN, given=True).look()  # it was read from a folder of ours
    sent = {
        (port, path, headers["authorization"])
        for (port, path), headers in zip(town.net.requested, town.net.headers, strict=True)
        if "authorization" in headers
    }
    roles = ("registrar", "analyzer", "shuffler")
    paths = ("/status", "/metrics")
    assert sent == {(ROLES[role], each, f"Bearer {town.secrets[role].token}") for role in roles for each in paths}
    town.net.requested.clear()
    await Seen(town, given=True).look()  # nobody administers
    assert not [path for _, path in town.net.requested if path in ("/status", "/metrics")]


def test_where_the_token_comes_from(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert admin_from_token(file, {}) is not None
    found = admin_from_token(None, {VARIABLE: TOKEN})
    assert found is not None
    assert found.agrees(TOKEN)
    assert admin_from_token(None, {}) is None
    assert admin_from_token(None, {VARIABLE: ""}) is None
    for short in ("hunter2", "a b c d e f g h i j k", "", "x" * 15, "ä" * 20):
        file.write_text(short)
        with pytest.raises(InvalidArgument) as caught:
            admin_from_token(file, {})
        assert "hunter2" not in str(caught.value)
    with pytest.raises(BandannaError):
        admin_from_token(tmp_path / "none", {})


async def test_a_place_is_an_address_a_folder_or_refused(town: Town, tmp_path: Path) -> None:
    folder = tmp_path / "task"
    creation.write_task(folder, town.task, list(town.secrets.values()))
    (folder / "shuffler.secret.json").unlink()
    (folder / "analyzer.secret.json").write_text("{}")
    web = HttpRoleClient()
    board = board_for_places(["http://127.0.0.1:1/", str(folder), str(folder / "task.json")], web, AdminSessions(TOKEN))
    assert [each.known.place for each in board.watches] == [
        "http://127.0.0.1:1",
        str(folder),
        str(folder / "task.json"),
    ]
    assert board.watches[1].known.url == town.task.url("analyzer")
    assert board.watches[1]._tokens == {"registrar": town.secrets["registrar"].token}
    assert board_for_places([str(folder)], web, None).watches[0]._tokens == {}
    with pytest.raises(InvalidArgument, match="an analyzer's address"):
        board_for_places([str(tmp_path / "nothing")], web, None)
    with pytest.raises(BandannaError, match="an analyzer's address"):
        board_for_places([str(tmp_path)], web, None)
    (tmp_path / "text").write_text("no task")
    with pytest.raises(BandannaError, match="is not a task"):
        board_for_places([str(tmp_path / "text")], web, None)
    await web.close()


# News of pages as they come, and the process that serves them


@pytest.fixture(scope="module")
def fresh_town(tmp_path_factory: pytest.TempPathFactory) -> Town:
    return Town(tmp_path_factory.mktemp("fresh_town"))


class Listener:
    def __init__(self, seen: Seen, path: str) -> None:
        self.said: list[bytes] = []
        self.status, self.headers = 0, dict[bytes, bytes]()
        self.gone = asyncio.Event()
        self._heard = asyncio.Event()
        scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "scheme": "http",
                 "headers": [(b"host", b"127.0.0.1:8710")], "server": ("127.0.0.1", 8710), "client": None}  # fmt: skip
        self.ended = asyncio.ensure_future(seen.app(scope, self._receive, self._send))

    async def _receive(self) -> Any:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], dict(message["headers"])
        else:
            self.said.append(message["body"])
        self._heard.set()

    async def until(self, words: bytes) -> None:
        while words not in b"".join(self.said):
            self._heard.clear()
            await asyncio.wait_for(self._heard.wait(), 600)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "_TICK", 0.01)


async def test_listeners_get_an_event_for_each_publication(fresh_town: Town) -> None:
    seen = await Seen(fresh_town, token=TOKEN).look()
    listener = Listener(seen, f"/tasks/{fresh_town.task.id}/events")
    await listener.until(b"retry: ")
    assert listener.status == 200
    assert listener.headers[b"content-type"] == b"text/event-stream"
    assert listener.headers[b"content-security-policy"] == app.CONTENT_POLICY.encode()
    seen.watches[0].tell(trouble="it is away")
    await listener.until(b"event: news\ndata: ")
    news = b"".join(listener.said).decode()
    assert re.search(r"event: news\ndata: \[\d+\]\n\n$", news)
    listener.gone.set()
    await asyncio.wait_for(listener.ended, 600)


async def test_there_is_an_end_to_listeners_and_to_listening(fresh_town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "_LISTENERS", 2)
    seen = await Seen(fresh_town, token=TOKEN).look()
    first, second = (Listener(seen, "/events") for _ in range(2))
    await first.until(b"retry: ")
    await second.until(b"retry: ")
    refused = await seen.client.get("/events")
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "30")
    first.gone.set()
    await asyncio.wait_for(first.ended, 600)
    third = Listener(seen, "/events")
    await third.until(b"retry: ")
    seen.app.ending()
    await asyncio.wait_for(second.ended, 600)
    await asyncio.wait_for(third.ended, 600)
    assert (await seen.client.get("/events")).status_code == 503
    assert (await seen.client.get("/tasks/none/events")).status_code in (404, 503)
    assert "listeners 0.0\n" in (await seen.client.get("/metrics", headers={"authorization": f"Bearer {TOKEN}"})).text


def test_the_command_serves_until_a_signal(tmp_path: Path) -> None:
    task, secrets = made()
    creation.write_task(tmp_path / "task", task, list(secrets.values()))
    (tmp_path / "token").write_text(TOKEN)
    command = [sys.executable, "-W", "error", "-m", "bandanna", "dashboard", str(tmp_path / "task"), "--port", "0"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--token-file", str(tmp_path / "token")], stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        assert process.stdout is not None
        address = re.fullmatch(
            r"Dashboard: (http://127\.0\.0\.1:\d+/)  \(stop it with Ctrl-C\)\n", process.stdout.readline()
        )
        assert address is not None
        with httpx.Client(base_url=address[1], trust_env=False, timeout=600) as client:
            line = client.get("/index.json").json()["tasks"][0]
            assert line["place"] == str(tmp_path / "task")
            assert client.get("/readyz").json()["ok"] is True
            assert client.post("/login", data={"token": TOKEN}).status_code == 303
            with client.stream("GET", "/events") as news:
                heard = news.iter_lines()  # pieces may come together
                assert next(heard) == "retry: 3000"
                process.send_signal(signal.SIGTERM)  # while somebody listens
                assert all(each == "" or each.startswith(("event: news", "data: ", ": ")) for each in heard)
        assert process.wait(timeout=600) == 0
    finally:
        process.kill()
        process.communicate()
    events = [json.loads(line)["event"] for line in (tmp_path / "log").read_text().splitlines()]
    assert events == ["serving", "stopping", "stopped"]
    assert TOKEN not in (tmp_path / "log").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "PLACE must be an analyzer's address (http://...)"),
        (["."], " must be at least 16 letters"),
        ([".", "--port", "70000"], ", got 70000"),
    ],
)
def test_a_wrong_argument_of_the_command_is_one_line(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from bandanna.cli import main

    monkeypatch.chdir(tmp_path)
    if arguments == ["."]:
        monkeypatch.setenv("BANDANNA_DASHBOARD_TOKEN", "short")
    monkeypatch.setattr(sys, "argv", ["bandanna", "dashboard", *arguments])
    with pytest.raises(SystemExit) as ended:
        main.main()
    said = capsys.readouterr()
    assert ended.value.code == 2
    assert said.err.startswith("error: ")
    assert words in said.err
    assert "short" not in said.err


# docs/how-to/dashboard.md and docs/reference/cli.md say what the dashboard has


DOCS = Path(__file__).parents[2] / "docs"
TEXT = " ".join((DOCS / "how-to" / "dashboard.md").read_text().split())


def test_every_route_is_on_the_page() -> None:
    made = {f"{method} {path}" for method, path, _ in DashboardRoutes(TaskBoard([]), None).routes}
    named = set(re.findall(r"`((?:GET|POST) /[^`]*)`", TEXT.partition("## Routes")[2]))
    assert named == made | {"GET /readyz", "GET /metrics", "GET /status"}


def test_every_option_is_in_the_list_of_commands() -> None:
    section = (DOCS / "reference" / "cli.md").read_text().partition("## dashboard\n")[2].partition("\n## ")[0]
    command = get_command(commands).commands["dashboard"]  # type: ignore[attr-defined]
    options = {name for each in command.params for name in each.opts if name.startswith("--") and name != "--help"}
    assert set(re.findall(r"`(--[a-z-]+)`", section)) == options


def test_the_numbers_of_the_docs_page_are_those_of_the_program() -> None:
    for words in (
        f"at least {MIN_TOKEN_LENGTH} characters",
        f"pages of {PAGE}",
        f"at most {MOST + 1} publications",
        f"at most {_LISTENERS} readers",
        f"`{VARIABLE}`",
    ):
        assert words in TEXT
