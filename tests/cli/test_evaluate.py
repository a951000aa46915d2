"""`bandanna evaluate`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import bandanna as bd
from bandanna.cli.main import app
from bandanna.data.ope import sums
from bandanna.device.noise import FastNoise
from bandanna.errors import BandannaError

COLUMNS = ("--arm", "colour", "--arms", "red,blue,green", "--reward", "clicked", "--propensity", "1/3")


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A log of 600 readers."""
    rng = np.random.default_rng(0)
    lines = ["age,colour,clicked"]
    for _ in range(600):
        colour = ("red", "blue", "green")[rng.integers(3)]
        lines.append(
            f"{0.01 + 0.98 * rng.random():.3f},{colour},{int(rng.random() < (0.6 if colour == 'blue' else 0.3))}"
        )
    path = tmp_path / "log.csv"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_a_report_has_value_interval_and_promise(file: str) -> None:
    done = CliRunner().invoke(app, ["evaluate", file, "--target", "arm:blue", *COLUMNS])
    assert done.exit_code == 0
    for words in ("SNIPS of always blue", "95 % interval", "600 people", "No privacy is promised"):
        assert words in done.stdout


def test_json_has_the_numbers_of_the_functions(file: str) -> None:
    log = bd.Log.read(file, arm="colour", reward="clicked", propensity=1 / 3, arms=["red", "blue", "green"])
    for method, function in (("snips", bd.ope.snips), ("ips", bd.ope.ips)):
        said = ["evaluate", file, "--target", "arm:blue", *COLUMNS, "--method", method, "--json"]
        told = json.loads(CliRunner().invoke(app, said).stdout)
        assert told == json.loads(json.dumps(function(log, "arm:blue").diagnostics()))


def test_private_values_keep_their_budget(file: str) -> None:
    said = ["evaluate", file, "--target", "arm:blue", *COLUMNS, "--epsilon", "0.5", "--trust", "shuffle", "--json"]
    one, two = (json.loads(CliRunner().invoke(app, said).stdout) for _ in range(2))
    assert one["guarantee"]["epsilon"] <= 0.5
    assert one["guarantee"]["trust"] == "shuffle"
    assert one["noise_std"] > 0
    assert one != two  # five sums: equal with probability below 1e-6
    assert "histogram" not in one


def test_several_targets_are_compared_on_one_budget(file: str, tmp_path: Path) -> None:
    both = ["evaluate", file, "--target", "arm:blue", "--target", "uniform", *COLUMNS, "--epsilon", "1"]
    told = json.loads(CliRunner().invoke(app, [*both, "--json"]).stdout)
    assert set(told["values"]) == {"arm:blue", "uniform"}
    assert "uniform" in CliRunner().invoke(app, both).stdout
    refused = CliRunner().invoke(app, [*both, "--page", str(tmp_path / "x.html")])
    assert isinstance(refused.exception, BandannaError)


def test_a_page_is_written(file: str, tmp_path: Path) -> None:
    page = tmp_path / "value.html"
    done = CliRunner().invoke(app, ["evaluate", file, "--target", "uniform", *COLUMNS, "--page", str(page)])
    assert done.exit_code == 0
    assert page.read_text().startswith("<!doctype html>")


def test_a_saved_agent_is_evaluated(file: str, tmp_path: Path) -> None:
    agent = bd.Agent(policy=bd.LinTS(n_arms=3, features=1, horizon=50, privacy=bd.none()))
    agent.save(tmp_path / "agent")
    said = ["evaluate", file, "--target", str(tmp_path / "agent"), *COLUMNS, "--context", "age", "--json"]
    told = json.loads(CliRunner().invoke(app, said).stdout)
    assert told["target"] == "LinTS"
    assert told["mean_weight"] == pytest.approx(1.0, abs=0.01)  # it has learned nothing: all arms alike


def test_propensities_may_be_given_for_each_arm(file: str) -> None:
    said = ["evaluate", file, "--target", "arm:blue", "--arm", "colour", "--reward", "clicked", "--json",
            "--propensity"]  # fmt: skip
    one, two = (
        json.loads(CliRunner().invoke(app, [*said, each]).stdout) for each in ("1/3", "red=1/3,blue=1/3,green=1/3")
    )
    assert one == two
    half = json.loads(CliRunner().invoke(app, [*said, "red=0.25,blue=0.5,green=0.25"]).stdout)
    assert half["largest_weight"] == 2.0
    for wrong in ("red=0.25,blue=0.5", "red=0.25,blue=x,green=0.25", "red=0.25,blue=0.5,green=0.25,grey=0.1"):
        done = CliRunner().invoke(app, [*said, wrong])
        assert isinstance(done.exception, BandannaError)
        assert "propensity" in str(done.exception)


def test_a_save_brings_its_map_and_its_arms(tmp_path: Path) -> None:
    features = bd.features.Map(bd.features.Range(age=(18, 80)), bd.features.OneHot(site=["north", "south"]))
    rng = np.random.default_rng(1)
    lines = ["age,site,reminder,outcome"]
    for _ in range(400):
        arm = ("none", "letter", "call")[rng.integers(3)]
        age = "" if rng.random() < 0.1 else f"{rng.uniform(18, 80):.1f}"
        came = "came" if rng.random() < (0.8 if arm == "call" else 0.3) else "stayed"
        lines.append(f"{age},{('north', 'south', '')[rng.integers(3)]},{arm},{came}")
    path = tmp_path / "visits.csv"
    path.write_text("\n".join(lines) + "\n")
    policy = bd.LinTS(n_arms=3, features=features.dim, horizon=100, privacy=bd.none())
    agent = bd.Agent(policy=policy, features=features, arms=["none", "letter", "call"], test=True, seed=0)
    agent.warm_start(
        bd.Log.read(path, arm="reminder", reward="outcome", success="came", propensity=1 / 3, context=features)
    )
    agent.save(tmp_path / "agent")
    said = ["evaluate", str(path), "--target", str(tmp_path / "agent"), "--arm", "reminder", "--reward", "outcome"]
    done = CliRunner().invoke(app, [*said, "--success", "came", "--propensity", "1/3", "--json"])
    assert done.exit_code == 0, done.exception
    assert json.loads(done.stdout)["estimate"] > 0.7  # it calls nearly everybody, which 0.8 of them follow


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (["--target", "arm:bleu"], "Did you mean 'arm:blue'"),
        (["--target", "no-such-file"], "or a saved agent"),
        (["--target", "arm:blue", "--reward", "clicks"], "olumn 2 has a similar name"),
        (["--target", "arm:blue", "--method", "dr"], "one of 'snips', 'ips'"),
        (["--target", "arm:blue", "--trust", "nobody"], "--trust"),
        (["--target", "arm:blue", "--range", "0"], "LOW,HIGH"),
        (["--target", "arm:blue", "--propensity", "age", "--epsilon", "1"], "weight_bound"),
        (["--target", "arm:blue", "--epsilon", "-1"], "epsilon"),
        (["--target", "arm:blue", "--delta", "1e-5"], "given together with --delta"),
        (["--target", "arm:blue", "--trust", "local"], "given together with --trust"),
        (["--target", "arm:blue", "--propensity", "0.9"], "1/m with m from 1 to 3"),
    ],
)
def test_mistakes_are_named(file: str, change: list[str], words: str) -> None:
    done = CliRunner().invoke(app, ["evaluate", file, *COLUMNS, *change])
    assert isinstance(done.exception, BandannaError)
    assert words in str(done.exception)


def test_progress_of_a_saved_agent_is_reported(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    monkeypatch.setattr(
        "bandanna.cli.terminal.ProgressBar.__call__", lambda self, done, total, what: told.append((done, total, what))
    )
    monkeypatch.setattr("bandanna.data.replay._PART", 250)
    bd.Agent(policy=bd.LinTS(n_arms=3, features=1, horizon=50, privacy=bd.none())).save(tmp_path / "agent")
    said = ["evaluate", file, "--target", str(tmp_path / "agent"), "--target", "uniform", *COLUMNS, "--context", "age"]
    assert CliRunner().invoke(app, said).exit_code == 0
    assert told == [(250, 600, "LinTS"), (500, 600, "LinTS"), (600, 600, "LinTS")]


def test_delta_is_1e_5_unless_it_is_given(file: str) -> None:
    for more, delta in (([], 1e-5), (["--delta", "1e-3"], 1e-3)):
        said = ["evaluate", file, "--target", "uniform", *COLUMNS, "--epsilon", "1", "--json", *more]
        assert json.loads(CliRunner().invoke(app, said).stdout)["guarantee"]["delta"] == delta


def seed_noise(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Draw the noise of the next command from a seed."""
    source = FastNoise(np.random.default_rng(seed))
    monkeypatch.setattr(sums, "_source", lambda *_: (source, "law"))


def test_printed_ends_are_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    rows = [
        f"{arm},{reward:.4f}" for arm, reward in zip(rng.integers(0, 3, 1000), rng.beta(31.5, 3.5, 1000), strict=True)
    ]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(["arm,reward", *rows]) + "\n")
    said = ["evaluate", str(path), "--propensity", "1/3", "--arms", "0,1,2", "--epsilon", "3", "--target", "arm:1"]
    for run in range(20, 40):
        seed_noise(monkeypatch, run)
        found = re.search(r": ([\d.]+), 95 % interval ([\d.]+) to ([\d.]+)", CliRunner().invoke(app, said).stdout)
        assert found is not None
        estimate, low, high = map(float, found.groups())
        assert low <= estimate <= high
        if run < 25:
            seed_noise(monkeypatch, run)
            told = json.loads(CliRunner().invoke(app, [*said, "--json"]).stdout)
            assert (told["estimate"], told["low"], told["high"]) == pytest.approx((estimate, low, high), rel=1e-3)


def test_an_interval_that_excludes_nothing_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.csv"
    path.write_text("arm,reward\n" + "a,0.4\nb,0.6\n" * 3)
    said = ["evaluate", str(path), "--propensity", "1/2", "--arms", "a,b", "--epsilon", "0.01", "--target", "arm:a"]
    for more in ([], ["--target", "arm:b"]):
        seed_noise(monkeypatch, 2)
        text = CliRunner().invoke(app, [*said, *more]).stdout
        assert text.count("95 % interval 0 to 1, the whole range of rewards") == 1 + len(more) // 2
        seed_noise(monkeypatch, 2)
        told = json.loads(CliRunner().invoke(app, [*said, *more, "--json"]).stdout, parse_constant=pytest.fail)
        for value in told["values"].values() if more else [told]:
            assert (value["low"], value["high"]) == (0.0, 1.0)
