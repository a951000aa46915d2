"""`bandanna datasets`: the data sets, what they are, and how to get them."""

from __future__ import annotations

import json
import textwrap
from typing import Annotated

import typer

_FIELDS = (
    "rows", "arms", "reward", "propensities", "features", "public", "source", "package", "package_licence",
    "data_licence", "get",
)  # fmt: skip


def datasets(
    name: Annotated[str | None, typer.Argument(help="A data set: its card.", metavar="[NAME]")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List the data sets, or show the card of one. Nothing is downloaded: they are in packages or in own files."""
    from bandanna.datasets.catalogue import card, cards, is_installed

    chosen = cards() if name is None else (card(name),)
    rows = [{**each.to_dict(), "installed": is_installed(each.name)} for each in chosen]
    if as_json:
        typer.echo(json.dumps({"rows": rows}))
        return
    if name is not None:
        _card(rows[0])
        return
    from bandanna.cli.tables import print_texts

    lines = [
        [each["name"], each["title"], f"{each['rows']:,}", "yes" if each["installed"] else each["get"]] for each in rows
    ]
    print_texts(("name", "what it is", "rows", "installed"), lines, least=110)


def _card(row: dict[str, object]) -> None:
    """A field in each paragraph."""
    typer.echo(f"{row['name']}: {row['title']}")
    for field in _FIELDS:
        value = row[field]
        text = ", ".join(map(str, value)) if isinstance(value, list) else f"{value:,}" if field == "rows" else value
        label = field.replace("_", " ")
        typer.echo(textwrap.fill(f"{text}", 100, initial_indent=f"  {label:16s}", subsequent_indent=" " * 18))
    typer.echo(f"  {'installed':16s}{'yes' if row['installed'] else 'no'}")
