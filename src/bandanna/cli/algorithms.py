"""`bandanna list`: every algorithm by its name."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def algorithms(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List the algorithms: name, paper, whom their users trust, what is protected and what is guaranteed."""
    from bandanna.policies.registry import ALGORITHMS

    columns = ("name", "paper", "trust", "protects", "guarantee")
    rows = [{column: getattr(entry, column) for column in columns} for entry in ALGORITHMS.values()]
    if as_json:
        typer.echo(json.dumps({"rows": rows}))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE, padding=(0, 1), pad_edge=False)
    for name in columns:
        table.add_column(name, no_wrap=True)
    for row in rows:
        table.add_row(*row.values())
    console = Console()
    (console if console.width >= 100 else Console(width=100)).print(table)  # names matter more than the margin
