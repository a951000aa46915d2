"""`python -m benchmarks`: how fast everything is, beside other libraries and the floors below which nobody gets."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from bandanna.cli.terminal import ProgressBar, check_file, print_table
from bandanna.errors import BandannaError
from benchmarks import report as reports
from benchmarks import run as runs
from benchmarks.clock import FULL, QUICK, THREADS
from benchmarks.report import FLOOR, Comparison, Report, Row, page_of, require_threshold, short

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def bench(
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="A part (floors, simulation, agent, peers, serving), an algorithm or a peer; may be repeated."
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Tiny sizes: does everything run? Times mean little.")] = False,
    compare: Annotated[
        Path | None, typer.Option(help="An earlier report (--json): what became slower or faster, by floors.")
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option("--from", help="A report that is there (--json), instead of measuring: to compare two of them."),
    ] = None,
    join: Annotated[
        Path | None, typer.Option(help="An earlier report: its rows that are not measured now are shown too.")
    ] = None,
    threshold: Annotated[float, typer.Option(help="How many times the ratio before counts as slower.")] = 1.3,
    page: Annotated[Path | None, typer.Option(help="Write the figures as a page in Markdown to this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Measure every algorithm, and other libraries where they are installed, in CPU time.

    Set OMP_NUM_THREADS=1: threads of a matrix product are counted too. With --compare the exit code is 1 where a row
    became slower, and 2 where nothing could be compared.
    """

    require_threshold(threshold)
    place = None if page is None else check_file("--page", page)
    before = None if compare is None else Report.read(compare)
    earlier = None if join is None else Report.read(join)
    if source is not None:
        _refuse_work(only, quick)
        report = Report.read(source)
    else:
        _mention_threads()
        with ProgressBar("measurements", shown=True) as bar:
            report = runs.run(only=only or (), effort=QUICK if quick else FULL, progress=bar)
    if earlier is not None:
        report = report.joined(earlier)
    change = None if before is None else reports.compare(report, before, threshold=threshold)
    if place is not None:
        place.write_text(page_of(report), encoding="utf-8")
    if as_json:
        told = report.to_dict() | ({} if change is None else {"comparison": change.to_dict()})
        typer.echo(json.dumps(told, indent=1))
    else:
        _print(report)
        if change is not None:
            _print_change(change)
    if change is not None and change.note:
        raise BandannaError(f"nothing could be compared with {compare}: {change.note}")
    if change is not None and change.slower:
        raise typer.Exit(1)


def _refuse_work(only: list[str] | None, quick: bool) -> None:
    """What says how to measure, where nothing is."""
    for option, given in (("--only", only), ("--quick", quick)):
        if given:
            raise BandannaError(f"{option} says what to measure: leave it out with --from, which measures nothing")


def _mention_threads() -> None:

    if not any(name in os.environ for name in THREADS):
        typer.echo("threads of matrix products are counted too: OMP_NUM_THREADS=1 is better", err=True)


def _print(report: Report) -> None:

    columns = ("part", "name", "world", "CPU us", "a CPU second", "MB", "growth", "x floor", "x ours")
    rows = [_cells(row) for row in report.rows]
    print_table(columns, rows, left=("name", "world", "growth"), least=170, caption=_CAPTION)
    for absent in report.absent:
        typer.echo(f"not measured: {absent.name}; pip install 'bandanna[{absent.extra}]' brings it")
    if report.slow:
        typer.echo(FLOOR)
    for row in sorted(report.slow, key=lambda row: -(row.ratio or 0)):
        assert row.floor is not None
        where = f"{row.part} {row.name}, {row.world}"
        typer.echo(f"slower than 3 times its floor: {where}: {short(row.ratio or 0)} x {row.floor[0]}")


_CAPTION = (
    "CPU us: of one round, decision or request; growth: exponents of the time; x floor, x ours: how many times longer"
)


def _cells(row: Row) -> list[str]:

    return [
        row.part,
        row.name,
        row.world,
        short(1e6 * row.cpu_seconds),
        f"{1 / row.cpu_seconds:,.0f}",
        "" if row.memory is None else f"{row.memory / 1e6:.2g}",
        " ".join(f"{axis}^{power:.2f}" for axis, power in row.growth.items()),
        "" if row.ratio is None else short(row.ratio),
        "" if row.ours is None else short(row.cpu_seconds / row.ours[1]),
    ]


def _print_change(change: Comparison) -> None:
    typer.echo(f"{len(change.changes)} rows compared, as ratios to their floors; {len(change.apart)} not in both")
    for word, changes in (("slower", change.slower), ("faster", change.faster)):
        for each in changes:
            part, name, world = each.row.key
            ratios = f"{each.before:.3g} -> {each.now:.3g} x its floor"
            typer.echo(f"{word}: {part} {name}, {world}: {each.times:.2f} times; {ratios}")
    if change.changes and not change.slower:
        typer.echo(f"nothing became slower by more than {change.threshold:g} times")


def main() -> None:
    """Run the command: an error becomes one line and exit code 2."""
    try:
        app()
    except (BandannaError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        raise SystemExit(2) from error


if __name__ == "__main__":
    main()
