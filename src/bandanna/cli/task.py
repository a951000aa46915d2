"""`bandanna task create`, `show` and `export`: a policy as a document for all parties of a deployment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bandanna.cli.extras import need_serve

if TYPE_CHECKING:
    from bandanna.tasks.document import Task

task = typer.Typer(help="Tasks of a deployment: what all parties agree on.", no_args_is_help=True)


@task.command()
def create(
    file: Annotated[Path, typer.Argument(help="The task, a TOML file.", metavar="FILE")],
    out: Annotated[
        Path | None, typer.Option(help="Directory for the task (default: FILE's name without .toml).", metavar="DIR")
    ] = None,
    no_forecast: Annotated[bool, typer.Option("--no-forecast", help="Do not simulate the expected regret.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a page.")] = False,
) -> None:
    """Make a task: calibrate its policy, draw its keys, and write its document and each role's secrets.

    The document, task.json, is public and never changes. A file ROLE.secret.json is for that role alone.
    """
    need_serve("task create")
    from bandanna.cli.places import folder_for
    from bandanna.tasks import creation

    folder = folder_for("--out", file.with_suffix("") if out is None else out)
    creation.check_free(folder)
    made, secrets = creation.create(file, expect=not no_forecast)
    creation.write(folder, made, secrets)
    if as_json:
        _print_json(made)
        return
    _print(made)
    typer.echo(f"\nWritten to {folder}: task.json, which is public, and for each role alone:")
    typer.echo(f"  {', '.join(f'{each.role}.secret.json' for each in secrets)}")
    typer.echo(f"Next: bandanna serve all --task {folder}")


@task.command()
def show(
    place: Annotated[
        str, typer.Argument(help="A task's directory, its task.json, or its analyzer's address.", metavar="TASK")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a page.")] = False,
) -> None:
    """Say what a task is, what it promises, who sees what and what to expect: from its document alone.

    From its analyzer's address also how far it is: status, publication, batch, and what was spent.
    """
    need_serve("task show")
    from bandanna.tasks.finding import find_task
    from bandanna.tasks.progress import progress, sentence

    found = find_task(place)
    now = progress(found, place)
    if as_json:
        _print_json(found, {} if now is None else {"now": now})
        return
    _print(found)
    if now is not None:
        typer.echo(sentence(now))


@task.command()
def export(
    task: Annotated[
        str, typer.Option(help="A task's directory, its task.json, or its analyzer's address.", metavar="TASK")
    ],
    out: Annotated[
        Path, typer.Option(help="Directory for the files; what is there is checked and kept.", metavar="DIR")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a line.")] = False,
) -> None:
    """Fetch everything public about a task - document, publications, ledger - and check signatures and the chain."""
    need_serve("task export")
    from bandanna.cli.bars import Bar
    from bandanna.cli.places import folder_for
    from bandanna.tasks.exporting import export as fetch

    folder = folder_for("--out", out)
    with Bar(shown=not as_json) as bar:
        made = fetch(task, folder, progress=lambda done, total: bar(done, total, "publications"))
    told = {
        "task": made.task.id,
        "publications": made.newest.number + 1,
        "new": made.fresh,
        "status": made.newest.content["status"],
        "spent": made.newest.content["spent"],
        "chain": made.newest.chain,
    }
    if as_json:
        typer.echo(json.dumps(told, allow_nan=False))
        return
    count = _counted(told["publications"], "publication")
    typer.echo(f"{folder}: {count}, {told['new']:,} of them new; every signature and the chain are right.")
    typer.echo(f"The newest has chain {told['chain']}; the task is {told['status']}.")


def _print_json(shown: Task, more: dict[str, Any] | None = None) -> None:
    from bandanna.tasks.page import facts

    typer.echo(json.dumps({**facts(shown), **(more or {})}, allow_nan=False))


def _print(shown: Task) -> None:
    from rich.console import Console

    from bandanna.cli.tables import print_texts
    from bandanna.tasks.page import facts

    said, width = facts(shown), Console().width
    typer.echo(f"{said['title']}\ntask {said['id']}")
    sizes = f"{_counted(said['horizon'], 'round')}, {_counted(said['first batch'], 'user')} in the first batch"
    typer.echo(f"{said['algorithm']}, {sizes}")
    typer.echo(f"\n{_wrapped(said['promise'], width)}\n")
    print_texts(("role", "sees", "left against it"), [tuple(row.values()) for row in said["sight"]])
    typer.echo(_wrapped(f"Clients: {', '.join(said['clients'])}.", width))
    typer.echo(_wrapped(said["expectation"], width))
    for note in said["notes"]:
        typer.echo(_wrapped(f"note: {note}", width))


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _wrapped(text: str, width: int) -> str:
    from textwrap import fill

    return fill(text, max(60, min(width, 120)), break_long_words=False, break_on_hyphens=False)
