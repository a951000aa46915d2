"""Comparison of several targets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bandanna import validation
from bandanna.data.logs import Log
from bandanna.data.ope.estimators import mean_law, value_from_sums
from bandanna.data.ope.intervals import DifferenceLaw, EstimateLaw, Value, interval_ends
from bandanna.data.ope.sums import (
    WeightedLog,
    WeightedSums,
    check_privacy,
    exact_sums,
    read_sums,
    release_sum,
    weigh_known_target,
)
from bandanna.data.ope.targets import TargetPolicy, to_target_policy
from bandanna.device.weighted_report import ImportanceWeightDomain
from bandanna.errors import InvalidArgument
from bandanna.privacy.guarantee import Guarantee
from bandanna.protocols.privacy_model import Privacy
from bandanna.types import Floats
from bandanna.validation import checked_keywords

_MOST = 1_000


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The values of several targets, by name, from one release.

    exclusive  each target always gives another arm

    Without privacy: terms (3, n, J), what everybody contributes to each estimate with the logged reward, and with the
    least and the largest one instead.
    """

    values: dict[str, Value]
    method: str = "snips"
    exclusive: bool
    terms: Floats | None = field(default=None, repr=False, compare=False)

    @property
    def guarantee(self) -> Guarantee:
        """What is promised for all of them together."""
        return next(iter(self.values.values())).guarantee

    @property
    def best(self) -> str:
        """The target with the largest estimate."""
        return max(self.values, key=lambda name: self.values[name].estimate)

    def __getitem__(self, name: str) -> Value:
        if name not in self.values:
            raise InvalidArgument("name", name, f"one of {', '.join(self.values)}")
        return self.values[name]

    def difference(self, one: str, other: str, level: float = 0.95) -> tuple[float, float, float]:
        """How much more `one` earns than `other`: estimate, and the ends of an interval that covers it.

        Without privacy, and of exclusive targets, it knows how the two estimates vary together. Of other targets this
        is not released, and the interval covers the worst case. Each interval covers with the level by itself, not all
        of several together.
        """
        first, second = self[one], self[other]
        level = validation.open_probability("level", level)
        span = first.reward_range[1] - first.reward_range[0]
        law = self._law(one, other)
        low, high = interval_ends(law, (first.hidden, second.hidden.turned()), level)
        estimate = law.estimate
        return span * estimate, span * min(max(low, -1.0), estimate), span * max(min(high, 1.0), estimate)

    def _law(self, one: str, other: str) -> EstimateLaw:
        first, second = self[one].law, self[other].law
        if self.terms is not None:
            places = list(self.values)
            terms, least, most = self.terms[..., places.index(one)] - self.terms[..., places.index(other)]
            far, mean = np.concatenate([least, most]), np.mean(terms)
            law = mean_law(terms, (float(mean - np.min(far)), float(np.max(far) - mean)))
            return replace(law, value=first.estimate - second.estimate)
        shared = 0.0
        if self.method == "ips":  # a person who weighs for one arm does not for the other: a covariance of -mean mean/n
            product = (first.estimate - 0.5) * (second.estimate - 0.5)
            shared = math.sqrt(2 * max(product, 0.0) / self[one].people)
        return DifferenceLaw(first=first, second=second, apart=self.exclusive, shared=shared)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "best": self.best,
            "values": {name: value.to_dict() for name, value in self.values.items()},
            "guarantee": self.guarantee.to_dict(),
        }

    def __str__(self) -> str:
        """One line for each target, the best first, and the guarantee."""
        ranked = sorted(self.values.items(), key=lambda pair: -pair[1].estimate)
        width = max(len(name) for name in self.values)
        lines = [f"{name:<{width}}  {value.summary()}" for name, value in ranked]
        return "\n".join([*lines, str(self.guarantee)])


@checked_keywords("bd.ope.compare")
def compare(
    log: Log,
    targets: Any,
    *,
    weight_bound: float | None = None,
    privacy: Privacy | None = None,
    method: str = "snips",
    seed: int | None = None,
    path: str = "messages",
) -> Comparison:
    """What each of several targets would earn, on one budget: a list, or names with targets.

    method  "snips" or "ips"; the other arguments are those of `ips`
    """
    if not isinstance(log, Log):
        raise InvalidArgument("log", type(log).__name__, "a bd.Log: bd.Log.from_frame(...)")
    validation.one_of("method", method, ("snips", "ips"))
    trust, named = check_privacy(privacy), _name_targets(log, targets)
    cases = {name: weigh_known_target(log, target, weight_bound, trust) for name, target in named.items()}
    arms = [target.arm for target in named.values()]
    exclusive = None not in arms and len(set(arms)) == len(arms)
    if not trust.noisy:
        sums = {name: exact_sums(case) for name, case in cases.items()}
    else:
        sums = _release_all(cases, trust, exclusive, seed, path)
    values = {name: value_from_sums(method, cases[name], sums[name], seed) for name in cases}
    shared: dict[str, Any] = {"values": values, "method": method, "exclusive": exclusive}
    if trust.noisy:
        return Comparison(**shared)
    return Comparison(
        **shared, terms=np.stack([_first_order_terms(method, cases[name], values[name]) for name in cases], axis=-1)
    )


def _name_targets(log: Log, targets: Any) -> dict[str, TargetPolicy]:
    if isinstance(targets, Mapping):
        pairs = [(str(name), target) for name, target in targets.items()]
    else:
        some = validation.list_entries("targets", targets, "several targets: a list, or names with targets")
        pairs = [(each if isinstance(each, str) else f"target {place}", each) for place, each in enumerate(some)]
    if not 1 <= len(pairs) <= _MOST or len({name for name, _ in pairs}) != len(pairs):
        raise InvalidArgument("targets", f"{len(pairs)} targets", f"1 to {_MOST:,} targets, all different")
    return {name: to_target_policy(log, target, f"targets[{name!r}]") for name, target in pairs}


def _release_all(
    cases: dict[str, WeightedLog], trust: Privacy, exclusive: bool, seed: Any, path: str
) -> dict[str, WeightedSums]:
    """One release of all, each by its own bound."""
    domain = ImportanceWeightDomain(bound=1.0, targets=len(cases), moments=True, exclusive=exclusive)
    weights = np.stack([case.weights / case.bound for case in cases.values()], axis=-1)
    first = next(iter(cases.values()))
    released = release_sum(trust, domain.statistic(weights, first.rewards), seed=seed, path=path)
    parts = domain.unpack(released.total)
    sums = {}
    for place, (name, case) in enumerate(cases.items()):
        powers = case.bound ** np.array([1.0, 1.0, 2.0, 2.0, 2.0])[: parts.shape[-1]]
        sums[name] = read_sums(case, parts[place] * powers, released, domain.units * powers)
    return sums


def _first_order_terms(method: str, case: WeightedLog, value: Value) -> Floats:
    """What everybody contributes to an estimate, to first order: with their rewards, with 0 and with 1, (3, n)."""
    low, high = case.log.reward_range
    centre, weights = value.law.estimate, case.weights
    if method == "ips":
        centre = -low / (high - low)
    elif np.any(weights > 0):
        weights = weights / np.mean(weights)
    rewards = np.stack([case.rewards, np.zeros(case.people), np.ones(case.people)])
    return np.asarray(weights * (rewards - centre))
