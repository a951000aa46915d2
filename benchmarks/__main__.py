"""Run the benchmarks and print their ratios; exit with 1 if a promise is broken."""

from __future__ import annotations

import importlib
import pkgutil
import sys

from rich.console import Console
from rich.table import Table

import benchmarks
from benchmarks import Ratio


def table(ratios: list[Ratio]) -> Table:
    """One row per ratio."""
    rows = Table(title="Bandanna's benchmarks")
    for column in ("what", "beside"):
        rows.add_column(column, no_wrap=True)
    for column in ("ours/s", "theirs/s", "ratio", "promise/s"):
        rows.add_column(column, justify="right", no_wrap=True)
    for each in ratios:
        promise = "" if each.promise is None else f"{each.promise:.3g} {'kept' if each.kept else 'BROKEN'}"
        rows.add_row(each.what, each.beside, f"{each.ours:.2g}", f"{each.theirs:.2g}", f"{each.ratio:.2g}", promise)
    return rows


def main(names: list[str]) -> int:
    """Measure the named benchmarks, or all."""
    known = [module.name for module in pkgutil.iter_modules(benchmarks.__path__) if module.name != "__main__"]
    unknown = sorted(set(names) - set(known))
    if unknown:
        print(f"no benchmark called {', '.join(unknown)}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    ratios: list[Ratio] = []
    for name in names or known:
        ratios += importlib.import_module(f"benchmarks.{name}").measure()
    Console(width=max(Console().width, 110)).print(table(ratios))  # a table is not cut where nothing shows it
    return 0 if all(each.kept for each in ratios) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
