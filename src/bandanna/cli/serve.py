"""`bandanna serve`: one role of a task as a process, or all of them on a laptop."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bandanna.cli.extras import need_serve

_ROLES = ("registrar", "analyzer", "shuffler", "helper", "all")


def serve(
    role: Annotated[str, typer.Argument(help=f"One of {', '.join(_ROLES)}.", metavar="ROLE")],
    task: Annotated[Path, typer.Option(help="The task's directory, or its task.json.", metavar="TASK")],
    db: Annotated[
        str | None,
        typer.Option(
            help="Where the role keeps what it knows: a file, or postgresql://... [TASK/ROLE.db]", metavar="URL"
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option(help="Port to listen on (default: that of the role's address in the task).")
    ] = None,
    secret: Annotated[
        Path | None, typer.Option(help="The role's secrets [ROLE.secret.json beside the task].", metavar="FILE")
    ] = None,
    cert: Annotated[Path | None, typer.Option(help="TLS certificate; a proxy is the better place for it.")] = None,
    key: Annotated[Path | None, typer.Option(help="TLS key of the certificate.")] = None,
    trust: Annotated[
        Path | None,
        typer.Option(help="Certificates by which other roles are known, beside the system's.", metavar="FILE"),
    ] = None,
    inside: Annotated[
        str | None,
        typer.Option(
            help="A second address, for the operator: /metrics and /status without a token, /healthz in full.",
            metavar="HOST:PORT",
        ),
    ] = None,
    peers: Annotated[
        str | None,
        typer.Option(
            help="Another address, for the other roles: their routes are served there, and not to strangers any more.",
            metavar="HOST:PORT",
        ),
    ] = None,
    host_name: Annotated[
        list[str] | None,
        typer.Option(
            help="Another host name by which the role is asked for, beside that of its address in the task. May be"
            " repeated.",
            metavar="NAME",
        ),
    ] = None,
    proxy: Annotated[
        list[str] | None,
        typer.Option(
            help="Address or network of a proxy that bounds its clients, or names them in X-Forwarded-For. May be"
            " repeated.",
            metavar="ADDRESS",
        ),
    ] = None,
) -> None:
    """Serve one role of a task until SIGTERM; `all` runs every role of the task as a process of its own."""
    need_serve("serve")
    from bandanna.core import require
    from bandanna.errors import InvalidArgument
    from bandanna.roles import running
    from bandanna.tasks.document import Task

    require.one_of("ROLE", role, _ROLES)
    found = Task.read(task)
    folder = task if task.is_dir() else task.parent
    if role == "all":
        if db is not None and not db.startswith(("postgresql://", "postgres://")):
            raise InvalidArgument("--db", db, "postgresql://...; files are each role's own, beside the task")
        if port is not None:
            raise InvalidArgument("--port", port, "left out with all: the task says where each role is found")
        if inside is not None or peers is not None or host_name or proxy:
            name = "--inside" if inside else "--peers" if peers else "--host-name" if host_name else "--proxy"
            raise InvalidArgument(name, "an option", "left out with all: give it to each role's own process")
        running.serve_all(found, folder, database=db, host=host, say=typer.echo)
        return
    running.serve_role(
        role, found, secrets=secret or folder, database=db or str(folder / f"{role}.db"), host=host, port=port,
        cert=cert, key=key, trust=trust, inside=inside, peers=peers, names=host_name or (), proxies=proxy or (),
    )  # fmt: skip
