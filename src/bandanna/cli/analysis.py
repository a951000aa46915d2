"""The commands `calibrate`, `audit` and `evaluate`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bandanna import validation
from bandanna.cli.terminal import (
    ExecutorOption,
    JsonOption,
    ProgressBar,
    SchedulerOption,
    check_figure_file,
    check_file,
    integer_option,
    print_table,
)
from bandanna.errors import InvalidArgument, ValueSummary

if TYPE_CHECKING:
    from bandanna.audit.targets import AuditResult, AuditRow
    from bandanna.protocols.comparison import ComparisonRow


# calibrate


def calibrate(
    dim: Annotated[int, integer_option("Number of features d. Reports have d + d(d+1)/2 numbers.")],
    batch: Annotated[int, integer_option("Users per batch.")],
    epsilon: Annotated[float | None, typer.Option(help="Privacy budget epsilon > 0.")] = None,
    delta: Annotated[float, typer.Option(help="Privacy budget delta in (0, 1).")] = 1e-5,
    std: Annotated[
        float | None,
        typer.Option(help="Compute the epsilon of this noise on the sum, instead of the noise of --epsilon."),
    ] = None,
    participations: Annotated[int, integer_option("Batches that one user may be in.")] = 1,
    horizon: Annotated[int | None, integer_option("Steps of the continual protocol.", "the batch size")] = None,
    mechanism: Annotated[str, typer.Option(help="Mechanism of running sums: blt or tree.")] = "blt",
    calibration: Annotated[str, typer.Option(help="tight (least noise) or paper (the papers' constants).")] = "tight",
    bits_limit: Annotated[float, typer.Option(help="Warn about reports of more bits than this.")] = 1e6,
    as_json: JsonOption = False,
    explain: Annotated[bool, typer.Option("--explain", help="Print the guarantees as sentences.")] = False,
) -> None:
    """Compare the noise that each protocol needs to release the sum of a batch of reports (x y, x x^T).

    std is the standard deviation of each scaled coordinate of the sum, rounding included. For running sums it is that
    of the worst prefix.
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
    _print_comparison(rows, explain)


_CAPTION = (
    "std: noise of each scaled coordinate of the sum (central_continual: worst prefix); ratio: std over that of "
    "central_gaussian; bits: per user; shuffler: epsilon against the shuffler itself"
)


def _print_comparison(rows: list[ComparisonRow], explain: bool) -> None:
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
            help="Name of a mechanism, protocol or algorithm, module:Class, or the directory of a running test task.",
            show_default=False,
            metavar="TARGET",
        ),
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="Budget to calibrate the target for.", show_default="1")] = None,
    delta: Annotated[float | None, typer.Option(help="Its delta.", show_default="1e-5")] = None,
    trials: Annotated[
        int | None,
        integer_option("Maximum number of runs.", "40000; 20000 with --gallery; 200 batches of a task"),
    ] = None,
    confidence: Annotated[float, typer.Option(help="Confidence of a refutation.")] = 0.95,
    trust: Annotated[
        str | None, typer.Option(help="Privacy model of module:Class: central, local, shuffle or concurrent.")
    ] = None,
    view: Annotated[
        str, typer.Option(help="What the attacker observes: releases, snapshot, actions or one-run. Policies only.")
    ] = "releases",
    gallery: Annotated[
        bool, typer.Option("--gallery", help="Audit known faults and known truths, to test the audit itself.")
    ] = False,
    seed: Annotated[int, integer_option("Seed of all random draws.")] = 0,
    jobs: Annotated[int | None, typer.Option(help="Number of processes.", show_default="1")] = None,
    executor: ExecutorOption = None,
    scheduler: SchedulerOption = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the measured and the claimed trade-off: a .png or .svg file.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure a lower bound on the epsilon of a mechanism, protocol or algorithm.

    The target runs many times on two neighbouring data sets. "refuted" proves that the claim is false, up to the
    confidence. "consistent" means only that this attack did not succeed. Both exit with 0; read the verdict with
    --json. With --gallery, a wrong verdict exits with 1.
    """
    from bandanna.audit.audit import audit as run
    from bandanna.audit.gallery import run_gallery

    if plot is not None:
        check_figure_file("--plot", plot)
    if gallery == (target is not None):
        raise InvalidArgument("target", target, "the name of a target such as LinTS-SDP, or left out with --gallery")
    if target is not None and Path(target).is_dir() and not is_task(target):
        raise InvalidArgument("target", target, "a name, or the directory of a running test task with its task.json")
    if gallery:
        own: dict[str, object] = {"--epsilon": epsilon, "--delta": delta, "--trust": trust}
        own |= {"--confidence": _none_if_default(confidence, 0.95), "--view": _none_if_default(view, "releases")}
        _refuse_options(own, "left out with --gallery")
    unit = "targets" if target is None else "batches" if is_task(target) else "runs"
    with ProgressBar(unit, shown=not as_json) as bar:
        if target is None:
            many = 20_000 if trials is None else trials
            result = run_gallery(
                trials=many, seed=seed, jobs=jobs, executor=executor, scheduler=scheduler, progress=bar
            )
        elif is_task(target):
            own = {"--epsilon": epsilon, "--delta": delta, "--trust": trust, "--plot": plot}
            _refuse_options(
                own | {"--view": _none_if_default(view, "releases")}, "left out: a task says what it promises"
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
    """Return whether a target is the folder or document of a task."""
    place = Path(target)
    return (place / "task.json").is_file() or (place.is_file() and place.suffix == ".json")


def _none_if_default(value: object, default: object) -> object:
    return None if value == default else value


def _refuse_options(options: Mapping[str, object], why: str) -> None:
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
        typer.echo(f"{row.target} is known to be {row.known}, but the audit found otherwise")


_AUDIT_CAPTION = "found: lower bound on epsilon at this delta; share: of the claim (of its mu for Gaussian noise)"


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


# evaluate


METHODS = ("snips", "ips")
_DELTA = 1e-5


def evaluate(
    log: Annotated[Path, typer.Argument(help="The log: a CSV or Parquet file with one row per decision.")],
    target: Annotated[
        list[str],
        typer.Option(
            help="Policy to evaluate: uniform, arm:NAME, a directory of `bandanna task export`, an analyzer's URL, or "
            "a saved agent. Repeatable; several targets share one budget.",
            metavar="TARGET",
        ),
    ],
    arm: Annotated[str, typer.Option(help="Column with the arm that was played.")] = "arm",
    arms: Annotated[
        str | None, typer.Option(help="Names of all arms, separated by commas. Required with --epsilon.")
    ] = None,
    reward: Annotated[str, typer.Option(help="Column with the reward.")] = "reward",
    propensity: Annotated[
        str,
        typer.Option(help="Column with the probability of the played arm; or 1/3, or A=0.5,B=0.25,... by design."),
    ] = "propensity",
    success: Annotated[
        str | None, typer.Option(help="Value of the reward column that counts as 1. All other values count as 0.")
    ] = None,
    context: Annotated[
        str,
        typer.Option(
            help="Columns with features of the user, separated by commas. Omit it if the target has a feature map."
        ),
    ] = "",
    reward_range: Annotated[
        str | None, typer.Option("--range", help="Public bounds LOW,HIGH of rewards. Other rewards are clipped.")
    ] = None,
    floor: Annotated[float | None, typer.Option(help="Smallest probability of any arm by design. Public.")] = None,
    weight_bound: Annotated[float | None, typer.Option(help="Clip weights at this number.")] = None,
    method: Annotated[str, typer.Option(help="Estimator: snips or ips.")] = "snips",
    epsilon: Annotated[
        float | None, typer.Option(help="Privacy budget epsilon > 0. Without it the estimate is not private.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="Privacy budget delta in [0, 1). Needs --epsilon.", show_default="1e-05")
    ] = None,
    trust: Annotated[
        str | None,
        typer.Option(help="Privacy model: central, shuffle or local. Needs --epsilon.", show_default="central"),
    ] = None,
    page: Annotated[Path | None, typer.Option(help="Write an HTML page about the estimate to this file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Estimate a policy's mean reward from a log of past decisions.

    Add --epsilon to make the estimate private. Each run then draws new noise and spends the budget again.
    """
    from bandanna import ope
    from bandanna.data.logs import Log
    from bandanna.data.ope.targets import load_learned_policy, to_target_policy
    from bandanna.data.tables import parse_cell, parse_propensity

    validation.one_of("--method", method, METHODS)
    if page is not None:
        if len(target) > 1:
            raise InvalidArgument("--page", str(page), "left out with several targets")
        check_file("--page", page)
    privacy = _make_privacy(trust, epsilon, delta)
    targets = {
        each: each if each == "uniform" or each.startswith("arm:") else load_learned_policy(each) for each in target
    }
    read = Log.read(
        log,
        arm=arm,
        arms=_arm_names(targets.values()) if arms is None else [parse_cell(each) for each in arms.split(",")],
        reward=reward,
        success=success,
        propensity=parse_propensity(propensity),
        context=_resolve_context(context, targets.values()),
        reward_range=None if reward_range is None else _parse_pair(reward_range),
        floor=floor,
    )
    with ProgressBar("events", shown=True) as bar:  # on standard error
        known = {name: to_target_policy(read, each, "--target", bar) for name, each in targets.items()}
    shared: dict[str, Any] = {"weight_bound": weight_bound, "privacy": privacy}
    if len(known) > 1:
        compared = ope.compare(read, known, method=method, **shared)
        typer.echo(json.dumps(compared.to_dict(), allow_nan=False) if as_json else str(compared))
        return
    value = (ope.snips if method == "snips" else ope.ips)(read, next(iter(known.values())), **shared)
    if page is not None:
        value.page(page)
    typer.echo(json.dumps(value.diagnostics(), allow_nan=False) if as_json else str(value))


def _arm_names(targets: Iterable[Any]) -> Any:
    """Return the names of a learned policy's arms, some of which a log may lack; None without names."""
    named = [each.arms for each in targets if getattr(each, "arms", None) and each.arms != tuple(range(len(each.arms)))]
    return named[0] if named else None


def _resolve_context(columns: str, targets: Iterable[Any]) -> Any:
    maps = {each.features for each in targets if getattr(each, "features", None) is not None}
    if columns or not maps:
        return [each for each in columns.split(",") if each]
    if len(maps) > 1:
        raise InvalidArgument(
            "--target",
            ValueSummary(f"{len(maps)} maps"),
            "targets with one map of features",
            "Evaluate them one by one",
        )
    return maps.pop()


def _make_privacy(trust: str | None, epsilon: float | None, delta: float | None) -> Any:
    from bandanna.protocols import privacy_model

    chosen = validation.one_of("--trust", trust or "central", ("central", "shuffle", "local"))
    if epsilon is not None:
        return getattr(privacy_model, chosen)(epsilon=epsilon, delta=_DELTA if delta is None else delta)
    for option, value in (("--trust", trust), ("--delta", delta)):
        if value is not None:
            raise InvalidArgument("--epsilon", None, f"given together with {option}")
    return None


def _parse_pair(text: str) -> Any:
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise InvalidArgument("--range", text, "two numbers LOW,HIGH") from None
    return low, high
