"""What is said of a command line that cannot be read: one line, in the form of every other error."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Any

import typer

from bandanna.core.spelling import did_you_mean, nearest
from bandanna.errors import shown

UsageError: type[Any] = typer.BadParameter.__mro__[1]  # of Typer, which gives it no public name
_NUMBERS = {"int": "a whole number", "float": "a number"}  # how Pydantic's names of errors begin


class BadValue(typer.BadParameter):
    """What a parser of an option says of its text."""

    def __init__(self, value: str, allowed: str) -> None:
        self.value, self.allowed = value, allowed
        super().__init__(f"{shown(value)} is not allowed: {allowed}")


def asked(command: Any, words: Iterable[str]) -> tuple[Any, str, str]:
    """The command that is named by the words of a line, its name in full, and the word that is no command."""
    path = "bandanna"
    for word in words:
        if not hasattr(command, "commands"):
            break
        if word in command.commands:
            command, path = command.commands[word], f"{path} {word}"
        elif not word.startswith("-"):
            return command, path, word
    return command, path, ""


def name_of(parameter: Any, words: Iterable[str]) -> str:
    """An option as it was typed, or as it is first called; an argument as the help has it."""
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name)
    given = {word.partition("=")[0] for word in words}
    return str(next((each for each in parameter.opts if each in given), parameter.opts[0]))


def usage(error: Any, command: Any) -> str:
    """What was wrong: argument, value and what is allowed; and whose --help says more."""
    words = sys.argv[1:]
    command, path, unknown = asked(command, words)
    if error.ctx is not None:
        command, path = error.ctx.command, _path(error.ctx)
    if getattr(error, "param", None) is not None:
        said = _of_parameter(error, words)
    elif hasattr(error, "option_name"):
        said = _of_option(error, command, path)
    elif unknown:
        names = list(command.commands)
        said = f"COMMAND = {shown(unknown)} is not allowed: {did_you_mean(unknown, names)}one of {', '.join(names)}"
    elif extra := re.search(r"unexpected extra argument\S*\s+\((.*)\)", error.format_message(), re.DOTALL):
        said = f"{shown(extra[1])} is not allowed: {path} takes no such argument"
    else:
        said = " ".join(error.format_message().split()).rstrip(".")
    return f"{said} ({path} --help)"


def _path(context: Any) -> str:
    """The name of a command in full, however the program was started."""
    return "bandanna" if context.parent is None else f"{_path(context.parent)} {context.info_name}"


def _of_parameter(error: Any, words: list[str]) -> str:
    """A value that cannot be read, or is not there."""
    name = name_of(error.param, words)
    if type(error).__name__ == "MissingParameter":
        return f"{name} is missing: {_purpose(error.param)}"
    if isinstance(error, BadValue):
        return f"{name} = {shown(error.value)} is not allowed: {error.allowed}"
    faults: list[dict[str, Any]] = getattr(error.__cause__, "errors", list)()  # of Pydantic
    if not faults:
        return f"{name} is not allowed: {' '.join(error.message.split()).rstrip('.')}"
    allowed = _NUMBERS.get(faults[0]["type"].partition("_")[0], faults[0]["msg"])
    return f"{name} = {shown(faults[0]['input'])} is not allowed: {allowed}"


def _of_option(error: Any, command: Any, path: str) -> str:
    """One that the command does not have, or without the value that it takes, or with one that it does not take."""
    named = ((each, option) for option in command.params for each in (*option.opts, *option.secondary_opts))
    options = {each: option for each, option in named if each.startswith("--")}
    name = error.option_name
    if name in options:
        if "not take a value" in error.message:
            return f"{name} with a value is not allowed: {name} alone, {_purpose(options[name])}"
        return f"{name} has no value: {_purpose(options[name])}"
    near = nearest(name.lstrip("-"), [each.removeprefix("--") for each in options])
    meant = f"did you mean --{near}? " if near else ""
    return f"{shown(name)[1:-1]} is no option of {path}: {meant}known are {', '.join(options)}"


def _purpose(parameter: Any) -> str:
    """The help of a parameter, as the end of a sentence."""
    text = " ".join((parameter.help or parameter.name or "").split()).rstrip(".")
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]
