"""Figures of regret: files of the right kind that say what they show."""

from __future__ import annotations

import importlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from bandanna.errors import BandannaError, InvalidArgument, MissingExtra
from bandanna.policies.linear.linucb import LinUCB
from bandanna.protocols.privacy_model import local
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.linear import LinearContextual
from bandanna.simulation.figures import PALETTE, _spread_apart, choose_line_styles, format_axis_number, plot_regret
from bandanna.simulation.result import Result


def simulated(n_seeds: int = 4, **changes: Any) -> Result:
    """A small real run of 2,000 rounds."""
    policy = LinUCB(dim=2, horizon=2000, privacy=local(epsilon=1.0, delta=1e-5), batch=100)
    result = simulate(policy, LinearContextual(dim=2, n_arms=3, fixed=True), n_seeds=n_seeds, checkpoints=20)
    return replace(result, **changes)


def texts(path: Path) -> list[str]:
    """All text of an SVG file."""
    return [
        "".join(node.itertext()).strip() for node in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")
    ]


def test_svg_says_what_it_shows(tmp_path: Path) -> None:
    one, two = simulated(), simulated(regret=simulated().regret / 3)
    plot_regret({"local & <bad>": one, "third, $x_1$": two}, tmp_path / "f.svg", title="Cost of $privacy$")
    said = texts(tmp_path / "f.svg")
    assert f"local & <bad>  {format_axis_number(float(np.mean(one.final_regret)))}" in said
    assert f"third, $x_1$  {format_axis_number(float(np.mean(two.final_regret)))}" in said
    assert {"rounds", "regret", "Cost of $privacy$", "2,000", "mean of 4 seeds; band: ± 2 standard errors"} <= set(said)


def test_png_has_its_magic_and_size(tmp_path: Path) -> None:
    plot_regret([simulated()], tmp_path / "f.PNG")
    content = (tmp_path / "f.PNG").read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert int.from_bytes(content[16:20], "big") >= 1000
    assert [entry.name for entry in tmp_path.iterdir()] == ["f.PNG"]


def test_curves_and_bands_are_the_numbers() -> None:
    result = simulated()
    axes = plot_regret([result]).axes[0]
    drawn = axes.lines[0].get_xydata()
    np.testing.assert_allclose(drawn[1:], np.stack([result.checkpoints, np.mean(result.regret, axis=0)], axis=1))
    assert drawn[0].tolist() == [0, 0]
    outline = axes.collections[0].get_paths()[0].vertices
    ends = outline[outline[:, 0] == 2000][:, 1]
    width = 4 * np.std(result.final_regret, ddof=1) / np.sqrt(4)
    assert np.ptp(ends) == pytest.approx(width, rel=1e-9)


def test_one_seed_has_no_band() -> None:
    axes = plot_regret([simulated(1)]).axes[0]
    assert not axes.collections
    assert "one seed" in [text.get_text() for text in axes.texts]


@pytest.mark.parametrize("log", [False, True], ids=["linear", "log"])
@pytest.mark.parametrize("scale", [0.0, 1e-9, -1.0, 1e9], ids=str)
def test_any_regret_can_be_drawn(log: bool, scale: float, tmp_path: Path) -> None:
    result = simulated(regret=simulated().regret * scale)
    plot_regret([result], tmp_path / "f.svg", log=log)
    assert "regret" in texts(tmp_path / "f.svg")


def test_log_makes_both_axes_logarithmic() -> None:
    axes = plot_regret([simulated()], log=True).axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


def test_results_of_other_horizons_and_seeds_are_drawn_whole(tmp_path: Path) -> None:
    full = simulated()
    short = replace(simulated(2), checkpoints=full.checkpoints[:10], regret=full.regret[:2, :10])
    axes = plot_regret({"full": full, "short": short}).axes[0]
    assert axes.get_xlim() == (0, 2000)
    assert "mean of 2 to 4 seeds; band: ± 2 standard errors" in [text.get_text() for text in axes.texts]


def test_names_are_labels_and_equal_ones_are_numbered(tmp_path: Path) -> None:
    plot_regret([simulated(name="Amp"), simulated(), simulated()], tmp_path / "f.svg")
    labels = {text.rpartition("  ")[0] for text in texts(tmp_path / "f.svg")}
    assert {"Amp", "local (1)", "local (2)"} <= labels


def test_many_curves_differ_in_colour_or_dashes() -> None:
    axes = plot_regret([simulated()] * 15).axes[0]
    styles = [(line.get_color(), str(line._unscaled_dash_pattern)) for line in axes.lines[:15]]
    assert len(set(styles)) == 15
    assert len(set(PALETTE)) == len(PALETTE)


def test_labels_are_moved_apart_in_order() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        wanted = rng.random(rng.integers(1, 9)) ** 3
        placed = _spread_apart(wanted.tolist(), 0.07)
        order = np.argsort(wanted, kind="stable")
        assert np.all(np.diff(placed[order]) >= 0.07 - 1e-12)
        assert np.min(placed) >= 0
    assert _spread_apart([0.1, 0.9, 0.5], 0.07) == pytest.approx([0.1, 0.9, 0.5])


def test_the_same_results_give_the_same_file(tmp_path: Path) -> None:
    result = simulated()
    for name in ("a.svg", "b.svg"):
        result.plot(tmp_path / name, title="Same")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_bad_arguments_of_a_figure_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="results"):
        plot_regret({}, tmp_path / "f.png")
    with pytest.raises(InvalidArgument, match=r"'\.png', '\.svg'"):
        plot_regret([simulated()], tmp_path / "f.jpeg")
    with pytest.raises(BandannaError, match="cannot be written"):
        plot_regret([simulated()], tmp_path / "none" / "f.png")


def test_pyplot_is_never_imported(tmp_path: Path) -> None:
    run = (
        "import sys; import bandanna.simulation.engine, bandanna.simulation.result; "
        "assert not {'matplotlib', 'pyarrow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", run], check=True)
    matplotlib = importlib.import_module("matplotlib")
    before = dict(matplotlib.rcParams)
    known = "matplotlib.pyplot" in sys.modules
    simulated().plot(tmp_path / "f.png")
    assert dict(matplotlib.rcParams) == before
    assert ("matplotlib.pyplot" in sys.modules) == known


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    result = simulated()

    def without(name: str, package: str | None = None) -> Any:
        raise ImportError(name)

    monkeypatch.setattr("importlib.import_module", without)
    with pytest.raises(MissingExtra, match=r"bandanna\[plot\]"):
        result.plot()


@pytest.mark.parametrize(
    ("value", "text"), [(15234.4, "15,234"), (99.96, "100"), (12.34, "12.3"), (0.04561, "0.0456"), (0.0, "0")]
)
def test_numbers_have_few_digits(value: float, text: str) -> None:
    assert format_axis_number(value) == text


def test_a_sweep_has_a_colour_for_each_algorithm_and_a_line_style_for_each_epsilon() -> None:
    labels = ["LinUCB", *(f"{name}, epsilon = {size}" for name in ("LinTS", "DPE, n = 2") for size in ("0.5", "2"))]
    colours, dashes = zip(*choose_line_styles(labels), strict=True)
    assert colours == (PALETTE[0], PALETTE[1], PALETTE[1], PALETTE[2], PALETTE[2])
    assert dashes[1] == dashes[3] != dashes[2] == dashes[4]
    drawn = plot_regret({label: simulated(1) for label in labels}).axes[0].lines
    assert [line.get_color() for line in drawn[: len(labels)]] == list(colours)
    assert [colour for colour, _ in choose_line_styles(["a, epsilon = 1", "b, epsilon = 1"])] == list(PALETTE[:2])
    assert len({colour for colour, _ in choose_line_styles(["LinTS, ε = 0.5", "LinTS, ε ≤ 2"])}) == 1
