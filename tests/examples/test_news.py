"""The front page of examples/news, over ASGI."""

from __future__ import annotations

import asyncio
import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import numpy as np
import pytest

import bandanna as bd

NEWS = Path(__file__).parents[2] / "examples" / "news"
PROMISE = re.compile(r"epsilon = ([\d.]+)")


def module(name: str) -> ModuleType:
    """A file of the example."""
    spec = importlib.util.spec_from_file_location(f"news_{name}", NEWS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def visit(app: Any, steps: Any) -> Any:
    """What `steps(client)` returns."""

    async def run() -> Any:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://news") as client:
            return await steps(client)

    return asyncio.run(run())


@pytest.mark.filterwarnings("ignore::bandanna.errors.LateRewardWarning")  # readers of the next episode click, too
def test_the_page_learns_and_remembers(tmp_path: Path) -> None:
    app, readers = module("app"), module("readers")
    made = app.make_agent()
    app.make_agent = lambda: bd.Agent(policy=made.policy, arms=app.HEADLINES, grace=10, test=True, seed=0)
    shown = visit(app.build(tmp_path / "a"), lambda client: readers.read(client, 500, np.random.default_rng(0)))
    assert sum(shown) == 500
    again = bd.Agent.load(tmp_path / "a")
    assert again.decisions == 500
    assert again.releases > 8
    assert again.recommend() == app.HEADLINES[3]


def test_a_reader_counts_once(tmp_path: Path) -> None:
    app, readers = module("app"), module("readers")
    front = app.build(tmp_path / "a")

    async def steps(client: httpx.AsyncClient) -> None:
        first = await client.get("/")
        assert "HttpOnly" in first.headers["set-cookie"]
        action = readers.ACTION.search(first.text)[1]
        assert "decision=" in action
        for _ in range(2):
            clicked = await client.post(action)
            assert (clicked.status_code, clicked.headers["location"]) == (303, action.partition("?")[0])
        assert (await client.get(action.partition("?")[0])).status_code == 200
        second = readers.ACTION.search((await client.get("/")).text)[1]
        assert "decision=" not in second
        assert (await client.post(f"{second}?decision=invented")).status_code == 303
        assert (await client.get("/story/4")).status_code == 404
        left = await client.post("/leave")
        assert left.status_code == 303
        assert "decision=" in readers.ACTION.search((await client.get("/")).text)[1]

    visit(front, steps)


def test_the_page_states_the_guarantee_of_the_agent(tmp_path: Path) -> None:
    app = module("app")
    app.HEADLINES[0] = '<script>alert(1)</script> & "quotes"'
    text = visit(app.build(tmp_path / "a"), lambda client: client.get("/")).text
    assert "<script>" not in text
    assert PROMISE.search(text)[1] == f"{app.make_agent().guarantee.epsilon:.4g}"
    assert "(2.0, 1e-6)" in (NEWS / "README.md").read_text()
    assert f"{app.make_agent().guarantee.epsilon:.1f}" == "2.0"
