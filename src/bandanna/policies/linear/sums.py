"""What policies on running linear sums share: a schedule, a channel, one ask a batch, an estimate of its answers.

Subclasses say how they estimate (`estimate`) and choose (`act`); everything that is released is released here.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.guarantee import Guarantee
from bandanna.core import require
from bandanna.core.arrays import Bools, Floats, Ints
from bandanna.core.coins import Coins, NoCoins
from bandanna.core.domain import Statistic
from bandanna.core.estimate import Estimate
from bandanna.core.regression import Regression
from bandanna.core.report import LinearReport
from bandanna.core.sizes import Sizes
from bandanna.device.choosing import Chooser
from bandanna.device.telling import Regressed
from bandanna.errors import InvalidArgument
from bandanna.policies.base import Ask, Frozen, Played, RunningSums
from bandanna.policies.linear.schedules import FixedBatches, Schedule
from bandanna.protocols.channel import Channel, open_channel
from bandanna.protocols.trust import Privacy
from bandanna.storage.declared import stored_as


class Published:
    """All that a device needs to act; public, because it is computed from releases only."""


@stored_as("LinearState")
@dataclass(frozen=True, kw_only=True)
class State:
    """What was released: the sum of the reports of so many batches, and what follows from it. R = replicate axes."""

    total: Floats  # (*R, dim)
    batches: int
    repairs: Ints  # (*R): how often a released matrix had to be made positive
    snapshot: Published


@dataclass(frozen=True, kw_only=True)
class LinearSums(RunningSums[State]):
    """A policy with `dim` features over `horizon` rounds that learns from released sums of (x y, x x^T)."""

    trusts = ("none", "central", "local", "shuffle", "concurrent")
    dim: int
    horizon: int
    privacy: Privacy
    batch: int | str | Schedule | None = None

    @property
    @abstractmethod
    def choose(self) -> Chooser:
        """How devices choose from a snapshot."""

    @cached_property
    def tell(self) -> Regressed:
        """How devices report what came of it."""
        return Regressed()

    @property
    @abstractmethod
    def schedule(self) -> Schedule:
        """When the policy learns."""

    @abstractmethod
    def estimate(self, total: Floats, batches: int) -> tuple[Any, NDArray[np.int64]]:
        """A snapshot from the released sums (*R, dim) of so many batches, and which matrices were repaired (*R)."""

    @property
    def span(self) -> int:
        """How many rounds are planned for."""
        return self.horizon

    @property
    def spends(self) -> Privacy:
        """What batches are calibrated for."""
        return self.privacy

    def again(self, doublings: int) -> Self:
        """The same policy for a later phase of an anytime one: a horizon that was doubled so often."""
        return replace(self, horizon=self.horizon << doublings)

    @cached_property
    def domain(self) -> Regression:
        """Reports of x y and x x^T, y in [0, 1]."""
        return LinearReport(features=self.dim, isometric=self.privacy.isometric)

    @cached_property
    def channel(self) -> Channel:
        """The calibrated protocols for the schedule."""
        return open_channel(self.spends, domain=self.domain, sizes=self._sizes)

    @cached_property
    def _sizes(self) -> Sizes:
        sizes = self.schedule.sizes(self.span)
        if not len(sizes):
            raise InvalidArgument("batch", self.batch, f"a first batch of at most the horizon, {self.horizon} rounds")
        return sizes

    @property
    def guarantee(self) -> Guarantee:
        """What is promised, to whom, against whom."""
        return self.channel.guarantee

    @property
    def bits_per_user(self) -> int:
        """The longest message."""
        return self.channel.bits_per_user

    def phases(self) -> Iterator[Self]:
        """Itself alone."""
        yield self

    def calibrated(self) -> dict[int, Channel]:
        """Its own, if it was needed."""
        return {0: self.channel} if "channel" in vars(self) else {}

    def recalibrate(self, phase: int, channel: Channel) -> None:
        """Where its cached property looks first."""
        vars(self).setdefault("channel", channel)

    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> State:
        """Nothing released yet."""
        total = np.zeros((*replicates, self.domain.dim))
        snapshot, repairs = self.estimate(total, 0)
        return State(total=total, batches=0, repairs=repairs, snapshot=snapshot)

    def episode(self, state: State) -> Frozen | None:
        """The next batch of the schedule, then what is left of the horizon; None when there is nothing left."""
        return self._episode(state.batches)

    def following(self, episode: Frozen) -> Frozen | None:
        """The schedule is public."""
        return self._episode(episode.number + 1)

    def _episode(self, number: int) -> Frozen | None:
        sizes = self.channel.sizes
        if number < len(sizes):
            return Frozen(number=number, users=sizes[number])
        left = self.span - sizes.users
        return Frozen(number=number, users=left, released=False) if left and number == len(sizes) else None

    def publish(self, state: State) -> Any:
        """The estimate after the batches so far, and how sure it is."""
        return state.snapshot

    def report(self, ask: Ask, played: Played, coins: Coins) -> Statistic:
        """The report of the arm that was given."""
        assert played.features is not None
        arms = played.arms
        if arms is not None and played.answered is not None:
            arms = np.where(played.answered, arms, -1)  # whose report is nothing
        return self.statistic(played.features, played.rewards, arms)

    def statistic(self, features: Floats, rewards: Floats, arms: Ints | None = None) -> Statistic:
        """Reports (*R, n, dim); those whose features or reward had to be clipped are counted."""
        return self.tell.statistic(self.domain, features, rewards, arms, NoCoins())

    def centred(self, rewards: Floats) -> tuple[Floats, Bools]:
        """Rewards as they are reported, and which had to be clipped to [0, 1]."""
        return self.tell.centred(rewards)

    def learn(self, state: State, episode: Frozen) -> Generator[Ask, Estimate, State]:
        """One batch, by the protocol of its size."""
        return self.learned(state, (yield self.ask(episode)))

    def ask(self, episode: Frozen) -> Ask:
        """For the sum of a batch; of a stream, for that of everybody so far."""
        return Ask(protocol=self.channel.protocols[episode.users])

    def learned(self, state: State, released: Estimate) -> State:
        """The state after one more release; a matrix that noise made indefinite is repaired, counted, reported."""
        total = released.total if self.channel.stream is not None else state.total + released.total
        batches = state.batches + 1
        snapshot, repaired = self.estimate(total, batches)
        used = self._episode(batches) is not None  # after the last round nobody asks for the snapshot
        return State(total=total, batches=batches, repairs=state.repairs + used * repaired, snapshot=snapshot)

    def counts(self, state: State) -> dict[str, Ints]:
        """How often a released matrix was repaired."""
        return {"repairs": state.repairs}

    def fixed_batches(self, size: Any) -> FixedBatches:
        """Batches of so many users, as `batch` says it by a number."""
        least = 2 if self.privacy.model in ("shuffle", "concurrent") else 1
        if require.whole("batch", size, least=least) > self.span:
            raise InvalidArgument("batch", size, f"at most the horizon, {self.horizon} rounds")
        return FixedBatches(size=size)

    def check_batch(self, *, endless: bool = False) -> None:
        """The arguments that all of them have; `endless`: a horizon may be None."""
        require.store(self, require.whole, "dim", most=1_000)
        if not endless or self.horizon is not None:
            require.store(self, require.whole, "horizon", most=10**20)  # phases of an anytime policy double
        self.check_trust()
