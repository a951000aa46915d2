"""Protocols as targets: a batch or a stream, of which one user has either of two statistics that are farthest apart."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bandanna.accounting.budgets import ApproxDP, Budget, PureDP
from bandanna.audit.claims import Claim, claim_of
from bandanna.audit.neighbours import farthest
from bandanna.audit.releases import Release, Script
from bandanna.audit.targets import CLEAR, Target
from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.core.domain import Ball
from bandanna.protocols import (
    CentralContinual,
    CentralGaussian,
    CentralLaplace,
    ConcurrentShuffle,
    LocalBits,
    LocalGaussian,
    LocalUnit,
    ShuffleBinomial,
    ShuffleBits,
    ShuffleGaussian,
)
from bandanna.protocols.base import BatchProtocol, Protocol
from bandanna.protocols.local_bits.signs import LocalSigns

BATCH, STEPS = 8, 8


def of_protocol(
    protocol: Protocol,
    *,
    name: str | None = None,
    users: int = BATCH,
    steps: int = STEPS,
    epsilon: float | None = None,
    delta: float | None = None,
) -> Target:
    """A protocol at its stated guarantee, or at an epsilon that somebody claims, for one participation.

    The others have the neighbour's statistic: among equal reports one that is not is seen best.
    """
    one, two = farthest(protocol.domain)
    batch = np.tile(two, (users, 1))
    changed = np.concatenate([one[None], batch[1:]])
    if isinstance(protocol, BatchProtocol):
        release = Release(protocol=protocol, one=(changed,), two=(batch,))
    else:
        rest: tuple[Floats, ...] = (batch[:1],) * (steps - 1)
        release = Release(protocol=protocol, one=(changed[:1], *rest), two=(batch[:1], *rest))
    stated = protocol.guarantee
    script = Script(releases=(release,))
    claimed = stated.epsilon if epsilon is None else epsilon
    at = stated.delta if delta is None else delta
    if script.leaks is not None:
        return Target(name=name or protocol.name, claim=Claim(epsilon=claimed, delta=at), leaks=script.leaks, why=CLEAR)
    return Target(
        name=name or protocol.name,
        claim=claim_of(protocol.event, epsilon=claimed, delta=at),
        draw=script.draw,
        scored=script.scored,
        chunk=script.chunk,
        mu=script.mu,
        pure=script.pure,
        pairs=script.pairs,
    )


def _budget(epsilon: float, delta: float) -> Budget:
    return ApproxDP(epsilon=epsilon, delta=delta)


_BALL = Ball(dim=2)
PROTOCOLS: dict[str, Callable[[float, float], Protocol]] = {
    "central_gaussian": lambda e, d: CentralGaussian.calibrate(domain=_BALL, budget=_budget(e, d)),
    "central_laplace": lambda e, d: CentralLaplace.calibrate(domain=_BALL, budget=PureDP(epsilon=e)),
    "central_continual": lambda e, d: CentralContinual.calibrate(domain=_BALL, budget=_budget(e, d), horizon=STEPS),
    "local_gaussian": lambda e, d: LocalGaussian.calibrate(domain=_BALL, budget=_budget(e, d)),
    "local_bits": lambda e, d: LocalBits.calibrate(budget=PureDP(epsilon=e)),
    "local_signs": lambda e, d: LocalSigns.calibrate(domain=_BALL, budget=PureDP(epsilon=e)),
    "local_unit": lambda e, d: LocalUnit.calibrate(domain=Ball(dim=3), budget=PureDP(epsilon=e)),
    "shuffle_gaussian": lambda e, d: ShuffleGaussian.calibrate(domain=_BALL, budget=_budget(e, d), batch=BATCH),
    "shuffle_binomial": lambda e, d: ShuffleBinomial.calibrate(domain=_BALL, budget=_budget(e, d), batch=BATCH),
    "shuffle_bits": lambda e, d: ShuffleBits.calibrate(budget=_budget(e, d), batch=BATCH),
    "concurrent_shuffle": lambda e, d: ConcurrentShuffle.calibrate(domain=_BALL, budget=_budget(e, d), horizon=STEPS),
}


def protocol_target(name: str, *, epsilon: float, delta: float) -> Target:
    """A protocol by its name, calibrated for a budget: at the guarantee that it states."""
    require.one_of("protocol", name, tuple(PROTOCOLS))
    return of_protocol(PROTOCOLS[name](epsilon, delta), name=name)
