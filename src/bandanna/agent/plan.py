"""The public schedule: to which batch a decision belongs, and by which protocol that batch is released."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from bandanna.accounting.events import Event
from bandanna.policies.anytime import Anytime
from bandanna.policies.linucb import LinUCB
from bandanna.protocols.channel import Channel

Policy = LinUCB | Anytime


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Decisions begin, ..., begin + users - 1; a last batch that is too short is not `released`."""

    number: int
    begin: int
    users: int
    event: Event
    streams: int = 1  # which continual release of this price it is in
    released: bool = True

    @property
    def end(self) -> int:
        """The first decision after it."""
        return self.begin + self.users


class Plan:
    """All batches of a policy, in order; an anytime policy has no last one."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._batches: list[Batch] = []
        self._phases = 0
        self._begun: Counter[Event] = Counter()  # continual releases, one in each phase
        self._extend()

    def batch(self, number: int) -> Batch | None:
        """The batch of that number, counted from 0; None beyond the horizon."""
        while number >= len(self._batches):
            if self._phases and isinstance(self._policy, LinUCB):
                return None
            self._extend()
        return self._batches[number]

    def _extend(self) -> None:
        """Append the batches of one more phase; a policy with a horizon has one."""
        channel = channel_of(self._policy, self._phases)
        events = {size: protocol.event for size, protocol in channel.protocols.items()}
        begin = self._batches[-1].end if self._batches else 0
        streams = 1
        if channel.continual is not None:
            self._begun[channel.continual.event] += 1
            streams = self._begun[channel.continual.event]
        for size in channel.sizes:
            number = len(self._batches)
            self._batches.append(Batch(number=number, begin=begin, users=size, event=events[size], streams=streams))
            begin += size
        if isinstance(self._policy, LinUCB) and begin < self._policy.horizon:
            last, left = self._batches[-1], self._policy.horizon - begin
            rest = Batch(number=len(self._batches), begin=begin, users=left, event=last.event, released=False)
            self._batches.append(rest)
        self._phases += 1


def channel_of(policy: Policy, phase: int) -> Channel:
    """The calibrated protocols of a phase; a policy with a horizon has one phase."""
    return policy.phase(phase).channel if isinstance(policy, Anytime) else policy.channel
