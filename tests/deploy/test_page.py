"""docs/how-to/deploy.md says what the program does. `python -m tests.deploy.test_page` prints who sees what."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import httpx
import pytest
from typer.testing import CliRunner

from bandanna.cli.main import app
from bandanna.deployment import processes
from bandanna.deployment.processes import free_ports
from bandanna.deployment.task.export import verify_folder

from ..nursery import _quick_roles as _quick_roles

TEXT = (Path(__file__).parents[2] / "docs" / "how-to" / "deploy.md").read_text()


def toml() -> str:
    found = re.search(r'```toml title="tea\.toml"\n(.*?)```', TEXT, re.DOTALL)
    assert found is not None
    return found[1]


def commands() -> list[str]:
    """Return the commands of the page's section about one machine, in order."""
    section = TEXT.partition("## Deploy on one machine")[2].partition("\n## ")[0]
    return re.findall(r"^\$ (bandanna .*)$", section, re.MULTILINE)


def of_the_example() -> list[str]:
    import tomllib

    from bandanna.deployment.task.creation import create_task
    from bandanna.deployment.task.description import visibility_table

    task, _ = create_task(tomllib.loads(toml()), expect=False)
    return [f"| {each.role} | {each.sees} | {each.left} |" for each in visibility_table(task)]


def test_the_page_shows_who_sees_what_as_the_task_does() -> None:
    lines = TEXT.splitlines()
    for wanted in of_the_example():
        assert wanted in lines


@contextmanager
def served_here(arguments: list[str], folder: Path) -> Iterator[Callable[[], bool]]:
    """Run `bandanna serve all` in a thread; return whether it goes on."""
    handlers: dict[int, Callable[[], None]] = {}
    signals = SimpleNamespace(SIGTERM=signal.SIGTERM, SIGINT=signal.SIGINT, signal=handlers.__setitem__)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(processes, "signal", signals)
        places = [str(folder / each) if (folder / each).is_dir() else each for each in arguments]
        thread = Thread(target=lambda: app(places, standalone_mode=False), daemon=True)
        thread.start()
        try:
            yield thread.is_alive
        finally:
            handlers[signal.SIGTERM]()
            thread.join(timeout=600)


@contextmanager
def served_apart(arguments: list[str], folder: Path) -> Iterator[Callable[[], bool]]:
    with (folder / "log").open("wb") as log:
        serving = subprocess.Popen([sys.executable, "-m", "bandanna", *arguments], stdout=log, stderr=log)
    try:
        yield lambda: serving.poll() is None
    finally:
        serving.terminate()
        serving.wait(timeout=600)


@pytest.mark.usefixtures("_quick_roles")
@pytest.mark.parametrize("served", [served_here, pytest.param(served_apart, marks=pytest.mark.full)])
def test_the_walk_through_a_task_works(
    served: Callable[[list[str], Path], AbstractContextManager[Callable[[], bool]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ports = dict(zip(("registrar", "analyzer", "shuffler"), free_ports(3), strict=True))
    roles = "\n".join(f'{role} = "http://127.0.0.1:{port}"' for role, port in ports.items())
    (tmp_path / "tea.toml").write_text(toml().replace("horizon = 2000", "horizon = 300") + f"\n[roles]\n{roles}\n")
    url = f"http://127.0.0.1:{ports['analyzer']}"
    typed = [each.replace("http://127.0.0.1:8701", url).replace("--users 2000", "--users 300") for each in commands()]
    create, show, serve, *others = [shlex.split(each)[1:] for each in typed]
    monkeypatch.chdir(tmp_path)

    def done(command: list[str]) -> str:
        ran = CliRunner().invoke(app, command)
        assert ran.exit_code == 0, ran.output
        return ran.stdout

    assert "epsilon" in done(create)
    assert "Which tea" in done(show)
    with served(serve, tmp_path) as alive:
        _until_up(alive, ports)
        crowd, now, exported = map(done, others)
    assert "regret of random play" in crowd
    assert "releases published" in now
    assert "all signatures and the chain are valid" in exported
    assert len(verify_folder(tmp_path / "tea-public")[1]) >= 2


def _until_up(alive: Callable[[], bool], ports: dict[str, int]) -> None:
    for _ in range(1800):
        assert alive()
        try:
            if all(httpx.get(f"http://127.0.0.1:{port}/readyz", trust_env=False).is_success for port in ports.values()):
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    pytest.fail("the roles do not answer")


if __name__ == "__main__":
    print("\n".join(of_the_example()))
