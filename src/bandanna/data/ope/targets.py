"""Target policies of an evaluation: given by name, as probabilities, or learned; and a value as an HTML page."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bandanna import validation
from bandanna.data.features.map import Map
from bandanna.data.logs import Log, list_arms
from bandanna.data.replay import all_action_probabilities, check_log_fits
from bandanna.device.domain import check_all_finite, read_numeric_array, read_real_array
from bandanna.errors import (
    BandannaError,
    InvalidArgument,
    InvalidStatistic,
    ValueSummary,
    did_you_mean,
    raise_without_context,
)
from bandanna.policies.base import Policy
from bandanna.storage.files import replace_file
from bandanna.types import Floats
from bandanna.validation import call_with_user_data

if TYPE_CHECKING:
    from bandanna.data.ope.intervals import Value


# Targets


_ROUNDING = 1e-6
_ALLOWED = (
    '"uniform", "arm:NAME", an agent, a pair (policy, snapshot), probabilities of the arms, or a function of contexts '
    "to probabilities (n, arms)"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class TargetPolicy:
    """The probabilities `chances`, (n, K), with which a target gives every arm to every user in the log.

    `constant`, (K,), is set if they are the same for all users, and therefore public. `query` describes the target by
    public values, or is None.
    """

    name: str
    chances: Floats
    constant: Floats | None = None
    query: str | None = None

    @property
    def largest(self) -> float:
        """A public upper bound of all probabilities."""
        return 1.0 if self.constant is None else float(self.constant.max())

    @property
    def arm(self) -> int | None:
        """The arm that all users are given, None if there is none."""
        if self.constant is None or self.constant.max() < 1:
            return None
        return int(np.argmax(self.constant))


@dataclass(frozen=True, kw_only=True, eq=False)
class LearnedPolicy:
    """A policy and its newest snapshot, with arm names and feature map if known."""

    policy: Policy[Any]
    snapshot: Any
    arms: tuple[Any, ...] | None = None
    features: Map | None = None

    def seen(self, log: Log) -> Log:
        """Return the log with its arms in the policy's order, by name if the policy's arms have names."""
        known = getattr(self.policy, "n_arms", None)
        if known is None or self.arms is None or self.arms == tuple(range(known)) != log.names:
            return log
        return log.ordered(self.arms)


def to_target_policy(
    log: Log, given: Any, name: str = "target", progress: Callable[[int, int, str], None] | None = None
) -> TargetPolicy:
    """Return the target's probabilities for the users in a log, reporting `progress`."""
    if isinstance(given, TargetPolicy):
        return given
    if isinstance(given, str):
        return _target_by_name(log, given, name)
    if isinstance(given, Policy):
        allowed = "an agent, or a pair (policy, snapshot) with what the policy has learned"
        raise InvalidArgument(name, type(given).__name__, allowed)
    if isinstance(getattr(given, "policy", None), Policy) and hasattr(given, "snapshot"):  # an agent
        arms = getattr(given, "arms", None)
        return _target_from_policy(
            log, LearnedPolicy(policy=given.policy, snapshot=given.snapshot, arms=arms), name, progress
        )
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], Policy):
        return _target_from_policy(log, LearnedPolicy(policy=given[0], snapshot=given[1]), name, progress)
    if callable(given):
        return TargetPolicy(
            name=getattr(given, "__name__", name).strip("<>"), chances=_target_from_function(log, given, name)
        )
    chances = read_real_array(name, given, _ALLOWED)
    if chances.shape == (log.n_arms,):
        if chances.min() < -_ROUNDING or not abs(chances.sum() - 1) <= _ROUNDING:
            raise InvalidArgument(name, chances.tolist(), "probabilities >= 0 that add up to 1, one for each arm")
        constant = _check_target(log, np.broadcast_to(chances, (len(log), log.n_arms)), name)[0].copy()
        return TargetPolicy(
            name=name,
            chances=np.broadcast_to(constant, (len(log), log.n_arms)),
            constant=constant,
            query=repr(constant.tolist()),
        )
    return TargetPolicy(name=name, chances=_check_target(log, chances, name))


def _target_by_name(log: Log, given: str, name: str) -> TargetPolicy:
    n, arms = len(log), log.n_arms
    if given == "uniform":
        if log.eligible is not None:
            return TargetPolicy(
                name="uniform", chances=log.eligible / log.eligible.sum(axis=1, keepdims=True), query="uniform"
            )
        constant = np.full(arms, 1 / arms)
        return TargetPolicy(
            name="uniform",
            chances=np.broadcast_to(constant, (n, arms)),
            constant=constant,
            query=repr(constant.tolist()),
        )
    known = [str(each) for each in log.names]
    if not given.startswith("arm:") or given[4:] not in known:
        near = did_you_mean(given, ["uniform", *(f"arm:{each}" for each in known if not log.found)])
        allowed = "arm:NAME" if given.startswith("arm:") else _ALLOWED
        raise InvalidArgument(name, given, f"{allowed}, with one of {list_arms(known[:20], found=log.found)}", near)
    constant = np.zeros(arms)
    constant[known.index(given[4:])] = 1.0
    chances = _check_target(log, np.broadcast_to(constant, (n, arms)), name)
    return TargetPolicy(name=f"always {given[4:]}", chances=chances, constant=constant, query=repr(constant.tolist()))


def _target_from_policy(
    log: Log, learned: LearnedPolicy, name: str, progress: Callable[[int, int, str], None] | None
) -> TargetPolicy:
    called = type(learned.policy).__name__
    check_log_fits(learned.policy, log)
    seen = learned.seen(log)
    try:
        chances = all_action_probabilities(learned.policy, learned.snapshot, seen, progress)
    except TypeError:  # whose text may hold a user's value
        raise_without_context(InvalidArgument(name, called, "a policy whose devices choose by its snapshot"))
    chances = chances[:, [seen.names.index(each) for each in log.names]]
    return TargetPolicy(name=called, chances=chances, query=_describe_policy(learned))


def _describe_policy(learned: LearnedPolicy) -> str | None:
    from bandanna.policies.registry import make_encoding

    with suppress(Exception):  # a policy of the caller has no stored form
        return repr((make_encoding().dumps((learned.policy, learned.snapshot)), learned.arms))
    return None


def _target_from_function(log: Log, function: Any, name: str) -> Floats:
    made = call_with_user_data(name, function, log.contexts, _ALLOWED)
    arms = read_numeric_array(f"{name}(contexts)", made, _ALLOWED)
    if arms.shape == (len(log),) and arms.dtype.kind in "iu":
        if arms.min() < 0 or arms.max() >= log.n_arms:
            raise InvalidStatistic(f"{name}(contexts)", arms, f"arms from 0 to {log.n_arms - 1}")
        return _check_target(log, np.eye(log.n_arms)[arms], f"{name}(contexts)")
    return _check_target(log, read_real_array(f"{name}(contexts)", arms, _ALLOWED), f"{name}(contexts)")


def _check_target(log: Log, chances: Floats, name: str) -> Floats:
    if chances.shape != (len(log), log.n_arms):
        raise InvalidStatistic(
            f"shape of {name}", ValueSummary(chances.shape), f"({len(log)}, {log.n_arms}): events, arms"
        )
    check_all_finite(name, chances)
    sums = chances.sum(axis=1)
    least, fine = chances.min(axis=1), np.abs(sums - 1) <= _ROUNDING
    if least.min() < -_ROUNDING:
        row = int(np.argmax(least < -_ROUNDING))
        raise InvalidStatistic(f"{name}, row {row}", ValueSummary("a negative number"), "probabilities >= 0")
    if not fine.all():
        row = int(np.argmin(fine))
        raise InvalidStatistic(f"{name}, row {row}", ValueSummary("another sum"), "probabilities that add up to 1")
    if log.eligible is not None and np.any(chances[~log.eligible] > _ROUNDING):
        row = int(np.argmax(np.any((chances > _ROUNDING) & ~log.eligible, axis=1)))
        raise InvalidStatistic(f"{name}, row {row}", ValueSummary("an arm that was not eligible"), "eligible arms only")
    return np.maximum(chances, 0.0)


# Learned policies: an exported task, its analyzer's address, or an agent's save


_PLACES_ALLOWED = (
    '"uniform", "arm:NAME", the folder of `bandanna task export`, its analyzer\'s address, or a saved agent'
)


def load_learned_policy(place: str) -> LearnedPolicy:
    """Load policy, newest snapshot, arms and features; publications of a task are verified."""
    if place.startswith(("http://", "https://")):
        from bandanna.deployment.task.document import find_analyzer_url, find_task
        from bandanna.deployment.task.export import fetch_newest

        task = find_task(place)
        return _learned_from_task(task, fetch_newest(task, find_analyzer_url(task, place)).content)
    path = validation.path("target", place, folder=True)
    if path.is_dir():
        return _load_exported(path)
    if path.is_file():
        from bandanna.agent.agent import Agent

        agent = Agent.load(path, release="manual")
        return LearnedPolicy(policy=agent.policy, snapshot=agent.snapshot, arms=agent.arms, features=agent.features)
    raise InvalidArgument("target", place, _PLACES_ALLOWED, did_you_mean(path.name, _read_beside(path)))


def _read_beside(path: Path) -> list[str]:
    names = ["uniform"]
    with suppress(OSError):
        names += [each.name for each in islice(path.absolute().parent.iterdir(), 1000) if each.suffix != ".journal"]
    return names


def _load_exported(folder: Path) -> LearnedPolicy:
    from bandanna.deployment.task.export import verify_folder

    task, published = verify_folder(folder)
    if not published:
        raise BandannaError(f"{folder} has no publications: fetch them with `bandanna task export`")
    return _learned_from_task(task, published[-1].content)


def _learned_from_task(task: Any, content: dict[str, Any]) -> LearnedPolicy:
    from bandanna.policies.registry import make_encoding

    snapshot, arms = make_encoding().loads(content["snapshot"]), task.arms
    return LearnedPolicy(
        policy=task.policy, snapshot=snapshot, arms=None if arms is None else arms.ids, features=task.features
    )


# Pages


_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;color:#1b1b1b}"
    "table{border-collapse:collapse}td{padding:.2rem 1.2rem .2rem 0;vertical-align:top}"
    "td:last-child{font-variant-numeric:tabular-nums}pre{white-space:pre-wrap}svg{width:100%;height:auto}"
)
_WORDS = {
    "people": "users in the log",
    "effective_sample_size": "effective sample size",
    "sample_share": "... as a share of the users",
    "stderr": "standard error",
    "noise_std": "standard deviation of the privacy noise",
    "weight_bound": "weights are clipped at",
    "clipped_mass": "probability that clipping hides, at most",
    "matched": "share of users whose arm the target may give",
    "mean_weight": "mean weight (1 where propensities are right)",
    "largest_weight": "largest weight",
    "weight_of_largest_percent": "share of all weight in the largest 1 %",
    "least_propensity": "least propensity",
}


def write_page(value: Value, path: str | PathLike[str]) -> None:
    """Write the page atomically."""
    text = render_value_page(value)
    replace_file(path, lambda beside: beside.write_text(text, encoding="utf-8", newline="\n"))


def render_value_page(value: Value) -> str:
    """Return an estimate as an HTML page."""
    numbers = value.diagnostics()
    rows = "".join(
        f"<tr><td>{escape(words)}</td><td>{_format_count(numbers[name])}</td></tr>"
        for name, words in _WORDS.items()
        if name in numbers
    )
    histogram = numbers.get("histogram")
    if histogram is None:
        weights = "<p>The distribution of weights is not released, because it would reveal users of the log.</p>"
    else:
        weights = f"<h2>Weights</h2>{_draw_bars(histogram)}"
    first, *rest = str(value).splitlines()
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(value.target)}</title>'
        f"<style>{_STYLE}</style><h1>{escape(first)}</h1>{_draw_interval(value)}<table>{rows}</table>{weights}"
        f"<h2>In words</h2><pre>{escape(chr(10).join(rest))}</pre></html>\n"
    )


def _format_count(number: Any) -> str:
    if number is None:
        return "not released, or unlimited"
    return f"{number:,.0f}" if isinstance(number, int) or abs(number) >= 1000 else f"{number:.4g}"


def _draw_interval(value: Value) -> str:
    low, high = value.reward_range

    def place(reward: float) -> float:
        return 10 + 780 * min(max((reward - low) / (high - low), 0.0), 1.0)

    left, right = (place(end) for end in value.interval())
    middle = place(value.estimate) if math.isfinite(value.estimate) else left
    return (
        '<svg viewBox="0 0 800 60" role="img" aria-label="interval">'
        '<line x1="10" x2="790" y1="30" y2="30" stroke="#bbb"/>'
        f'<rect x="{left:.1f}" y="22" width="{max(right - left, 1.0):.1f}" height="16" fill="#8fb8de"/>'
        f'<circle cx="{middle:.1f}" cy="30" r="6" fill="#1b4f82"/>'
        f'<text x="10" y="56" font-size="14">{low:g}</text>'
        f'<text x="790" y="56" font-size="14" text-anchor="end">{high:g}</text></svg>'
    )


def _draw_bars(histogram: dict[str, Any]) -> str:
    counts, edges = histogram["counts"], histogram["edges"]
    tallest, width = max(*counts, 1), 780 / len(counts)
    bars = "".join(
        f'<rect x="{10 + i * width:.1f}" y="{110 - 100 * count / tallest:.1f}" width="{width - 2:.1f}" '
        f'height="{100 * count / tallest:.1f}" fill="#8fb8de"><title>{edges[i]:.3g} to {edges[i + 1]:.3g}: {count:,}'
        "</title></rect>"
        for i, count in enumerate(counts)
    )
    return (
        f'<svg viewBox="0 0 800 135" role="img" aria-label="histogram of weights">{bars}'
        f'<text x="10" y="130" font-size="14">{edges[0]:g}</text>'
        f'<text x="790" y="130" font-size="14" text-anchor="end">{edges[-1]:.3g}</text></svg>'
    )
