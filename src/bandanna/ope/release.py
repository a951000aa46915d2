"""One private sum over everybody in a log: noise and price come together, from the protocol of a trust model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bandanna.accounting.guarantee import Guarantee
from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.core.domain import Statistic
from bandanna.mechanisms.sources import FastNoise, NoiseSource, SecureNoise
from bandanna.protocols.base import BatchProtocol
from bandanna.protocols.central_laplace import CentralLaplace
from bandanna.protocols.clear import Clear
from bandanna.protocols.local_unit import LocalUnit
from bandanna.protocols.opening import open_batch
from bandanna.protocols.trust import Privacy

PROTECTS = "what the log says of one person (context, arm, propensity, reward)"
_HOLDER = ("whoever holds the log", "every row, without noise")
_PUBLIC = ("everybody", "what is released, and the names of all arms")
_SEEDED = ("whoever knows the seed", "everything, because this is a test")


@dataclass(frozen=True, kw_only=True)
class Released:
    """A sum, the variance of the noise in each coordinate, and what is promised for it.

    variance  in every direction, or a bound on it where it depends on what is summed (`LocalUnit.std_along`)
    laplace   whether the noise is Laplace's; else it is normal, or as good as that
    """

    total: Floats  # (dim,)
    variance: float
    guarantee: Guarantee
    laplace: bool = False


def release(privacy: Privacy, statistic: Statistic, *, seed: Any, path: str) -> Released:
    """By the protocol of the trust model, calibrated for as many people; secure noise unless a seed is given."""
    protocol = open_batch(privacy.preferring("auto"), statistic.domain, statistic.users)
    source, way = _source(seed, path)
    estimate = protocol.release(statistic, source, path=way)
    along = protocol.std_along(statistic.users) if isinstance(protocol, LocalUnit) else 0.0
    return Released(
        total=estimate.total,
        variance=max(estimate.variance, along**2),
        guarantee=promised(protocol, seed is not None),
        laplace=isinstance(protocol, CentralLaplace),
    )


def promised(protocol: BatchProtocol, seeded: bool = False) -> Guarantee:
    """To the people in the log."""
    stated = protocol.guarantee
    observers = (_HOLDER, _PUBLIC, *((_SEEDED,) * seeded), *stated.observers)
    return replace(stated, protects=PROTECTS, observers=observers, one_process=False)  # the holder sees everything


def nothing_promised(statistic_of: Any) -> Guarantee:
    """Without privacy."""
    clear = Clear(domain=statistic_of).guarantee
    observers = (("everybody", "the estimate, computed without noise"),)
    return replace(clear, protects=PROTECTS, observers=observers, one_process=False)


def _source(seed: Any, path: str) -> tuple[NoiseSource, str]:
    require.one_of("path", path, ("messages", "law"))
    if seed is None:
        return SecureNoise(), "messages"
    number = require.whole("seed", seed, least=0, most=require.SEEDS)
    return FastNoise(np.random.default_rng(number)), path
