"""The commands `task`, `serve`, `simulate-clients`, `dashboard` and `demo-deployed`."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bandanna.cli.terminal import JsonOption, ProgressBar, check_folder, print_texts, require_serve_extra

if TYPE_CHECKING:
    from bandanna.deployment.task.document import Task


# task


TaskPlace = Annotated[
    str, typer.Argument(help="Directory of the task, its task.json, or its analyzer's URL.", metavar="TASK")
]
TaskFile = Annotated[Path, typer.Argument(help="The task: a TOML file.", metavar="FILE")]
NoForecastOption = Annotated[bool, typer.Option("--no-forecast", help="Do not simulate the expected regret.")]
CertOption = Annotated[Path | None, typer.Option(help="TLS certificate. Prefer a proxy with TLS.")]
KeyOption = Annotated[Path | None, typer.Option(help="Key of the TLS certificate.")]
TrustOption = Annotated[
    Path | None, typer.Option(help="Extra CA certificates (PEM) for connections to other roles.", metavar="FILE")
]

task = typer.Typer(help="Create, join, inspect and export tasks of a deployment.", no_args_is_help=True)


@task.command()
def create(
    file: TaskFile,
    out: Annotated[
        Path | None, typer.Option(help="Directory for the task.", show_default="FILE without .toml", metavar="DIR")
    ] = None,
    no_forecast: NoForecastOption = False,
    as_json: JsonOption = False,
) -> None:
    """Create a task from a TOML file. Writes task.json (public) and one secret file per role."""
    require_serve_extra("task create")
    from bandanna.deployment.task import creation

    folder = check_folder("--out", file.with_suffix("") if out is None else out)
    creation.check_free(folder)
    made, secrets = creation.create_task(file, expect=not no_forecast)
    creation.write_task(folder, made, secrets)
    if as_json:
        _print_json(made)
        return
    _print_task(made)
    typer.echo(f"\nWritten to {folder}: task.json, which is public, and for each role alone:")
    typer.echo(f"  {', '.join(f'{each.role}.secret.json' for each in secrets)}")
    typer.echo(f"Next: bandanna serve all --task {folder}")


@task.command()
def draft(
    file: TaskFile,
    out: Annotated[
        Path | None, typer.Option(help="File to write.", show_default="FILE.draft.json", metavar="FILE")
    ] = None,
    no_forecast: NoForecastOption = False,
) -> None:
    """Create a task without keys. Each role then joins it on its own machine."""
    require_serve_extra("task draft")
    from bandanna.deployment.task import creation
    from bandanna.storage import files

    place = file.with_suffix(".draft.json") if out is None else out
    made = creation.create_draft(file, expect=not no_forecast)
    files.write_private_file(place, made.document.decode("ascii"))
    _print_task(made)
    typer.echo(f"\nWritten to {place}, which is public. Next, each role's operator, on a machine of its own:")
    typer.echo(f"  bandanna task join {place} --role ROLE --operator NAME      ({', '.join(made.roles)})")


@task.command()
def join(
    draft: Annotated[Path, typer.Argument(help="The draft: a file of `task draft`.", metavar="DRAFT")],
    role: Annotated[str, typer.Option(help="Role that you run.", metavar="ROLE")],
    operator: Annotated[str, typer.Option(help="Name of the operator, shown to users.", metavar="NAME")],
    out: Annotated[Path, typer.Option(help="Directory for both files.", metavar="DIR")] = Path(),
) -> None:
    """Create the keys of one role on this machine: ROLE.secret.json (secret) and ROLE.join.json (public).

    Read the printed page first: by joining, you agree to serve this task.
    """
    require_serve_extra("task join")
    from bandanna.deployment.task.document import Task
    from bandanna.deployment.task.document import join_role as joined
    from bandanna.errors import BandannaError

    folder = check_folder("--out", out)
    task = Task.read(draft)
    if (folder / f"{role}.secret.json").exists():
        raise BandannaError(f"{folder} already holds {role}.secret.json. Choose another directory, or remove the file")
    secrets, join_file = joined(task, role, operator)
    _print_task(task)  # before anything is written: a draft that does not keep what it promises has no page
    folder.mkdir(parents=True, exist_ok=True)
    secrets.write(folder)
    public = join_file.write(folder)
    typer.echo(f"\nWritten to {folder}: {role}.secret.json, for this machine alone, and {public.name}, for everybody.")
    typer.echo(f"Next: send {public.name} to the person who runs bandanna task seal {draft} ROLE.join.json ...")


@task.command()
def seal(
    draft: Annotated[Path, typer.Argument(help="The draft: a file of `task draft`.", metavar="DRAFT")],
    joins: Annotated[list[Path], typer.Argument(help="The ROLE.join.json of every role.", metavar="JOIN...")],
    out: Annotated[Path, typer.Option(help="File to write.", metavar="FILE")] = Path("task.json"),
) -> None:
    """Combine a draft and the join files of all roles into task.json."""
    require_serve_extra("task seal")
    from bandanna.deployment.task.document import RoleJoin, Task, join_all
    from bandanna.errors import BandannaError
    from bandanna.storage import files

    if out.exists():
        raise BandannaError(f"{out} already exists. Choose another name, or remove the file")
    made = join_all(Task.read(draft), [RoleJoin.read(each) for each in joins])
    files.write_private_file(out, made.document.decode("ascii"))
    typer.echo(f"task {made.id}\nWritten to {out}, which is public. Next, each role's operator:")
    typer.echo(f"  bandanna task accept {out} --secret ROLE.secret.json")


@task.command()
def accept(
    task: Annotated[Path, typer.Argument(help="The task: a file of `task seal`.", metavar="TASK")],
    secret: Annotated[Path, typer.Option(help="The role's secrets: a file of `task join`.", metavar="FILE")],
) -> None:
    """Check that a task is the draft that this role joined, signed by all roles."""
    require_serve_extra("task accept")
    from bandanna.deployment.task.document import Secrets, Task
    from bandanna.deployment.task.document import accept_task as accepted

    found, own = Task.read(task), Secrets.of_file(secret)
    made = accepted(found, own)
    _print_task(found)  # before it is accepted, as in `join`
    made.write_to(secret)
    typer.echo(f"\nThe {made.role} has accepted task {found.id}.")
    typer.echo(f"Next: bandanna serve {made.role} --task {task} --secret {secret}")


@task.command()
def show(
    place: TaskPlace,
    as_json: JsonOption = False,
) -> None:
    """Show a task: its algorithm, its guarantee, what each role sees and the expected regret.

    With the analyzer's URL, also its progress: status, publication, batch, and the spent budget.
    """
    require_serve_extra("task show")
    from bandanna.deployment.task.document import find_task
    from bandanna.deployment.task.export import describe_progress, fetch_progress

    found = find_task(place)
    now = fetch_progress(found, place)
    if as_json:
        _print_json(found, {} if now is None else {"now": now})
        return
    _print_task(found)
    if now is not None:
        typer.echo(describe_progress(now))


@task.command()
def card(
    place: TaskPlace,
    out: Annotated[Path, typer.Option(help="Directory for both files.", metavar="DIR")] = Path(),
) -> None:
    """Write the privacy card of a task: privacy-card.json and privacy-card.html (two printed pages)."""
    require_serve_extra("task card")
    from bandanna.deployment.task.document import find_task
    from bandanna.deployment.task.privacy_card import write_privacy_card

    for path in write_privacy_card(find_task(place), check_folder("--out", out)):
        typer.echo(path)


@task.command()
def export(
    task: Annotated[
        str, typer.Option(help="Directory of the task, its task.json, or its analyzer's URL.", metavar="TASK")
    ],
    out: Annotated[
        Path, typer.Option(help="Directory for the files. Existing files are checked and kept.", metavar="DIR")
    ],
    as_json: JsonOption = False,
) -> None:
    """Download the public data of a task (document, publications, ledger) and check all signatures."""
    require_serve_extra("task export")
    from bandanna.deployment.task.export import export_task as fetch

    folder = check_folder("--out", out)
    with ProgressBar("publications", shown=not as_json) as bar:
        made = fetch(task, folder, progress=lambda done, total: bar(done, total, "downloading"))
    facts = {
        "task": made.task.id,
        "publications": made.newest.number + 1,
        "new": made.fresh,
        "status": made.newest.content["status"],
        "spent": made.newest.content["spent"],
        "chain": made.newest.chain,
    }
    if as_json:
        typer.echo(json.dumps(facts, allow_nan=False))
        return
    count = _format_count(facts["publications"], "publication")
    typer.echo(f"{folder}: {count}, {facts['new']:,} of them new; all signatures and the chain are valid.")
    typer.echo(f"The newest has chain {facts['chain']}; the task is {facts['status']}.")


def _print_json(shown: Task, more: dict[str, Any] | None = None) -> None:
    from bandanna.deployment.task.description import task_facts

    typer.echo(json.dumps({**task_facts(shown), **(more or {})}, allow_nan=False))


def _print_task(shown: Task) -> None:
    from rich.console import Console

    from bandanna.deployment.task.description import task_facts

    facts, width = task_facts(shown), Console().width
    typer.echo(f"{facts['title']}\ntask {facts['id']}")
    sizes = (
        f"{_format_count(facts['horizon'], 'round')}, {_format_count(facts['first batch'], 'user')} in the first batch"
    )
    typer.echo(f"{facts['algorithm']}, {sizes}")
    typer.echo(f"\n{_wrap_text(facts['promise'], width)}\n")
    print_texts(("role", "sees", "guarantee against it"), [tuple(row.values()) for row in facts["sight"]])
    typer.echo(_wrap_text(f"Clients: {', '.join(facts['clients'])}.", width))
    typer.echo(_wrap_text(facts["expectation"], width))
    for note in facts["notes"]:
        typer.echo(_wrap_text(f"note: {note}", width))


def _format_count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _wrap_text(text: str, width: int) -> str:
    from textwrap import fill

    return fill(text, max(60, min(width, 120)), break_long_words=False, break_on_hyphens=False)


# serve


_ROLES = ("registrar", "analyzer", "shuffler", "helper", "all")


def serve(
    role: Annotated[str, typer.Argument(help=f"One of {', '.join(_ROLES)}.", metavar="ROLE")],
    task: Annotated[Path, typer.Option(help="Directory of the task, or its task.json.", metavar="TASK")],
    db: Annotated[
        str | None,
        typer.Option(
            help="Database: an SQLite file or a postgresql:// URL.", show_default="TASK/ROLE.db", metavar="URL"
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int | None, typer.Option(help="Port to listen on.", show_default="the port in the task")] = None,
    secret: Annotated[
        Path | None,
        typer.Option(help="The role's secrets.", show_default="ROLE.secret.json beside the task", metavar="FILE"),
    ] = None,
    cert: CertOption = None,
    key: KeyOption = None,
    trust: TrustOption = None,
    inside: Annotated[
        str | None,
        typer.Option(
            help="Second address, for the operator: /metrics and /status without a token, and /readyz in full.",
            metavar="HOST:PORT",
        ),
    ] = None,
    peers: Annotated[
        str | None,
        typer.Option(help="Address for the other roles. Their routes are then served only there.", metavar="HOST:PORT"),
    ] = None,
    host_name: Annotated[
        list[str] | None,
        typer.Option(help="Further host name of the role, beside the one in the task. Repeatable.", metavar="NAME"),
    ] = None,
    proxy: Annotated[
        list[str] | None,
        typer.Option(
            help="Address or network of a proxy that limits its clients or sets X-Forwarded-For. Repeatable.",
            metavar="ADDRESS",
        ),
    ] = None,
    plain_http: Annotated[
        bool, typer.Option("--plain-http", help="Listen beyond this machine without TLS, behind a TLS proxy.")
    ] = False,
) -> None:
    """Run one role of a task until SIGTERM. `all` runs every role, each in its own process."""
    require_serve_extra("serve")
    from bandanna import validation
    from bandanna.deployment import processes
    from bandanna.deployment.task.document import Task
    from bandanna.errors import InvalidArgument, ValueSummary

    validation.one_of("ROLE", role, _ROLES)
    found = Task.read(task)
    folder = task if task.is_dir() else task.parent
    if role == "all":
        if db is not None and not db.startswith(("postgresql://", "postgres://")):
            raise InvalidArgument(
                "--db", db, "a postgresql:// URL with the role `all`", "SQLite files lie beside the task"
            )
        if port is not None:
            raise InvalidArgument("--port", port, "left out with the role `all`", "The task names the ports")
        if inside is not None or peers is not None or host_name or proxy:
            name = "--inside" if inside else "--peers" if peers else "--host-name" if host_name else "--proxy"
            raise InvalidArgument(
                name, ValueSummary("a value"), "left out with the role `all`", "Give it to each role's own process"
            )
        processes.serve_all(found, folder, database=db, host=host, say=typer.echo)
        return
    processes.serve_role(
        role, found, secrets=secret or folder, database=db or str(folder / f"{role}.db"), host=host, port=port,
        cert=cert, key=key, trust=trust, inside=inside, peers=peers, names=host_name or (), proxies=proxy or (),
        plain_http=plain_http,
    )  # fmt: skip


# simulate-clients


def simulate_clients(
    task: Annotated[Path, typer.Option(help="Directory of the task.", metavar="TASK")],
    users: Annotated[int, typer.Option(help="Number of users.", min=1)] = 2000,
    concurrency: Annotated[int, typer.Option(help="Number of simultaneous requests.", min=1)] = 16,
    environment: Annotated[
        str | None,
        typer.Option(
            help="Class of bandanna.simulation.environments.", show_default="one that fits the task", metavar="NAME"
        ),
    ] = None,
    dropout: Annotated[float, typer.Option(help="Share of users who never report.", min=0.0, max=1.0)] = 0.0,
    seed: Annotated[int, typer.Option(help="Seed of the simulated world.", min=0)] = 0,
    token: Annotated[
        str | None, typer.Option(help="Token of the host.", show_default="from registrar.secret.json")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Send simulated users to a deployment and print their regret."""
    require_serve_extra("simulate-clients")
    from bandanna.deployment.client.load_simulation import (
        HttpDeployment,
        SimulatedUsers,
        describe_missing_users,
        summarize_users,
        world_for_task,
    )
    from bandanna.deployment.task.document import Secrets, Task

    found = Task.read(task)
    folder = task if task.is_dir() else task.parent
    own = token or Secrets.read(folder, "registrar", found).token
    rounds = users if found.policy.horizon is None else min(users, found.policy.horizon)
    with ProgressBar("users", shown=not as_json) as bar, HttpDeployment(found, token=own) as http:
        crowd = SimulatedUsers(
            found, http, world_for_task(found, environment), rounds=rounds, seed=seed,
            concurrency=concurrency, dropout=dropout, progress=lambda done: bar(done, rounds, "simulating"),
        )  # fmt: skip
        crowd.run()
    facts = summarize_users(crowd)
    if as_json:
        typer.echo(json.dumps(facts))
        return
    for name, value in facts.items():
        typer.echo(f"{name:28} {value}")
    if missing := describe_missing_users(crowd.account):
        typer.echo(missing)
    if rounds < users:
        typer.echo(
            f"{users - rounds:,} of {users:,} users were not simulated, because the task ends after {rounds:,} users."
        )


# dashboard


def dashboard(
    places: Annotated[list[str], typer.Argument(help="Analyzer URLs or directories of tasks.", metavar="PLACE")],
    role_url: Annotated[
        list[str] | None,
        typer.Option(
            help="URL of another role to query for its health. Needed only if PLACE is an analyzer URL. Repeatable.",
            metavar="URL",
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 for any free one.")] = 8710,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the administrator's token. Without a token there is no login.",
            show_default="the variable BANDANNA_DASHBOARD_TOKEN",
            metavar="FILE",
        ),
    ] = None,
    cert: CertOption = None,
    key: KeyOption = None,
    trust: TrustOption = None,
    host_name: Annotated[
        list[str] | None,
        typer.Option(help="Host name of the dashboard behind a proxy. Repeatable.", metavar="NAME"),
    ] = None,
) -> None:
    """Serve a web page about running tasks, until SIGTERM or Ctrl-C.

    The page shows public data only: released sums with their noise, and the spent budget.
    """
    require_serve_extra("dashboard")
    from bandanna.deployment.dashboard.app import serve_board

    serve_board(
        places, host=host, port=port, token=token_file, cert=cert, key=key, trust=trust, named=role_url or (),
        names=host_name or (), say=lambda address: typer.echo(f"Dashboard: {address}  (stop it with Ctrl-C)"),
    )  # fmt: skip


# demo-deployed


def demo_deployed(
    users: Annotated[int, typer.Option(help="Number of simulated users.", min=600, max=20_000)] = 2000,
    mixers: Annotated[
        int, typer.Option(help="1, or 2: with two mixers, only the device sees a single report.", min=1, max=2)
    ] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the simulated world.", min=0)] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Keep task, databases and logs in this directory.", metavar="DIR")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a complete deployment on this machine and print what each role saw.

    It starts registrar, analyzer and shuffler as processes and sends simulated users over HTTP. The same as
    `bandanna task create`, `bandanna serve all` and `bandanna simulate-clients`.
    """
    require_serve_extra("demo-deployed")
    from bandanna.deployment.processes import run_demo

    with tempfile.TemporaryDirectory(prefix="bandanna-demo-") as place, ProgressBar("users", shown=not as_json) as bar:
        folder = Path(place) if out is None else check_folder("--out", out)
        facts = run_demo(
            folder, users=users, mixers=mixers, seed=seed, progress=lambda done: bar(done, users, "simulating")
        )
    if as_json:
        typer.echo(json.dumps(facts, allow_nan=False))
        return
    _print_demo(facts)
    if out is not None:
        typer.echo(f"Everything is in {out}: look with sqlite3, or read the logs.")
    typer.echo("Next: docs/how-to/deploy.md, or bandanna task create")


def _print_demo(facts: dict[str, Any]) -> None:
    from rich.console import Console

    width = Console().width
    crowd, ledger, seconds = facts["crowd"], facts["ledger"], facts["seconds"]
    typer.echo(f"{facts['title']}: {', '.join(facts['processes'])}, each a process with a database of its own")
    typer.echo(
        f"task made in {seconds['created']:.1f} s, roles up in {seconds['started']:.1f} s,"
        f" {crowd['users']:,} users in {crowd['seconds']:.1f} s\n"
    )
    typer.echo(f"regret {crowd['regret']:.0f}; random play loses {crowd['regret of random play']:.0f}", nl=False)
    typer.echo(f" ({crowd['reports acknowledged']:,} reports, {crowd['publications']} releases)")
    typer.echo(_wrap_text(facts["promise"], width))
    typer.echo(f"\nledger: epsilon = {ledger['spent']:.4f} of {ledger['budget']} spent per user, at most")
    for entry in ledger["entries"]:
        typer.echo(f"  batch {entry['batch']}: {entry['event']}")
    typer.echo("\nwhat each role saw, in its database: rows at most -> rows at the end")
    rows = [
        (each["role"], each["sees"], f"{each['requests']:,}", f"{each['bytes']:,}", _format_tables(each["tables"]))
        for each in facts["saw"]
    ]
    print_texts(("role", "sees", "requests", "bytes", "rows of its tables"), rows)
    gone = next(each for each in facts["saw"] if each["role"] == facts["collector"])
    most, end = gone["tables"]["reports"]
    typer.echo(f"Reports of people in the {gone['role']}'s database: {most:,} at most, {end:,} at the end.")


def _format_tables(tables: dict[str, list[int]]) -> str:
    return ", ".join(f"{name} {most:,} -> {end:,}" for name, (most, end) in tables.items() if most)
