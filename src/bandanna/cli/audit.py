"""`bandanna audit`: try to refute what a mechanism, a protocol, a policy or a running test task claims."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bandanna.cli.bars import Bar
from bandanna.cli.calibrate import whole
from bandanna.errors import InvalidArgument

if TYPE_CHECKING:
    from bandanna.audit import AuditResult, Row


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
    from bandanna.audit import audit as run
    from bandanna.audit import run_gallery

    if plot is not None:
        from bandanna.cli.places import figure_for

        figure_for("--plot", plot)
    if gallery == (target is not None):
        raise InvalidArgument("target", target, "what to audit, such as LinTS-SDP; or --gallery, without a target")
    if target is not None and Path(target).is_dir() and not is_task(target):
        raise InvalidArgument("target", target, "as a folder, that of a running test task, in which task.json lies")
    if gallery:
        own: dict[str, object] = {"--epsilon": epsilon, "--delta": delta, "--trust": trust}
        own |= {"--confidence": _other(confidence, 0.95), "--view": _other(view, "releases")}
        _refuse(own, "only with a target: the gallery has budgets, views and confidences of its own")
    with Bar(shown=not as_json) as bar:
        if target is None:
            many = 20_000 if trials is None else trials
            result = run_gallery(
                trials=many, seed=seed, jobs=jobs, executor=executor, scheduler=scheduler, progress=bar
            )
        elif is_task(target):
            said = {"--epsilon": epsilon, "--delta": delta, "--trust": trust, "--plot": plot}
            _refuse(said | {"--view": _other(view, "releases")}, "left out: a task says what it promises")
            workers = {"--jobs": jobs, "--executor": executor, "--scheduler": scheduler}
            _refuse(workers, "left out: the batches of a task come one after the other")
            result = _live(target, 200 if trials is None else trials, confidence, seed, bar)
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
        _print(result)
        if plot is not None:
            typer.echo(f"figure: {plot}")
    if result.surprises:
        raise typer.Exit(1)


def is_task(target: str) -> bool:
    """Whether a target is the folder of a task, or its document."""
    place = Path(target)
    return (place / "task.json").is_file() or (place.is_file() and place.suffix == ".json")


def _other(value: object, default: object) -> object:
    """None, as if it had not been given, where it is the default."""
    return None if value == default else value


def _refuse(options: Mapping[str, object], why: str) -> None:
    """What was given, and would not be heeded."""
    for option, value in options.items():
        if value is not None:
            raise InvalidArgument(option, value, why)


def _live(target: str, batches: int, confidence: float, seed: int, bar: Bar) -> AuditResult:
    from bandanna.audit import audit_task
    from bandanna.roles.client.deployment import Http
    from bandanna.tasks.document import Secrets, Task

    place = Path(target)
    task = Task.read(place)
    token = Secrets.read(place if place.is_dir() else place.parent, "registrar", task).token
    with Http(task, token=token) as http:
        return audit_task(task, http, batches=batches, confidence=confidence, seed=seed, progress=bar)


def _print(result: AuditResult) -> None:
    from bandanna.cli.tables import print_table

    columns = ("target", "known", "claimed", "delta", "found", "share", "confidence", "trials", "attack", "verdict")
    left = ("known", "attack", "verdict")
    print_table(columns, [_cells(row) for row in result.rows], left=left, least=130, caption=_CAPTION)
    for row in result.rows:
        if row.why:
            typer.echo(f"{row.target}: {row.why}")
    if len(result.rows) == 1 and result.rows[0].looked_at:
        typer.echo(f"looked at: {result.rows[0].looked_at}")
        typer.echo(f"not looked at: {result.rows[0].not_looked_at}")
    for row in result.surprises:
        typer.echo(f"{row.target} is known to be {row.known}, and was not found so")


_CAPTION = (
    "found: the target is not below this epsilon at delta; share: of the claim, in mu where the noise is Gaussian"
)


def _cells(row: Row) -> list[str]:
    from bandanna.accounting.guarantee import rounded_up

    if math.isinf(row.claim.epsilon):
        return [row.target, row.known or "", "nothing", *[""] * 6, row.verdict]
    return [
        row.target,
        row.known or "",
        rounded_up(row.claim.epsilon),
        f"{row.claim.delta:.3g}",
        f"{row.lower_bound:.4g}",
        f"{row.reached:.3f}",
        "exact" if row.confidence == 1 else f"{row.confidence:.4g}",
        f"{row.trials:,}",
        row.attack,
        row.verdict,
    ]
