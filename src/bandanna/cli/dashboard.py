"""`bandanna dashboard`: a deployment as pages in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bandanna.cli.extras import need_serve


def dashboard(
    places: Annotated[
        list[str],
        typer.Argument(help="An analyzer's address or a task's directory.", metavar="PLACE"),
    ],
    ask: Annotated[
        list[str] | None,
        typer.Option(
            help="Address of another role that may be asked, as the task has it, where PLACE is an analyzer's address:"
            " of a document from elsewhere only what you name is called. A directory needs none. May be repeated.",
            metavar="ADDRESS",
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 for any free one.")] = 8710,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the administrator's token, for what is not public"
            " (default: the variable BANDANNA_DASHBOARD_TOKEN; without either there is no login).",
            metavar="FILE",
        ),
    ] = None,
    cert: Annotated[Path | None, typer.Option(help="TLS certificate; a proxy is the better place for it.")] = None,
    key: Annotated[Path | None, typer.Option(help="TLS key of the certificate.")] = None,
    trust: Annotated[
        Path | None, typer.Option(help="Certificates by which roles are known, beside the system's.", metavar="FILE")
    ] = None,
    host_name: Annotated[
        list[str] | None,
        typer.Option(
            help="Host name by which browsers ask for the dashboard, where it is not localhost or the address that it"
            " listens on: behind a proxy, its name. May be repeated.",
            metavar="NAME",
        ),
    ] = None,
) -> None:
    """Show tasks as they run in a browser, until SIGTERM or Ctrl-C.

    Of a task only what is public: what was released, with its noise, and what it cost.
    """
    need_serve("dashboard")
    from bandanna.dashboard.places import serve_board

    serve_board(
        places, host=host, port=port, token=token_file, cert=cert, key=key, trust=trust, named=ask or (),
        names=host_name or (), say=lambda address: typer.echo(f"Dashboard: {address}  (stop it with Ctrl-C)"),
    )  # fmt: skip
