"""The command line: one file per command; calls functions of the library, contains none."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import typer

import bandanna
from bandanna.cli.algorithms import algorithms
from bandanna.cli.audit import audit
from bandanna.cli.bench import bench
from bandanna.cli.calibrate import calibrate
from bandanna.cli.dashboard import dashboard
from bandanna.cli.datasets import datasets
from bandanna.cli.demo import demo
from bandanna.cli.demo_deployed import demo_deployed
from bandanna.cli.evaluate import evaluate
from bandanna.cli.paper import paper
from bandanna.cli.plan import plan
from bandanna.cli.run import run
from bandanna.cli.serve import serve
from bandanna.cli.simulate_clients import simulate_clients
from bandanna.cli.study import Listing, study
from bandanna.cli.task import task

if TYPE_CHECKING:
    from bandanna.errors import InvalidArgument

app = typer.Typer(
    help="Differentially private bandits in every trust model.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.command("demo-deployed")(demo_deployed)
app.command()(plan)
app.command()(calibrate)
app.command()(audit)
app.command()(bench)
app.command()(run)
app.command()(evaluate)
app.command()(paper)
app.command("list")(algorithms)
app.command()(datasets)
app.command(cls=Listing)(study)
app.add_typer(task, name="task")
app.command()(serve)
app.command("simulate-clients")(simulate_clients)
app.command()(dashboard)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"bandanna {bandanna.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Differentially private bandits in every trust model."""


@cache
def command() -> Callable[[], Any]:
    """All commands, from their signatures, which takes a while: once for a process."""
    return typer.main.get_command(app)


def main() -> None:
    """Entry point of the `bandanna` command: errors become one clear line and exit code 2."""
    from bandanna.errors import BandannaError

    warnings.formatwarning = lambda message, *_, **__: f"warning: {_typed(str(message))}\n"
    try:
        command()()
    except (BandannaError, OSError, MemoryError) as error:
        typer.secho(f"error: {_words(error)}", fg=typer.colors.RED, err=True)
        raise SystemExit(2) from error


def _words(error: Exception) -> str:
    """As somebody who does not know Python reads it: arguments are options, and what is None there was not given."""
    from bandanna.errors import InvalidArgument

    if isinstance(error, MemoryError):
        return "not enough memory for this"
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, InvalidArgument):
        name = _option(error)
        if error.value is None:
            return _typed(f"{name} is missing: {error.allowed}")
        return _typed(f"{name}{str(error).removeprefix(error.argument)}")
    return _typed(str(error))


def _typed(text: str) -> str:
    """Hints as they are typed here: of `floor=0.1, --floor 0.1`, for programs and for commands, the second."""
    return re.sub(r"\b[a-z_]+=(?:\(.*?\)|\{.*?\}|\S+), (?=--[a-z])", "", text)


def _option(error: InvalidArgument) -> str:
    """The argument as it stands on the command line, or would: by the parameters of the command that was called.

    One that was not given is meant if its default is what the error names: another value came from elsewhere.
    """
    given = {each.partition("=")[0] for each in sys.argv[1:]}
    argument = error.argument.removeprefix("log.")  # what a log is read with
    for name in (argument, argument.removeprefix("n_"), argument.removesuffix("s")):
        for param in _called().params:
            option = next((each for each in param.opts if each.startswith("--")), "")
            named = option and name in (param.name, option[2:].replace("-", "_"))
            if named and (given & {*param.opts} or _is(param.default, error.value)):
                return option
    return error.argument


def _is(default: Any, value: Any) -> bool:
    return type(default) is type(value) and bool(default == value)


def _called() -> Any:
    """The command whose words the command line begins with."""
    found: Any = command()
    for word in sys.argv[1:]:
        if word not in getattr(found, "commands", {}):
            break
        found = found.commands[word]
    return found
