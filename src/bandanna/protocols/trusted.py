"""What protocols share whose server is given every user's statistic: plain devices, and a server that gathers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from bandanna.core.domain import Statistic
from bandanna.core.estimate import Estimate
from bandanna.device import Plain
from bandanna.mechanisms.sources import Draws, NoiseSource
from bandanna.protocols.base import BatchProtocol, Protocol
from bandanna.protocols.roles import Gathering


@dataclass(frozen=True, kw_only=True)
class Trusted(Protocol):
    """The server sees every user's statistic, all others what it releases."""

    @property
    def observers(self) -> tuple[tuple[str, str], ...]:
        """The server is trusted."""
        return (("the trusted server", "every user's statistic"), ("everybody else", "the noisy sums"))

    @cached_property
    def device(self) -> Plain:
        """Sends the statistic itself."""
        return Plain(domain=self.domain)

    @cached_property
    def mixer(self) -> Gathering:
        """The server keeps every row until it is released."""
        return Gathering(domain=self.domain)


@dataclass(frozen=True, kw_only=True)
class TrustedSum(Trusted, BatchProtocol):
    """The server adds noise, or none, to the sum of a batch: the law of an estimate depends on the exact sum alone."""

    def draws(self, users: int) -> Draws:
        """Noise on the sum."""
        return Draws(gaussians=self.domain.dim, numbers=users * self.domain.dim)

    def law(self, statistic: Statistic, source: NoiseSource) -> Estimate:
        """Already one draw per batch."""
        return self.of_total(statistic.total(), statistic.users, source)

    @property
    def sums_only(self) -> bool:
        """The server adds noise to the sum."""
        return True
