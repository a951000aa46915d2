"""Every example in the README and the documentation runs.

A page is a sequence of steps, taken from its fenced blocks in order: a `python` block is executed, all blocks of a
page in one namespace; in a `console` block each line that starts with `$ bandanna` is run by a shell, and in a `bash`
or `sh` block each line that starts with `bandanna`, with or without the `$`. Other commands (make, pip) are not run.
A block of any language whose title is the name of a file is saved under it, for the steps that follow.

Commands that need no shell, but for a file that they are written to, are run in this process, which has loaded their
libraries. docs/reference/cli.md has all of them: in the long tests, the first example of each is a process there.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import textwrap
import types
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bandanna.cli.main import main
from bandanna.storage import encoding
from reproductions.__main__ import main as redo

from .. import drawn
from ..nursery import _quick_roles as _quick_roles
from ..sketches import sketch

ROOT = Path(__file__).parents[2]
PAGES = sorted(path for path in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")] if path.is_file())
LONG = {  # steps that take a second and more, by words in them, whose like other tests have: tried with the long ones
    "docs/appendix/papers.md": ("",),  # figures of all papers, small ones: tests/reproductions
    "docs/appendix/proofs.md": (
        "amplified = ",
        "by_clones",
        "(0.002, 200)",
        "local_protocol_for",
    ),  # tests/privacy, protocols
    "docs/reference/cli.md": (
        "--std 8",
        "--calibration paper",
        "audit LinUCB-JDP",
    ),
    "docs/how-to/choose-epsilon.md": ("bandanna calibrate", "plan --dim"),  # as all below in docs/reference/cli.md
    "docs/how-to/choose-privacy-model.md": ("bandanna plan",),
    "docs/how-to/choose-policy.md": ("bandanna plan",),
    "docs/concepts/how-we-verify.md": ("bandanna audit",),
    "docs/gallery.md": ("bounds=True",),
    "README.md": ("bandanna demo", "bandanna plan"),
}

FENCE = re.compile(
    r"^(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})[ \t]*(?P<language>\w+)(?P<info>[^\n`]*)\n"
    r"(?P<body>.*?)^[ \t]*(?P=fence)[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
PROGRAM = r"((?:bandanna|python -m reproductions)\b.*)"
COMMAND = {"console": r"\$ " + PROGRAM, "bash": r"(?:\$ )?" + PROGRAM, "sh": r"(?:\$ )?" + PROGRAM}
TITLE = re.compile(r'title="([\w-]+\.\w+)"')  # of a file
ALL = "docs/reference/cli.md"  # has an example of every command
PLAIN = re.compile(r"(bandanna|python -m reproductions) ([^|&;<>$`*?~]*)(?:> ([\w.-]+))?")  # the same without a shell
MAIN = {"bandanna": main, "python -m reproductions": redo}
SHIM = "import sys; from bandanna.cli.main import main; sys.argv[0] = 'bandanna'; main()"


@dataclass(frozen=True, kw_only=True)
class Step:
    """One thing that a reader would run, and the line of the page where it starts."""

    language: str
    code: str
    line: int
    file: str | None = None


def steps(text: str) -> Iterator[Step]:
    """The steps of a page in order."""
    for block in FENCE.finditer(text):
        language, body = block["language"].lower(), textwrap.dedent(block["body"])
        line = text.count("\n", 0, block.start("body")) + 1
        if titled := TITLE.search(block["info"]):
            yield Step(language="file", code=body, line=line, file=titled[1])
        if language == "python":
            yield Step(language="python", code=body, line=line)
        elif language in COMMAND:
            joined = re.sub(r"\\\n\s*", lambda found: " " * len(found[0]), body)  # a command over several lines
            for found in re.finditer("^" + COMMAND[language] + "$", joined, re.MULTILINE):
                yield Step(language="shell", code=found[1], line=line + body.count("\n", 0, found.start()))


def command_folder(parent: Path) -> Path:
    """A folder with a `bandanna` command that runs the package under test."""
    folder = parent / "bin"
    folder.mkdir()
    command = folder / "bandanna"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {shlex.quote(SHIM)} "$@"\n')
    command.chmod(0o755)
    return folder


def run(
    text: str,
    *,
    name: str,
    workplace: Path,
    monkeypatch: pytest.MonkeyPatch,
    processes: bool = False,
    but: tuple[str, ...] = (),
) -> None:
    """Take the steps of a page in `workplace`, `but` those with such words; an error names the page and the line."""
    namespace = types.ModuleType("example")
    monkeypatch.setitem(sys.modules, "example", namespace)
    monkeypatch.setenv("PATH", str(command_folder(workplace)), prepend=os.pathsep)
    (workplace / "here").mkdir()
    monkeypatch.chdir(workplace / "here")
    _forget_classes()
    started = set[str]()
    for step in steps(text):
        if any(words in step.code for words in but):
            continue
        if step.file is not None:
            Path(step.file).write_text(step.code, encoding="utf-8")
        elif step.language == "python":
            code = compile("\n" * (step.line - 1) + step.code, name, "exec", dont_inherit=True)
            exec(code, vars(namespace))
        else:
            plain, command = PLAIN.fullmatch(step.code), step.code.split()[1]
            if processes and command not in started:
                plain = None
            started.add(command)
            _forget_classes()
            code, said = in_a_shell(step.code) if plain is None else here(*plain.groups(), monkeypatch)
            assert code == 0, f"{name}:{step.line}: $ {step.code}\n{said}"


def _forget_classes() -> None:
    """A page and its commands are programs of their own: classes of the ones before have no stored names in them."""
    for name, kind in list(encoding._KINDS.items()):
        if kind.__module__.partition(".")[0] not in ("bandanna", "tests"):
            encoding._KINDS.pop(name, None)


def in_a_shell(command: str) -> tuple[int, str]:
    """Exit code and words of a command."""
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def here(program: str, arguments: str, file: str | None, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """Exit code and words of a program with these arguments, in this process; what it prints may be for a file."""
    with contextlib.ExitStack() as stack:
        said = io.StringIO()
        out = said if file is None else stack.enter_context(Path(file).open("w", encoding="utf-8"))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(said))
        patch = stack.enter_context(monkeypatch.context())
        patch.setattr(sys, "argv", [program, *shlex.split(arguments)])
        patch.setattr(warnings, "formatwarning", warnings.formatwarning)  # `main` has its own
        with warnings.catch_warnings():
            warnings.simplefilter("default")  # as in a process of its own
            try:
                MAIN[program]()
            except SystemExit as end:
                return (end.code if isinstance(end.code, int) else int(end.code is not None)), said.getvalue()
    return 0, said.getvalue()


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.usefixtures("_quick_roles")
@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_examples_of_page(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An example that a reader would copy does not run, or prints rows of a table that the page has not."""
    text = page.read_text(encoding="utf-8")
    sketch(monkeypatch)
    but = () if drawn.LONG[0] else LONG.get(_name(page), ())
    run(text, name=_name(page), workplace=tmp_path, monkeypatch=monkeypatch, but=but)
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert [line for line in rows if line not in text] == []


def test_long_steps_are_there() -> None:
    """A step is kept for the long tests by words that no page has any more."""
    for page, words in LONG.items():
        found = [step.code for step in steps((ROOT / page).read_text(encoding="utf-8"))]
        assert [each for each in words if not any(each in code for code in found)] == []


@pytest.mark.full
def test_commands_are_processes_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / ALL).read_text(encoding="utf-8")
    run(text, name=ALL, workplace=tmp_path, monkeypatch=monkeypatch, processes=True)


SAMPLE = """\
```python title="first"
a = 1
```

1. In a list:

    ```python
    b = a + 1
    ```

```console
$ make test
$ bandanna calibrate --dim 5 \\
    --batch 200
bandanna prints this
$ bandanna --version
```

```bash
bandanna list
```

```toml title="one.toml"
bandanna = 1
```
"""


def test_every_kind_of_example_is_found() -> None:
    found = [(step.line, step.language, " ".join(step.code.split())) for step in steps(SAMPLE)]
    assert found == [
        (2, "python", "a = 1"),
        (8, "python", "b = a + 1"),
        (13, "shell", "bandanna calibrate --dim 5 --batch 200"),
        (16, "shell", "bandanna --version"),
        (20, "shell", "bandanna list"),
        (24, "file", "bandanna = 1"),
    ]


def test_steps_share_their_workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later example of a page does not see the names and files of an earlier one, or `bandanna` is not found."""
    first = "```python\nfrom pathlib import Path\n```\n"
    commands = "```console\n$ bandanna --version > here\n$ bandanna --version | cat > shell\n```\n"
    last = "```python\nassert Path('here').read_text() == Path('shell').read_text() > ''\n```\n"
    run(first + commands + last, name="sound.md", workplace=tmp_path, monkeypatch=monkeypatch)


@pytest.mark.parametrize(
    ("example", "error"),
    [
        ("```python\na = 1\n```\n```python\nassert a == 2\n```\n", AssertionError),
        ("```python\nunknown_name\n```\n", NameError),
        ("```console\n$ bandanna no-such-command\n```\n", AssertionError),
        ("```console\n$ bandanna no-such-command > file\n```\n", AssertionError),
        ("```console\n$ bandanna no-such-command | cat\n```\n", AssertionError),
    ],
)
def test_a_broken_example_is_noticed(
    example: str, error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(error):
        run(example, name="broken.md", workplace=tmp_path, monkeypatch=monkeypatch)
