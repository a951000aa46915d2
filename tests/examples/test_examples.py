"""The notebooks of examples/ run from the first cell to the last, and are kept without outputs.

In this process, by the shell that a Jupyter kernel has; by a kernel in the long tests."""

from __future__ import annotations

import asyncio
import builtins
import importlib.util
import json
import re
import sys
import tomllib
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import nbformat
import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from jupyter_client.manager import KernelManager, start_new_kernel
from nbclient import NotebookClient
from traitlets.config import Config

import bandanna as bd
from bandanna.deployment.task.creation import create_task, write_task
from bandanna.deployment.task.description import visibility_table
from bandanna.deployment.task.document import Secrets, Task

from ..nursery import _quick_roles as _quick_roles

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def test_four_notebooks_are_linked_from_the_documentation() -> None:
    names = [path.name for path in NOTEBOOKS]
    assert names == ["deployment.ipynb", "logs_and_ope.ipynb", "own_data.ipynb", "quick_start.ipynb"]
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md"))
    assert [name for name in names if f"examples/{name}" not in pages] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_clean(path: Path) -> None:
    nbformat.validate(nbformat.read(path, as_version=4))
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        assert cell["metadata"] == {}
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None


@pytest.mark.usefixtures("_quick_roles")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name in ("__IPYTHON__", "display"):  # what the shell leaves behind
        monkeypatch.setattr(builtins, name, None, raising=False)
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    shell = InteractiveShell(config=Config(HistoryManager={"enabled": False}))
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            with capture_output() as said:
                shell.run_cell(cell.source).raise_error()
            assert said.stderr == ""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KernelManager]:
    """A process of Jupyter's, which has loaded the library once for all notebooks."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("MPLBACKEND", "agg")
        monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
        monkeypatch.setenv("IPYTHONDIR", str(tmp_path_factory.mktemp("ipython")))
        manager, client = start_new_kernel(startup_timeout=600)
        client.stop_channels()
        yield manager
        manager.shutdown_kernel()


@pytest.mark.full
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_in_jupyter(path: Path, kernel: KernelManager, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    alone = f"import os\nos.chdir({str(tmp_path)!r})\n%reset -f"
    notebook.cells.insert(0, nbformat.v4.new_code_cell(alone))
    client = NotebookClient(notebook, km=kernel, timeout=300)
    client.execute()
    client.kc.stop_channels()
    said = [out for cell in notebook.cells for out in cell.get("outputs", []) if out.get("name") == "stderr"]
    assert said == []


# The worked example of docs/concepts/policy-families.md runs, on a shorter week


@pytest.fixture(scope="module")
def tilt() -> ModuleType:
    """The example as a module."""
    path = Path(__file__).parents[2] / "examples" / "antenna_tilt.py"
    spec = importlib.util.spec_from_file_location("antenna_tilt", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_configurations_are_a_net(tilt: ModuleType) -> None:
    """A configuration is farther than 0.08 from the net, its features are too long, or settings are not the net's."""
    settings, net = tilt.configurations()
    np.testing.assert_allclose(tilt.features(settings), net)
    grid = np.stack(np.meshgrid(np.linspace(0, 12, 25), np.linspace(10, 46, 19)), axis=-1).reshape(-1, 2)
    distances = np.linalg.norm(tilt.features(grid)[:, None] - net[None], axis=2)
    assert np.max(np.min(distances, axis=1)) <= 0.08 + 0.02  # the sample that was thinned out covers within 0.02
    assert np.max(np.linalg.norm(net, axis=1)) <= 1 + 1e-12


def test_the_antenna_example_runs(
    tilt: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tilt, "HORIZON", 1000)
    settings, net = tilt.configurations()
    tilt.compare(net)
    tilt.operate(net, settings)
    shown = capsys.readouterr().out
    assert [line.split()[0] for line in shown.splitlines()[:4]] == ["DPE", "CDP-DPE", "SDP-DPE", "LDP-DPE"]
    assert f"of {len(net)} configurations are left" in shown
    assert str(bd.make("SDP-DPE", dim=6, horizon=1000, **tilt.BUDGET).guarantee) in shown


# The clinic's own server, over ASGI, with a registrar that is a stub; its page is tested in tests/browser


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


# The front page of examples/news, over ASGI


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


def visit_news(app: Any, steps: Any) -> Any:
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
    shown = visit_news(app.build(tmp_path / "a"), lambda client: readers.read(client, 500, np.random.default_rng(0)))
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

    visit_news(front, steps)


def test_the_page_states_the_guarantee_of_the_agent(tmp_path: Path) -> None:
    app = module("app")
    app.HEADLINES[0] = '<script>alert(1)</script> & "quotes"'
    text = visit_news(app.build(tmp_path / "a"), lambda client: client.get("/")).text
    assert "<script>" not in text
    assert PROMISE.search(text)[1] == f"{app.make_agent().guarantee.epsilon:.4g}"
    assert "(2.0, 1e-6)" in (NEWS / "README.md").read_text()
    assert f"{app.make_agent().guarantee.epsilon:.1f}" == "2.0"
