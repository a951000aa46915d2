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
    from bandanna.cli.tables import print_table

    print_table(columns, [list(row.values()) for row in rows], left=columns)
