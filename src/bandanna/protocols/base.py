"""What every protocol is: statistics in a declared domain, through randomizer, shuffler and analyzer, to a private sum.

One folder per protocol, one file per role that does something; a role without a file passes on what it gets.
`messages` is the path that a deployment runs, message by message; `law`, for simulation, draws the aggregate directly
from the same law.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandanna.accounting.budgets import ApproxDP, Budget
from bandanna.accounting.events import Event
from bandanna.accounting.guarantee import Guarantee
from bandanna.core import require
from bandanna.core.domain import Domain, Statistic
from bandanna.core.estimate import Estimate
from bandanna.device.noise import noise_source
from bandanna.errors import InsecureSource, InvalidArgument
from bandanna.mechanisms.sources import Draws, NoiseSource

Floats = NDArray[np.float64]

FLOAT_BITS = 64
PROTECTS = "a user's statistic (features and rewards)"


@dataclass(frozen=True, kw_only=True)
class Protocol(ABC):
    """A calibrated protocol; `delta` is where its guarantee is stated, `participations` how often a user takes part."""

    domain: Domain
    participations: int = 1
    delta: float = 1e-6

    name: ClassVar[str]

    def __post_init__(self) -> None:
        a_domain(self.domain)
        require.store(self, require.whole, "participations")
        object.__setattr__(self, "delta", require.delta(self.delta))

    @property
    @abstractmethod
    def event(self) -> Event:
        """What one participation releases, for the accountant."""

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What is promised, to whom, against whom; computed for what runs."""

    @property
    def bits_per_user(self) -> int:
        """Size of one user's message."""
        return FLOAT_BITS * self.domain.dim

    def draws(self, users: int) -> Draws:
        """What a release of a batch of so many users takes at most, for estimates of its time."""
        return Draws(numbers=users * self.domain.dim)

    def admit(self, statistics: Statistic | ArrayLike, *, clip: bool = True) -> Statistic:
        """Statistics that are known to lie in the domain: clipped and counted here, unless that was done before."""
        if not isinstance(statistics, Statistic):
            return self.domain.admit(statistics, clip=clip)
        return self.domain.readmit(statistics, clip=clip)


@dataclass(frozen=True, kw_only=True)
class BatchProtocol(Protocol):
    """A protocol that turns each batch of users into one estimate of their sum, independently of other batches."""

    @abstractmethod
    def std(self, users: int) -> float:
        """Standard deviation of each coordinate of a batch's sum, rounding included."""

    def randomize(self, statistic: Statistic, source: NoiseSource) -> Any:
        """Device: a user's message; the plain statistic unless the protocol says otherwise."""
        return statistic.rows()

    def shuffle(self, messages: Any, source: NoiseSource) -> Any:
        """Shuffler: what the analyzer gets to see; the messages themselves unless the protocol says otherwise."""
        return messages

    @abstractmethod
    def analyze(self, view: Any, source: NoiseSource) -> Estimate:
        """Analyzer: the estimate of the batch's sum."""

    @abstractmethod
    def law(self, statistic: Statistic, source: NoiseSource) -> Estimate:
        """The estimate drawn from its aggregate law, the same as along the messages."""

    def release(
        self, statistics: Statistic | ArrayLike, source: NoiseSource, *, path: str = "messages", clip: bool = True
    ) -> Estimate:
        """One batch, shape (..., users, dim), to an estimate of its sum, shape (..., dim).

        Leading axes are independent replicates. path="messages" runs every message, path="law" is the simulator's way.
        """
        checked_path(path, source)
        statistic = self.admit(statistics, clip=clip)
        self.check_users(statistic.users)
        if path == "law":
            return self.law(statistic, source)
        return self.analyze(self.shuffle(self.randomize(statistic, source), source), source)

    def check_users(self, users: int) -> None:
        """Whether a batch of this size may be released; any size unless the protocol's noise belongs to one."""


@dataclass(frozen=True, kw_only=True)
class StreamProtocol(Protocol):
    """A protocol for a whole stream of users: estimates of the sum of everybody so far, priced as one release.

    `begin` gives a state and `release` the next one with the new estimate; states are values, nothing is changed in
    place. Whoever restarts a stream from an old state must return the stored release instead of drawing again.
    """

    @abstractmethod
    def prefix_std(self) -> Floats:
        """Standard deviation of each coordinate of the estimate after every step; known in advance."""

    @abstractmethod
    def begin(self, replicates: tuple[int, ...] = ()) -> Any:
        """The state before the first user."""

    @abstractmethod
    def release(
        self,
        state: Any,
        statistics: Statistic | ArrayLike,
        source: NoiseSource,
        *,
        path: str = "messages",
        clip: bool = True,
    ) -> tuple[Any, Estimate]:
        """One more step, (..., users, dim): the next state and the estimate of everything released so far."""

    @abstractmethod
    def prefixes(
        self, statistics: Statistic | ArrayLike, source: NoiseSource, *, path: str = "messages", clip: bool = True
    ) -> Floats:
        """A whole stream at once: (..., users, dim) -> estimates after every single user, (..., users, dim)."""


def checked_path(path: str, source: NoiseSource) -> str:
    """One of the two paths; the simulator's is refused to a secure source."""
    require.one_of("path", path, ("messages", "law"))
    if noise_source(source).secure and path == "law":
        raise InsecureSource('path="law" is a shortcut for simulation; a secure source runs path="messages"')
    return path


def a_domain(domain: Domain) -> Domain:
    """A domain, or an error that says what one is."""
    if not isinstance(domain, Domain):
        raise InvalidArgument("domain", domain, "a Domain: LinearReport, Ball or Box")
    return domain


def exact_batch(calibrated: int, users: int) -> None:
    """The noise of a shuffle protocol belongs to one batch size."""
    if require.whole("users", users) != calibrated:
        raise InvalidArgument("batch", users, f"{calibrated} users, for which the noise is calibrated: recalibrate")


def stated_delta(budget: Budget) -> float:
    """Where a protocol calibrated for this budget states its (epsilon, delta): the budget's own delta, or 1e-6."""
    return budget.delta if isinstance(budget, ApproxDP) else 1e-6
