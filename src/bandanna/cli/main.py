"""The program `bandanna`: its commands, and errors as one line."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import typer

import bandanna
from bandanna.cli.analysis import audit, calibrate, evaluate
from bandanna.cli.deploy import dashboard, demo_deployed, serve, simulate_clients, task
from bandanna.cli.simulate import ListOptionsCommand, algorithms, datasets, demo, plan, run, study

if TYPE_CHECKING:
    from bandanna.errors import InvalidArgument


UsageError: type[Any] = typer.BadParameter.__mro__[1]  # of Typer, which gives it no public name

app = typer.Typer(
    help="Simulate, run and deploy bandits with differential privacy.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.command("demo-deployed")(demo_deployed)
app.command()(plan)
app.command()(calibrate)
app.command()(audit)
app.command()(run)
app.command()(evaluate)
app.command("list")(algorithms)
app.command()(datasets)
app.command(cls=ListOptionsCommand)(study)
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
    """Simulate, run and deploy bandits with differential privacy."""


@cache
def command() -> Callable[..., Any]:
    """Return the program with all commands, built once per process because that takes a while."""
    return typer.main.get_command(app)


def main() -> None:
    """Run the command line; an error becomes one line and exit code 2."""
    from bandanna.errors import BandannaError, WeakPrivacyWarning

    warnings.simplefilter("once", WeakPrivacyWarning, append=True)  # a command makes the same budget in several places
    warnings.formatwarning = lambda message, *_, **__: f"warning: {_option_spelling(str(message))}\n"
    try:
        code = command()(standalone_mode=False)
    except UsageError as error:
        if type(error).__name__ != "NoArgsIsHelpError":  # which has printed the help
            _print_error(_usage(error))
        raise SystemExit(2) from error
    except typer.Abort:
        raise SystemExit(1) from None
    except (BandannaError, OSError, MemoryError) as error:
        _print_error(_error_words(error))
        raise SystemExit(2) from error
    raise SystemExit(code if isinstance(code, int) else 0)


def _print_error(words: str) -> None:
    typer.secho(f"error: {words}", fg=typer.colors.RED, err=True)


def _usage(error: Any) -> str:
    """Return Click's usage error on one line, with the --help that explains it."""
    text = "".join(each if each.isprintable() else " " for each in error.format_message())
    path = _find_command()[1] if error.ctx is None else _path(error.ctx)
    return f"{' '.join(text.split()).rstrip('.')} ({path} --help)"


def _path(context: Any) -> str:
    return "bandanna" if context.parent is None else f"{_path(context.parent)} {context.info_name}"


def _find_command() -> tuple[Any, str]:
    found: Any = command()
    path = "bandanna"
    for word in sys.argv[1:]:
        if word in getattr(found, "commands", {}):
            found, path = found.commands[word], f"{path} {word}"
    return found, path


def _error_words(error: Exception) -> str:
    """Return an error in words of the command line, with options for arguments."""
    from bandanna.errors import InvalidArgument, UnknownArgument, ValueSummary

    if isinstance(error, MemoryError):
        return "not enough memory for this"
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, InvalidArgument) and not isinstance(error, UnknownArgument):
        name = _option_of_error(error)
        if error.value is None or (isinstance(error.value, ValueSummary) and error.value == "None"):
            return _option_spelling(f"{name} is missing. It must be {error.allowed}{error.hint and f'. {error.hint}'}")
        return _option_spelling(f"{name}{str(error).removeprefix(error.argument)}")
    return _option_spelling(str(error))


def _option_spelling(text: str) -> str:
    """Keep only the option in a hint such as `floor=0.1, --floor 0.1`."""
    return re.sub(r"\b[a-z_]+=(?:\(.*?\)|\{.*?\}|\S+), (?=--[a-z])", "", text)


def _option_of_error(error: InvalidArgument) -> str:
    """Return the option for an error's argument, by the parameters of the called command.

    An option that was not given is meant only if its default is the value in the error.
    """
    given = {each.partition("=")[0] for each in sys.argv[1:]}
    argument = error.argument.removeprefix("log.")  # what a log is read with
    parameters = _find_command()[0].params
    for name in (argument, argument.removeprefix("n_"), argument.removesuffix("s")):
        for each in parameters:
            option = next((opt for opt in each.opts if opt.startswith("--")), "")
            named = option and name in (each.name, option[2:].replace("-", "_"))
            if named and (given & {*each.opts} or _is_default(each.default, error.value)):
                return option
    arguments = (each for each in parameters if each.param_type_name == "argument")
    places = {each.name: str(each.metavar or each.name) for each in arguments}
    return places.get(error.argument, error.argument)


def _is_default(default: Any, value: Any) -> bool:
    return type(default) is type(value) and bool(default == value)
