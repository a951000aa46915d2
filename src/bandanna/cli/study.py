"""`bandanna study`: what privacy costs on real data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from bandanna.cli.bars import Bar

if TYPE_CHECKING:
    from bandanna.datasets.dataset import DataSet

_LISTS = ("--epsilon", "--trust", "--algorithms")


class Listing(TyperCommand):
    """Options that take several values: `--epsilon 0.5 1 3`, beside `--epsilon 0.5 --epsilon 1`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The option before each of its values."""
        return super().parse_args(ctx, _repeated(args))


def _repeated(args: list[str]) -> list[str]:
    whole: list[str] = []
    option, first = "", True
    for arg in args:
        if arg in _LISTS:
            option, first = arg, True
        elif arg.startswith("-"):
            option = ""
        elif option and not first:
            if not _belongs(option, arg):
                option = ""
            else:
                whole.append(option)
        first = arg in _LISTS
        whole.append(arg)
    return whole


def _belongs(option: str, arg: str) -> bool:
    """Whether a further word is one more value of the option, and not the data set."""
    if option == "--epsilon":
        return arg.replace(".", "", 1).replace("e-", "", 1).isdigit()
    from bandanna.experiments.peers import PEERS
    from bandanna.experiments.study import TRUSTS
    from bandanna.experiments.study_runs import FIXED, OURS

    return arg in (TRUSTS if option == "--trust" else (*OURS, *FIXED, *PEERS))


def study(
    data: Annotated[str, typer.Argument(help="A name of `bandanna datasets`, or a CSV or Parquet file.")],
    epsilon: Annotated[list[float] | None, typer.Option(help="Budgets, one or several.  [default: 0.5 1 3 10]")] = None,
    delta: Annotated[float, typer.Option(help="Of every budget.")] = 1e-5,
    trust: Annotated[
        list[str] | None,
        typer.Option(help="central, shuffle, local, concurrent; one or several.  [default: all of them]"),
    ] = None,
    algorithms: Annotated[
        list[str] | None,
        typer.Option(
            help="LinTS, LinTS-users, LinTS-arms, LinUCB, 'best arm', random, and installed libraries by name; one or "
            "several.  [default: LinTS, best arm, random and all installed libraries]"
        ),
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="Runs of each; the data set's own number by default.")] = None,
    horizon: Annotated[int | None, typer.Option(help="Logged events, or rounds; the data set's by default.")] = None,
    path: Annotated[Path | None, typer.Option(help="Where a named data set is, if it is not installed.")] = None,
    arm: Annotated[str | None, typer.Option(help="Own log: the column of the arm that was given.")] = None,
    reward: Annotated[str | None, typer.Option(help="Own log: the column of the reward, in [0, 1].")] = None,
    propensity: Annotated[
        str | None,
        typer.Option(
            help="Own log: the column of its probability; or, by design, a number such as 1/3, or A=0.5,B=..."
        ),
    ] = None,
    floor: Annotated[
        float | None, typer.Option(help="Own log, public: the least probability of any arm, where a column has them.")
    ] = None,
    success: Annotated[
        str | None, typer.Option(help="Own log: what a column of words says of those whose reward is 1.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="Own table: the column of the right arm, instead of a log.")] = None,
    features: Annotated[
        Path | None, typer.Option(help="A TOML file with a table `features`, a public map (docs/features.md).")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Directory for rows, a figure and Parquet; finished rows are kept.", metavar="DIR"),
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Processes; a row each.  [default: this one]")] = None,
    executor: Annotated[str | None, typer.Option(help="Who does the work: processes, or dask.", metavar="NAME")] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler (default: a cluster here).", metavar="ADDRESS")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Reward against epsilon on real data, for every trust model, beside other libraries without privacy.

    A log is replayed, a table of people is drawn from. With --out, a study that was stopped goes on where it was, and
    more epsilons or algorithms are added to what is there.
    """
    from bandanna.experiments import study_outputs
    from bandanna.experiments.study import EPSILONS, TRUSTS
    from bandanna.experiments.study import study as compute

    columns = {
        "arm": arm,
        "reward": reward,
        "propensity": propensity,
        "label": label,
        "floor": floor,
        "success": success,
    }
    held = _data(data, path, features, {name: value for name, value in columns.items() if value is not None})
    try:
        with Bar(shown=True) as bar:  # on standard error
            rows = compute(
                held,
                epsilons=epsilon or EPSILONS,
                delta=delta,
                trusts=trust or TRUSTS,
                algorithms=algorithms or None,
                seeds=seeds,
                horizon=horizon,
                out=out,
                jobs=jobs,
                executor=executor,
                scheduler=scheduler,
                progress=bar,
            )
    except KeyboardInterrupt:
        kept = "" if out is None else f"; finished rows are kept, continue with --out {out}"
        typer.secho(f"stopped{kept}", err=True)
        raise typer.Exit(130) from None
    title = f"{held.card.title}: reward against epsilon"
    notes = [] if out is None else study_outputs.write(rows, out, title=title)
    if as_json:
        typer.echo(json.dumps({"rows": rows}, allow_nan=False))
    else:
        _print(held.card.title, rows, out)
    for note in notes:
        typer.secho(f"note: {note}", err=True)


def _data(name: str, path: Path | None, features: Path | None, columns: dict[str, Any]) -> DataSet:
    from bandanna.core.tables import inside, keys, read_toml
    from bandanna.datasets.catalogue import cards, load
    from bandanna.datasets.own import read
    from bandanna.errors import BandannaError
    from bandanna.features.map import Map

    made = None
    if features is not None:
        document = read_toml(features)
        with inside(f"{features}: "):
            document = keys(document, "", ("features",), needed=("features",))
            made = Map.from_table(document["features"])
    if name in [card.name for card in cards()]:
        if columns:
            raise BandannaError(f"--{next(iter(columns))} belongs to a file of your own: {name} knows its columns")
        return load(name, path=path, features=made)
    if path is not None:
        raise BandannaError(f"--path belongs to a name of `bandanna datasets`, and {name!r} is none")
    return read(name, features=made, **columns)


def _print(title: str, rows: list[dict[str, Any]], out: Path | None) -> None:
    from bandanna.cli.tables import print_table

    cells = [
        [
            row["algorithm"],
            row["trust"],
            "-" if row["epsilon"] is None else f"{row['epsilon']:g}",
            "-" if row["epsilon"] is None else f"{row['stated_epsilon']:.4g}",
            f"{row['mean_reward']:.4f}",
            "-" if row["stderr"] is None or not row["n_seeds"] else f"{row['stderr']:.4f}",
            f"{row['n_seeds']}" if row["n_seeds"] else "-",
            "-" if row.get("accepted") is None else f"{row['accepted']:,.0f}",
            f"{row['seconds']:.1f}",
        ]
        for row in rows
    ]
    columns = ("algorithm", "trust", "epsilon", "true", "reward", "± s.e.", "seeds", "accepted", "seconds")
    caption = "" if out is None else f"in {out}"
    print_table(columns, cells, left=("trust",), least=104, title=title, caption=caption)
