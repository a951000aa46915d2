"""Protocols as targets: a batch or a stream, of which one user has either of two statistics that are farthest apart."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bandanna.accounting.budgets import ApproxDP, Budget, PureDP
from bandanna.audit.claims import Claim, claim_of
from bandanna.audit.neighbours import farthest
from bandanna.audit.releases import Release, Script
from bandanna.audit.spy import SOURCES
from bandanna.audit.targets import SINGLE, Target
from bandanna.audit.worst import worst
from bandanna.core import require
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

_UNSEEN = ("other positions and statistics", "later batches", "the secure noise source")


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
    scripts = [Script(releases=(each,)) for each in _releases(protocol, users=users, steps=steps)]
    stated = protocol.guarantee
    claimed = stated.epsilon if epsilon is None else epsilon
    at = stated.delta if delta is None else delta
    people = f"{users} users" if isinstance(protocol, BatchProtocol) else f"{steps} users of a stream"
    what = (
        f"the first, the middle and the last of {people}, with pairs of statistics as far apart as the domain is wide "
        "among others of the same, and with half of that distance among zeros",
        f"all fields of the estimates; noise of {SOURCES} sources, its scale, and noise used twice",
    )
    if (bare := next((each.bare for each in scripts if each.bare), None)) is not None:
        plain = Claim(epsilon=claimed, delta=at)
        return Target(name=name or protocol.name, claim=plain, leaks=bare[1], why=bare[0], looked=what, unseen=_UNSEEN)
    script = scripts[worst(scripts, epsilon=claimed, delta=at)]
    return Target(
        name=name or protocol.name,
        claim=claim_of(protocol.event, epsilon=claimed, delta=at),
        draw=script.draw,
        scored=script.scored,
        chunk=script.chunk,
        mu=script.mu,
        pure=script.pure,
        pairs=script.pairs,
        most=SINGLE if script.alone else None,
        looked=what,
        unseen=_UNSEEN,
    )


def _releases(protocol: Protocol, *, users: int, steps: int) -> list[Release]:
    """Neighbours: three positions, with the farthest statistics; and the first with one of them, or the origin."""
    one, two = farthest(protocol.domain)
    origin = np.broadcast_to(protocol.domain.origin, one.shape)
    count = users if isinstance(protocol, BatchProtocol) else steps
    places = dict.fromkeys((0, count // 2, count - 1))
    pairs = [(place, one, two) for place in places] + [(0, one, np.array(origin, dtype=float))]
    releases = []
    for place, mine, other in pairs:
        batch = np.tile(other, (count, 1))
        changed = np.array(batch)
        changed[place] = mine
        if isinstance(protocol, BatchProtocol):
            releases.append(Release(protocol=protocol, one=(changed,), two=(batch,)))
        else:
            rows = [tuple(each[step : step + 1] for step in range(count)) for each in (changed, batch)]
            releases.append(Release(protocol=protocol, one=rows[0], two=rows[1]))
    return releases


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
