"""The command `bandanna` as a shell sees it: exit codes, one clear line on errors, version and help."""

from __future__ import annotations

import contextlib
import io
import json
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import bandanna
from bandanna.cli import main
from bandanna.cli.main import app
from bandanna.cli.terminal import SERVE_MODULES
from bandanna.errors import MissingExtra
from bandanna.experiments import plan
from bandanna.policies.registry import ALGORITHMS

from ..drawn import examples


def shell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int | str | None, str, str]:
    """Exit code, standard output and standard error of the command."""
    monkeypatch.setattr(sys, "argv", ["bandanna", *arguments])
    with pytest.raises(SystemExit) as ended:
        main.main()
    shown = capsys.readouterr()
    return ended.value.code, shown.out, shown.err


GOOD = {"--dim": "5", "--epsilon": "1", "--delta": "1e-5", "--batch": "20"}


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--dim", "0", ("--dim must be ", "got 0", "whole number >= 1")),
        ("--epsilon", "0", ("epsilon must be ", "got 0.0", "> 0")),
        ("--epsilon", "-1", ("epsilon must be ", "got -1.0", "> 0")),
        ("--epsilon", "nan", ("epsilon must be ", "got nan", "> 0")),
        ("--epsilon", "inf", ("epsilon must be ", "got inf", "finite")),
        ("--delta", "1", ("delta must be ", "got 1.0", "[0, 1)")),
        ("--delta", "-0.1", ("delta must be ", "got -0.1", "[0, 1)")),
        ("--delta", "0", ("delta must be ", "got 0.0", "never pure")),
        ("--batch", "1", ("batch must be ", "got 1", ">= 2")),
        ("--participations", "0", ("participations must be ", "got 0", ">= 1")),
        ("--horizon", "-2", ("horizon must be ", "got -2", ">= 1")),
        ("--mechanism", "forest", ("'forest'", "'blt', 'tree'")),
        ("--calibration", "loose", ("calibration must be ", "got 'loose'", "'tight', 'paper'")),
        ("--std", "8", ("--std must be left out with --epsilon", "got 8.0")),
    ],
)
def test_bad_input_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], option: str, value: str, words: tuple[str, ...]
) -> None:
    options = {**GOOD, option: value}
    code, out, err = shell(monkeypatch, capsys, "calibrate", *(word for pair in options.items() for word in pair))
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert all(word in err for word in words)
    assert "Traceback" not in err


def test_calibrate_needs_a_budget_or_a_noise_level(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = shell(monkeypatch, capsys, "calibrate", "--dim", "5", "--batch", "20")
    assert code == 2
    assert "--epsilon" in err
    assert "--std" in err


@pytest.mark.parametrize(
    "arguments", [("calibrate", "--dim", "five", "--batch", "20"), ("calibrate", "--batch", "20"), ("calibrat",)]
)
def test_usage_errors_end_with_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    code, out, err = shell(monkeypatch, capsys, *arguments)
    assert code == 2
    assert out == ""
    assert "Traceback" not in err
    assert err.strip()


@pytest.mark.parametrize("arguments", [(), ("task",)])
def test_no_command_is_answered_by_the_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    code, out, err = shell(monkeypatch, capsys, *arguments)
    assert code == 2
    assert out.count("Usage:") == 1
    assert "create" in out or "calibrate" in out
    assert err == ""


def test_success_ends_with_code_0(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = shell(monkeypatch, capsys, "calibrate", *(word for pair in GOOD.items() for word in pair))
    assert code in (0, None)
    assert "shuffle_binomial" in out
    assert err == ""


def test_version_is_the_packages(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = shell(monkeypatch, capsys, "--version")
    assert code in (0, None)
    assert out == f"bandanna {bandanna.__version__}\n"


def test_help_names_commands_and_options(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    code, out, _ = shell(monkeypatch, capsys, "--help")
    assert code in (0, None)
    assert "calibrate" in out
    assert "--version" in out
    code, out, _ = shell(monkeypatch, capsys, "calibrate", "--help")
    assert code in (0, None)
    for option in (
        "--dim",
        "--batch",
        "--epsilon",
        "--delta",
        "--std",
        "--participations",
        "--horizon",
        "--mechanism",
        "--calibration",
        "--bits-limit",
        "--json",
        "--explain",
    ):
        assert option in out


def test_a_real_process_ends_the_same_way() -> None:
    command = [sys.executable, "-c", "from bandanna.cli.main import main; main()", "calibrate"]
    done = subprocess.run([*command, "--dim", "5", "--epsilon", "-1", "--batch", "20"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: --epsilon must be a number > 0 (inf for no privacy), got -1.0")
    assert done.stderr.count("\n") == 1


# What a newcomer reads: options as they were typed, values, what is allowed; no words of Python


LOG = "age,drug,p,outcome,q\n" + "30,A,0.5,cured,0.25\n40,B,0.5,ill,0.75\n50,A,0.5,cured,0.25\n" * 10
EVALUATE = "evaluate log.csv --arm drug --propensity p --target uniform"
STUDY = "study log.csv --arm drug --reward outcome --success cured --propensity 0.5"
MISTAKES = {  # of somebody who has read a page of the docs
    "evaluate nofile.csv --target uniform": "nofile.csv cannot be read: No such file or directory",
    "evaluate . --target uniform": "path must be the path of a file, not of a directory, got '.'",
    f"{EVALUATE} --reward outcome": "row 0 must be a finite number",
    f"{EVALUATE} --reward outcome --success healed": "got 'healed'",
    f"{EVALUATE} --reward outcom": "olumn 3 has a similar name",
    f"{EVALUATE} --reward outcome --success cured --epsilon 1": "--arms is missing",
    f"{EVALUATE} --reward outcome --success cured --epsilon=-1": "--epsilon must be a number > 0",
    f"{EVALUATE}2": "got 'uniform2'",
    "evaluate log.csv --arm drug --reward p --propensity p --target arm:C": "one of the 2 arms",
    "evaluate blank.csv --arm drug --reward outcome --propensity p --target uniform": "row 0 is missing",
    "evaluate nan.csv --arm drug --reward outcome --propensity p --target uniform": "got a float that is not finite",
    "evaluate empty.csv --target uniform": "empty.csv has no rows",
    "evaluate binary.csv --target uniform": "its byte 0 is no letter of that; a spreadsheet saves it as CSV UTF-8",
    "evaluate text.parquet --target uniform": "text.parquet is not a Parquet file",
    f"{EVALUATE} --reward outcome --success cured --epsilon 1 --arms A,B": "--weight-bound is missing",
    f"{EVALUATE} --reward outcome --success cured --epsilon 1 --arms A,B --json": "--floor",
    f"{EVALUATE} --reward outcome --success cured --range 1,0": "got (1.0, 0.0)",
    f"{EVALUATE} --reward age": "--range",
    f"{EVALUATE} --reward outcome --success cured --delta 0.1": "It must be given together with --delta",
    f"{EVALUATE} --reward outcome --success cured --page no/x.html": "--page = no/x.html cannot be written: no is",
    f"{EVALUATE} --reward outcome --success cured --propensity 0.9": "got 0.9",
    f"{EVALUATE} --reward outcome --success cured --propensity 0.8": "--propensity A=0.5",
    "evaluate log.csv --target uniform": "--arm must be",
    "evaluate log.csv --arm drug --target uniform": "--reward must be",
    "evaluate features.toml --target uniform": "features.toml has no rows",
    "evaluate ok.toml --target uniform": "ok.toml, line 3, row 0",
    "evaluate log.csv --target my.agnt": "id you mean 'my.agent'?",
    "evaluate log.csv --target unifrom": "id you mean 'uniform'?",
    "evaluate log.csv --target my.agent.journal": "is not a saved agent: it is the journal of my.agent",
    "evaluate log.csv --target binary.csv": "binary.csv is not a saved agent: it is not a text file",
    "evaluate log.csv --target ok.toml": "ok.toml is not a saved agent: its first line is not the header of one",
    "study acgt175": "acgt175 is neither a file nor a data set of `bandanna datasets`. Did you mean 'actg175'?",
    "study .": "path must be the path of a file, not of a directory, got '.'",  # not --path, which was not given
    f"{STUDY} --propensity q --algorithms LinTS --trust central": "--floor is missing",
    f"{STUDY} --propensity q --algorithms LinTS --trust local": "--floor 0.1",
    f"{STUDY} --out log.csv": "log.csv cannot be used (Not a directory). Choose another --out",
    "demo --out x.xyz": "'.png'",
    "audit LinUCB --plot x.xyz": "'.png'",
    "study nope": "nope is neither a file nor a data set of `bandanna datasets`",
    f"{STUDY} --features features.toml": "features.toml: feature is not an argument of",
    f"{STUDY} --trust nobody": "got 'nobody'",
    f"{STUDY} --horizon 1": "--horizon must be a whole number >= 20, got 1",
    "run binary.csv": "binary.csv is not a text file in UTF-8",
    "demo --n-seeds 0": "--n-seeds must be a whole number >= 1, got 0",
    "plan --arms 0 --dim 2 --users 100": "--arms must be a whole number >= 2, got 0",
    "calibrate --dim 5 --batch 10": "--epsilon is missing. It must be a privacy budget, unless --std",
    "audit": "TARGET is missing. It must be the name of a target",
    "audit nobody": "got 'nobody'",
    "audit LinTS --trials 1.5": "Invalid value for '--trials': '1.5' is not a whole number (bandanna audit --help)",
    "plan --dim 2 --arms 2 --epsilon abc": "Invalid value for '--epsilon': Input should be a valid number",
    "study thornton --epsilon 1 --epsilon x": "Invalid value for '--epsilon': Input should be a valid number",
    "demo --n-sedes 3": "No such option: --n-sedes (Possible options: --n-seeds) (bandanna demo --help)",
    "plan --frehs": "No such option: --frehs (Possible options: --arms, --features, --fresh) (bandanna plan --help)",
    "--foo run small.toml": "No such option: --foo (bandanna --help)",
    "demo --n-seeds": "Option '--n-seeds' requires an argument (bandanna demo --help)",
    "list --json=3": "Option '--json' does not take a value (bandanna list --help)",
    "list all of them": "Got unexpected extra argument(s) (all of them) (bandanna list --help)",
    "run": "Missing argument 'FILE' (bandanna run --help)",
    "rum small.toml": "No such command 'rum'. Did you mean 'run'? (bandanna --help)",
    "task crate": "No such command 'crate'. Did you mean 'create', 'draft'? (bandanna task --help)",
    "serve all --task .": "task.json cannot be read: No such file or directory",
    "dashboard http://": "got 'http://'",
    "dashboard . --trust nofile": "got 'nofile'",
}
PYTHON = re.compile(r"Error\b|NoneType|None\b|PosixPath|WindowsPath|<class|<function|math\.inf|Errno|codec|Traceback")


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_named_as_it_was_made(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for name, text in {
        "log.csv": LOG,
        "blank.csv": LOG.replace("cured", ""),
        "nan.csv": LOG.replace("cured", "nan"),
        "empty.csv": "",
        "text.parquet": "hello",
        "features.toml": "[feature]\n",
        "ok.toml": "x = [1, 2]\n\n[features]\n",
        "my.agent": "{}\n",
    }.items():
        (tmp_path / name).write_text(text)
    for name in ("binary.csv", "my.agent.journal"):
        (tmp_path / name).write_bytes(b"\xff\xfe\x00")
    monkeypatch.setattr(sys, "argv", ["bandanna", *line.split()])
    with pytest.raises(SystemExit) as ended:
        main.main()
    told = capsys.readouterr().err
    assert ended.value.code == 2
    assert MISTAKES[line] in told.splitlines()[-1], told
    assert told.splitlines()[-1].startswith("error: ")
    assert len(told.splitlines()) == 1
    assert not PYTHON.search(told), told


def test_a_warning_is_about_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "log.csv").write_text(LOG)
    said = f"evaluate {tmp_path / 'log.csv'} --arm drug --propensity p --target uniform --reward age --range 0,1"
    monkeypatch.setattr(sys, "argv", ["bandanna", *said.split()])
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)  # as it was, afterwards
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(SystemExit):
            main.main()
    told = [warnings.formatwarning(each.message, each.category, "", 0) for each in caught]
    assert told == ["warning: 30 of 30 rewards lie outside of the range (--range 0,1), and were clipped\n"]


# Commands of deployments without their extra: one error that names all that is needed


COMMANDS = {
    "dashboard": ("dashboard", "."),
    "serve": ("serve", "all", "--task", "."),
    "simulate-clients": ("simulate-clients", "--task", "."),
    "demo-deployed": ("demo-deployed",),
    "task create": ("task", "create", "task.toml"),
    "task show": ("task", "show", "."),
    "task export": ("task", "export", "--task", ".", "--out", "kept"),
}


TURNS = [
    (command, SERVE_MODULES[turn % len(SERVE_MODULES)]) for turn, command in enumerate(COMMANDS)
]  # each of both at least once


@pytest.mark.parametrize("module", SERVE_MODULES)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.often(when=lambda command, module: (command, module) in TURNS)
def test_the_extra_serve_is_enough_for_deployments(
    command: str, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    refused = CliRunner().invoke(app, COMMANDS[command]).exception
    assert isinstance(refused, MissingExtra)
    assert str(refused) == f"`bandanna {command}` needs an optional dependency: pip install 'bandanna[serve]'"
    assert CliRunner().invoke(app, [*command.split(), "--help"]).exit_code == 0


# Whatever stands on the command line: an answer, or one line on standard error and exit code 2; never a traceback


CALIBRATE = {"--dim": "2", "--epsilon": "1", "--batch": "20", "--delta": "1e-5"}
DEMO = {"--horizon": "20", "--n-seeds": "1", "--out": "figure.svg"}
PLAN = {"--dim": "2", "--arms": "2", "--users": "20", "--n-seeds": "2"}
PAPER = {"--out": "figures", "--horizon": "20", "--seeds": "1", "--jobs": "1"}
COMMANDS_ANY_INPUT: dict[str, tuple[tuple[str, ...], dict[str, str], tuple[str, ...]]] = {
    "calibrate": (
        ("calibrate",),
        CALIBRATE,
        ("--std", "--participations", "--horizon", "--mechanism", "--calibration", "--bits-limit"),
    ),
    "demo": (("demo",), DEMO, ("--epsilon", "--delta", "--policy")),
    "plan": (("plan",), PLAN, ("--epsilon", "--delta", "--trust")),
    "paper 002 tree": (
        ("paper", "002", "tree"),
        {"--out": "figures"},
        ("--shufflers", "--epsilon", "--delta", "--horizon"),
    ),
    "paper 004": (("paper", "004", "definitions"), {}, ("--epsilon", "--delta", "--seeds", "--jobs", "--out")),
    "list": (("list",), {}, ("--json", "--jsno")),
}
NUMBERS = ["0", "-1", "1", "2.5", "1e30", "2147483648", "1e300", "1e15", "1e400", "inf", "-inf", "nan", "5e-324", "1_0"]
TEXTS = [
    "",
    " ",
    "x",
    "x\ny",
    "x" * 5000,
    "a/b",
    "file",
    "file/below",
    "blt",
    "paper",
    "best",
    "--",
    "²",
    "٣",
    "\ud800",
]
SMALL = """
horizon = 20
n_seeds = 1
[environment]
name = "LinearContextual"
dim = 2
n_arms = 3
[[algorithm]]
name = "LinUCB"
"""


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    Path("small.toml").write_text(SMALL)
    monkeypatch.setattr(plan, "_NUMBERS", 10**6)  # seconds
    monkeypatch.setattr(plan, "_SEARCH", 10**5)


def shell_any_input(arguments: list[str]) -> tuple[object, str]:
    """Exit code and standard error of the command; anything but SystemExit is a traceback."""
    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["bandanna", *arguments]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
            main.main()
    finally:
        sys.argv = before
    return ended.value.code, err.getvalue()


def refused_or_answered(arguments: list[str]) -> None:
    """Code 0, or code 2 and one line."""
    code, err = shell_any_input(arguments)
    assert code in (0, 2)
    assert "Traceback" not in err
    if code == 2:
        said = [line for line in err.splitlines() if not line.startswith("warning: ")]
        assert len(said) == 1
        assert said[0].startswith("error: ")
        assert len(said[0]) < 1_500


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(
    "arguments",
    [
        "calibrate --dim 1e30 --epsilon 1 --batch 20",
        "calibrate --dim 2147483648 --epsilon 1 --batch 20",
        "calibrate --dim 2 --epsilon 1 --batch 20 --horizon 1e300",
        "calibrate --dim 2 --epsilon 1 --batch 20 --participations 1e30",
        "calibrate --dim 2 --epsilon 1 --batch 20 --bits-limit nan",
        "demo --policy LinUBC --horizon 20 --seeds 1",
        "plan --dim 2 --arms 2 --users 1e15",
        "demo --horizon 20 --seeds 1 --out file/figure.png",
        "paper 000 fig1 --horizon 20 --seeds 1 --out file",
        "paper 002 tree --shufflers ²",
        "run file --out results",
        "run small.toml --out file",
        "run small.toml --jobs 0",
        "run small.toml --jobs 2147483648",
    ],
)
def test_faults_found_before_are_one_line(arguments: str) -> None:
    code, err = shell_any_input(arguments.split())
    assert code == 2
    assert err.startswith("error: ")
    assert len(err.splitlines()) == 1


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.filterwarnings("ignore::bandanna.errors.CommunicationWarning")
@pytest.mark.parametrize("name", COMMANDS_ANY_INPUT)
@examples(3, full=12)
@given(data=st.data())
def test_any_value_of_an_option_ends_in_one_line(name: str, data: st.DataObject) -> None:
    words, good, others = COMMANDS_ANY_INPUT[name]
    option = data.draw(st.sampled_from([*good, *others] or ["--help"]))
    value = data.draw(st.sampled_from([*NUMBERS, *TEXTS]))
    options = {**good, option: value}
    refused_or_answered([*words, *(word for pair in options.items() for word in pair)])


@pytest.mark.usefixtures("elsewhere")
@examples(10, full=25)
@given(data=st.data())
def test_any_value_in_an_experiment_ends_in_one_line(data: st.DataObject) -> None:
    odd = [
        "10" + "0" * 400,
        "1e400",
        "nan",
        "inf",
        "-1",
        "[]",
        "[[1], [1, 2]]",
        '"x"',
        "true",
        "{}",
        "1979-05-27",
        "2.5",
        "",
    ]
    lines = SMALL.strip().splitlines()
    place = data.draw(st.sampled_from([i for i, line in enumerate(lines) if "=" in line]))
    lines[place] = f"{lines[place].partition('=')[0]}= {data.draw(st.sampled_from(odd))}"
    Path("odd.toml").write_text("\n".join(lines))
    refused_or_answered(["run", "odd.toml", "--jobs", "1", "--out", "odd", "--json"])


# `bandanna list`


def test_every_algorithm_is_listed() -> None:
    shown = CliRunner().invoke(app, ["list"])
    rows = json.loads(CliRunner().invoke(app, ["list", "--json"]).stdout)["rows"]
    assert shown.exit_code == 0
    assert [row["name"] for row in rows] == list(ALGORITHMS)
    assert all(name in shown.stdout for name in ALGORITHMS)


def test_a_new_process_lists_the_algorithms() -> None:
    done = subprocess.run([sys.executable, "-m", "bandanna", "list", "--json"], capture_output=True, check=True)
    assert [row["name"] for row in json.loads(done.stdout)["rows"]] == list(ALGORITHMS)
