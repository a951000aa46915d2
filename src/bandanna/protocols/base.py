"""Interfaces of protocols: `BatchProtocol` sums one batch, `StreamProtocol` a growing stream.

A deployment runs device, mixer and analyzer in separate processes; `release` with path="messages" runs the same code
in one process. path="law" draws the estimate directly from its distribution, for simulations only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from bandanna import validation
from bandanna.device.base import Device, Messages
from bandanna.device.domain import Bits, Domain, Estimate, Statistic
from bandanna.device.noise import NoiseSource, ReleaseCost, check_noise_source
from bandanna.device.randomizers import PlainVector
from bandanna.device.samplers import count_words
from bandanna.errors import InsecureSource, InvalidArgument
from bandanna.privacy.budgets import ApproxDP, Budget
from bandanna.privacy.calibration import BinomialNoise
from bandanna.privacy.events import Event
from bandanna.privacy.guarantee import Guarantee, compute_guarantee
from bandanna.protocols.mixers import (
    COIN_SOURCES,
    Analyzer,
    GatheringMixer,
    Mixer,
    check_enough_users,
    describe_shuffler_view,
)
from bandanna.types import Floats

FLOAT_BITS = 64
PROTECTS = "a user's statistic (features and rewards)"


@dataclass(frozen=True, kw_only=True)
class Protocol(ABC):
    """A calibrated protocol: device, mixer and analyzer turn users' statistics into a sum.

    Parameters
    ----------
    domain
        Set of the statistics that a user may have.
    participations
        Largest number of batches (for streams: steps) with the same user.
    delta
        Delta at which the guarantee states epsilon.
    """

    domain: Domain
    participations: int = 1
    delta: float = 1e-6

    name: ClassVar[str]
    trust: ClassVar[str]
    composed: ClassVar[bool] = True  # an event for each participation; False: one event covers all of them
    hides_group_size: ClassVar[bool] = False  # True: a sum hides how many users are in it, at a Gaussian price

    def __post_init__(self) -> None:
        check_domain(self.domain)
        validation.set_validated(self, validation.integer, "participations")
        object.__setattr__(self, "delta", validation.delta(self.delta))

    @property
    @abstractmethod
    def event(self) -> Event:
        """Return the event of one participation, for the accountant."""

    @property
    def local_event(self) -> Event | None:
        """Return the shuffler's view of one user, or None without a shuffler."""
        return None

    @property
    def exposed(self) -> float:
        """Return the probability that a shuffler is certain about a user."""
        return 0.0

    @property
    @abstractmethod
    def observers(self) -> tuple[tuple[str, str], ...]:
        """Each party, and what it sees."""

    @cached_property
    def guarantee(self) -> Guarantee:
        """Return epsilon and delta against each party, for the noise that is drawn."""
        return compute_guarantee(
            self.event,
            delta=self.delta,
            trust=self.trust,
            protects="a user's bit" if isinstance(self.domain, Bits) else PROTECTS,
            participations=self.participations,
            composed=self.composed,
            observers=self.observers,
            local=self.local_event,
            exposed=self.exposed,
        )

    @property
    @abstractmethod
    def device(self) -> Device:
        """Return the device's randomizer."""

    @property
    @abstractmethod
    def mixer(self) -> Mixer:
        """Return the shuffler, or the server's first step."""

    @property
    @abstractmethod
    def analyzer(self) -> Analyzer:
        """Turns what the mixer forwards into estimates."""

    @property
    def bits_per_user(self) -> int:
        """Size of one user's message."""
        return FLOAT_BITS * self.domain.dim

    def draws(self, users: int) -> ReleaseCost:
        """Return the most random numbers that a batch takes, to predict run times."""
        return ReleaseCost(numbers=users * self.domain.dim)

    def admit(self, statistics: Statistic | ArrayLike, *, clip: bool = True) -> Statistic:
        """Return statistics in the domain: clip raw arrays, and check a `Statistic`."""
        if not isinstance(statistics, Statistic):
            return self.domain.admit(statistics, clip=clip)
        return self.domain.check_statistic(statistics)


@dataclass(frozen=True, kw_only=True)
class BatchProtocol(Protocol):
    """A protocol that estimates each batch's sum independently of other batches.

    Parameters
    ----------
    domain, delta
        As for `Protocol`.
    participations
        Largest number of batches with the same user. More of them need more noise.
    """

    @abstractmethod
    def std(self, users: int) -> float:
        """Return the standard deviation of each coordinate of a batch's sum, rounding included."""

    @abstractmethod
    def law(self, statistic: Statistic, source: NoiseSource) -> Estimate:
        """Draw the estimate directly, distributed as along the messages."""

    @property
    def sums_only(self) -> bool:
        """Whether the estimate's distribution depends on the exact sum alone, for `release_total`."""
        return False

    @property
    def laplace(self) -> tuple[float, float] | None:
        """Scale of Laplace noise in lattice steps, and the step; None for sub-Gaussian noise."""
        return None

    @property
    def rounds_each_row(self) -> bool:
        """Whether each statistic is rounded separately, so that the estimate depends on more than the sum."""
        return False

    def release_total(self, total: Floats, users: int, source: NoiseSource) -> Estimate:
        """Draw the estimate for an exact sum (..., dim), as `release` would, for simulations."""
        raise InsecureSource(f"{self.name} needs every user's statistic")

    def release(
        self, statistics: Statistic | ArrayLike, source: NoiseSource, *, path: str = "messages", clip: bool = True
    ) -> Estimate:
        """Estimate the sum of one batch.

        Parameters
        ----------
        statistics
            Shape (..., users, dim). Leading axes are independent replicates.
        source
            Source of the noise.
        path
            "messages" runs every message. "law" draws the estimate directly and refuses a secure source.
        clip
            True: clip statistics to the domain. False: refuse statistics outside.

        Returns
        -------
        Estimate
            Its total has shape (..., dim).
        """
        check_path(path, source)
        statistic = self.admit(statistics, clip=clip)
        self.check_users(statistic.users)
        if path == "law":
            return self.law(statistic, source)
        return self.release_messages(self.device.message(statistic, source), source)

    def release_messages(self, messages: Messages, source: NoiseSource) -> Estimate:
        """Mix and analyze a complete batch of messages (..., users, length)."""
        held = self.mixer.drawn(self.mixer.add(self.mixer.empty(messages.shape[:-2]), messages), source)
        return self.analyzer.analyze(self.analyzer.begin(messages.shape[:-2]), self.mixer.close(held), source)[1]

    def check_users(self, users: int) -> None:
        """Refuse a batch of fewer users than the noise is calibrated for."""


@dataclass(frozen=True, kw_only=True)
class ShuffledCountsProtocol(BatchProtocol):
    """A batch protocol whose shuffler adds integer counts with binomial noise.

    Parameters
    ----------
    noise
        Lattice and coins, calibrated for `noise.users` users.
    coins
        The party that draws the coins, as in `CountingMixer`, at the same price. With "mixer", the shuffler sees every
        statistic and is trusted to draw, and a hostile client cannot pass off chosen numbers as noise.
    """

    noise: BinomialNoise
    coins: str = "device"

    trust: ClassVar[str] = "shuffle"
    view_words: ClassVar[tuple[str, str, str]] = ("counts", "statistic", "the totals of a batch")

    def __post_init__(self) -> None:
        super().__post_init__()
        validation.integer("batch", self.noise.users, least=2)
        validation.one_of("coins", self.coins, COIN_SOURCES)

    @property
    def batch(self) -> int:
        """Least number of users."""
        return self.noise.users

    @property
    def observers(self) -> tuple[tuple[str, str], ...]:
        counts, statistic, totals = self.view_words
        view = describe_shuffler_view(self.coins, counts, statistic)
        return (("the shuffler", view), ("the analyzer and the public", totals))

    def draws(self, users: int) -> ReleaseCost:
        dim, trials = self.domain.dim, self.noise.trials
        words = count_words(users * trials) if self.coins == "mixer" else users * count_words(trials)
        return ReleaseCost(words=dim * words, numbers=users * dim)

    def check_users(self, users: int) -> None:
        check_enough_users(self.batch, users)


@dataclass(frozen=True, kw_only=True)
class StreamProtocol(Protocol):
    """A protocol for a stream of users: each release estimates the sum so far, and all releases have one price.

    States are immutable and join what the mixer holds with what the analyzer holds. After a restart from an old state,
    return the stored release: a second draw would be a second release.

    Parameters
    ----------
    domain, delta
        As for `Protocol`.
    participations
        Largest number of steps of the stream with the same user. More of them need more noise.
    """

    @abstractmethod
    def prefix_std(self) -> Floats:
        """Return the standard deviation per coordinate after every step."""

    @abstractmethod
    def begin(self, replicates: tuple[int, ...] = ()) -> Any:
        """Return the state before the first user."""

    @abstractmethod
    def parted(self, state: Any) -> tuple[Any, Any]:
        """Split a state into mixer's and analyzer's parts."""

    @abstractmethod
    def joined(self, held: Any, analyzed: Any) -> Any:
        """Join both parts to a state."""

    @abstractmethod
    def check_users(self, state: Any, users: int) -> None:
        """Refuse a foreign state, and users beyond the stream's room."""

    @abstractmethod
    def law(self, state: Any, statistic: Statistic, source: NoiseSource) -> tuple[Any, Estimate]:
        """Draw the next step directly, distributed as along the messages."""

    def release(
        self,
        state: Any,
        statistics: Statistic | ArrayLike,
        source: NoiseSource,
        *,
        path: str = "messages",
        clip: bool = True,
    ) -> tuple[Any, Estimate]:
        """Add one step of users and estimate the sum of the whole stream.

        Parameters
        ----------
        state
            What `begin` or the last `release` returned.
        statistics
            Shape (..., users, dim).
        source, path, clip
            As in `BatchProtocol.release`.

        Returns
        -------
        tuple
            The next state, and the `Estimate` of the whole stream.
        """
        check_path(path, source)
        statistic = self.admit(statistics, clip=clip)
        self.check_users(state, statistic.users)
        if path == "law":
            return self.law(state, statistic, source)
        held, analyzed = self.parted(state)
        for messages in self.mixer.split_portions(held, self.device.message(statistic, source)):
            held = self.mixer.drawn(self.mixer.add(held, messages), source)
            analyzed, estimate = self.analyzer.analyze(analyzed, self.mixer.close(held), source)
            held = self.mixer.forget(held)
        return self.joined(held, analyzed), estimate

    @abstractmethod
    def prefixes(
        self, statistics: Statistic | ArrayLike, source: NoiseSource, *, path: str = "messages", clip: bool = True
    ) -> Floats:
        """Release a stream (..., users, dim); return the estimates after every user, same shape."""


@dataclass(frozen=True, kw_only=True)
class TrustedServerProtocol(Protocol):
    """A protocol whose server sees every statistic; others see its releases."""

    @property
    def observers(self) -> tuple[tuple[str, str], ...]:
        return (("the trusted server", "every user's statistic"), ("the public", "the noisy sums"))

    @cached_property
    def device(self) -> PlainVector:
        return PlainVector(domain=self.domain)

    @cached_property
    def mixer(self) -> GatheringMixer:
        return GatheringMixer(domain=self.domain)


@dataclass(frozen=True, kw_only=True)
class TrustedSumProtocol(TrustedServerProtocol, BatchProtocol):
    """A protocol whose server adds noise, or none, to a batch's sum."""

    def draws(self, users: int) -> ReleaseCost:
        return ReleaseCost(gaussians=self.domain.dim, numbers=users * self.domain.dim)

    def law(self, statistic: Statistic, source: NoiseSource) -> Estimate:
        return self.release_total(statistic.total(), statistic.users, source)

    @property
    def sums_only(self) -> bool:
        return True


def check_path(path: str, source: NoiseSource) -> str:
    """Return the path; refuse "law" with a secure source."""
    validation.one_of("path", path, ("messages", "law"))
    if check_noise_source(source).secure and path == "law":
        raise InsecureSource('path="law" is a shortcut for simulation; a secure source runs path="messages"')
    return path


def check_domain(domain: Domain) -> Domain:
    """Return the domain, or raise naming the kinds of domains."""
    if not isinstance(domain, Domain):
        raise InvalidArgument("domain", domain, "a Domain: LinearReport, Ball or Box")
    return domain


def stated_delta(budget: Budget) -> float:
    """Return the budget's delta, or 1e-6 if it has none."""
    return budget.delta if isinstance(budget, ApproxDP) else 1e-6
