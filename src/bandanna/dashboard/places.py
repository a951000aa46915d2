"""Places to look at: addresses of analyzers and folders of tasks."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bandanna.core import require
from bandanna.dashboard.admin import Admin
from bandanna.dashboard.asking import Web
from bandanna.dashboard.board import Board
from bandanna.dashboard.watching import Watch
from bandanna.errors import BandannaError, InvalidArgument
from bandanna.roles.serving import Log, known_by, serve
from bandanna.storage import files
from bandanna.tasks.document import Secrets, Task
from bandanna.tasks.finding import is_url

VARIABLE = "BANDANNA_DASHBOARD_TOKEN"


def admin_of(file: Path | None, environment: Mapping[str, str] = os.environ) -> Admin | None:
    """Whose token is in a file, or in the environment; None without either. An argument would be seen by others."""
    if file is not None:
        return Admin(files.read(file).decode("utf-8", errors="replace").strip())
    return Admin(environment[VARIABLE].strip()) if environment.get(VARIABLE) else None


def board_of(places: Sequence[str], web: Web, admin: Admin | None, named: Sequence[str] = ()) -> Board:
    """All of them, in their order; a place that is nothing is refused. `named`: roles that may be asked as well."""
    watches = []
    for url in named:
        if not is_url(url):
            raise InvalidArgument("--ask", url, "a role's address (http://...), as the task has it")
    for place in places:
        if is_url(place):
            watches.append(Watch(place.rstrip("/"), web, named=named, inside=admin is not None))
            continue
        path = require.path("PLACE", place, folder=True)
        if not (path.is_file() or (path / "task.json").is_file()):
            raise InvalidArgument("PLACE", place, "an analyzer's address (http://...), or a task's folder or task.json")
        task = Task.read(path)
        folder = path if path.is_dir() else path.parent
        tokens = {} if admin is None else _tokens(task, folder)
        watches.append(Watch(place, web, task=task, tokens=tokens, inside=admin is not None))
    return Board(watches)


def _tokens(task: Task, folder: Path) -> dict[str, str]:
    """Of the roles whose secrets we may read; of those, nothing else is kept."""
    found = {}
    for role in task.roles:
        try:
            found[role] = Secrets.read(folder, role, task).token
        except (BandannaError, OSError):
            continue
    return {role: token for role, token in found.items() if token}


def serve_board(
    places: Sequence[str],
    *,
    host: str,
    port: int,
    token: Path | None = None,
    cert: Path | None = None,
    key: Path | None = None,
    trust: Path | None = None,
    named: Sequence[str] = (),
    names: Sequence[str] = (),
    say: Callable[[str], None],
) -> None:
    """Until SIGTERM or SIGINT."""
    from bandanna.dashboard.app import build

    number = require.whole("--port", port, least=0, most=65535)
    verify_tls: Any = True
    if trust is not None:
        verify_tls = known_by(trust)
    admin, web, log = admin_of(token), Web(verify_tls=verify_tls), Log("dashboard")
    app = build(board_of(places, web, admin, named), admin=admin, log=log, web=web)
    scheme, shown = "http" if cert is None else "https", f"[{host}]" if ":" in host else host
    serve(
        app,
        host=host,
        port=number,
        cert=cert,
        key=key,
        log=log,
        names=names,
        ready=lambda at: say(f"{scheme}://{shown}:{at}/"),
    )
