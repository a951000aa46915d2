"""`bandanna run`: any comparison, described by a TOML file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from bandanna.cli.bars import Bar


def run(
    file: Annotated[Path, typer.Argument(help="The experiment, a TOML file.", metavar="FILE")],
    jobs: Annotated[int | None, typer.Option(help="Processes (default: as many as there are cores).")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Directory for results (default: FILE's name with -results).", metavar="DIR")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue what an earlier run left in DIR.")] = False,
    executor: Annotated[str, typer.Option(help="Who does the work: processes, or dask.", metavar="NAME")] = "processes",
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler (default: a cluster here).", metavar="ADDRESS")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Run an experiment: progress bar, results, figure and a summary table; killed runs resume.

    The regret is that against the true means, mean and standard error over the seeds.
    """
    from bandanna.experiments import running

    directory = Path(f"{file.stem}-results") if out is None else out
    try:
        with Bar(shown=not as_json) as bar:
            results = running.run(
                file,
                out=directory,
                jobs=jobs,
                executor=executor,
                scheduler=scheduler,
                resume=resume,
                progress=bar,
            )
    except KeyboardInterrupt:
        typer.secho(f"stopped; finished blocks are kept, continue with --resume --out {directory}", err=True)
        raise typer.Exit(130) from None
    rows = results.rows()
    if as_json:
        typer.echo(json.dumps({"rows": rows}, allow_nan=False))
    else:
        _print_table(results.experiment.title, rows, directory)
    for note in [*results.notes, *_clipped(rows)]:
        typer.secho(f"note: {note}", err=True)


def _clipped(rows: list[dict[str, Any]]) -> list[str]:
    """What was clipped is not what the file describes: say so."""
    return [
        f"{row['label']}: clipped {row['clipped']:,} times in {row['n_seeds']} runs of {row['horizon']:,} rounds "
        "(to their declared range)"
        for row in rows
        if row["clipped"]
    ]


def _print_table(title: str, rows: list[dict[str, Any]], directory: Path) -> None:
    from bandanna.accounting.guarantee import rounded_up
    from bandanna.cli.tables import print_table

    cells = [
        [
            row["label"],
            f"{row['mean']:,.1f}",
            "" if row["stderr"] is None else f"{row['stderr']:,.1f}",
            "none" if row["epsilon"] is None else rounded_up(row["epsilon"], 4),
            "" if row["delta"] is None else rounded_up(row["delta"], 3),
            row["trust"],
            f"{row['bits_per_user']:,}",
            f"{row['seconds']:.1f}",
        ]
        for row in rows
    ]
    columns = ("algorithm", "regret", "± s.e.", "epsilon", "delta", "trust", "bits/user", "seconds")
    caption = f"{rows[0]['n_seeds']} seeds; in {directory}"
    print_table(columns, cells, left=("trust",), least=100, fold=True, title=title, caption=caption)
