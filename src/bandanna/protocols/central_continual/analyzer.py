"""Analyzer of the continual protocol: the trusted server's stream."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bandanna.core.estimate import Estimate
from bandanna.mechanisms.continual import ContinualGaussian, State
from bandanna.mechanisms.sources import NoiseSource


@dataclass(frozen=True, kw_only=True)
class Running:
    """The stream so far, and how many users are in it."""

    stream: State
    count: int


def analyze(
    state: Running, statistics: NDArray[np.float64], mechanism: ContinualGaussian, source: NoiseSource
) -> tuple[Running, Estimate]:
    """Add the step's sum to the stream: (..., users, dim) -> prefix estimate (..., dim)."""
    stream, prefix = mechanism.step(state.stream, np.sum(statistics, axis=-2), source)
    following = Running(stream=stream, count=state.count + statistics.shape[-2])
    variance = float(mechanism.prefix_variance(stream.step))
    return following, Estimate(total=prefix, count=following.count, variance=variance)
