"""What a newcomer reads: options as they were typed, values, what is allowed; no words of Python."""

from __future__ import annotations

import re
import sys
import warnings
from pathlib import Path

import pytest

from bandanna.cli import main

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
    "demo --seeds 0": "--seeds must be a whole number >= 1, got 0",
    "plan --arms 0 --dim 2 --users 100": "--arms must be a whole number >= 2, got 0",
    "calibrate --dim 5 --batch 10": "--epsilon is missing. It must be a privacy budget, unless --std",
    "audit": "TARGET is missing. It must be the name of a target",
    "audit nobody": "got 'nobody'",
    "audit LinTS --trials 1.5": "Invalid value for '--trials': '1.5' is not a whole number (bandanna audit --help)",
    "plan --dim 2 --arms 2 --epsilon abc": "Invalid value for '--epsilon': Input should be a valid number",
    "study thornton --epsilon 1 --epsilon x": "Invalid value for '--epsilon': Input should be a valid number",
    "demo --sedes 3": "No such option: --sedes (Possible options: --seeds) (bandanna demo --help)",
    "plan --frehs": "No such option: --frehs (Possible options: --arms, --features, --fresh) (bandanna plan --help)",
    "--foo run small.toml": "No such option: --foo (bandanna --help)",
    "demo --seeds": "Option '--seeds' requires an argument (bandanna demo --help)",
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
