"""`bandanna paper 002`: concurrent shufflers: noise of running counts, regret of LinUCB, the tree of batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from bandanna.cli.papers.base import Options, Shown, number, print_table

if TYPE_CHECKING:
    from bandanna.papers.error_002 import Line
    from bandanna.papers.regret_002 import Outcome
    from bandanna.protocols.concurrent_shuffle import BatchTree


def show(figure: str, options: Options) -> Shown:
    """Errors of counters, regrets, or the batches over time."""
    return {"error": _errors, "regret": _regrets, "tree": _tree}[figure](options)


def _errors(options: Options) -> Shown:
    from bandanna.papers.drawing_002 import draw_errors
    from bandanna.papers.error_002 import errors

    lines = errors(**options.given("seeds", "horizon", "epsilon", "delta", "jobs", "progress"))
    document = {
        "rows": [point.row() for line in lines for point in line.points],
        "slopes": [
            {"model": line.kind.model, "k": line.kind.k, "slope": line.slope, "theory": line.kind.theory}
            for line in lines
            if line.kind.degrees != "paper"
        ],
    }
    return Shown(document=document, table=lambda: _print_errors(lines), draw=lambda out: draw_errors(lines, out))


def _regrets(options: Options) -> Shown:
    from bandanna.papers.drawing_002 import draw_regrets
    from bandanna.papers.regret_002 import regrets

    found = regrets(**options.given("seeds", "horizon", "jobs", "progress"))
    return Shown(
        document={"rows": [each.row() for each in found]},
        table=lambda: _print_regrets(found),
        draw=lambda out: draw_regrets(found, out),
    )


def _tree(options: Options) -> Shown:
    from bandanna.papers.drawing_002 import draw_tree
    from bandanna.papers.tree_002 import batch_tree, batches

    given = options.given("horizon", "shufflers", "epsilon", "delta")
    tree = batch_tree(**given)
    document = {
        "horizon": tree.horizon,
        "shufflers": tree.levels,
        "degrees": list(tree.degrees),
        "batches": [batch.row() for batch in batches(tree)],
    }
    return Shown(document=document, table=lambda: _print_tree(tree), draw=lambda out: draw_tree(tree, out))


def _print_errors(lines: list[Line]) -> None:
    rows = []
    for line in lines:
        last = line.points[-1]
        rows.append(
            [
                line.kind.model if line.kind.k is None else f"{line.kind.model}, k = {line.kind.k}",
                line.kind.degrees or "-",
                number(line.points[0].std, ",.1f"),
                number(last.std, ",.1f"),
                f"{last.predicted_std:,.1f}",
                number(last.paper_rule_std, ",.1f"),
                number(last.lower_bound, ",.1f"),
                f"{last.worst_error:,.0f}",
                number(line.slope, ".3f"),
                "polylog" if line.kind.theory == 0 else f"{line.kind.theory:.3f}",
            ]
        )
    first, most = (lines[0].points[index].n for index in (0, -1))
    columns = ["degrees", "first std", "last std", "predicted", "eps/k rule", "bound", "largest", "slope", "theory"]
    caption = (
        f"std: noise of the worst prefix, measured, at n = {first:,} and {most:,}; eps/k rule: on the same tree;\n"
        "bound: order of Theorem 4.1's; largest: error of any prefix, users of unfinished batches included;\n"
        "slope: of log std in log n, fitted"
    )
    print_table(columns, rows, caption, first="model")


def _print_regrets(found: list[Outcome]) -> None:
    rows = [
        [
            each.entry.algorithm,
            each.entry.name,
            each.entry.batches,
            f"{each.batch:,}",
            f"{each.noise_std:,.0f}",
            f"{row['mean']:,.0f}",
            number(row["stderr"], ",.0f"),
            f"{each.ratio:.2f}",
            f"{row['epsilon']:.4g}",
        ]
        for each, row in ((each, each.row()) for each in found)
    ]
    columns = ["model", "batches", "users", "noise", "regret", "+-", "ratio", "epsilon"]
    caption = (
        "batches: those of the algorithm's paper, or ours, and their users; noise: std of the worst running sum;\n"
        "ratio: to the central one; epsilon: what the accountant proves"
    )
    print_table(columns, rows, caption)


def _print_tree(tree: BatchTree) -> None:
    from bandanna.papers.tree_002 import MOST_IN_TEXT, text

    if tree.horizon <= MOST_IN_TEXT:
        typer.echo(text(tree))
        typer.echo("[==] a batch, released with its last user; [. . never full, never released")
        return
    rows = [
        [str(level), f"{size:,}", f"{count:,}", f"{tree.horizon - count * size:,}"]
        for level, (size, count) in enumerate(zip(tree.sizes, tree.batches, strict=True), start=1)
    ]
    print_table(
        ["users in a batch", "batches", "users left over"], rows[::-1], "left over: never released", first="level"
    )
