"""`bandanna demo-deployed`: a whole deployment on this machine, simulated users, and what each role saw of them."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from bandanna.cli.extras import need_serve


def demo_deployed(
    users: Annotated[int, typer.Option(help="Simulated users.", min=600, max=20_000)] = 2000,
    mixers: Annotated[int, typer.Option(help="1, or 2: then nobody but the device sees a report.", min=1, max=2)] = 1,
    seed: Annotated[int, typer.Option(help="Of the simulated world.", min=0)] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Keep task, databases and logs there [they are removed].", metavar="DIR")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a page.")] = False,
) -> None:
    """Deploy a bandit here: registrar, analyzer and shuffler as processes, users over HTTP, and what each role saw.

    The same as `bandanna task create`, `bandanna serve all` and `bandanna simulate-clients`, with a look into every
    database meanwhile.
    """
    need_serve("demo-deployed")
    from bandanna.cli.bars import Bar
    from bandanna.cli.places import folder_for
    from bandanna.roles.demonstration import demonstrate

    with tempfile.TemporaryDirectory(prefix="bandanna-demo-") as place, Bar(shown=not as_json) as bar:
        folder = Path(place) if out is None else folder_for("--out", out)
        told = demonstrate(
            folder, users=users, mixers=mixers, seed=seed, progress=lambda done: bar(done, users, "users")
        )
    if as_json:
        typer.echo(json.dumps(told, allow_nan=False))
        return
    _print(told)
    if out is not None:
        typer.echo(f"Everything is in {out}: look with sqlite3, or read the logs.")
    typer.echo("Next: docs/deploy.md, or bandanna task create")


def _print(told: dict[str, Any]) -> None:
    from rich.console import Console

    from bandanna.cli.tables import print_texts
    from bandanna.cli.task import _wrapped

    width = Console().width
    crowd, ledger, seconds = told["crowd"], told["ledger"], told["seconds"]
    typer.echo(f"{told['title']}: {', '.join(told['processes'])}, each a process with a database of its own")
    typer.echo(
        f"task made in {seconds['created']:.1f} s, roles up in {seconds['started']:.1f} s,"
        f" {crowd['users']:,} users in {crowd['seconds']:.1f} s\n"
    )
    typer.echo(f"regret {crowd['regret']:.0f}; random play loses {crowd['regret of random play']:.0f}", nl=False)
    typer.echo(f" ({crowd['reports acknowledged']:,} reports, {crowd['publications']} releases)")
    typer.echo(_wrapped(told["promise"], width))
    typer.echo(f"\nledger: epsilon = {ledger['spent']:.4f} of {ledger['budget']} spent, by anybody at most")
    for entry in ledger["entries"]:
        typer.echo(f"  batch {entry['batch']}: {entry['event']}")
    typer.echo("\nwhat each role saw, in its database: rows at most -> rows at the end")
    rows = [
        (each["role"], each["sees"], f"{each['requests']:,}", f"{each['bytes']:,}", _tables(each["tables"]))
        for each in told["saw"]
    ]
    print_texts(("role", "sees", "requests", "bytes", "rows of its tables"), rows)
    gone = next(each for each in told["saw"] if each["role"] == told["collector"])
    most, end = gone["tables"]["reports"]
    typer.echo(f"Reports of people in the {gone['role']}'s database: {most:,} at most, {end:,} at the end.")


def _tables(tables: dict[str, list[int]]) -> str:
    return ", ".join(f"{name} {most:,} -> {end:,}" for name, (most, end) in tables.items() if most)
