"""Figures of experiments: what is drawn against what, and under which name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bandanna.errors import InvalidArgument
from bandanna.experiments import runner
from bandanna.experiments.experiment import Experiment
from bandanna.simulation.engine import simulate
from bandanna.simulation.figures import plot_panels
from bandanna.simulation.result import Result

GRID: dict[str, Any] = {
    "title": "grid",
    "horizon": [20, 100],
    "seeds": 2,
    "environment": {"name": "FiniteArms", "means": {"each": [[0.2, 0.8], [0.5, 0.6]]}},
    "algorithm": [{"name": "UCB1"}, {"name": "LDP-UCB", "label": "local", "epsilon": [1.0, 2.0]}],
}


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    """Two horizons, two worlds, three series."""
    return Experiment.from_dict(GRID)


@pytest.fixture(scope="module")
def results(experiment: Experiment) -> dict[str, Result]:
    """What ran gives more away than was asked for: epsilon is three times as large."""
    found = {}
    for curve in experiment.curves:
        policy = curve.policy(dim=2, horizon=curve.point.horizon)
        result = simulate(policy, curve.point.world(), n_seeds=2, checkpoints=5)
        stated = replace(result.guarantee, epsilon=3 * result.guarantee.epsilon)
        found[curve.label] = replace(result, name=curve.label, guarantee=stated)
    return found


def texts(figure: Any) -> list[str]:
    """Of the key."""
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_series_are_named_by_what_ran(experiment: Experiment, results: dict[str, Result]) -> None:
    assert list(runner.series_names(experiment, results).values()) == ["UCB1", "local, ε = 3", "local, ε = 6"]
    figure = runner.draw_over_time(experiment, results)
    assert len(figure.axes) == len(experiment.points) == 4
    assert texts(figure) == ["UCB1", "local, ε = 3", "local, ε = 6"]


def test_regret_against_epsilon_is_against_that_of_what_ran(experiment: Experiment, results: dict[str, Result]) -> None:
    figure = runner.draw_against(experiment, results, "epsilon")
    assert len(figure.axes) == 4
    assert texts(figure) == ["UCB1", "local"]
    (bars,) = figure.axes[0].containers
    assert bars.lines[0].get_xdata().tolist() == pytest.approx([3.0, 6.0])
    wanted = [results[each.label].mean()[-1] for each in experiment.curves[1:3]]
    assert bars.lines[0].get_ydata().tolist() == wanted


def test_regret_against_the_horizon_has_a_panel_for_each_world(
    experiment: Experiment, results: dict[str, Result]
) -> None:
    figure = runner.draw_against(experiment, results, "horizon")
    assert len(figure.axes) == 2
    assert [bars.lines[0].get_xdata().tolist() for bars in figure.axes[1].containers] == [[20.0, 100.0]] * 3
    assert runner.varied_axes(experiment) == ["horizon", "epsilon"]


def test_what_was_not_varied_is_refused(experiment: Experiment, results: dict[str, Result]) -> None:
    with pytest.raises(InvalidArgument, match=r"against must be a varied number: horizon, epsilon, got 'dim'"):
        runner.draw_against(experiment, results, "dim")
    with pytest.raises(InvalidArgument, match="panels must be 1 to 12, got 13"):
        plot_panels({str(place): {} for place in range(13)}, across="rounds")


def test_budgets_with_one_guarantee_are_told_apart(experiment: Experiment, results: dict[str, Result]) -> None:
    same = {
        label: replace(each, guarantee=replace(each.guarantee, epsilon=1.0)) if "local" in label else each
        for label, each in results.items()
    }
    names = runner.series_names(experiment, same)
    assert len(set(names.values())) == len(names) == 3
