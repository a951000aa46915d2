"""Ticks of charts of few numbers."""

from __future__ import annotations

from bandanna.deployment.dashboard import charts
from bandanna.deployment.dashboard.charts import Chart, Curve, Point


def list_ticks(chart: Chart | None) -> list[str]:
    assert chart is not None
    return [shape.text for shape in chart.shapes if shape.attributes["class"] == "tick"]


def test_a_single_release_has_one_mark_and_users_are_counted_in_whole_numbers() -> None:
    (one, three) = (
        charts.draw_curves("a", "a", "a", [Curve(points=points, kind="one")], axis="users")
        for points in ([Point(200.0, 0.5, 0.1)], [Point(x, 7.0) for x in (1.0, 2.0, 3.0)])
    )
    assert [tick for tick in list_ticks(one) if float(tick) >= 2] == ["200"]
    assert list_ticks(three)[-3:] == ["1", "2", "3"]


def test_bars_of_counts_do_not_begin_below_zero() -> None:
    rows = [{"name": "a", "value": 3.0, "half": 40.0}, {"name": "b", "value": 90.0, "half": 40.0}]
    assert list_ticks(charts.draw_rows("a", "a", rows, bars=True))[0] == "0"
    assert list_ticks(charts.draw_rows("a", "a", rows, bars=False))[0].startswith("\N{MINUS SIGN}")


def test_spending_is_drawn_as_steps() -> None:
    series = [{"publication": n, "users": None, "spent": spent} for n, spent in enumerate((0.0, 1.0, 1.5))]
    chart = charts.draw_spending("a", "a", series, 2.0)
    assert chart is not None
    steps, budget = (shape.attributes["points"].split() for shape in chart.shapes if shape.tag == "polyline")
    assert [len(steps), len(budget)] == [5, 2]
    assert [point.split(",")[1] for point in steps[:2]] == [steps[0].split(",")[1]] * 2
    assert charts.draw_spending("a", "a", series[:1], 2.0) is None
