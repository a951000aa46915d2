"""The public schedule: to which batch a decision belongs, and by which protocol that batch is released."""

from __future__ import annotations

from dataclasses import dataclass

from bandanna.accounting.events import Event
from bandanna.core.sizes import Sizes
from bandanna.policies.linear.anytime import Anytime
from bandanna.policies.linear.linucb import LinUCB
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
class _Phase:
    """The batches of one channel: what is the same for all of them."""

    number: int  # of the first batch
    begin: int  # the first decision
    sizes: Sizes
    events: dict[int, Event]  # by size
    stream: Event | None  # the continual release, if it is one
    streams: int

    @property
    def end(self) -> int:
        """The number of the first batch after it."""
        return self.number + len(self.sizes)

    def batch(self, number: int) -> Batch:
        """One of its batches."""
        place = number - self.number
        size, begin = self.sizes[place], self.begin + self.sizes.before(place)
        return Batch(number=number, begin=begin, users=size, event=self.events[size], streams=self.streams)


class Plan:
    """All batches of a policy, computed when they are asked for; an anytime policy has no last one."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._phases: tuple[_Phase, ...] = ()
        self._phases = (self._next(),)

    def batch(self, number: int) -> Batch | None:
        """The batch of that number, counted from 0; None beyond the horizon."""
        while number >= self._phases[-1].end:
            if isinstance(self._policy, LinUCB):
                return self._rest(self._policy.horizon) if number == self._phases[-1].end else None
            self._phases = (*self._phases, self._next())  # at once: an interrupt leaves no half of a phase
        return next(phase for phase in reversed(self._phases) if phase.number <= number).batch(number)

    def _rest(self, horizon: int) -> Batch | None:
        """What is left of the horizon after the last batch; it is not released."""
        last = self._phases[-1].batch(self._phases[-1].end - 1)
        left = horizon - last.end
        rest = Batch(number=last.number + 1, begin=last.end, users=left, event=last.event, released=False)
        return rest if left else None

    def _next(self) -> _Phase:
        """The phase after those that are known; a policy with a horizon has one."""
        channel = channel_of(self._policy, len(self._phases))
        stream = None if channel.continual is None else channel.continual.event
        last = self._phases[-1] if self._phases else None
        return _Phase(
            number=last.end if last else 0,
            begin=last.begin + last.sizes.users if last else 0,
            sizes=channel.sizes,
            events={size: protocol.event for size, protocol in channel.protocols.items()},
            stream=stream,
            streams=1 + sum(stream is not None and before.stream == stream for before in self._phases),
        )


def channel_of(policy: Policy, phase: int) -> Channel:
    """The calibrated protocols of a phase; a policy with a horizon has one phase."""
    return policy.phase(phase).channel if isinstance(policy, Anytime) else policy.channel
