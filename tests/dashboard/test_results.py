"""A folder of results: what `bandanna run` has left, and what somebody else has put there."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest

from bandanna.dashboard.results import Folder
from bandanna.datasets import own
from bandanna.experiments import outputs, study_outputs, sweep
from bandanna.experiments.experiment import Experiment
from bandanna.experiments.study import study
from bandanna.simulation.result import Result

from .payloads import PAYLOADS, harmless
from .test_pages import Read
from .town import Seen, run

FILE = """
title = "Three budgets"
horizon = 60
seeds = 3
checkpoints = 30
[environment]
name = "LinearContextual"
dim = 2
n_arms = 3
[[algorithm]]
name = "LinTS"
[[algorithm]]
name = "LinTS-LDP"
label = "local"
epsilon = [1.0, 4.0, 16.0]
delta = 1e-3
batch = 20
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With one experiment that is finished, in a folder below."""
    root = tmp_path_factory.mktemp("results")
    (root / "small.toml").write_text(FILE)
    experiment = Experiment.from_toml(root / "small.toml")
    out = root / "studies" / "small"
    outputs.write(experiment, sweep.run(experiment, out), out)
    return root


def test_results_are_found_and_shown_as_they_are(folder: Path) -> None:
    """A curve, its standard errors, regret against epsilon, a row or a file is missing or wrong."""

    async def work() -> None:
        seen = Seen(folders=(folder,))
        (line,) = (await seen.twin("/index.json"))["results"]
        assert (line["title"], line["folder"], line["curves"]) == ("Three budgets", "studies/small", 4)
        root = f"/results/{line['id']}"
        document = await seen.twin(f"{root}.json")
        page = Read(await seen.page(root))
        assert [each["label"] for each in document["rows"]] == [each["label"] for each in document["curves_shown"]]
        summary = json.loads((folder / "studies" / "small" / "summary.json").read_text())
        for row, shown, curve in zip(summary["rows"], document["rows"], document["curves_shown"], strict=True):
            assert (shown["mean"], shown["stderr"]) == (row["mean"], row["stderr"])
            end = curve["points"][-1]
            assert end["round"] == 60
            assert (end["regret"], end["stderr"]) == pytest.approx((row["mean"], row["stderr"]))
            assert row["label"] in page.text
        (group,) = document["by_epsilon"]
        assert group["group"].startswith("LinTS-LDP")
        assert [each["epsilon"] for each in group["points"]] == sorted(row["epsilon"] for row in summary["rows"][1:])
        assert len(page.all("svg")) == 2 + 4 + 1  # two charts, and their keys
        assert "figure.png" in page.text
        for each in document["files"]:
            answer = await seen.client.get(f"{root}/files/{each['id']}")
            assert answer.content == (folder / "studies" / "small" / each["name"]).read_bytes()
            assert "sandbox" in answer.headers["content-security-policy"]
            picture = each["name"].endswith(".png")
            assert ("content-disposition" in answer.headers) is not picture
        names = {each["name"] for each in document["files"]}
        assert {"summary.json", "experiment.json", "figure.png", "figure.svg"} <= names
        kept = next(each for each in document["files"] if each["name"].startswith("results/"))
        (folder / "copy.csv").write_bytes((await seen.client.get(f"{root}/files/{kept['id']}")).content)
        assert Result.load(folder / "copy.csv").n_seeds == 3

    run(work)


async def raw(seen: Seen, path: str) -> tuple[int, bytes]:
    """Status and body for a path as it is: clients tidy it up before they send it."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "scheme": "http",
             "headers": [(b"host", b"127.0.0.1:8710")], "server": ("127.0.0.1", 8710), "client": None}  # fmt: skip
    await seen.app(scope, receive, send)
    return sent[0]["status"], b"".join(each["body"] for each in sent[1:])


def test_nothing_outside_of_results_can_be_had(folder: Path, tmp_path: Path) -> None:
    """A path in an address, a link, or a file of another kind leads out of the folder."""
    own = tmp_path / "shown" / "one"
    (own / "results").mkdir(parents=True)
    (own / "summary.json").write_text(json.dumps({"title": "t", "rows": []}))
    (tmp_path / "secret.csv").write_text("secret")
    (own / "results" / "link.csv").symlink_to(tmp_path / "secret.csv")
    (own / "token.secret").write_text("secret")
    (own / ".hidden").mkdir()
    (tmp_path / "shown" / "elsewhere").symlink_to(folder)
    board = Folder(tmp_path / "shown")
    (experiment,) = board.experiments()
    assert [each.name for each in experiment.files()] == ["summary.json"]
    os.rename(own / "results", own / "kept")
    (own / "results").symlink_to(tmp_path)
    assert [each.name for each in experiment.files()] == ["summary.json"]

    async def work() -> None:
        seen = Seen(folders=(tmp_path / "shown",))
        for path in (
            "/results/..",
            f"/results/{experiment.id}/files/..",
            f"/results/{experiment.id}/files/%2e%2e%2fsecret.csv",
            f"/results/{experiment.id}/files/..%2f..%2fsecret.csv",
            f"/results/{experiment.id}/files/secret.csv",
            f"/results/{experiment.id}/files/summary.json",
            f"/results/{experiment.id}/../../secret.csv",
            "/assets/../app.py",
            "/assets/%2e%2e/app.py",
            "/assets/app.py",
        ):
            for tried in (path, unquote(path)):
                status, content = await raw(seen, tried)
                assert status == 404, tried
                assert b"secret" not in content

    run(work)


def test_files_of_somebody_hostile_are_texts(tmp_path: Path) -> None:
    """The name of a folder or file, a title or a label becomes markup; or a broken file takes the page down."""
    for place, text in enumerate(PAYLOADS):
        name = "".join(each for each in text if each not in "/\x00" and not 0xD800 <= ord(each) < 0xE000)[:60]
        own = tmp_path / f"{place}{name}"
        (own / "results").mkdir(parents=True)
        row = {
            "label": text,
            "algorithm": text,
            "trust": text,
            "epsilon": place + 1,
            "mean": 1.0,
            "arguments": {text: text},
        }
        other = row | {"epsilon": 50.0, "mean": text, "stderr": 1e400}
        (own / "summary.json").write_text(
            json.dumps({"title": text, "rows": [row, row | {"epsilon": 9.5}, other, text, {}]})
        )
        (own / "results" / f"{name}.csv").write_text(text, errors="replace")
        (own / f"{name}.svg").write_text(f"<svg onload=alert(1)>{text}</svg>", errors="replace")
    for place, text in enumerate(("", "[]", "{", '{"title": 3, "rows": 3}', "[" * 100_000, '{"rows": [{"label": 3}]}')):
        (tmp_path / f"broken {place}").mkdir()
        (tmp_path / f"broken {place}" / "summary.json").write_text(text)

    async def work() -> None:
        seen = Seen(folders=(tmp_path,))
        listed = (await seen.twin("/index.json"))["results"]
        assert len(listed) == len(PAYLOADS) + 6
        assert harmless(await seen.page("/"))
        for each in listed:
            page = await seen.page(f"/results/{each['id']}")
            assert harmless(page)
            Read(page)
            answer = await seen.client.get(f"/results/{each['id']}.json")
            assert harmless(answer.text)
            for file in answer.json()["files"]:
                got = await seen.client.get(f"/results/{each['id']}/files/{file['id']}")
                assert got.status_code == 200
                assert got.headers["content-disposition"].startswith("attachment; ")
                assert got.headers["content-disposition"].isascii()

    run(work)


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study, as `bandanna study --out` leaves it."""
    root = tmp_path_factory.mktemp("studied")
    rng = np.random.default_rng(0)
    lines = [f"{rng.integers(2)},{rng.integers(2)},0.5,{x:.3f}" for x in rng.uniform(size=200)]
    (root / "log.csv").write_text("\n".join(["arm,reward,p,x", *lines]))
    data = own.read(root / "log.csv", arm="arm", reward="reward", propensity="p")
    out = root / "studies" / "mine"
    rows = study(data, epsilons=(1.0, 4.0), delta=1e-3, trusts=("central",), seeds=3, out=out)
    study_outputs.write(rows, out, title="Mine: reward against epsilon")
    return root


def test_a_study_is_found_and_shown_as_it_is(studied: Path) -> None:
    """A row of a study, its standard error, its true epsilon or a file is missing or wrong."""

    async def work() -> None:
        seen = Seen(folders=(studied,))
        (line,) = (await seen.twin("/index.json"))["results"]
        assert (line["title"], line["kind"]) == ("Mine: reward against epsilon", "study")
        assert "Study, rows: " in Read(await seen.page("/")).text
        root = f"/results/{line['id']}"
        document = await seen.twin(f"{root}.json")
        page = Read(await seen.page(root))
        rows = json.loads((studied / "studies" / "mine" / "rows.json").read_text())["rows"]
        assert line["curves"] == len(rows) == len(document["rows"])
        names = ("algorithm", "trust", "epsilon", "stated_epsilon", "mean_reward", "stderr", "n_seeds")
        for row, shown in zip(rows, document["rows"], strict=True):
            assert {name: shown[name] for name in names} == {name: row.get(name) for name in names}
            assert row["algorithm"] in page.text
        (curve,) = document["curves_shown"]
        private = [row for row in rows if row["epsilon"] is not None]
        assert [(each["epsilon"], each["reward"]) for each in curve["points"]] == [
            (row["stated_epsilon"], row["mean_reward"]) for row in private
        ]
        assert {each["name"] for each in document["levels"]} >= {"best arm", "random", "LinTS"}
        assert len([each for each in page.all("polyline") if "level" in each["class"]]) == len(document["levels"])
        assert "figure.png" in {each["name"] for each in document["files"]}
        for each in document["files"]:
            answer = await seen.client.get(f"{root}/files/{each['id']}")
            assert answer.content == (studied / "studies" / "mine" / each["name"]).read_bytes()

    run(work)


def test_a_study_that_runs_is_shown_as_such(studied: Path, tmp_path: Path) -> None:
    """Rows that are done are not shown before the others are, or the study is shown as finished."""
    shutil.copytree(studied / "studies" / "mine", tmp_path / "mine")
    (tmp_path / "mine" / "rows.json").unlink()
    kept = sorted((tmp_path / "mine" / "rows").iterdir())
    kept[0].write_text("{")

    async def work() -> None:
        seen = Seen(folders=(tmp_path,))
        (line,) = (await seen.twin("/index.json"))["results"]
        assert (line["curves"], line["title"]) == (None, "mine")
        assert "Not finished yet, a study in" in Read(await seen.page("/")).text
        page = Read(await seen.page(f"/results/{line['id']}")).text
        assert f"not finished: {len(kept) - 1} rows are done" in page

    run(work)


def test_studies_of_somebody_hostile_are_texts(tmp_path: Path) -> None:
    """A word of a study becomes markup, or a broken file takes the page down."""
    for place, text in enumerate(PAYLOADS):
        row = {"algorithm": text, "trust": text, "epsilon": 1.0, "stated_epsilon": text, "mean_reward": 0.5}
        rows = [row, row | {"epsilon": None}, row | {"stderr": 1e400, "n_seeds": text}, text, {}, {"algorithm": 3}]
        (tmp_path / f"study {place}").mkdir()
        (tmp_path / f"study {place}" / "rows.json").write_text(json.dumps({"title": text, "rows": rows}))
    for place, text in enumerate(("", "[]", "{", '{"title": 3, "rows": 3}', "[" * 100_000, '{"rows": [3]}')):
        (tmp_path / f"broken {place}").mkdir()
        (tmp_path / f"broken {place}" / "rows.json").write_text(text)

    async def work() -> None:
        seen = Seen(folders=(tmp_path,))
        listed = (await seen.twin("/index.json"))["results"]
        assert len(listed) == len(PAYLOADS) + 6
        assert harmless(await seen.page("/"))
        for each in listed:
            page = await seen.page(f"/results/{each['id']}")
            assert harmless(page)
            Read(page)
            assert harmless((await seen.client.get(f"/results/{each['id']}.json")).text)

    run(work)


def test_an_experiment_that_runs_is_shown_as_such(tmp_path: Path) -> None:
    """A folder without results yet is not shown, or shown as finished; or a new result is not noticed."""
    (tmp_path / "blocks").mkdir()
    (tmp_path / "experiment.json").write_text("{}")
    (tmp_path / "blocks" / "one.csv").write_text("")
    seen = Seen(folders=(tmp_path,))

    async def work() -> None:
        (line,) = (await seen.twin("/index.json"))["results"]
        assert line["curves"] is None
        page = Read(await seen.page(f"/results/{line['id']}")).text
        assert "not finished: 1 blocks are done" in page
        (tmp_path / "summary.json").write_text(json.dumps({"title": "Done", "rows": []}))
        assert (await seen.twin("/index.json"))["results"][0]["title"] == "Done"

    run(work)
    assert "No results were found." in run(lambda: Seen(folders=(tmp_path / "blocks",)).page("/"))
