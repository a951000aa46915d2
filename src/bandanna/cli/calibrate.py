"""`bandanna calibrate`: the noise that every protocol needs, side by side; or what a given noise guarantees."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bandanna.core import require
from bandanna.errors import InvalidArgument

if TYPE_CHECKING:
    from bandanna.protocols.comparison import Row


def whole(text: str) -> int:
    """Whole numbers also in the form 1e6."""
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
    from bandanna.accounting.budgets import ApproxDP
    from bandanna.core.report import MOST_FEATURES, LinearReport
    from bandanna.protocols.comparison import compare, invert

    if epsilon is not None and std is not None:
        raise InvalidArgument("--std", std, "only without --epsilon: the one is computed from the other")
    if std is not None and calibration != "tight":
        raise InvalidArgument("--calibration", calibration, "only with --epsilon: --std asks about the noise itself")
    domain = LinearReport(features=require.whole("--dim", dim, most=MOST_FEATURES))
    shared: dict[str, Any] = {"domain": domain, "batch": batch, "participations": participations, "horizon": horizon}
    if epsilon is not None:
        budget = ApproxDP(epsilon=epsilon, delta=delta)
        rows = compare(budget=budget, mechanism=mechanism, calibration=calibration, bits_limit=bits_limit, **shared)
    elif std is not None:
        rows = invert(std=std, delta=delta, mechanism=mechanism, **shared)
    else:
        raise InvalidArgument("--epsilon", None, "a privacy budget, or --std to ask what a given noise guarantees")
    if as_json:
        typer.echo(json.dumps({"rows": [row.to_dict() for row in rows]}))
        return
    _print_table(rows, explain)


_CAPTION = (
    "std: of each scaled coordinate of the sum (central_continual: worst prefix); ratio: to central_gaussian; "
    "bits: per user; shuffler: epsilon left against the shuffler itself"
)


def _print_table(rows: list[Row], explain: bool) -> None:
    from bandanna.cli.tables import print_table

    columns = ("protocol", "std", "ratio", "bits", "epsilon", "delta", "shuffler")
    print_table(columns, [_cells(row) for row in rows], least=80, caption=_CAPTION)
    for row in rows:
        words = row.note or (str(row.guarantee) if explain and row.guarantee is not None else "")
        if words:
            typer.echo(f"{typer.style(row.protocol, bold=True)}: {words}")


def _cells(row: Row) -> list[str]:
    from bandanna.accounting.guarantee import rounded_up

    stated = row.guarantee
    if stated is None:
        return [row.protocol, *["-"] * 6]
    left = "" if stated.trust != "shuffle" else "none"
    if stated.shuffler is not None:
        left = rounded_up(stated.shuffler.epsilon, 3)
    return [
        row.protocol,
        f"{row.std:.5g}",
        "" if row.ratio_to_central is None else f"{row.ratio_to_central:.3f}",
        f"{row.bits_per_user:,}",
        rounded_up(stated.epsilon),
        rounded_up(stated.delta, 3),
        left,
    ]
