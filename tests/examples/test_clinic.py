"""The clinic's own server, over ASGI, with a registrar that is a stub; its page is tested in tests/browser."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
import tomllib
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest

from bandanna.deployment.task.creation import create_task, write_task
from bandanna.deployment.task.description import visibility_table
from bandanna.deployment.task.document import Secrets, Task

ROOT = Path(__file__).parents[2]
CLINIC = ROOT / "examples" / "clinic"
TUTORIAL = (ROOT / "docs" / "tutorials" / "clinic.md").read_text("utf-8")
TICKET = {"slot": "s", "collector": "k", "helper": "h", "epoch": 3}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The task of clinic.toml."""
    folder = tmp_path_factory.mktemp("clinic")
    write_task(folder, *create_task(CLINIC / "clinic.toml", expect=False))
    return folder


@pytest.fixture
def app() -> ModuleType:
    """app.py, anew for each test."""
    spec = importlib.util.spec_from_file_location("clinic_app", CLINIC / "app.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


Steps = Callable[[httpx.AsyncClient], Awaitable[Any]]


def visit(app: ModuleType, folder: Path, steps: Steps, answer: Any = None, status: int = 200) -> list[httpx.Request]:
    """Take steps at the clinic; what the registrar was asked, which answers the same each time."""
    asked: list[httpx.Request] = []

    def registrar(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(status, json={"tickets": [answer or TICKET]})

    clinic = app.Clinic

    class Stubbed(clinic):  # type: ignore[valid-type, misc]
        def __init__(self, folder: Path) -> None:
            super().__init__(folder)
            self.registrar = httpx.AsyncClient(transport=httpx.MockTransport(registrar), base_url="http://registrar")

    app.Clinic = Stubbed

    async def run() -> None:
        transport = httpx.ASGITransport(app=app.build(folder))
        async with httpx.AsyncClient(transport=transport, base_url="http://clinic") as client:
            await steps(client)

    asyncio.run(run())
    return asked


def test_tickets_are_for_patients_of_who_is_signed_in(app: ModuleType, folder: Path) -> None:
    """Somebody who is not signed in gets a ticket, a page chooses whom it is for beyond the clinic's patients, or is
    handed more than the ticket.
    """

    async def steps(client: httpx.AsyncClient) -> None:
        wanted = {"patient": "P-1", "epoch": 3, "refused": []}
        assert (await client.post("/tickets", json=wanted)).status_code == 401
        signed = await client.post("/sign-in")
        assert "HttpOnly" in signed.headers["set-cookie"]
        assert "SameSite=strict" in signed.headers["set-cookie"]
        given = await client.post("/tickets", json=wanted)
        assert (given.status_code, given.json()) == (200, TICKET)
        await client.post("/tickets", json={**wanted, "refused": [[2, "s", "r"]], "user": "somebody else"})
        for odd in ({}, [], {"patient": 3}, {"patient": ""}, {"patient": "a\n"}, {"patient": "x" * 41}, "P-1"):
            assert (await client.post("/tickets", json=odd)).status_code == 400
        assert (await client.post("/tickets", content=b"{")).status_code == 400

    asked = visit(app, folder, steps)
    token = Secrets.read(folder, "registrar", Task.read(folder)).token
    assert [each.headers["authorization"] for each in asked] == [f"Bearer {token}"] * 2
    assert [json.loads(each.content)["tickets"][0] for each in asked] == [
        {"user": "patient P-1", "epoch": 3},
        {"user": "patient P-1", "epoch": 3, "refused": [[2, "s", "r"]]},
    ]


def test_a_refusal_is_passed_on(app: ModuleType, folder: Path) -> None:

    async def steps(client: httpx.AsyncClient) -> None:
        await client.post("/sign-in")
        refused = await client.post("/tickets", json={"patient": "P-1", "epoch": 3})
        assert (refused.status_code, refused.json()) == (429, {"refused": "participations"})

    visit(app, folder, steps, {"refused": "participations"}, 429)


def test_pages_may_talk_to_the_task_alone(app: ModuleType, folder: Path) -> None:

    async def steps(client: httpx.AsyncClient) -> None:
        for path in ("/", "/clinic.js", "/clinic.css", "/about"):
            answer = await client.get(path)
            assert answer.status_code == 200, path
            policy = answer.headers["content-security-policy"]
            assert "unsafe" not in policy
            assert "connect-src 'self' http://127.0.0.1:8701 http://127.0.0.1:8702;" in policy
        about = (await client.get("/about")).json()
        assert about["task"] == Task.read(folder).id
        assert [name for name, _ in about["columns"]] == ["age", "wtkg", "karnof", "cd40", "symptom", "str2"]
        page = (await client.get("/")).text
        assert not re.search(r"<script(?![^>]*\bsrc=)|\son\w+=|style=", page)

    visit(app, folder, steps)


def test_the_tutorial_shows_the_task(folder: Path) -> None:
    shown = re.search(r"```toml\n(.*?)```", TUTORIAL, re.DOTALL)
    assert shown is not None
    assert tomllib.loads(shown[1]) == tomllib.loads((CLINIC / "clinic.toml").read_text("utf-8"))
    task = Task.read(folder)
    (users,) = {each["users"] for each in task.content["device"]["plans"][:1]}
    assert f"a batch of {users} patients" in TUTORIAL
    assert f"--users {users}\n" in TUTORIAL
    length = next(re.search(r"(\d+) bytes", each.sees) for each in visibility_table(task) if each.role == "network")
    assert length is not None
    assert f"a report of {length[1]} bytes" in TUTORIAL
    assert task.content["guarantee"]["epsilon"] <= 1.0
