"""The commands `demo`, `run`, `plan`, `study`, `list` and `datasets`."""

from __future__ import annotations

import json
import math
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from bandanna.cli.terminal import (
    DeltaOption,
    EpsilonOption,
    ExecutorOption,
    JobsOption,
    JsonOption,
    ProgressBar,
    SchedulerOption,
    check_figure_file,
    integer_option,
    print_table,
    print_texts,
)
from bandanna.errors import MissingExtra

if TYPE_CHECKING:
    from bandanna.data.dataset import DataSet
    from bandanna.experiments.experiment import PrivacyModelRun
    from bandanna.experiments.plan import Forecast


# demo


def demo(
    epsilon: EpsilonOption = 1.0,
    delta: DeltaOption = 1e-5,
    horizon: Annotated[int, typer.Option(help="Number of rounds, one user each.")] = 20_000,
    n_seeds: Annotated[int, typer.Option(help="Number of independent runs.")] = 20,
    policy: Annotated[str, typer.Option(help="LinTS, or LinUCB with the papers' batches.")] = "LinTS",
    out: Annotated[
        Path | None, typer.Option(help="Figure file, .png or .svg.", show_default="bandanna-demo.png")
    ] = None,
) -> None:
    """Compare the privacy models on one problem: print a table and draw a figure.

    The problem has 100 fixed arms in 5 dimensions. All models have the same budget. The last row is random play.
    """
    from bandanna.experiments.experiment import compare_privacy_models, make_problem
    from bandanna.simulation.environments.base import regret_of_random_play
    from bandanna.simulation.figures import plot_regret

    figure = _figure_path(out)
    with ProgressBar("privacy models", shown=True) as bar:
        outcomes = compare_privacy_models(
            policy=policy,
            epsilon=epsilon,
            delta=delta,
            horizon=horizon,
            n_seeds=n_seeds,
            progress=lambda done, total, name: bar(done, total, f"{n_seeds} x {horizon:,} rounds: {name}"),
        )
    typer.echo(
        f"{horizon:,} users are each shown one of 100 arms and answer 1 or 0."
        f"\n{policy} learns which arm to show. {n_seeds} simulated worlds."
    )
    _print_demo(outcomes, idle=float(regret_of_random_play(make_problem(), horizon=horizon, n_seeds=n_seeds).mean()))
    _explain_demo(policy, n_seeds)
    if isinstance(figure, MissingExtra):
        typer.echo(f"No figure: {figure}")
    else:
        title = f"Regret at epsilon = {epsilon:g}, delta = {delta:g}"
        plot_regret({name: outcome.result for name, outcome in outcomes.items()}, figure, title=title)
        typer.echo(f"Figure: {figure}")
    typer.echo("Next: bandanna plan --dim 5 --arms 20 --users 20000 --epsilon 1    (your numbers instead)")
    typer.echo("      bandanna calibrate --dim 5 --epsilon 1 --delta 1e-5 --batch 200 --explain")
    typer.echo("      bandanna list, bandanna run FILE (examples/first.toml is one to copy)")


def _print_demo(outcomes: dict[str, PrivacyModelRun], *, idle: float) -> None:
    from bandanna.privacy.guarantee import format_rounded_up

    rows = []
    for name, outcome in outcomes.items():
        result, stated = outcome.result, outcome.result.guarantee
        private = math.isfinite(stated.epsilon)
        rows.append(
            [
                name,
                f"{float(result.mean()[-1]):,.0f}",
                f"{float(result.stderr()[-1]):,.0f}" if result.n_seeds > 1 else "-",
                f"{outcome.noise_std:.4g}",
                f"{result.bits_per_user:,}",
                format_rounded_up(stated.epsilon) if private else "-",
                format_rounded_up(stated.delta, 3) if private else "-",
            ]
        )
    rows.append(["(random play)", f"{idle:,.0f}", *["-"] * 5])
    print_table(("trust", "regret", "+-", "noise", "bits", "epsilon", "delta"), rows, least=0)


def _explain_demo(policy: str, n_seeds: int) -> None:
    error = "its standard error" if n_seeds > 1 else "with one seed no standard error"
    for line in (
        f"regret: rewards lost, compared with always showing the best arm, and {error}",
        "noise: standard deviation in each coordinate of the last released sum",
        "bits: length of one user's report; epsilon, delta: the guarantee",
        "compare with --policy " + ("LinUCB, the papers' algorithm" if policy == "LinTS" else "LinTS"),
    ):
        typer.echo(f"  {line}")


def _figure_path(out: Path | None) -> Path | MissingExtra:
    """Return the figure's path, or the error about a missing extra, raised if `out` is given."""
    try:
        return check_figure_file("--out", Path("bandanna-demo.png") if out is None else out)
    except MissingExtra as missing:
        if out is not None:
            raise
        return missing


# run


def run(
    file: Annotated[Path, typer.Argument(help="The experiment: a TOML file.", metavar="FILE")],
    jobs: JobsOption = None,
    out: Annotated[
        Path | None, typer.Option(help="Directory for results.", show_default="FILE-results", metavar="DIR")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an earlier run in DIR.")] = False,
    executor: ExecutorOption = None,
    scheduler: SchedulerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run the experiment of a TOML file and print its regret; write results and a figure.

    Regret is measured against the true means: mean and standard error over the seeds. A stopped run continues with
    --resume.
    """
    from bandanna.experiments import runner

    directory = Path(f"{file.stem}-results") if out is None else out
    try:
        with ProgressBar("blocks of runs", shown=not as_json) as bar:
            results = runner.run(
                file,
                out=directory,
                jobs=jobs,
                executor=executor or "processes",
                scheduler=scheduler,
                resume=resume,
                progress=bar,
            )
    except KeyboardInterrupt:
        typer.secho(f"stopped; finished blocks are kept. Continue with --resume --out {directory}", err=True)
        raise typer.Exit(130) from None
    rows = results.rows()
    if as_json:
        typer.echo(json.dumps({"rows": rows}, allow_nan=False))
    else:
        _print_table(results.experiment.title, rows, directory)
    for note in [*results.notes, *_report_clipped(rows)]:
        typer.secho(f"note: {note}", err=True)


def _report_clipped(rows: list[dict[str, Any]]) -> list[str]:
    """Return warnings about clipped reports."""
    return [
        f"{row['label']}: clipped {row['clipped']:,} times in {row['n_seeds']} runs of {row['horizon']:,} rounds "
        "(to their declared range)"
        for row in rows
        if row["clipped"]
    ]


def _print_table(title: str, rows: list[dict[str, Any]], directory: Path) -> None:
    from bandanna.privacy.guarantee import format_rounded_up

    cells = [
        [
            row["label"],
            f"{row['mean']:,.1f}",
            "" if row["stderr"] is None else f"{row['stderr']:,.1f}",
            "none" if row["epsilon"] is None else format_rounded_up(row["epsilon"], 4),
            "" if row["delta"] is None else format_rounded_up(row["delta"], 3),
            row["trust"],
            f"{row['bits_per_user']:,}",
            f"{row['seconds']:.1f}",
        ]
        for row in rows
    ]
    columns = ("algorithm", "regret", "± s.e.", "epsilon", "delta", "trust", "bits/user", "seconds")
    caption = f"{rows[0]['n_seeds']} seeds; in {directory}"
    print_table(columns, cells, left=("trust",), least=100, fold=True, title=title, caption=caption)


# plan


def plan(
    arms: Annotated[int, integer_option("Number of arms.")],
    users: Annotated[int, integer_option("Number of users, one decision each.")],
    dim: Annotated[int | None, integer_option("Features per arm, at least 2. The last one is a constant.")] = None,
    features: Annotated[
        int | None, integer_option("Features per user, instead of --dim. Each arm gets its own model.")
    ] = None,
    epsilon: EpsilonOption = 1.0,
    delta: DeltaOption = 1e-5,
    trust: Annotated[str, typer.Option(help="Privacy model: central, shuffle, local, none or all.")] = "all",
    fixed: Annotated[
        bool, typer.Option("--fixed/--fresh", help="Arms keep their features, or get new ones for each user.")
    ] = False,
    n_seeds: Annotated[int, integer_option("Number of simulated worlds.")] = 10,
    as_json: JsonOption = False,
) -> None:
    """Estimate how well a private bandit learns with your number of users.

    LinTS is simulated on a typical linear problem. If it cannot learn, the command states how many users it needs.
    """
    from bandanna.experiments.plan import plan as compute

    with ProgressBar("privacy models", shown=True) as bar:
        forecasts = compute(
            dim=dim,
            features=features,
            n_arms=arms,
            users=users,
            epsilon=epsilon,
            delta=delta,
            trust=trust,
            fixed=fixed,
            n_seeds=n_seeds,
            progress=bar,
        )
    if as_json:
        typer.echo(json.dumps({"rows": [each.to_dict() for each in forecasts]}))
        return
    typer.echo(
        f"{users:,} users, {_describe_problem(arms, dim, features, fixed)}; LinTS in {n_seeds} simulated worlds."
    )
    _print_plan(forecasts)
    _explain_plan(n_seeds)
    for each in forecasts:
        if each.hopeless:
            typer.echo(_plan_advice(each))


def _describe_problem(arms: int, dim: int | None, features: int | None, fixed: bool) -> str:
    if features is not None:
        return f"{arms} arms, each with a model of {features} features of the user"
    return f"{arms} arms with {dim} features, {'the same for everybody' if fixed else 'fresh for each user'}"


def _print_plan(forecasts: tuple[Forecast, ...]) -> None:
    from bandanna.privacy.guarantee import format_rounded_up

    columns = ("trust", "share", "+-", "regret", "first batch", "releases", "bits", "epsilon", "delta")
    rows = []
    for each in forecasts:
        private = math.isfinite(each.guarantee.epsilon)
        rows.append(
            [
                each.trust,
                f"{each.share:.3f}",
                "-" if math.isnan(each.stderr) else f"{each.stderr:.3f}",
                f"{each.regret:,.0f}",
                f"{each.first_batch:,}",
                f"{each.releases:,}",
                f"{each.bits_per_user:,}",
                format_rounded_up(each.guarantee.epsilon) if private else "-",
                format_rounded_up(each.guarantee.delta, 3) if private else "-",
            ]
        )
    print_table(columns, rows, least=92)


def _explain_plan(n_seeds: int) -> None:
    error = "its standard error over the worlds" if n_seeds > 1 else "with one seed no standard error"
    for line in (
        f"share: regret over that of random play (0: always the best arm, 1: nothing learned); {error}",
        "regret: rewards (0 to 1) lost, compared with always playing the best arm",
        "first batch: users before the first release; releases: sums that are published; bits: of one report",
        "epsilon, delta: the guarantee of a user who takes part once",
        "This is a typical linear problem. Use the order of magnitude, then simulate your own problem",
        "  (docs/tutorials/simulate-and-compare.md)",
    ):
        typer.echo(f"  {line}")


def _plan_advice(each: Forecast) -> str:
    words = f"{each.trust}: {each.users:,} users are too few to learn from. Use more users, or a larger epsilon"
    if each.enough is not None:
        return f"{words}. With {each.enough:,} users the share is below 0.5"
    return f"{words}. {each.tried:,} users, the largest number tried, are not enough"


# study


_LIST_OPTIONS = ("--epsilon", "--trust", "--algorithms")


class ListOptionsCommand(TyperCommand):
    """A command whose options take several values: `--epsilon 0.5 1 3`, beside `--epsilon 0.5 --epsilon 1`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _repeat_options(args))


def _repeat_options(args: list[str]) -> list[str]:
    whole: list[str] = []
    option, first = "", True
    for arg in args:
        if arg in _LIST_OPTIONS:
            option, first = arg, True
        elif arg.startswith("-"):
            option = ""
        elif option and not first:
            if not _is_further_value(option, arg):
                option = ""
            else:
                whole.append(option)
        first = arg in _LIST_OPTIONS
        whole.append(arg)
    return whole


def _is_further_value(option: str, arg: str) -> bool:
    """Return whether a word is another value of the option, not the data set."""
    if option == "--epsilon":
        return arg.replace(".", "", 1).replace("e-", "", 1).isdigit()
    from bandanna.experiments.study import FIXED_ALGORITHMS, OWN_ALGORITHMS, PEERS, TRUSTS

    return arg in (TRUSTS if option == "--trust" else (*OWN_ALGORITHMS, *FIXED_ALGORITHMS, *PEERS))


def study(
    data: Annotated[str, typer.Argument(help="A name of `bandanna datasets`, or a CSV or Parquet file.")],
    epsilon: Annotated[
        list[float] | None, typer.Option(help="Budgets, one or more.", show_default="0.5 1 3 10")
    ] = None,
    delta: Annotated[float, typer.Option(help="Delta of every budget.")] = 1e-5,
    trust: Annotated[
        list[str] | None,
        typer.Option(help="Privacy models: central, shuffle, local, concurrent; one or more.", show_default="all"),
    ] = None,
    algorithms: Annotated[
        list[str] | None,
        typer.Option(
            help="LinTS, LinTS-users, LinTS-arms, LinUCB, 'best arm', random, and installed libraries; one or more.",
            show_default="LinTS, best arm, random and all installed libraries",
        ),
    ] = None,
    n_seeds: Annotated[int | None, typer.Option(help="Number of runs.", show_default="the data set's")] = None,
    horizon: Annotated[
        int | None, typer.Option(help="Number of logged events or rounds.", show_default="the data set's")
    ] = None,
    path: Annotated[Path | None, typer.Option(help="File of a named data set that is not installed.")] = None,
    arm: Annotated[str | None, typer.Option(help="Your log: column with the arm that was played.")] = None,
    reward: Annotated[str | None, typer.Option(help="Your log: column with the reward, in [0, 1].")] = None,
    propensity: Annotated[
        str | None,
        typer.Option(help="Your log: column with the probability of the played arm; or 1/3, or A=0.5,B=... by design."),
    ] = None,
    floor: Annotated[
        float | None, typer.Option(help="Your log: smallest probability of any arm by design. Public.")
    ] = None,
    success: Annotated[str | None, typer.Option(help="Your log: value of the reward column that counts as 1.")] = None,
    label: Annotated[str | None, typer.Option(help="Your table: column with the right arm, instead of a log.")] = None,
    features: Annotated[
        Path | None, typer.Option(help="TOML file with a feature map (docs/how-to/features.md).")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Directory for rows, a figure and Parquet. Finished rows are kept.", metavar="DIR"),
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Number of processes.", show_default="1")] = None,
    executor: ExecutorOption = None,
    scheduler: SchedulerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare rewards on real data over budgets, privacy models and other libraries.

    A log is replayed; rows of a table are drawn at random. With --out, a stopped study continues, and you can add
    budgets and algorithms later.
    """
    from bandanna.experiments import study
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
    held = _load_data(data, path, features, {name: value for name, value in columns.items() if value is not None})
    try:
        with ProgressBar("rows", shown=True) as bar:  # on standard error
            rows = compute(
                held,
                epsilons=epsilon or EPSILONS,
                delta=delta,
                trusts=trust or TRUSTS,
                algorithms=algorithms or None,
                n_seeds=n_seeds,
                horizon=horizon,
                out=out,
                jobs=jobs,
                executor=executor,
                scheduler=scheduler,
                progress=bar,
            )
    except KeyboardInterrupt:
        kept = "" if out is None else f"; finished rows are kept. Continue with --out {out}"
        typer.secho(f"stopped{kept}", err=True)
        raise typer.Exit(130) from None
    title = f"{held.card.title}: reward against epsilon"
    notes = [] if out is None else study.write_study(rows, out, title=title)
    if as_json:
        typer.echo(json.dumps({"rows": rows}, allow_nan=False))
    else:
        _print_study(held.card.title, rows, out)
    for note in notes:
        typer.secho(f"note: {note}", err=True)


def _load_data(name: str, path: Path | None, features: Path | None, columns: dict[str, Any]) -> DataSet:
    from bandanna.data.datasets import cards, load, read
    from bandanna.data.features.map import Map
    from bandanna.errors import BandannaError
    from bandanna.validation import check_keys, prefix_errors, read_toml

    made = None
    if features is not None:
        document = read_toml(features)
        with prefix_errors(f"{features}: "):
            document = check_keys(document, "", ("features",), needed=("features",))
            made = Map.from_table(document["features"])
    if name in [card.name for card in cards()]:
        if columns:
            raise BandannaError(f"--{next(iter(columns))} is for files of your own; the columns of {name} are known")
        return load(name, path=path, features=made)
    if path is not None:
        raise BandannaError(f"--path is for the data sets of `bandanna datasets`, and {name!r} is none of them")
    return read(name, features=made, **columns)


def _print_study(title: str, rows: list[dict[str, Any]], out: Path | None) -> None:
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


# list


def algorithms(as_json: JsonOption = False) -> None:
    """List the algorithms with their paper, privacy model and guarantee."""
    from bandanna.policies.registry import ALGORITHMS

    columns = ("name", "paper", "trust", "protects", "guarantee")
    rows = [{column: getattr(entry, column) for column in columns} for entry in ALGORITHMS.values()]
    if as_json:
        typer.echo(json.dumps({"rows": rows}))
        return
    print_table(columns, [list(row.values()) for row in rows], left=columns)


# datasets


_FIELDS = (
    "rows", "arms", "reward", "propensities", "features", "public", "source", "package", "package_licence",
    "data_licence", "get",
)  # fmt: skip


def datasets(
    name: Annotated[str | None, typer.Argument(help="Name of a data set to show in detail.", metavar="[NAME]")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the data sets, or show one in detail. Nothing is downloaded."""
    from bandanna.data.datasets import card, cards, is_installed

    chosen = cards() if name is None else (card(name),)
    rows = [{**each.to_dict(), "installed": is_installed(each.name)} for each in chosen]
    if as_json:
        typer.echo(json.dumps({"rows": rows}))
        return
    if name is not None:
        _print_card(rows[0])
        return
    lines = [
        [each["name"], each["title"], f"{each['rows']:,}", "yes" if each["installed"] else each["get"]] for each in rows
    ]
    print_texts(("name", "what it is", "rows", "installed"), lines, least=110)


def _print_card(row: dict[str, object]) -> None:
    typer.echo(f"{row['name']}: {row['title']}")
    for field in _FIELDS:
        value = row[field]
        text = ", ".join(map(str, value)) if isinstance(value, list) else f"{value:,}" if field == "rows" else value
        label = field.replace("_", " ")
        typer.echo(textwrap.fill(f"{text}", 100, initial_indent=f"  {label:16s}", subsequent_indent=" " * 18))
    typer.echo(f"  {'installed':16s}{'yes' if row['installed'] else 'no'}")
