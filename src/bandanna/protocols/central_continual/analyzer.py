"""Analyzer of the continual protocol: the trusted server's stream."""

from __future__ import annotations

from dataclasses import dataclass

from bandanna.core.domain import Statistic
from bandanna.core.estimate import Estimate
from bandanna.core.sums import exact_sum
from bandanna.mechanisms.continual import ContinualGaussian, State
from bandanna.mechanisms.sources import NoiseSource


@dataclass(frozen=True, kw_only=True)
class Running:
    """The stream so far, and how many users are in it."""

    stream: State
    count: int


def analyze(
    state: Running, statistic: Statistic, mechanism: ContinualGaussian, source: NoiseSource, *, path: str
) -> tuple[Running, Estimate]:
    """Add the step's sum to the stream: statistics of (..., users, dim) -> prefix estimate (..., dim).

    The stream is of statistics minus the domain's public origin. People's are summed without rounding errors, which
    could tell a user apart; simulations do without, and only they may group users.
    """
    origin = statistic.domain.origin
    if source.secure or (path == "messages" and statistic.counts is None):
        total, rest = exact_sum(statistic.rows() - origin, statistic.domain.reach)
        stream, prefix = mechanism.step(state.stream, total, source, rest=rest)
    else:
        stream, prefix = mechanism.step(state.stream, statistic.total() - statistic.users * origin, source)
    following = Running(stream=stream, count=state.count + statistic.users)
    variance = float(mechanism.variances[stream.step - 1])
    return following, Estimate(total=prefix + following.count * origin, count=following.count, variance=variance)
