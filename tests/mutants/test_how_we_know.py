from __future__ import annotations

from dataclasses import replace

import pytest

from bandanna.audit.gallery import known_truths
from bandanna.audit.targets import attacked
from mutants import how_we_know
from mutants.how_we_know import PAGE, Figures, measured, page, printed


def test_the_page_is_that_of_the_catalogue() -> None:
    text = PAGE.read_text(encoding="utf-8")
    figures = printed(text)
    assert set(figures) == set(known_truths())
    assert page(figures) == text


def test_nothing_is_claimed_that_the_audit_refutes() -> None:
    for name, figures in printed(PAGE.read_text(encoding="utf-8")).items():
        if figures.claimed != "nothing":
            assert float(figures.found) <= float(figures.claimed) * 1.001, name


def test_evidence_that_is_gone_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    evidence = {"gaussian": {"promise": "", "theorem": "", "test": "", "mutant": ""}}
    real = "tests/mechanisms/test_noise.py::test_gaussian_events_repeat_the_parameters"
    for test, mutant, said in (
        ("tests/mechanisms/test_noise.py::test_of_yesterday", "", "no such test"),
        (real, "src/bandanna/mechanisms/noise.py::Gaussian.release: self.sigma -> 1", "no place for this mutant"),
    ):
        evidence["gaussian"] |= {"test": test, "mutant": mutant}
        with pytest.raises(LookupError, match=said):
            how_we_know.looked_up("gaussian", evidence)
    with pytest.raises(LookupError, match="nothing is written about"):
        how_we_know.looked_up("another", evidence)


def test_exact_figures_are_those_of_the_targets() -> None:
    shown = printed(PAGE.read_text(encoding="utf-8"))
    for name, made in known_truths().items():
        assert shown[name].how in ("exact", ""), f"{name} is sampled: hold it to the page here, or in full"
        assert Figures.of(attacked(replace(made(), draw=None))) == shown[name]


@pytest.mark.full
def test_the_figures_are_those_of_an_audit() -> None:
    again, shown = measured(), printed(PAGE.read_text(encoding="utf-8"))
    assert {name: replace(each, share="") for name, each in again.items()} == {
        name: replace(each, share="") for name, each in shown.items()
    }
