"""To which episode a decision belongs: by count, never by who answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from bandanna.policies.base import Assigned, Episode, Frozen, Policy, Until


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Decisions begin, ..., begin + users - 1 are the rounds of an episode.

    number   of the episode
    end      the first decision after it
    clients  how many people answer for all its rounds; None: every round has its own user
    """

    episode: Episode
    begin: int
    users: int
    number: int = field(init=False, repr=False, compare=False)
    end: int = field(init=False, repr=False, compare=False)
    clients: int | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        clients = self.episode.clients if isinstance(self.episode, Assigned) else None
        vars(self).update(number=self.episode.number, end=self.begin + self.users, clients=clients)


def batch_of(episode: Episode | None, begin: int) -> Batch | None:
    """An episode from a decision on; one that public numbers end is as long as it may become."""
    if episode is None:
        return None
    assert isinstance(episode, Frozen | Until | Assigned)
    return Batch(episode=episode, begin=begin, users=episode.users)


def following(policy: Policy[Any], batch: Batch) -> Batch | None:
    """The batch that fills while this one waits for late rewards; None where it depends on what will be learned."""
    episode, number = policy.following(batch.episode), batch.number + 1
    if policy.every_round and (policy.horizon is None or number < policy.horizon):
        episode = Frozen(number=number, users=1)
    return batch_of(episode, batch.end)
