"""How fast, beside what else could be done: every algorithm, other libraries, and the floors below which nobody gets.

    report = bd.bench.run()                    everything, in less than ten minutes on a quiet machine
    report = bd.bench.run(only=["LinUCB"])     a part, an algorithm or a peer
    bd.bench.compare(report, before)           which rows became slower, as ratios to their floors

All times are CPU times, and all promises are ratios of two things measured in one run (docs/benchmarks.md).
"""

from __future__ import annotations

from bandanna.bench.comparison import Change as Change
from bandanna.bench.comparison import Comparison as Comparison
from bandanna.bench.comparison import compare as compare
from bandanna.bench.page import page_of as page_of
from bandanna.bench.report import Absent as Absent
from bandanna.bench.report import Report as Report
from bandanna.bench.report import Row as Row
from bandanna.bench.running import run as run
