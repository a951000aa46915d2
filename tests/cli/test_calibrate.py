"""`bandanna calibrate`: the JSON that others read, the table that people read, and the inverse question."""

from __future__ import annotations

import math
from typing import Any

import pytest
from typer.testing import CliRunner

from bandanna.cli.main import app
from bandanna.device.linear_report import LinearReport
from bandanna.errors import CommunicationWarning
from bandanna.privacy import accountant
from bandanna.privacy.factorisation import factorise
from bandanna.protocols.comparison import PROTOCOL_NAMES
from bandanna.protocols.gaussian import CentralGaussian, LocalGaussian

from ..strict_json import strict

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
