"""Whether batches were announced as the task's policy means them: an analyzer need not be trusted with the plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bandanna.agent.kinds import encoding_of
from bandanna.errors import BandannaError, Unreadable
from bandanna.policies.base import Episode
from bandanna.tasks.asking import Planned
from bandanna.tasks.batches import batch_of
from bandanna.tasks.document import Task
from bandanna.wire.plan import Batch


def checked(task: Task, state: Any, episode: Episode, told: Batch) -> Planned:
    """The asks of an episode's batch; BandannaError if it was announced with less noise, or fewer people."""
    batch, plan = batch_of(
        task.policy, state, episode, epoch=told.epoch, mixer_count=task.mixers, seeded=task.seed is not None
    )
    if batch != told:
        raise BandannaError(f"batch {told.epoch} was announced with another plan than the task's policy has")
    return plan


def check_announced(task: Task, state: str, batches: Sequence[Batch]) -> None:
    """All batches of a publication, whose state is `state` as it was sent: the running one, and the one after it."""
    if not batches:
        return
    try:
        loaded = encoding_of().loads(state)
        episode = task.policy.episode(loaded)
        for place, told in enumerate(batches):
            if place:
                episode = None if episode is None else task.policy.following(episode)
            if episode is None:
                raise BandannaError(f"batch {told.epoch} was announced where the policy has none")
            checked(task, loaded, episode, told)
    except BandannaError:
        raise
    except Exception as error:  # a state that is none of this policy's fails anywhere
        raise Unreadable(f"a publication whose state is none of the policy's ({type(error).__name__})") from error
