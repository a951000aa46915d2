"""The commands `calibrate` and `audit`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bandanna import validation
from bandanna.cli.terminal import ProgressBar
from bandanna.errors import InvalidArgument

if TYPE_CHECKING:
    from bandanna.audit.targets import AuditResult, AuditRow
    from bandanna.protocols.comparison import ComparisonRow


# calibrate


def whole(text: str) -> int:
    """Read an integer, also in the form 1e6."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not number.is_integer():
        raise typer.BadParameter(f"{text!r} is no whole number.")
    return int(number)


def calibrate(
    dim: Annotated[
        int,
        typer.Option(
            help="Feature dimension d; reports have d + d(d+1)/2 coordinates.", parser=whole, metavar="INTEGER"
        ),
    ],
    batch: Annotated[int, typer.Option(help="Users per batch, B.", parser=whole, metavar="INTEGER")],
    epsilon: Annotated[float | None, typer.Option(help="Privacy budget epsilon > 0.")] = None,
    delta: Annotated[float, typer.Option(help="Privacy budget delta in (0, 1).")] = 1e-5,
    std: Annotated[
        float | None, typer.Option(help="Instead of epsilon: which epsilon does noise of this std on the sum give?")
    ] = None,
    participations: Annotated[
        int, typer.Option(help="Batches that one user may be in, M.", parser=whole, metavar="INTEGER")
    ] = 1,
    horizon: Annotated[
        int | None,
        typer.Option(
            help="Steps T of the continual protocol (default: the batch size).", parser=whole, metavar="INTEGER"
        ),
    ] = None,
    mechanism: Annotated[str, typer.Option(help="Continual release: blt or tree.")] = "blt",
    calibration: Annotated[str, typer.Option(help="tight (least noise) or paper (the printed constants).")] = "tight",
    bits_limit: Annotated[float, typer.Option(help="Warn above this many bits per user.")] = 1e6,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="State every guarantee in plain sentences.")] = False,
) -> None:
    """Compare the noise that each protocol needs to release the sum of a batch of reports (x y, x x^T).

    std is that of each scaled coordinate of the batch's sum, rounding included (continual: of the worst prefix over T).
    """
    from bandanna.device.linear_report import MOST_FEATURES, LinearReport
    from bandanna.privacy.budgets import ApproxDP
    from bandanna.protocols.comparison import compare_protocols, compare_protocols_at_std

    if epsilon is not None and std is not None:
        raise InvalidArgument("--std", std, "left out with --epsilon", "One is computed from the other")
    if std is not None and calibration != "tight":
        raise InvalidArgument("--calibration", calibration, "left out with --std")
    domain = LinearReport(features=validation.integer("--dim", dim, most=MOST_FEATURES))
    shared: dict[str, Any] = {"domain": domain, "batch": batch, "participations": participations, "horizon": horizon}
    if epsilon is not None:
        budget = ApproxDP(epsilon=epsilon, delta=delta)
        rows = compare_protocols(
            budget=budget, mechanism=mechanism, calibration=calibration, bits_limit=bits_limit, **shared
        )
    elif std is not None:
        rows = compare_protocols_at_std(std=std, delta=delta, mechanism=mechanism, **shared)
    else:
        raise InvalidArgument("--epsilon", None, "a privacy budget, unless --std is given")
    if as_json:
        typer.echo(json.dumps({"rows": [row.to_dict() for row in rows]}))
        return
    _print_table(rows, explain)


_CAPTION = (
    "std: of each scaled coordinate of the sum (central_continual: worst prefix); ratio: to central_gaussian; "
    "bits: per user; shuffler: epsilon left against the shuffler itself"
)


def _print_table(rows: list[ComparisonRow], explain: bool) -> None:
    from bandanna.cli.terminal import print_table

    columns = ("protocol", "std", "ratio", "bits", "epsilon", "delta", "shuffler")
    print_table(columns, [_row_cells(row) for row in rows], least=80, caption=_CAPTION)
    for row in rows:
        words = row.note or (str(row.guarantee) if explain and row.guarantee is not None else "")
        if words:
            typer.echo(f"{typer.style(row.protocol, bold=True)}: {words}")


def _row_cells(row: ComparisonRow) -> list[str]:
    from bandanna.privacy.guarantee import format_rounded_up

    stated = row.guarantee
    if stated is None:
        return [row.protocol, *["-"] * 6]
    left = "" if stated.trust != "shuffle" else "none"
    if stated.shuffler is not None:
        left = format_rounded_up(stated.shuffler.epsilon, 3)
    return [
        row.protocol,
        f"{row.std:.5g}",
        "" if row.ratio_to_central is None else f"{row.ratio_to_central:.3f}",
        f"{row.bits_per_user:,}",
        format_rounded_up(stated.epsilon),
        format_rounded_up(stated.delta, 3),
        left,
    ]


# audit


def audit(
    target: Annotated[
        str | None,
        typer.Argument(
            help="A mechanism, protocol or algorithm by its name, module:Class, or the folder of a running test task.",
            show_default=False,
            metavar="TARGET",
        ),
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="The budget that the target is calibrated for (1).")] = None,
    delta: Annotated[float | None, typer.Option(help="Its delta (1e-5).")] = None,
    trials: Annotated[
        int | None,
        typer.Option(
            help="Runs at most (40000; gallery 20000; batches of a task 200).", parser=whole, metavar="INTEGER"
        ),
    ] = None,
    confidence: Annotated[float, typer.Option(help="With which a refutation is right.")] = 0.95,
    trust: Annotated[
        str | None, typer.Option(help="Of module:Class: central, local, shuffle or concurrent (the first it has).")
    ] = None,
    view: Annotated[str, typer.Option(help="Of a policy: releases, snapshot, actions or one-run.")] = "releases",
    gallery: Annotated[
        bool, typer.Option("--gallery", help="Audit known faults and known truths: is the audit any good?")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of all that is drawn.", parser=whole, metavar="INTEGER")] = 0,
    jobs: Annotated[
        int | None, typer.Option(help="Processes, for blocks of runs or rows of the gallery (this one).")
    ] = None,
    executor: Annotated[
        str | None, typer.Option(help="Who makes the runs: processes, or dask.", metavar="NAME")
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler (a cluster here).", metavar="ADDRESS")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the measured trade-off beside the claimed one: a .png or .svg file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Run a target under two neighbours, many times, and say which epsilon it is not below.

    "refuted" is a proof that the claim is false, up to the confidence; "consistent" says only that this attack did not
    succeed. The exit code is 0 either way: a script reads the verdict with --json. With --gallery it is 1 where a
    verdict is not what is known of its row.
    """
    from bandanna.audit.audit import audit as run
    from bandanna.audit.gallery import run_gallery

    if plot is not None:
        from bandanna.cli.terminal import check_figure_file

        check_figure_file("--plot", plot)
    if gallery == (target is not None):
        raise InvalidArgument("target", target, "the name of a target such as LinTS-SDP, or left out with --gallery")
    if target is not None and Path(target).is_dir() and not is_task(target):
        raise InvalidArgument("target", target, "a name, or the directory of a running test task with its task.json")
    if gallery:
        own: dict[str, object] = {"--epsilon": epsilon, "--delta": delta, "--trust": trust}
        own |= {"--confidence": _none_if_default(confidence, 0.95), "--view": _none_if_default(view, "releases")}
        _refuse_options(own, "left out with --gallery")
    with ProgressBar(shown=not as_json) as bar:
        if target is None:
            many = 20_000 if trials is None else trials
            result = run_gallery(
                trials=many, seed=seed, jobs=jobs, executor=executor, scheduler=scheduler, progress=bar
            )
        elif is_task(target):
            said = {"--epsilon": epsilon, "--delta": delta, "--trust": trust, "--plot": plot}
            _refuse_options(
                said | {"--view": _none_if_default(view, "releases")}, "left out: a task says what it promises"
            )
            workers = {"--jobs": jobs, "--executor": executor, "--scheduler": scheduler}
            _refuse_options(workers, "left out for a running task")
            result = _audit_task(target, 200 if trials is None else trials, confidence, seed, bar)
        else:
            result = run(
                target,
                epsilon=epsilon,
                delta=delta,
                trust=trust,
                view=view,
                trials=40_000 if trials is None else trials,
                confidence=confidence,
                seed=seed,
                jobs=jobs,
                executor=executor,
                scheduler=scheduler,
                progress=bar,
            )
    if plot is not None:
        result.plot(plot)
    if as_json:
        typer.echo(json.dumps(result.to_dict()))
    else:
        _print_audit(result)
        if plot is not None:
            typer.echo(f"figure: {plot}")
    if result.surprises:
        raise typer.Exit(1)


def is_task(target: str) -> bool:
    """Return whether a target is the folder or the document of a task."""
    place = Path(target)
    return (place / "task.json").is_file() or (place.is_file() and place.suffix == ".json")


def _none_if_default(value: object, default: object) -> object:
    """Return None for the default value, as if it had not been given."""
    return None if value == default else value


def _refuse_options(options: Mapping[str, object], why: str) -> None:
    """Refuse options that were given and would be ignored."""
    for option, value in options.items():
        if value is not None:
            raise InvalidArgument(option, value, why)


def _audit_task(target: str, batches: int, confidence: float, seed: int, bar: ProgressBar) -> AuditResult:
    from bandanna.audit.live import audit_task
    from bandanna.deployment.client.load_simulation import HttpDeployment
    from bandanna.deployment.task.document import Secrets, Task

    place = Path(target)
    task = Task.read(place)
    token = Secrets.read(place if place.is_dir() else place.parent, "registrar", task).token
    with HttpDeployment(task, token=token) as http:
        return audit_task(task, http, batches=batches, confidence=confidence, seed=seed, progress=bar)


def _print_audit(result: AuditResult) -> None:
    from bandanna.cli.terminal import print_table

    columns = ("target", "known", "claimed", "delta", "found", "share", "confidence", "trials", "attack", "verdict")
    left = ("known", "attack", "verdict")
    print_table(columns, [_audit_cells(row) for row in result.rows], left=left, least=130, caption=_AUDIT_CAPTION)
    for row in result.rows:
        if row.why:
            typer.echo(f"{row.target}: {row.why}")
    if len(result.rows) == 1 and result.rows[0].looked_at:
        typer.echo(f"looked at: {result.rows[0].looked_at}")
        typer.echo(f"not looked at: {result.rows[0].not_looked_at}")
    for row in result.surprises:
        typer.echo(f"{row.target} is known to be {row.known}, and was not found so")


_AUDIT_CAPTION = (
    "found: the target is not below this epsilon at delta; share: of the claim, in mu where the noise is Gaussian"
)


def _audit_cells(row: AuditRow) -> list[str]:
    from bandanna.privacy.guarantee import format_rounded_up

    if math.isinf(row.claim.epsilon):
        return [row.target, row.known or "", "nothing", *[""] * 6, row.verdict]
    return [
        row.target,
        row.known or "",
        format_rounded_up(row.claim.epsilon),
        f"{row.claim.delta:.3g}",
        f"{row.lower_bound:.4g}",
        f"{row.reached:.3f}",
        "exact" if row.confidence == 1 else f"{row.confidence:.4g}",
        f"{row.trials:,}",
        row.attack,
        row.verdict,
    ]
