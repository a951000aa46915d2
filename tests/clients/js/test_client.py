"""The built client: small, typed, locked to the formats of this release; its sessions and stores, and its laws."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from bandanna.deployment.messages import batch_plan
from bandanna.deployment.task.document import VERSION

from .running import BUILT, CLIENT, ROOT, answers, node

pytestmark = pytest.mark.browser

FALSE_ALARM = 1e-6  # of each law; entropy is the operating system's, so nothing is seeded


@pytest.mark.parametrize("script", sorted(path.name for path in (CLIENT / "test").glob("*.test.mjs")))
def test_sessions_and_stores(script: str) -> None:
    """A session forgets or changes bytes, believes what it must not, or a store does (see the script)."""
    told = node(script, before=("--test", "--test-reporter=tap"))
    assert re.search(r"^# pass [1-9]", told, re.MULTILINE)
    assert re.search(r"^# (skipped|todo) [1-9]", told, re.MULTILINE) is None


def test_the_client_is_small() -> None:
    """The client has less than 12 kB, compressed."""
    assert node("about.mjs")  # is built
    assert len(gzip.compress(BUILT.read_bytes(), 9)) < 12_000


def test_the_client_has_no_dependencies() -> None:
    package = json.loads((CLIENT / "package.json").read_text())
    assert "dependencies" not in package
    assert not re.search(r"\bimport\b\s*[({\"'*]|\brequire\(", BUILT.read_text())
    lock = (CLIENT / "package-lock.json").read_text()
    assert "://" not in lock
    assert '"resolved"' not in lock


def test_types_name_what_the_client_exports() -> None:
    exported = set(json.loads(node("about.mjs"))["exports"])
    types = (CLIENT / "dist" / "bandanna.d.ts").read_text()
    typed = {
        name.strip().removeprefix("type ")
        for names in re.findall(r"export (?:type )?\{([^}]*)\}", types)
        for name in names.split(",")
    }
    assert exported <= typed
    page = (ROOT / "docs" / "reference" / "browser-api.md").read_text()
    assert {name for name in typed if f"`{name}" not in page} == set()


def test_the_page_about_it_runs(tmp_path: Path) -> None:
    told = node("page.mjs", after=(str(ROOT / "docs" / "how-to" / "clients.md"), str(tmp_path)))
    assert told.splitlines() == ["0 running", "5 blocks"]


def test_versions_are_those_of_this_release() -> None:
    assert json.loads(node("about.mjs"))["versions"] == {"task": VERSION, "device": batch_plan.VERSION}


def _agrees(seen: dict[str, int], law: dict[str, float]) -> bool:
    """Chi-square of counts against a law, rare values together."""
    draws = sum(seen.values())
    common = [value for value, chance in law.items() if chance * draws >= 20]
    rest = 1 - sum(law[value] for value in common)
    found = [seen.get(value, 0) for value in common]
    if rest * draws >= 5:
        found, expected = [*found, draws - sum(found)], [*(law[value] * draws for value in common), rest * draws]
    else:
        expected = [law[value] * sum(found) / (1 - rest) for value in common]
    return bool(stats.chisquare(found, np.array(expected) * sum(found) / sum(expected)).pvalue > FALSE_ALARM)


@pytest.mark.parametrize(("trials", "probability", "value"), [(40, 0.5, 0.3), (7, 0.5, -1.0), (30, 0.25, 0.55)])
def test_the_law_of_counts(trials: int, probability: float, value: float) -> None:
    """Counts drawn with WebCrypto's entropy are not lattice + coin + binomial; false alarm 1 in a million."""
    scale, draws = 2.5, 40_000
    device = {"kind": "Counts", "domain": {"kind": "Ball", "dim": 1, "bound": 1.0}, "scale": scale, "trials": trials,
              "probability": probability}  # fmt: skip
    (found,) = answers([{"what": "law", "device": device, "values": [value], "draws": draws}])
    scaled = scale * (value + 1)
    whole, rest = int(scaled), scaled - int(scaled)
    binomial = stats.binom(trials, probability)
    law = {
        str(count): float((1 - rest) * binomial.pmf(count - whole) + rest * binomial.pmf(count - whole - 1))
        for count in range(trials + 10)
    }
    assert _agrees(found["seen"], law)
    other = stats.binom(trials + 3, probability)  # which the test must notice
    assert not _agrees(found["seen"], {str(count): float(other.pmf(count - whole)) for count in range(trials + 10)})


@pytest.mark.parametrize("kind", ["Answer", "Sign", "Copies", "Rounded"])
def test_the_laws_of_bits_and_signs(kind: str) -> None:
    """A lie, a rounded number or a copied bit has another law; false alarm 1 in a million."""
    bits, ball = {"kind": "Bits", "dim": 1, "low": 0.0, "high": 1.0}, {"kind": "Ball", "dim": 1, "bound": 1.0}
    cases: dict[str, tuple[dict[str, Any], float, dict[str, float]]] = {
        "Answer": ({"domain": bits, "lie": 0.3}, 1.0, {"1": 0.7, "0": 0.3}),
        "Sign": ({"domain": ball, "lie": 0.2}, 0.5, {str(2**60): 0.8, str(-(2**60)): 0.2}),
        "Copies": ({"domain": bits, "copies": 2, "trials": 2}, 1.0, {"2": 0.25, "3": 0.5, "4": 0.25}),
        "Rounded": ({"domain": ball, "scale": 1.0}, -0.4, {"0": 0.4, "1": 0.6}),
    }
    device, value, law = cases[kind]
    given = {"what": "law", "device": {"kind": kind, **device}, "values": [value], "draws": 20_000}
    (found,) = answers([given])
    assert set(found["seen"]) == set(law)
    assert _agrees(found["seen"], law)


def test_the_law_of_uniform_numbers() -> None:
    """Uniform numbers are not; false alarm 1 in a million."""
    (found,) = answers([{"what": "uniforms", "draws": 50_000}])
    assert stats.kstest(found["drawn"], "uniform").pvalue > FALSE_ALARM
    assert len(set(found["drawn"])) > 49_990
