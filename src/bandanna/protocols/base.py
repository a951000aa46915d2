"""The interface of protocols, and the one path of a release."""

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
from bandanna.errors import InsecureSource, InvalidArgument
from bandanna.privacy.budgets import ApproxDP, Budget
from bandanna.privacy.events import Event
from bandanna.privacy.guarantee import Guarantee, compute_guarantee
from bandanna.protocols.mixers import Analyzer, GatheringMixer, Mixer
from bandanna.types import Floats

# What every protocol is: statistics in a declared domain, through device, mixer and analyzer, to a private sum.
#
# One folder per protocol, one file per role that does something of its own (`roles.py`: what they share). `messages`
# is
# the path that a deployment runs, written here once in terms of the roles; `law`, for simulation, draws the aggregate
# directly from the same law.


FLOAT_BITS = 64
PROTECTS = "a user's statistic (features and rewards)"


@dataclass(frozen=True, kw_only=True)
class Protocol(ABC):
    """A calibrated protocol; `delta` is where its guarantee is stated, `participations` how often a user takes part.

    `trust` names the model; who sees what, and what is left against a shuffler, are stated by `observers`,
    `local_levels_event` and `exposed`, and make the guarantee.
    """

    domain: Domain
    participations: int = 1
    delta: float = 1e-6

    name: ClassVar[str]
    trust: ClassVar[str]
    composed: ClassVar[bool] = True  # an event for each participation; False: one event covers all of them
    hides_group_size: ClassVar[bool] = (
        False  # a sum tells nothing of how many are in it, at a Gaussian price for any number
    )

    def __post_init__(self) -> None:
        check_domain(self.domain)
        validation.set_validated(self, validation.integer, "participations")
        object.__setattr__(self, "delta", validation.delta(self.delta))

    @property
    @abstractmethod
    def event(self) -> Event:
        """What one participation releases, for the accountant."""

    @property
    def local_event(self) -> Event | None:
        """What a shuffler sees of one user, where there is one."""
        return None

    @property
    def exposed(self) -> float:
        """With this probability a shuffler is sure of something about a user, however large epsilon is."""
        return 0.0

    @property
    @abstractmethod
    def observers(self) -> tuple[tuple[str, str], ...]:
        """Who sees what."""

    @cached_property
    def guarantee(self) -> Guarantee:
        """What is promised, to whom, against whom; computed for what runs."""
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
        """Runs with the user: `message(statistic, source)`, and `zero(source)` of a user who did not answer."""

    @property
    @abstractmethod
    def mixer(self) -> Mixer:
        """Gathers or adds messages: `check`, `empty`, `add`, `drawn`, `close`."""

    @property
    @abstractmethod
    def analyzer(self) -> Analyzer:
        """Turns what a mixer forwards into estimates: `begin`, `analyze`."""

    @property
    def bits_per_user(self) -> int:
        """Size of one user's message."""
        return FLOAT_BITS * self.domain.dim

    def draws(self, users: int) -> ReleaseCost:
        """What a release of a batch of so many users takes at most, for estimates of its time."""
        return ReleaseCost(numbers=users * self.domain.dim)

    def admit(self, statistics: Statistic | ArrayLike, *, clip: bool = True) -> Statistic:
        """Statistics that lie in the domain: clipped and counted here, or, if that was done before, checked."""
        if not isinstance(statistics, Statistic):
            return self.domain.admit(statistics, clip=clip)
        return self.domain.check_statistic(statistics)


@dataclass(frozen=True, kw_only=True)
class BatchProtocol(Protocol):
    """A protocol that turns each batch of users into one estimate of their sum, independently of other batches."""

    @abstractmethod
    def std(self, users: int) -> float:
        """Standard deviation of each coordinate of a batch's sum, rounding included."""

    @abstractmethod
    def law(self, statistic: Statistic, source: NoiseSource) -> Estimate:
        """The estimate drawn from its aggregate law, the same as along the messages."""

    @property
    def sums_only(self) -> bool:
        """Whether the law of an estimate depends on the exact sum alone, for any number of users: see `of_total`."""
        return False

    @property
    def laplace(self) -> tuple[float, float] | None:
        """Scale in steps of the lattice, and its step, of noise that is Laplace; None: it is sub-Gaussian, of `std`."""
        return None

    @property
    def rounds_each_row(self) -> bool:
        """Whether every user's statistic is rounded by itself: then the law depends on more than their sum."""
        return False

    def release_total(self, total: Floats, users: int, source: NoiseSource) -> Estimate:
        """The estimate of an exact sum, (..., dim), in the law of `release`: a shortcut of simulations."""
        raise InsecureSource(f"{self.name} needs every user's statistic")

    def release(
        self, statistics: Statistic | ArrayLike, source: NoiseSource, *, path: str = "messages", clip: bool = True
    ) -> Estimate:
        """One batch, shape (..., users, dim), to an estimate of its sum, shape (..., dim).

        Leading axes are independent replicates. path="messages" runs every message, path="law" is the simulator's way.
        """
        check_path(path, source)
        statistic = self.admit(statistics, clip=clip)
        self.check_users(statistic.users)
        if path == "law":
            return self.law(statistic, source)
        return self.release_messages(self.device.message(statistic, source), source)

    def release_messages(self, messages: Messages, source: NoiseSource) -> Estimate:
        """The estimate of a batch whose messages are all there, (..., users, length): mixer and analyzer."""
        held = self.mixer.drawn(self.mixer.add(self.mixer.empty(messages.shape[:-2]), messages), source)
        return self.analyzer.analyze(self.analyzer.begin(messages.shape[:-2]), self.mixer.close(held), source)[1]

    def check_users(self, users: int) -> None:
        """Whether a batch of this size may be released; any size unless the protocol's noise belongs to one."""


@dataclass(frozen=True, kw_only=True)
class StreamProtocol(Protocol):
    """A protocol for a whole stream of users: estimates of the sum of everybody so far, priced as one release.

    `begin` gives a state and `release` the next one with the new estimate; states are values, nothing is changed in
    place. Whoever restarts a stream from an old state must return the stored release instead of drawing again.

    A state is what mixers hold and what the analyzer has, joined for whoever runs both; processes keep them apart.
    """

    @abstractmethod
    def prefix_std(self) -> Floats:
        """Standard deviation of each coordinate of the estimate after every step; known in advance."""

    @abstractmethod
    def begin(self, replicates: tuple[int, ...] = ()) -> Any:
        """The state before the first user."""

    @abstractmethod
    def parted(self, state: Any) -> tuple[Any, Any]:
        """What the mixer holds, and the analyzer's own state."""

    @abstractmethod
    def joined(self, held: Any, analyzed: Any) -> Any:
        """The state of both."""

    @abstractmethod
    def check_users(self, state: Any, users: int) -> None:
        """Whether this is a state of the stream, and so many more users may come."""

    @abstractmethod
    def law(self, state: Any, statistic: Statistic, source: NoiseSource) -> tuple[Any, Estimate]:
        """The next step from its aggregate law, the same as along the messages."""

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
        """A whole stream at once: (..., users, dim) -> estimates after every single user, (..., users, dim)."""


def check_path(path: str, source: NoiseSource) -> str:
    """One of the two paths; the simulator's is refused to a secure source."""
    validation.one_of("path", path, ("messages", "law"))
    if check_noise_source(source).secure and path == "law":
        raise InsecureSource('path="law" is a shortcut for simulation; a secure source runs path="messages"')
    return path


def check_domain(domain: Domain) -> Domain:
    """A domain, or an error that says what one is."""
    if not isinstance(domain, Domain):
        raise InvalidArgument("domain", domain, "a Domain: LinearReport, Ball or Box")
    return domain


def stated_delta(budget: Budget) -> float:
    """Where a protocol calibrated for this budget states its (epsilon, delta): the budget's own delta, or 1e-6."""
    return budget.delta if isinstance(budget, ApproxDP) else 1e-6


# What protocols share whose server is given every user's statistic: plain devices, and a server that gathers.


@dataclass(frozen=True, kw_only=True)
class TrustedServerProtocol(Protocol):
    """The server sees every user's statistic, all others what it releases."""

    @property
    def observers(self) -> tuple[tuple[str, str], ...]:
        """The server is trusted."""
        return (("the trusted server", "every user's statistic"), ("everybody else", "the noisy sums"))

    @cached_property
    def device(self) -> PlainVector:
        """Sends the statistic itself."""
        return PlainVector(domain=self.domain)

    @cached_property
    def mixer(self) -> GatheringMixer:
        """The server keeps every row until it is released."""
        return GatheringMixer(domain=self.domain)


@dataclass(frozen=True, kw_only=True)
class TrustedSumProtocol(TrustedServerProtocol, BatchProtocol):
    """The server adds noise, or none, to the sum of a batch: the law of an estimate depends on the exact sum alone."""

    def draws(self, users: int) -> ReleaseCost:
        """Noise on the sum."""
        return ReleaseCost(gaussians=self.domain.dim, numbers=users * self.domain.dim)

    def law(self, statistic: Statistic, source: NoiseSource) -> Estimate:
        """Already one draw per batch."""
        return self.release_total(statistic.total(), statistic.users, source)

    @property
    def sums_only(self) -> bool:
        """The server adds noise to the sum."""
        return True
