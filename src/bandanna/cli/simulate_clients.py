"""`bandanna simulate-clients`: simulated users of a real deployment, over HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from bandanna.cli.extras import need_serve


def simulate_clients(
    task: Annotated[Path, typer.Option(help="The task's directory.", metavar="TASK")],
    users: Annotated[int, typer.Option(help="How many users come, one after the other.", min=1)] = 2000,
    concurrency: Annotated[int, typer.Option(help="How many requests are sent at once.", min=1)] = 16,
    environment: Annotated[
        str | None, typer.Option(help="A class of bandanna.environments (default: one that fits).", metavar="NAME")
    ] = None,
    silent: Annotated[float, typer.Option(help="Share of users who never answer.", min=0.0, max=1.0)] = 0.0,
    seed: Annotated[int, typer.Option(help="Of the simulated world.", min=0)] = 0,
    token: Annotated[
        str | None, typer.Option(help="The host's token (default: from registrar.secret.json in the task's directory).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a page.")] = False,
) -> None:
    """Drive a deployment with simulated users: they act, report, and their regret is known."""
    need_serve("simulate-clients")
    from bandanna.cli.bars import Bar
    from bandanna.roles.client.crowd import Crowd, summary
    from bandanna.roles.client.deployment import Http
    from bandanna.roles.client.worlds import world_of
    from bandanna.tasks.document import Secrets, Task

    found = Task.read(task)
    folder = task if task.is_dir() else task.parent
    own = token or Secrets.read(folder, "registrar", found).token
    rounds = users if found.policy.horizon is None else min(users, found.policy.horizon)
    with Bar(shown=not as_json) as bar, Http(found, token=own) as http:
        crowd = Crowd(
            found, http, world_of(found, environment), rounds=rounds, seed=seed,
            concurrency=concurrency, silent=silent, progress=lambda done: bar(done, rounds, "users"),
        )  # fmt: skip
        crowd.run()
    told = summary(crowd)
    if as_json:
        typer.echo(json.dumps(told))
        return
    for name, value in told.items():
        typer.echo(f"{name:28} {value}")
