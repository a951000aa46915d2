"""Sums of gradients as asks: what the two private policies share."""

from __future__ import annotations

import math
from collections.abc import Generator

from bandanna.accounting.budgets import Budget
from bandanna.core.arrays import Floats
from bandanna.core.estimate import Estimate
from bandanna.errors import InvalidArgument, InvalidBudget
from bandanna.glm.descent import Points
from bandanna.policies.base import Ask
from bandanna.protocols.base import BatchProtocol
from bandanna.protocols.trust import Privacy


def asked(
    points: Points, protocol: BatchProtocol, *, of: str = "episode", step: int = 1, part: str | None = None
) -> Generator[Ask, Estimate, Floats]:
    """The points of a descent as asks about `of`, numbered from `step` on; the estimate that it ends with."""
    try:
        point = next(points)
        while True:
            released = yield Ask(protocol=protocol, at=point, of=of, step=step, part=part)
            point, step = points.send(released.total), step + 1
    except StopIteration as found:
        return found.value  # type: ignore[no-any-return]


def finite_budget(privacy: Privacy, kinds: tuple[type[Budget], ...], allowed: str) -> None:
    """Refuse what these policies do not have: other budgets, none at all, returning users, printed constants."""
    if not isinstance(privacy.budget, kinds) or math.isinf(getattr(privacy.budget, "epsilon", 0.0)):
        raise InvalidBudget("privacy", privacy.budget, allowed)
    if privacy.participations != 1:
        raise InvalidArgument("participations", privacy.participations, "1: a user takes part once")
    for name, own in (("calibration", "tight"), ("protocol", "binomial")):
        if getattr(privacy, name) != own:
            raise InvalidArgument(name, getattr(privacy, name), f"{own!r}: this policy has no other")
