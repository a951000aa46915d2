"""Target policies of an evaluation."""

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
from bandanna.data.logs import Log, listed
from bandanna.data.replay import all_chances, check_fits
from bandanna.device.domain import all_finite, numbers, reals
from bandanna.errors import BandannaError, InvalidArgument, InvalidStatistic, Summary, did_you_mean, raise_alone
from bandanna.policies.base import Policy
from bandanna.storage.files import write_whole
from bandanna.types import Floats
from bandanna.validation import result_of

if TYPE_CHECKING:
    from bandanna.data.ope.intervals import Value


# What is evaluated: with which probability a policy gives every arm to everybody in the log.


_ROUNDING = 1e-6
_ALLOWED = (
    '"uniform", "arm:NAME", an agent, a pair (policy, snapshot), probabilities of the arms, or a function of contexts '
    "to probabilities (n, arms)"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Target:
    """`chances` (n, K), whose rows add up to 1; `constant` (K,): the same for everybody, and therefore public."""

    name: str
    chances: Floats
    constant: Floats | None = None

    @property
    def largest(self) -> float:
        """No probability is larger: public."""
        return 1.0 if self.constant is None else float(self.constant.max())

    @property
    def arm(self) -> int | None:
        """The arm that everybody is given, if there is one."""
        if self.constant is None or self.constant.max() < 1:
            return None
        return int(np.argmax(self.constant))


@dataclass(frozen=True, kw_only=True, eq=False)
class Learned:
    """A policy and what it has learned; the names of its arms, and the map of its records, where it has them."""

    policy: Policy[Any]
    snapshot: Any
    arms: tuple[Any, ...] | None = None
    features: Map | None = None

    def seen(self, log: Log) -> Log:
        """The log with its arms in the policy's order: by name, or as they are where nobody has named the policy's."""
        known = getattr(self.policy, "n_arms", None)
        if known is None or self.arms is None or self.arms == tuple(range(known)) != log.names:
            return log
        return log.ordered(self.arms)


def target_of(
    log: Log, given: Any, name: str = "target", progress: Callable[[int, int, str], None] | None = None
) -> Target:
    """The target that somebody means, for the people in a log; `progress` is told of how many of them it is known."""
    if isinstance(given, Target):
        return given
    if isinstance(given, str):
        return _named(log, given, name)
    if isinstance(given, Policy):
        allowed = "with what it has learned: an agent, or a pair (policy, snapshot)"
        raise InvalidArgument(name, type(given).__name__, allowed)
    if isinstance(getattr(given, "policy", None), Policy) and hasattr(given, "snapshot"):  # an agent
        arms = getattr(given, "arms", None)
        return _of_policy(log, Learned(policy=given.policy, snapshot=given.snapshot, arms=arms), name, progress)
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], Policy):
        return _of_policy(log, Learned(policy=given[0], snapshot=given[1]), name, progress)
    if callable(given):
        return Target(name=getattr(given, "__name__", name).strip("<>"), chances=_called(log, given, name))
    chances = reals(name, given, _ALLOWED)
    if chances.shape == (log.n_arms,):
        if chances.min() < -_ROUNDING or not abs(chances.sum() - 1) <= _ROUNDING:
            raise InvalidArgument(name, chances.tolist(), "probabilities >= 0 that add up to 1, one for each arm")
        constant = _checked(log, np.broadcast_to(chances, (len(log), log.n_arms)), name)[0].copy()
        return Target(name=name, chances=np.broadcast_to(constant, (len(log), log.n_arms)), constant=constant)
    return Target(name=name, chances=_checked(log, chances, name))


def _named(log: Log, given: str, name: str) -> Target:
    """Always one arm, or any of those that could be given."""
    n, arms = len(log), log.n_arms
    if given == "uniform":
        if log.eligible is not None:
            return Target(name="uniform", chances=log.eligible / log.eligible.sum(axis=1, keepdims=True))
        constant = np.full(arms, 1 / arms)
        return Target(name="uniform", chances=np.broadcast_to(constant, (n, arms)), constant=constant)
    known = [str(each) for each in log.names]
    if not given.startswith("arm:") or given[4:] not in known:
        near = did_you_mean(given, ["uniform", *(f"arm:{each}" for each in known if not log.found)])
        allowed = "arm:NAME" if given.startswith("arm:") else _ALLOWED
        raise InvalidArgument(name, given, f"{near}{allowed}, for one of {listed(known[:20], found=log.found)}")
    constant = np.zeros(arms)
    constant[known.index(given[4:])] = 1.0
    chances = _checked(log, np.broadcast_to(constant, (n, arms)), name)
    return Target(name=f"always {given[4:]}", chances=chances, constant=constant)


def _of_policy(log: Log, learned: Learned, name: str, progress: Callable[[int, int, str], None] | None) -> Target:
    called = type(learned.policy).__name__
    check_fits(learned.policy, log)
    seen = learned.seen(log)
    try:
        chances = all_chances(learned.policy, learned.snapshot, seen, progress)
    except TypeError:  # whose text may hold a user's value
        raise_alone(InvalidArgument(name, called, "a policy whose devices choose by its snapshot"))
    return Target(name=called, chances=chances[:, [seen.names.index(each) for each in log.names]])


def _called(log: Log, function: Any, name: str) -> Floats:
    made = result_of(name, function, log.contexts, _ALLOWED)
    arms = numbers(f"{name}(contexts)", made, _ALLOWED)
    if arms.shape == (len(log),) and arms.dtype.kind in "iu":
        if arms.min() < 0 or arms.max() >= log.n_arms:
            raise InvalidStatistic(f"{name}(contexts)", arms, f"arms from 0 to {log.n_arms - 1}")
        return _checked(log, np.eye(log.n_arms)[arms], f"{name}(contexts)")
    return _checked(log, reals(f"{name}(contexts)", arms, _ALLOWED), f"{name}(contexts)")


def _checked(log: Log, chances: Floats, name: str) -> Floats:
    """Probabilities, rows that add up to 1, nothing for arms that could not be given."""
    if chances.shape != (len(log), log.n_arms):
        raise InvalidStatistic(
            f"shape of {name}", Summary(chances.shape), f"({len(log)}, {log.n_arms}), events and arms"
        )
    all_finite(name, chances)
    sums = chances.sum(axis=1)
    least, fine = chances.min(axis=1), np.abs(sums - 1) <= _ROUNDING
    if least.min() < -_ROUNDING:
        row = int(np.argmax(least < -_ROUNDING))
        raise InvalidStatistic(f"{name}, row {row}", Summary("a number below 0"), "probabilities, none below 0")
    if not fine.all():
        row = int(np.argmin(fine))
        raise InvalidStatistic(f"{name}, row {row}", Summary("another sum"), "probabilities that add up to 1")
    if log.eligible is not None and np.any(chances[~log.eligible] > _ROUNDING):
        row = int(np.argmax(np.any((chances > _ROUNDING) & ~log.eligible, axis=1)))
        raise InvalidStatistic(f"{name}, row {row}", Summary("an arm that was not eligible"), "eligible arms only")
    return np.maximum(chances, 0.0)


# Policies that have learned something, where they are: an exported task, its analyzer's address, an agent's save.


_PLACES_ALLOWED = (
    'a target is "uniform", "arm:NAME", the folder of `bandanna task export`, its analyzer\'s address, or a saved agent'
)


def learned_at(place: str) -> Learned:
    """Policy and newest snapshot, arms and features: signed and verified where a task has published them."""
    if place.startswith(("http://", "https://")):
        from bandanna.deployment.task.document import analyzer_of, find_task
        from bandanna.deployment.task.export import newest

        task = find_task(place)
        return _of_task(task, newest(task, analyzer_of(task, place)).content)
    path = validation.path("target", place, folder=True)
    if path.is_dir():
        return _exported(path)
    if path.is_file():
        from bandanna.agent.agent import Agent

        agent = Agent.load(path, release="manual")
        return Learned(policy=agent.policy, snapshot=agent.snapshot, arms=agent.arms, features=agent.features)
    raise InvalidArgument(
        "target", place, f"there is no such file; {did_you_mean(path.name, _beside(path))}{_PLACES_ALLOWED}"
    )


def _beside(path: Path) -> list[str]:
    """What else is in its folder, and the words that are no files."""
    names = ["uniform"]
    with suppress(OSError):
        names += [each.name for each in islice(path.absolute().parent.iterdir(), 1000) if each.suffix != ".journal"]
    return names


def _exported(folder: Path) -> Learned:
    from bandanna.deployment.task.export import verified

    task, published = verified(folder)
    if not published:
        raise BandannaError(f"{folder} has no publications: fetch them with `bandanna task export`")
    return _of_task(task, published[-1].content)


def _of_task(task: Any, content: dict[str, Any]) -> Learned:
    from bandanna.policies.serialization import encoding_of

    snapshot, arms = encoding_of().loads(content["snapshot"]), task.arms
    return Learned(
        policy=task.policy, snapshot=snapshot, arms=None if arms is None else arms.ids, features=task.features
    )


# A value as a page: one HTML file with the numbers, the interval, and where log and target meet.


_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;color:#1b1b1b}"
    "table{border-collapse:collapse}td{padding:.2rem 1.2rem .2rem 0;vertical-align:top}"
    "td:last-child{font-variant-numeric:tabular-nums}pre{white-space:pre-wrap}svg{width:100%;height:auto}"
)
_WORDS = {
    "people": "people in the log",
    "effective_sample_size": "effective sample size",
    "sample_share": "... as a share of the people",
    "stderr": "standard error",
    "noise_std": "... of privacy's noise alone",
    "weight_bound": "weights are cut at",
    "clipped_mass": "probability that this hides, at most",
    "matched": "share of people whose arm the target may give",
    "mean_weight": "mean weight (1 where propensities are right)",
    "largest_weight": "largest weight",
    "weight_of_largest_percent": "share of all weight in the largest 1 %",
    "least_propensity": "least propensity",
}


def write_page(value: Value, path: str | PathLike[str]) -> None:
    """Whole or not at all."""
    text = page_of(value)
    write_whole(path, lambda beside: beside.write_text(text, encoding="utf-8", newline="\n"))


def page_of(value: Value) -> str:
    """The HTML."""
    told = value.diagnostics()
    rows = "".join(
        f"<tr><td>{escape(words)}</td><td>{_shown(told[name])}</td></tr>"
        for name, words in _WORDS.items()
        if name in told
    )
    histogram = told.get("histogram")
    if histogram is None:
        weights = "<p>How weights are distributed was not released: it would tell of people in the log.</p>"
    else:
        weights = f"<h2>Weights</h2>{_bars(histogram)}"
    first, *rest = str(value).splitlines()
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(value.target)}</title>'
        f"<style>{_STYLE}</style><h1>{escape(first)}</h1>{_interval(value)}<table>{rows}</table>{weights}"
        f"<h2>In words</h2><pre>{escape(chr(10).join(rest))}</pre></html>\n"
    )


def _shown(number: Any) -> str:
    """Counts in full, as are large numbers; others with four digits."""
    if number is None:
        return "not released, or unlimited"
    return f"{number:,.0f}" if isinstance(number, int) or abs(number) >= 1000 else f"{number:.4g}"


def _interval(value: Value) -> str:
    """A line over the range of rewards."""
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


def _bars(histogram: dict[str, Any]) -> str:
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
