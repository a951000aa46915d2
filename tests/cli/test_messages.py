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
    "evaluate . --target uniform": "path must be the path of a file, not of a folder.*, got '.'",
    f"{EVALUATE} --reward outcome": "row 0 must be a finite number, yes or no; or say which word, got a str",
    f"{EVALUATE} --reward outcome --success healed": "--success must be what column 'outcome' says, got 'healed'",
    f"{EVALUATE} --reward outcom": "--reward must be column 3 has a similar name, got 'outcom'",
    f"{EVALUATE} --reward outcome --success cured --epsilon 1": "arms is missing: the names of all arms",
    f"{EVALUATE} --reward outcome --success cured --epsilon=-1": "--epsilon must be a number > 0, got -1.0",
    f"{EVALUATE}2": "--target must be , got 'uniform2'",
    "evaluate log.csv --arm drug --reward p --propensity p --target arm:C": "arm:NAME, for one of the 2 arms",
    "evaluate blank.csv --arm drug --reward outcome --propensity p --target uniform": "row 0 is missing: a finite",
    "evaluate nan.csv --arm drug --reward outcome --propensity p --target uniform": "row 0 = a float that is not",
    "evaluate empty.csv --target uniform": "empty.csv has no rows",
    "evaluate binary.csv --target uniform": "its byte 0 is no letter of that; a spreadsheet saves it as CSV UTF-8",
    "evaluate text.parquet --target uniform": "text.parquet is not a Parquet file",
    f"{EVALUATE} --reward outcome --success cured --epsilon 1 --arms A,B": "--weight-bound is missing: a number M",
    f"{EVALUATE} --reward outcome --success cured --epsilon 1 --arms A,B --json": "its public floor (--floor): then",
    f"{EVALUATE} --reward outcome --success cured --range 1,0": "--range must be low < high, got (1.0, 0.0)",
    f"{EVALUATE} --reward age": "a reward in [0, 1]; or give --range: public bounds",
    f"{EVALUATE} --reward outcome --success cured --delta 0.1": "--epsilon is missing: a budget: --delta 0.1 without",
    f"{EVALUATE} --reward outcome --success cured --page no/x.html": "--page = no/x.html cannot be written: no is",
    f"{EVALUATE} --reward outcome --success cured --propensity 0.9": "--propensity must be one number.*, got 0.9",
    f"{EVALUATE} --reward outcome --success cured --propensity 0.8": "or one for each arm (--propensity A=0.5,...)",
    "evaluate log.csv --target uniform": "--arm must be one of the 5 columns of the table, got 'arm'",
    "evaluate log.csv --arm drug --target uniform": "--reward must be one of the 5 columns, got 'reward'",
    "evaluate features.toml --target uniform": "features.toml has no rows",
    "evaluate ok.toml --target uniform": "ok.toml, line 3, row 0: 1 of 2 values; a CSV file begins with a line of",
    "evaluate log.csv --target my.agnt": "there is no such file; did you mean 'my.agent'? a target is",
    "evaluate log.csv --target unifrom": "there is no such file; did you mean 'uniform'? a target is",
    "evaluate log.csv --target my.agent.journal": "is not a saved agent: it is the journal of my.agent",
    "evaluate log.csv --target binary.csv": "binary.csv is not a saved agent: it is not a text file",
    "evaluate log.csv --target ok.toml": "ok.toml is not a saved agent: its first line is not the header of one",
    "study acgt175": "acgt175 is neither a file nor a data set of `bandanna datasets`: did you mean 'actg175'?",
    "study .": "path must be the path of a file, not of a folder.*, got '.'",  # not --path, which was not given
    f"{STUDY} --propensity q --algorithms LinTS --trust central": "--floor is missing: the least probability of any",
    f"{STUDY} --propensity q --algorithms LinTS --trust local": "public (--floor 0.1): found in the log, it would tell",
    f"{STUDY} --out log.csv": "log.csv cannot be used, choose another --out: Not a directory",
    "demo --out x.xyz": "suffix of --out must be one of '.png', '.svg', got '.xyz'",
    "audit LinUCB --plot x.xyz": "suffix of --plot must be one of '.png', '.svg', got '.xyz'",
    "study nope": "nope is neither a file nor a data set of `bandanna datasets`",
    f"{STUDY} --features features.toml": "features.toml: feature must be unknown key, did you mean, got 'a table'",
    f"{STUDY} --trust nobody": "--trust must be one of 'central', got 'nobody'",
    f"{STUDY} --horizon 1": "--horizon must be a whole number >= 20, got 1",
    "run binary.csv": "binary.csv is not a text file in UTF-8",
    "demo --seeds 0": "--seeds must be a whole number >= 1, got 0",
    "plan --arms 0 --dim 2 --users 100": "--arms must be a whole number >= 2, got 0",
    "calibrate --dim 5 --batch 10": "--epsilon is missing: a privacy budget, or --std",
    "audit": "TARGET is missing: what to audit",
    "audit nobody": "TARGET must be one of gaussian, got 'nobody'",
    "audit LinTS --trials 1.5": "Invalid value for '--trials': '1.5' is no whole number (bandanna audit --help)",
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
    "dashboard http://": "PLACE must be an analyzer's address, got 'http://'",
    "dashboard . --trust nofile": "--trust must be a readable file of PEM certificates, got 'nofile'",
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
