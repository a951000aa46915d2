"""Write the generated parts of the documentation.

    python -m tools.pages            rewrite them
    python -m tools.pages --check    list pages whose generated parts are out of date, and exit with code 1

A generated part of a page stands between `<!-- generated: NAME ARGUMENT -->` and `<!-- end -->`. The functions of
`PARTS` compute it from the program: the commands, the registry of algorithms, the packages, and the table of a task.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import typer

import bandanna
from bandanna import errors
from bandanna.cli.main import app
from bandanna.policies.registry import ALGORITHMS

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
REGION = re.compile(r"(<!-- generated: ([\w-]+)(?: ([^>]*?))? -->\n).*?(<!-- end -->)", re.DOTALL)


# Who sees what


_SMALL = {"dim": 2, "horizon": 60, "epsilon": 5.0, "delta": 1e-3}
MODELS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "central": ("LinTS-JDP", {"batch": 20}, {}),
    "local": ("LinTS-LDP", {"batch": 20}, {}),
    "shuffle, one mixer": ("LinTS-SDP", {"batch": 20}, {}),
    "shuffle, the mixer draws the noise": ("LinTS-SDP", {"batch": 20}, {"noise": "mixer"}),
    "shuffle, two mixers": ("LinTS-SDP", {"batch": 20}, {"mixers": 2}),
    "shuffle, Gaussian reports": ("LinUCB-SDP-Amp", {"batch": 20}, {}),
    "concurrent shufflers": ("LinUCB-CSDP", {}, {}),
}


@cache
def visibility_rows() -> tuple[str, ...]:
    """Return a row for every privacy model: what shuffler, helper and analyzer see of a task of that model."""
    from bandanna.deployment.task.creation import create_task
    from bandanna.deployment.task.description import visibility_table

    lines = []
    for name, (algorithm, more, rules) in MODELS.items():
        document = {"title": name, "algorithm": algorithm, "policy": _SMALL | more, "rules": rules}
        task, _ = create_task(document, expect=False)
        sees = {row.role: row.sees.partition("; the slot")[0] for row in visibility_table(task)}
        seen = " | ".join(sees.get(role, "-") for role in ("shuffler", "helper", "analyzer", "everybody"))
        lines.append(f"| {name} | {seen} |")
    return tuple(lines)


def write_visibility(_: str) -> str:
    """Return the table of what the roles see."""
    head = "| model | shuffler sees | helper sees | analyzer sees | everybody sees |\n" + "| --- " * 5 + "|\n"
    return head + "\n".join(visibility_rows()) + "\n"


# Commands


def find_command(path: str) -> Any:
    """Return the command with this name, as in "task create"."""
    found: Any = typer.main.get_command(app)
    for word in path.split():
        found = found.commands[word]
    return found


def list_commands() -> list[str]:
    """Return the names of all commands that do something."""

    def walk(command: Any, path: str) -> list[str]:
        if not (children := getattr(command, "commands", {})):
            return [path]
        return [name for word, child in children.items() for name in walk(child, f"{path} {word}".strip())]

    return walk(typer.main.get_command(app), "")


SHARED = ("--json", "--jobs", "--executor", "--scheduler")  # the page describes them once


def write_command(path: str) -> str:
    """Return the help of a command, and a table of its arguments and options but those that are shared."""
    command = find_command(path)
    lines = [" ".join(paragraph.split()) for paragraph in (command.help or "").split("\n\n")]
    own = [each for each in command.params if each.name != "help" and not set(each.opts) & set(SHARED)]
    shared = [f"`{name}`" for name in SHARED if any(name in each.opts for each in command.params)]
    rows = [_option_row(parameter) for parameter in own]
    if shared:
        lines.append(f"[Shared options](#shared-options): {', '.join(shared)}.")
    if not rows:
        return "\n\n".join(map(_escape, lines)) + "\n"
    table = "\n".join(["| option | default | meaning |", "| --- | --- | --- |", *rows])
    return "\n\n".join([*map(_escape, lines), table]) + "\n"


def _option_row(parameter: Any) -> str:
    names = [*parameter.opts, *parameter.secondary_opts]
    shown = ", ".join(f"`{name}`" for name in names)
    if parameter.param_type_name == "argument":
        shown = f"`{parameter.metavar or parameter.name.upper()}`"
    meaning = " ".join((getattr(parameter, "help", "") or "").split())
    default = _describe_default(parameter)
    if found := re.search(r"\s*(?:\[default: (.*?)\]|\(default: (.*)\)\.?)$", meaning):
        default, meaning = found[1] or found[2], meaning[: found.start()].rstrip(".") + "."
    return f"| {shown} | {_escape(default)} | {_escape(meaning)} |"


def _describe_default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    if parameter.default is None or parameter.default == "":
        return "-"
    if isinstance(parameter.default, bool):
        return "off" if not parameter.secondary_opts else parameter.secondary_opts[0]
    value = parameter.default
    return f"{value:g}" if isinstance(value, float) and value < 1e6 else f"{value}"


def _escape(text: str) -> str:
    """Return a text that a table of Markdown shows as it is."""
    return text.replace("|", "\\|").replace("<", "&lt;")


# Algorithms


def write_algorithms(_: str) -> str:
    """Return the catalogue of algorithms."""
    lines = ["| name | class | model | protects | guarantee | paper |", "| --- " * 6 + "|"]
    for name, entry in ALGORITHMS.items():
        paper = "" if entry.paper == "-" else f"[{entry.paper}]"
        trust = "" if entry.trust == "none" else entry.trust
        nothing = entry.trust == "none"
        protects, guarantee = ("", "") if nothing else (entry.protects, entry.guarantee)
        lines.append(f"| `{name}` | `{entry.kind.__name__}` | {trust or 'none'} | {protects} | {guarantee} | {paper} |")
    return "\n".join(lines) + "\n"


# Errors


def write_errors(_: str) -> str:
    """Return the table of errors and warnings, with the first sentence of each."""
    lines = ["| class | also a | raised or warned when |", "| --- | --- | --- |"]
    for name, kind in vars(errors).items():
        if isinstance(kind, type) and issubclass(kind, Exception) and kind.__module__ == errors.__name__:
            bases = [base for base in kind.__bases__ if base is not Exception]
            also = ", ".join(f"`{base.__name__}`" for base in bases)
            document = " ".join((kind.__doc__ or "").partition("\n\n")[0].split())
            lines.append(f"| `{name}` | {also} | {_escape(document)} |")
    return "\n".join(lines) + "\n"


# The Python API


PRIVATE = {"__main__", "_lazy", "cli"}


def list_packages() -> list[str]:
    """Return the public packages and modules below `bandanna`."""
    return sorted(each.name for each in pkgutil.iter_modules(bandanna.__path__) if each.name not in PRIVATE)


def list_modules(package: str) -> list[str]:
    """Return the modules of a package that its page shows: those with a public class or function of their own."""
    found = [f"bandanna.{package}"]
    module = importlib.import_module(found[0])
    for each in pkgutil.walk_packages(getattr(module, "__path__", []), f"{found[0]}."):
        if not any(part.startswith("_") for part in each.name.split(".")):
            found.append(each.name)
    return [name for name in found if _defines_something(name)] or found


def _defines_something(name: str) -> bool:
    module = importlib.import_module(name)
    members = [value for word, value in vars(module).items() if not word.startswith("_")]
    return any(callable(value) and getattr(value, "__module__", "") == name for value in members)


def write_api(package: str) -> str:
    """Return the directives from which mkdocstrings makes the page of a package."""
    return "\n" + "\n\n".join(f"::: {name}" for name in list_modules(package)) + "\n\n"


def write_api_index(_: str) -> str:
    """Return the table of packages, with the first sentence of each."""
    lines = ["| package | contents |", "| --- | --- |"]
    for package in list_packages():
        document = importlib.import_module(f"bandanna.{package}").__doc__ or ""
        summary = " ".join(document.partition("\n\n")[0].split())
        lines.append(f"| [`bandanna.{package}`](api/{package}.md) | {_escape(summary)} |")
    return "\n".join(lines) + "\n"


# Pages


PARTS: dict[str, Callable[[str], str]] = {
    "visibility": write_visibility,
    "command": write_command,
    "algorithms": write_algorithms,
    "errors": write_errors,
    "api": write_api,
    "api-index": write_api_index,
}


def fill(text: str) -> str:
    """Return a page with its generated parts written anew."""
    return REGION.sub(lambda found: found[1] + PARTS[found[2]](found[3] or "") + found[4], text)


def write_missing_pages() -> None:
    """Make a page for every package that has none, and remove those of packages that are gone."""
    folder = DOCS / "reference" / "api"
    packages = list_packages()
    for page in folder.glob("*.md"):
        if page.stem not in packages:
            page.unlink()
    for package in packages:
        page = folder / f"{package}.md"
        if not page.exists():
            text = f"# bandanna.{package}\n\n<!-- generated: api {package} -->\n<!-- end -->\n"
            page.write_text(text, encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Write or check the pages; return the exit code."""
    check = arguments == ["--check"]
    if not check:
        write_missing_pages()
    old = []
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if (filled := fill(text)) != text:
            old.append(page.relative_to(ROOT).as_posix())
            if not check:
                page.write_text(filled, encoding="utf-8")
    if check and old:
        print(*[f"{page} is out of date: python -m tools.pages" for page in old], sep="\n", file=sys.stderr)
    return int(check and bool(old))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
