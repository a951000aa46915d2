"""The command `evaluate`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from bandanna.cli.terminal import ProgressBar

METHODS = ("snips", "ips")
_DELTA = 1e-5


def evaluate(
    log: Annotated[Path, typer.Argument(help="The log, a CSV or Parquet file with a row for each decision.")],
    target: Annotated[
        list[str],
        typer.Option(
            help="What to evaluate: uniform, arm:NAME, the folder of `bandanna task export`, an analyzer's address, or "
            "a saved agent. Several are compared on one budget.",
            metavar="TARGET",
        ),
    ],
    arm: Annotated[str, typer.Option(help="Column with the arm that was given.")] = "arm",
    arms: Annotated[
        str | None,
        typer.Option(help="The names of all arms, with commas between them: public, and needed with --epsilon."),
    ] = None,
    reward: Annotated[str, typer.Option(help="Column with its reward.")] = "reward",
    propensity: Annotated[
        str,
        typer.Option(
            help="Column with its probability; where arms were given at random by design a number, or A=0.5,B=0.25,..."
        ),
    ] = "propensity",
    success: Annotated[
        str | None, typer.Option(help="What a column of words says of those whose reward is 1; it is 0 for others.")
    ] = None,
    context: Annotated[
        str,
        typer.Option(help="Columns with a user's features, with commas between them; not for a target that has a map."),
    ] = "",
    reward_range: Annotated[
        str | None, typer.Option("--range", help="Public bounds of rewards, LOW,HIGH; others are cut to them.")
    ] = None,
    floor: Annotated[float | None, typer.Option(help="Public: the least probability of any arm, by design.")] = None,
    weight_bound: Annotated[float | None, typer.Option(help="Weights are cut at this number.")] = None,
    method: Annotated[str, typer.Option(help="snips or ips.")] = "snips",
    epsilon: Annotated[float | None, typer.Option(help="Privacy budget epsilon > 0; without it there is none.")] = None,
    delta: Annotated[
        float | None, typer.Option(help="Privacy budget delta in [0, 1); with --epsilon.  [default: 1e-05]")
    ] = None,
    trust: Annotated[
        str | None, typer.Option(help="Who adds the noise: central (the default), shuffle or local; with --epsilon.")
    ] = None,
    page: Annotated[Path | None, typer.Option(help="Write a page about the value, an HTML file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a report.")] = False,
) -> None:
    """Estimate the mean reward that a policy would earn, with an interval; private where --epsilon says so.

    With --epsilon, noise from the operating system is drawn once: to run it again is to spend the budget again.
    """
    from bandanna import ope, validation
    from bandanna.cli.terminal import check_file
    from bandanna.data.logs import Log
    from bandanna.data.ope.targets import load_learned_policy, to_target_policy
    from bandanna.data.tables import parse_cell, parse_propensity
    from bandanna.errors import InvalidArgument

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
    with ProgressBar(shown=True) as bar:  # on standard error
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
    """Return the names of a learned policy's arms, of which a log may lack some; None if they have no names."""
    named = [each.arms for each in targets if getattr(each, "arms", None) and each.arms != tuple(range(len(each.arms)))]
    return named[0] if named else None


def _resolve_context(columns: str, targets: Iterable[Any]) -> Any:
    """Return the named columns, or the feature map of the targets."""
    from bandanna.errors import InvalidArgument, ValueSummary

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
    from bandanna import validation
    from bandanna.errors import InvalidArgument
    from bandanna.protocols import privacy_model

    chosen = validation.one_of("--trust", trust or "central", ("central", "shuffle", "local"))
    if epsilon is not None:
        return getattr(privacy_model, chosen)(epsilon=epsilon, delta=_DELTA if delta is None else delta)
    for option, value in (("--trust", trust), ("--delta", delta)):
        if value is not None:
            raise InvalidArgument("--epsilon", None, f"given together with {option}")
    return None


def _parse_pair(text: str) -> Any:
    """Read LOW,HIGH."""
    from bandanna.errors import InvalidArgument

    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise InvalidArgument("--range", text, "two numbers LOW,HIGH") from None
    return low, high
