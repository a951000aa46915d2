"""Whatever stands on the command line: an answer, or one line on standard error and exit code 2; never a traceback."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandanna.cli import main
from bandanna.experiments import plan

from ..drawn import examples

CALIBRATE = {"--dim": "2", "--epsilon": "1", "--batch": "20", "--delta": "1e-5"}
DEMO = {"--horizon": "20", "--seeds": "1", "--out": "figure.svg"}
PLAN = {"--dim": "2", "--arms": "2", "--users": "20", "--seeds": "2"}
PAPER = {"--out": "figures", "--horizon": "20", "--seeds": "1", "--jobs": "1"}
COMMANDS: dict[str, tuple[tuple[str, ...], dict[str, str], tuple[str, ...]]] = {
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
seeds = 1
[environment]
name = "LinearContextual"
dim = 2
n_arms = 3
[[algorithm]]
name = "LinUCB"
"""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    Path("small.toml").write_text(SMALL)
    monkeypatch.setattr(plan, "_NUMBERS", 10**6)  # seconds
    monkeypatch.setattr(plan, "_SEARCH", 10**5)


def shell(arguments: list[str]) -> tuple[object, str]:
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
    code, err = shell(arguments)
    assert code in (0, 2)
    assert "Traceback" not in err
    if code == 2:
        said = [line for line in err.splitlines() if not line.startswith("warning: ")]
        assert len(said) == 1
        assert said[0].startswith("error: ")
        assert len(said[0]) < 1_500


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
    code, err = shell(arguments.split())
    assert code == 2
    assert err.startswith("error: ")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("name", COMMANDS)
@examples(3, full=12)
@given(data=st.data())
def test_any_value_of_an_option_ends_in_one_line(name: str, data: st.DataObject) -> None:
    words, good, others = COMMANDS[name]
    option = data.draw(st.sampled_from([*good, *others] or ["--help"]))
    value = data.draw(st.sampled_from([*NUMBERS, *TEXTS]))
    options = {**good, option: value}
    refused_or_answered([*words, *(word for pair in options.items() for word in pair)])


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
