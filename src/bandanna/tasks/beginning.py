"""The first batches of a task, planned before anybody has come: what cannot run is found out when it is made."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from bandanna.core.arm_sets import FixedArms
from bandanna.core.estimate import Estimate
from bandanna.errors import InvalidArgument
from bandanna.loop import close
from bandanna.policies.base import Ask, Policy
from bandanna.protocols.clear.rows import ClearRows
from bandanna.tasks.asking import users_of
from bandanna.tasks.batches import batch_of, check_deployable
from bandanna.wire.plan import Batch

_ANSWERS = (0.25, 0.0)  # tried one after the other, so that what overflows is found; the last one is gone on from


def first_batches(
    policy: Policy[Any], arms: FixedArms | None, *, mixers: int, seeded: bool, most: int = 2
) -> tuple[Batch, ...]:
    """At most so many; what is learned between them comes from answers that are all zero."""
    check_deployable(policy)
    state, found = _begun(policy, arms), list[Batch]()
    while len(found) < most and (episode := policy.episode(state)) is not None:
        made, _ = batch_of(policy, state, episode, epoch=len(found), mixer_count=mixers, seeded=seeded)
        found.append(made)
        if len(found) == most or not episode.released:
            break
        after = [close(policy.learn(state, episode), partial(_all, each, users_of(episode))) for each in _ANSWERS]
        state = after[-1]
    return tuple(found)


def _all(value: float, users: int, ask: Ask) -> Estimate:
    """An answer as if everybody had reported this number everywhere."""
    rows = isinstance(ask.protocol, ClearRows)
    shape = (*(users,) * rows, ask.protocol.domain.dim)
    return Estimate(total=np.full(shape, value if rows else value * users), count=users, variance=1.0)


def _begun(policy: Policy[Any], arms: FixedArms | None) -> Any:
    try:
        return policy.init(None if arms is None else arms.features)
    except InvalidArgument as error:
        if arms is None and error.argument.startswith("arms"):
            allowed = "a table [arms] with features = { name = [numbers], ... }: it plans with arms that stay"
            raise InvalidArgument("arms", None, f"{type(policy).__name__} needs {allowed}") from error
        raise
