"""`python -m tests.golden.formats` rewrites all archives and the list of names; with names, those algorithms alone."""

from __future__ import annotations

import sys
import warnings

from . import made

warnings.simplefilter("ignore")  # of weak budgets, which make small runs
for each in sys.argv[1:] or made.EVERY:
    made.write(each)
(made.PLACE / made.NAMES).write_text(made.names(), encoding="utf-8")
print(f"{sum(path.stat().st_size for path in made.PLACE.glob('*.zip')):,} bytes")
