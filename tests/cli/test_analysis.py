"""`bandanna calibrate`: the JSON that others read, the table that people read, and the inverse question."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import bandanna as bd
from bandanna.cli.main import app
from bandanna.data.ope import sums
from bandanna.device.linear_report import LinearReport
from bandanna.device.noise import FastNoise
from bandanna.errors import BandannaError, CommunicationWarning
from bandanna.privacy import accountant
from bandanna.privacy.factorisation import factorise
from bandanna.protocols.comparison import PROTOCOL_NAMES
from bandanna.protocols.gaussian import CentralGaussian, LocalGaussian

from ..crafting import strict

FIELDS = {"protocol", "std", "bits_per_user", "epsilon", "delta", "ratio_to_central"}
PROBLEM = ("--dim", "5", "--delta", "1e-5", "--batch", "200")


def run(*arguments: str, width: int = 200) -> str:
    """What the command prints; it must succeed."""
    done = CliRunner(env={"COLUMNS": str(width), "NO_COLOR": "1"}).invoke(app, ["calibrate", *arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


def rows(*arguments: str) -> dict[str, dict[str, Any]]:
    """The JSON rows by protocol; strict JSON, without NaN or infinities."""
    document = strict(run(*arguments, "--json"))
    assert set(document) == {"rows"}
    assert [row["protocol"] for row in document["rows"]] == list(PROTOCOL_NAMES)
    assert all(row.keys() >= FIELDS for row in document["rows"])
    return {row["protocol"]: row for row in document["rows"]}


@pytest.fixture(scope="module")
def tight() -> dict[str, dict[str, Any]]:
    """epsilon = 1, the example of the README."""
    return rows(*PROBLEM, "--epsilon", "1")


def test_json_has_a_row_for_every_protocol(tight: dict[str, dict[str, Any]]) -> None:
    central = tight["central_gaussian"]["std"]
    for name, row in tight.items():
        assert row["std"] >= 0
        assert isinstance(row["bits_per_user"], int)
        assert row["delta"] == (0.0 if name == "local_unit" else 1e-5)
        assert row["ratio_to_central"] == pytest.approx(row["std"] / central)
        if name == "clear":
            assert row["epsilon"] is None
        else:
            assert 0.99 < row["epsilon"] <= 1
            assert row["ratio_to_central"] >= 1
    assert tight["shuffle_binomial"]["std"] == pytest.approx(8.029, rel=0.02)
    assert central == pytest.approx(7.914, rel=1e-3)
    assert tight["shuffle_gaussian"]["std"] == pytest.approx(48.09, rel=0.01)
    assert tight["local_gaussian"]["std"] == pytest.approx(111.92, rel=1e-3)


def test_json_is_the_only_output() -> None:
    assert run(*PROBLEM, "--epsilon", "1", "--json").count("\n") == 1


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_table_shows_every_protocol(tight: dict[str, dict[str, Any]], width: int) -> None:
    shown = run(*PROBLEM, "--epsilon", "1", width=width)
    for name in PROTOCOL_NAMES:
        (line,) = [line for line in shown.splitlines() if name in line.split()]
        if width >= 80:
            assert f"{tight[name]['std']:.5g}" in line
    assert "inf" in shown  # the clear protocol's epsilon


def test_guarantees_are_explained_on_demand() -> None:
    shown = run(*PROBLEM, "--epsilon", "1", "--explain")
    for sentence in (
        "clear: No privacy is promised",
        "central_gaussian: Central differential privacy with epsilon = 1",
        "central_continual: Central differential privacy with epsilon = 1",
        "shuffle_binomial: Shuffle differential privacy",
        "shuffle_gaussian: Shuffle differential privacy",
        "local_gaussian: Local differential privacy",
        "Against the shuffler itself",
        "If the roles run separately",
    ):
        assert sentence in shown
    assert "roles run separately" not in run(*PROBLEM, "--epsilon", "1")


def test_the_papers_constants_are_a_calibration() -> None:
    found = rows(*PROBLEM, "--epsilon", "1", "--calibration", "paper")
    assert found["shuffle_binomial"]["std"] == pytest.approx(3427, rel=1e-3)
    assert found["shuffle_binomial"]["epsilon"] < 0.01
    outside = found["shuffle_gaussian"]
    assert all(outside[field] is None for field in FIELDS - {"protocol"})
    assert "Thm 3.2" in outside["note"]
    shown = run(*PROBLEM, "--epsilon", "1", "--calibration", "paper")
    assert "shuffle_gaussian: outside the paper's theorem" in shown
    assert "Thm 3.2" in shown
    everything = rows(*PROBLEM, "--epsilon", "16", "--calibration", "paper")
    assert all(everything[name]["std"] is None for name in PROTOCOL_NAMES if name != "clear")


def test_a_given_noise_is_priced(tight: dict[str, dict[str, Any]]) -> None:
    found = rows(*PROBLEM, "--std", "8")
    domain = LinearReport(features=5)
    central = CentralGaussian(domain=domain, noise_std=8.0).event
    local = LocalGaussian(domain=domain, noise_std=8 / math.sqrt(200)).event
    assert found["central_gaussian"]["epsilon"] == accountant.epsilon(central, 1e-5)
    assert found["local_gaussian"]["epsilon"] == accountant.epsilon(local, 1e-5)
    assert found["shuffle_gaussian"]["epsilon"] <= found["local_gaussian"]["epsilon"] * 1.001
    assert found["clear"]["epsilon"] is None
    for name in set(PROTOCOL_NAMES) - {"clear"}:
        assert found[name]["std"] == pytest.approx(8.0, rel=1e-3)


def test_noise_and_budget_are_a_round_trip(tight: dict[str, dict[str, Any]]) -> None:
    """The std needed for epsilon = 1 gives epsilon = 1 back, within 1 % (the binomial within 2 %), and never more.

    All protocols: tests/protocols/test_comparison.py.
    """
    for name in ("central_continual", "shuffle_binomial"):
        back = rows(*PROBLEM, "--std", repr(tight[name]["std"]))[name]
        assert back["epsilon"] <= 1 + 1e-6
        assert back["epsilon"] == pytest.approx(1, rel=0.02 if name == "shuffle_binomial" else 0.01)


def test_participations_need_more_noise(tight: dict[str, dict[str, Any]]) -> None:
    """--participations 4: about twice the noise for separate batches, that of the worst four columns in one stream."""
    four = rows(*PROBLEM, "--epsilon", "1", "--participations", "4")
    assert four["central_gaussian"]["std"] == pytest.approx(2 * tight["central_gaussian"]["std"], rel=1e-3)
    assert four["shuffle_binomial"]["std"] == pytest.approx(2 * tight["shuffle_binomial"]["std"], rel=0.02)
    stream = factorise("blt", horizon=200)
    more = stream.sensitivity(4) / stream.sensitivity()
    assert 3.4 < more < 4
    assert four["central_continual"]["std"] == pytest.approx(more * tight["central_continual"]["std"], rel=1e-3)
    assert all(four[name]["guarantee"]["participations"] == 4 for name in PROTOCOL_NAMES if name != "clear")


def test_horizon_and_mechanism_are_options() -> None:
    longer = rows(*PROBLEM, "--epsilon", "1", "--horizon", "20000")
    tree = rows(*PROBLEM, "--epsilon", "1", "--horizon", "20000", "--mechanism", "tree")
    assert longer["central_continual"]["std"] == pytest.approx(33.5, rel=0.01)
    assert tree["central_continual"]["std"] == pytest.approx(114.7, rel=0.01)


def test_long_messages_are_warned_of() -> None:
    with pytest.warns(CommunicationWarning, match="above the limit of 100"):
        found = rows(*PROBLEM, "--epsilon", "1", "--bits-limit", "100")
    assert found["shuffle_binomial"]["bits_per_user"] > 100


# `bandanna evaluate`


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
    for words in ("SNIPS of always blue", "95 % interval", "600 users", "No privacy is promised"):
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
