"""What a newcomer reads: options as they were typed, values, what is allowed; no words of Python."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from bandanna import cli

LOG = "age,drug,p,outcome\n30,A,0.5,cured\n40,B,0.5,ill\n50,A,0.5,cured\n"
EVALUATE = "evaluate log.csv --arm drug --propensity p --target uniform"
STUDY = "study log.csv --arm drug --reward outcome --success cured --propensity 0.5"
MISTAKES = {  # of somebody who has read a page of the docs
    "evaluate nofile.csv --target uniform": "nofile.csv cannot be read: No such file or directory",
    "evaluate . --target uniform": "path = '.' is not allowed: the path of a file, not of a folder",
    f"{EVALUATE} --reward outcome": "row 0 = 'cured' is not allowed: a finite number, yes or no; or say which word",
    f"{EVALUATE} --reward outcome --success healed": "--success = 'healed' is not allowed: what column 'outcome' says",
    f"{EVALUATE} --reward outcom": "--reward = 'outcom' is not allowed: did you mean 'outcome'?",
    f"{EVALUATE} --reward outcome --success cured --epsilon 1": "arms is missing: the names of all arms",
    f"{EVALUATE} --reward outcome --success cured --epsilon=-1": "--epsilon = -1.0 is not allowed: a number > 0",
    f"{EVALUATE}2": "--target = 'uniform2' is not allowed: ",
    "evaluate log.csv --arm drug --reward p --propensity p --target arm:C": "arm:NAME; arms are A, B",
    "evaluate blank.csv --arm drug --reward outcome --propensity p --target uniform": "row 0 is missing: a finite",
    "evaluate nan.csv --arm drug --reward outcome --propensity p --target uniform": "row 0 = nan is not allowed",
    "evaluate empty.csv --target uniform": "empty.csv has no rows",
    "evaluate binary.csv --target uniform": "its byte 0 is no letter of that; a spreadsheet saves it as CSV UTF-8",
    "evaluate text.parquet --target uniform": "text.parquet is not a Parquet file",
    "study nope": "nope is neither a file nor a data set of `bandanna datasets`",
    f"{STUDY} --features features.toml": "features.toml: feature = 'a table' is not allowed: unknown key, did you mean",
    f"{STUDY} --trust nobody": "--trust = 'nobody' is not allowed: one of 'central'",
    f"{STUDY} --horizon 1": "--horizon = 1 is not allowed: a whole number >= 20",
    "run binary.csv": "binary.csv is not a text file in UTF-8",
    "demo --seeds 0": "--seeds = 0 is not allowed: a whole number >= 1",
    "plan --arms 0 --dim 2 --users 100": "--arms = 0 is not allowed: a whole number >= 2",
    "calibrate --dim 5 --batch 10": "--epsilon is missing: a privacy budget, or --std",
    "audit": "TARGET is missing: what to audit",
    "audit nobody": "TARGET = 'nobody' is not allowed: one of gaussian",
    "audit LinTS --trials 1.5": "--trials = '1.5' is not allowed: a whole number (bandanna audit --help)",
    "plan --dim 2 --arms 2 --epsilon abc": "--epsilon = 'abc' is not allowed: a number (bandanna plan --help)",
    "study thornton --epsilon 1 --epsilon x": "--epsilon = 'x' is not allowed: a number (bandanna study --help)",
    "paper 000 fig1 --runs x": "--runs = 'x' is not allowed: a whole number (bandanna paper --help)",
    "demo --sedes 3": "--sedes is no option of bandanna demo: did you mean --seeds? known are --epsilon",
    "plan --frehs": "--frehs is no option of bandanna plan: did you mean --fresh?",
    "--foo run small.toml": "--foo is no option of bandanna: known are --version (bandanna --help)",
    "demo --seeds": "--seeds has no value: independent repetitions (bandanna demo --help)",
    "list --json=3": "--json with a value is not allowed: --json alone, print JSON instead of a table",
    "list all of them": "'all of them' is not allowed: bandanna list takes no such argument (bandanna list --help)",
    "run": "FILE is missing: the experiment, a TOML file (bandanna run --help)",
    "rum small.toml": "COMMAND = 'rum' is not allowed: did you mean 'run'? one of demo",
    "task crate": "COMMAND = 'crate' is not allowed: did you mean 'create'? one of create, show, export",
    "bench --compare nofile --only floors": "nofile: No such file or directory",
    "serve all --task .": "task.json cannot be read: No such file or directory",
    "dashboard http://": "PLACE = 'http://' is not allowed: an analyzer's address",
    "dashboard . --trust nofile": "--trust = 'nofile' is not allowed: a readable file of PEM certificates",
}
PYTHON = re.compile(r"Error\b|NoneType|None\b|PosixPath|WindowsPath|<class|<function|math\.inf|Errno|codec|Traceback")


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_named_as_it_was_made(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mistake is answered by words of Python, without the option, the value or what is allowed; or by more lines."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for name, text in {
        "log.csv": LOG,
        "blank.csv": LOG.replace("cured", ""),
        "nan.csv": LOG.replace("cured", "nan"),
        "empty.csv": "",
        "text.parquet": "hello",
        "features.toml": "[feature]\n",
    }.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    monkeypatch.setattr(sys, "argv", ["bandanna", *line.split()])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    told = capsys.readouterr().err
    assert ended.value.code == 2
    assert MISTAKES[line] in told.splitlines()[-1], told
    assert told.splitlines()[-1].startswith("error: ")
    assert len(told.splitlines()) == 1
    assert not PYTHON.search(told), told
