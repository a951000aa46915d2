"""The public schedule: to which batch a decision belongs, and by which protocol that batch is released."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

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


@dataclass(frozen=True, kw_only=True)
class _Phases:
    """The batches of the first `number` phases, and how many continual releases of each price these have begun."""

    number: int = 0
    batches: tuple[Batch, ...] = ()
    begun: Mapping[Event, int] = field(default_factory=dict)


class Plan:
    """All batches of a policy, in order; an anytime policy has no last one."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._known = self._longer(_Phases())

    def batch(self, number: int) -> Batch | None:
        """The batch of that number, counted from 0; None beyond the horizon."""
        while number >= len(self._known.batches):
            if isinstance(self._policy, LinUCB):
                return None
            self._known = self._longer(self._known)  # at once: an interrupt leaves no half of a phase
        return self._known.batches[number]

    def _longer(self, known: _Phases) -> _Phases:
        """With the batches of one more phase; a policy with a horizon has one."""
        channel = channel_of(self._policy, known.number)
        events = {size: protocol.event for size, protocol in channel.protocols.items()}
        batches, begun, streams = list(known.batches), Counter(known.begun), 1
        if channel.continual is not None:
            begun[channel.continual.event] += 1
            streams = begun[channel.continual.event]
        begin = batches[-1].end if batches else 0
        for size in channel.sizes:
            batches.append(Batch(number=len(batches), begin=begin, users=size, event=events[size], streams=streams))
            begin += size
        if isinstance(self._policy, LinUCB) and begin < self._policy.horizon:
            last, left = batches[-1], self._policy.horizon - begin
            batches.append(Batch(number=len(batches), begin=begin, users=left, event=last.event, released=False))
        return _Phases(number=known.number + 1, batches=tuple(batches), begun=begun)


def channel_of(policy: Policy, phase: int) -> Channel:
    """The calibrated protocols of a phase; a policy with a horizon has one phase."""
    return policy.phase(phase).channel if isinstance(policy, Anytime) else policy.channel
