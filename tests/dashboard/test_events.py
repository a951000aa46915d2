"""News of pages as they come, and the process that serves them."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from bandanna.deployment.dashboard import app
from bandanna.deployment.task import creation

from .town import TOKEN, Seen, Town, made, run


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Town:
    """Without releases."""
    return Town(tmp_path_factory.mktemp("town"))


class Listener:
    """Somebody who reads news, without a socket."""

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
        """Wait until they were said."""
        while words not in b"".join(self.said):
            self._heard.clear()
            await asyncio.wait_for(self._heard.wait(), 600)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "_TICK", 0.01)


def test_who_listens_is_told_that_there_is_news(town: Town) -> None:

    async def work() -> None:
        seen = await Seen(town, token=TOKEN).look()
        listener = Listener(seen, f"/tasks/{town.task.id}/events")
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

    run(work)


def test_there_is_an_end_to_listeners_and_to_listening(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "_LISTENERS", 2)

    async def work() -> None:
        seen = await Seen(town, token=TOKEN).look()
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
        assert (
            "listeners 0.0\n" in (await seen.client.get("/metrics", headers={"authorization": f"Bearer {TOKEN}"})).text
        )

    run(work)


def test_the_command_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
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
def test_what_cannot_be_shown_is_one_clear_line(
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
