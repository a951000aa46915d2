"""The first batches of a task, planned before anybody has come: what cannot run is found out when it is made."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from bandanna.agent.arms import FixedArms
from bandanna.core.estimate import Estimate
from bandanna.errors import InvalidArgument
from bandanna.loop import close
from bandanna.policies.base import Ask, Policy
from bandanna.protocols.clear.rows import ClearRows
from bandanna.tasks.asking import users_of
from bandanna.tasks.batches import batch_of, check_deployable
from bandanna.wire.plan import Batch


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
        state = close(policy.learn(state, episode), partial(_zero, users=users_of(episode)))
    return tuple(found)


def _zero(ask: Ask, *, users: int) -> Estimate:
    """An answer as if everybody had reported nothing."""
    shape = (users,) * isinstance(ask.protocol, ClearRows)
    return Estimate(total=np.zeros((*shape, ask.protocol.domain.dim)), count=users, variance=1.0)


def _begun(policy: Policy[Any], arms: FixedArms | None) -> Any:
    try:
        return policy.init(None if arms is None else arms.features)
    except InvalidArgument as error:
        if arms is None and error.argument.startswith("arms"):
            allowed = "a table [arms] with features = { name = [numbers], ... }: it plans with arms that stay"
            raise InvalidArgument("arms", None, f"{type(policy).__name__} needs {allowed}") from error
        raise
