"""Charts of few numbers."""

from __future__ import annotations

import re

from bandanna.deployment.dashboard import charts
from bandanna.deployment.dashboard.charts import ChartLine, ChartRow


def _ticks(drawn: str) -> list[str]:
    return re.findall(r'class="tick"[^>]*>([^<]*)<', drawn)


def test_a_single_release_has_one_mark_and_people_are_counted_in_whole_numbers() -> None:
    one = str(charts.draw_lines("a", "a", "a", [ChartLine(points=[(200.0, 0.5, 0.1)])], across="users"))
    assert [mark for mark in _ticks(one) if float(mark) >= 2] == ["200"]
    three = str(
        charts.draw_lines("a", "a", "a", [ChartLine(points=[(x, 7.0, None) for x in (1.0, 2.0, 3.0)])], across="users")
    )
    assert _ticks(three)[-3:] == ["1", "2", "3"]


def test_counts_do_not_begin_below_zero() -> None:
    rows = [ChartRow(name="a", value=3.0, half=40.0), ChartRow(name="b", value=90.0, half=40.0)]
    assert _ticks(str(charts.draw_rows("a", "a", "a", rows, bars=True)))[0] == "0"
    assert float(_ticks(str(charts.draw_rows("a", "a", "a", rows, bars=False)))[0].replace("\N{MINUS SIGN}", "-")) < 0
