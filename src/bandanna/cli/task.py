"""`bandanna task`: a policy as a document for all parties of a deployment, made by one of them or joined by each."""

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
def draft(
    file: Annotated[Path, typer.Argument(help="The task, a TOML file.", metavar="FILE")],
    out: Annotated[
        Path | None, typer.Option(help="Where to write (default: FILE's name with .draft.json).", metavar="FILE")
    ] = None,
    no_forecast: Annotated[bool, typer.Option("--no-forecast", help="Do not simulate the expected regret.")] = False,
) -> None:
    """Make a task without keys, for roles in different hands: each of them joins it on its own machine."""
    need_serve("task draft")
    from bandanna.storage import files
    from bandanna.tasks import creation

    place = file.with_suffix(".draft.json") if out is None else out
    made = creation.draft(file, expect=not no_forecast)
    files.write(place, made.document.decode("ascii"))
    _print(made)
    typer.echo(f"\nWritten to {place}, which is public. Next, each role's operator, on a machine of its own:")
    typer.echo(f"  bandanna task join {place} --role ROLE --operator NAME      ({', '.join(made.roles)})")


@task.command()
def join(
    draft: Annotated[Path, typer.Argument(help="The draft, a file of `task draft`.", metavar="DRAFT")],
    role: Annotated[str, typer.Option(help="Which role you run.", metavar="ROLE")],
    operator: Annotated[str, typer.Option(help="Who runs it, for people to read.", metavar="NAME")],
    out: Annotated[Path, typer.Option(help="Directory for both files.", metavar="DIR")] = Path(),
) -> None:
    """Draw one role's keys on this machine: ROLE.secret.json, which stays, and ROLE.join.json, which is public.

    Read the page that is printed: joining says that this is the task you serve.
    """
    need_serve("task join")
    from bandanna.cli.places import folder_for
    from bandanna.errors import BandannaError
    from bandanna.tasks.document import Task
    from bandanna.tasks.join import join as joined

    folder = folder_for("--out", out)
    task = Task.read(draft)
    if (folder / f"{role}.secret.json").exists():
        raise BandannaError(f"{folder} has {role}.secret.json already: take another directory, or remove it")
    secrets, said = joined(task, role, operator)
    _print(task)  # before anything is written: a draft that does not keep what it promises has no page
    folder.mkdir(parents=True, exist_ok=True)
    secrets.write(folder)
    public = said.write(folder)
    typer.echo(f"\nWritten to {folder}: {role}.secret.json, for this machine alone, and {public.name}, for everybody.")
    typer.echo(f"Next: give {public.name} to whoever runs bandanna task seal {draft} ROLE.join.json ...")


@task.command()
def seal(
    draft: Annotated[Path, typer.Argument(help="The draft, a file of `task draft`.", metavar="DRAFT")],
    joins: Annotated[list[Path], typer.Argument(help="A ROLE.join.json of every role.", metavar="JOIN...")],
    out: Annotated[Path, typer.Option(help="Where to write.", metavar="FILE")] = Path("task.json"),
) -> None:
    """Make the task of a draft that all its roles have joined; its hash is the task's id."""
    need_serve("task seal")
    from bandanna.errors import BandannaError
    from bandanna.storage import files
    from bandanna.tasks.document import Task
    from bandanna.tasks.join import Join, join_all

    if out.exists():
        raise BandannaError(f"{out} is there already: take another name, or remove it")
    made = join_all(Task.read(draft), [Join.read(each) for each in joins])
    files.write(out, made.document.decode("ascii"))
    typer.echo(f"task {made.id}\nWritten to {out}, which is public. Next, each role's operator:")
    typer.echo(f"  bandanna task accept {out} --secret ROLE.secret.json")


@task.command()
def accept(
    task: Annotated[Path, typer.Argument(help="The task, a file of `task seal`.", metavar="TASK")],
    secret: Annotated[Path, typer.Option(help="The role's secrets, of `task join`.", metavar="FILE")],
) -> None:
    """Check that a task is the draft that this role has joined, with its own keys and everybody's signature."""
    need_serve("task accept")
    from bandanna.tasks.document import Secrets, Task
    from bandanna.tasks.join import accept as accepted

    found, own = Task.read(task), Secrets.of_file(secret)
    made = accepted(found, own)
    _print(found)  # before it is accepted, as in `join`
    made.write_to(secret)
    typer.echo(f"\nThe {made.role} has accepted task {found.id}.")
    typer.echo(f"Next: bandanna serve {made.role} --task {task} --secret {secret}")


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
