"""Central model, continual release: after every step the trusted server publishes the noisy sum of all users so far."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from bandanna.accounting.budgets import Budget
from bandanna.accounting.events import ContinualEvent
from bandanna.accounting.factorisation import BinaryTree, Factorisation
from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.core.domain import Domain, Statistic
from bandanna.core.estimate import Estimate
from bandanna.errors import InvalidArgument
from bandanna.mechanisms.continual import ContinualGaussian
from bandanna.mechanisms.sources import Draws, NoiseSource
from bandanna.protocols.base import StreamProtocol, checked_path, stated_delta
from bandanna.protocols.central_continual import law, privacy
from bandanna.protocols.central_continual.analyzer import PrefixSums, Running
from bandanna.protocols.roles import Held
from bandanna.protocols.trusted import Trusted
from bandanna.storage.declared import stored_as


@stored_as("CentralContinual")
@dataclass(frozen=True, kw_only=True)
class CentralContinual(Trusted, StreamProtocol):
    """Prefix sums of the stream of batch sums, through a factorisation A = B C of the prefix-sum matrix.

    Privacy: mu = Delta_2 |C|_M0 / std for all prefixes together, M0 participations in different steps of the stream,
    |C|_M0 the largest norm of a sum of M0 columns.
    """

    factorisation: Factorisation
    noise_std: float

    name: ClassVar[str] = "central_continual"
    trust: ClassVar[str] = "central"
    composed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require.store(self, require.positive, "noise_std")

    @classmethod
    def calibrate(
        cls,
        *,
        domain: Domain,
        budget: Budget,
        horizon: int,
        mechanism: str = "blt",
        participations: int = 1,
        calibration: str = "tight",
    ) -> CentralContinual:
        """Least noise for `horizon` steps by "blt" or "tree"."""
        factors, std = privacy.calibrate(domain, budget, horizon, mechanism, participations, calibration)
        return cls(
            domain=domain,
            factorisation=factors,
            noise_std=std,
            participations=participations,
            delta=stated_delta(budget),
        )

    @cached_property
    def mechanism(self) -> ContinualGaussian:
        """Sampler and price of the noise."""
        return ContinualGaussian(
            factorisation=self.factorisation,
            std=self.noise_std,
            sensitivity=self.domain.sensitivity,
            dim=self.domain.dim,
            participations=self.participations,
        )

    @cached_property
    def event(self) -> ContinualEvent:
        """The whole stream is one event, all participations included."""
        return privacy.event(self.domain, self.factorisation, self.noise_std, self.participations)

    @property
    def observers(self) -> tuple[tuple[str, str], ...]:
        """The server is trusted."""
        return (("the trusted server", "every user's statistic"), ("everybody else", "all noisy prefix sums"))

    @cached_property
    def analyzer(self) -> PrefixSums:
        """Sums and noise."""
        return PrefixSums(domain=self.domain, mechanism=self.mechanism)

    def draws(self, users: int) -> Draws:
        """Noise on the sum; of a tree, on every block that the step completes."""
        blocks = self.factorisation.levels if isinstance(self.factorisation, BinaryTree) else 1
        return Draws(gaussians=blocks * self.domain.dim, numbers=users * self.domain.dim)

    def std(self) -> float:
        """Standard deviation of each coordinate of the worst prefix."""
        return self.noise_std * self.factorisation.error()

    def prefix_std(self) -> Floats:
        """After 1, 2, ..., horizon steps."""
        return np.asarray(np.sqrt(self.mechanism.variances))

    def begin(self, replicates: tuple[int, ...] = ()) -> Running:
        """State before the first step; it holds raw sums and stays with the server."""
        return self.analyzer.begin(replicates)

    def parted(self, state: Running) -> tuple[Held, Running]:
        """A step is released at once: nothing is held between steps."""
        return self.mixer.empty(state.stream.total.shape[:-1]), state

    def joined(self, held: Held, analyzed: Running) -> Running:
        """The server's state is all there is."""
        return analyzed

    def check_users(self, state: Running, users: int) -> None:
        """Any number in a step; the mechanism counts steps."""
        if not isinstance(state, Running):
            raise InvalidArgument("state", type(state).__name__, "what begin() or the last release returned")

    def law(self, state: Running, statistic: Statistic, source: NoiseSource) -> tuple[Running, Estimate]:
        """There are no messages to shorten: only the sum of a step is made faster, with rounding errors."""
        total = statistic.total() - statistic.users * self.domain.origin
        return self.analyzer.step(state, total, statistic.users, source)

    def prefixes(
        self, statistics: Statistic | ArrayLike, source: NoiseSource, *, path: str = "messages", clip: bool = True
    ) -> Floats:
        """Steps of one user each, (..., users, dim): step by step, or the noise of all prefixes from their law."""
        checked_path(path, source)
        values = self.admit(statistics, clip=clip).rows()
        if values.shape[-2] > self.factorisation.horizon:
            allowed = f"at most the horizon {self.factorisation.horizon}: the noise is priced for no more steps"
            raise InvalidArgument("steps", values.shape[-2], allowed)
        if path == "law":
            return law.prefixes(values, self.mechanism, source)
        stream, estimates, origin = self.mechanism.begin(values.shape[:-2]), [], self.domain.origin
        for step in range(values.shape[-2]):
            stream, prefix = self.mechanism.step(stream, values[..., step, :] - origin, source)
            estimates.append(prefix + (step + 1) * origin)
        return np.stack(estimates, axis=-2)
