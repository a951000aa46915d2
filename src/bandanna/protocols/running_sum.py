"""Running sums over a public schedule of batches, under any privacy model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna.device.domain import Domain
from bandanna.errors import InvalidArgument, InvalidBudget
from bandanna.numeric.exact_sums import RunLengthSizes
from bandanna.privacy import accountant
from bandanna.privacy.events import Event
from bandanna.privacy.guarantee import Guarantee, find_worst_guarantee
from bandanna.protocols.base import BatchProtocol, Protocol, StreamProtocol
from bandanna.protocols.batch_tree import plan_tree
from bandanna.protocols.clear import Clear
from bandanna.protocols.concurrent_shuffle import ConcurrentShuffle
from bandanna.protocols.continual import CentralContinual
from bandanna.protocols.factory import list_local_protocols, local_protocol_for
from bandanna.protocols.gaussian import CentralGaussian, ShuffleGaussian
from bandanna.protocols.privacy_model import Privacy
from bandanna.protocols.shuffle_binomial import ShuffleBinomial
from bandanna.protocols.spherical_cap import LocalUnit
from bandanna.storage.encoding import stored_as

_MOST = 10**7  # noisy releases


@stored_as("Channel")
@dataclass(frozen=True, kw_only=True)
class RunningSumProtocol:
    """Protocols for running sums over batches of public `sizes`. An incomplete batch is never released."""

    protocols: dict[int, Protocol] = field(hash=False)  # by batch size; a stream protocol under every size
    sizes: RunLengthSizes

    @cached_property
    def stream(self) -> StreamProtocol | None:
        """Return the whole stream's protocol; None for independent batches."""
        first = next(iter(self.protocols.values()))
        return first if isinstance(first, StreamProtocol) else None

    @property
    def independent(self) -> bool:
        """Whether running sums have independent batches' noise, as one shuffler's tree has."""
        return self.stream is None or (isinstance(self.stream, ConcurrentShuffle) and self.stream.shufflers == 1)

    @property
    def continual(self) -> CentralContinual | None:
        """The central continual protocol; None under other models."""
        return self.stream if isinstance(self.stream, CentralContinual) else None

    @cached_property
    def guarantee(self) -> Guarantee:
        """Return the worst guarantee over batch sizes; returning users take the dearest batches."""
        stated = find_worst_guarantee([protocol.guarantee for protocol in self.protocols.values()])
        if len(self.protocols) == 1 or stated.participations == 1:
            return stated
        batches: Counter[Event] = Counter()
        for size, times in self.sizes.runs:
            batches[self.protocols[size].event] += times
        spent = accountant.compute_spent({"": batches}, stated.participations, stated.delta)
        return replace(stated, epsilon=max(stated.epsilon, spent), shuffler=None)  # sizes mix: not computed

    @property
    def bits_per_user(self) -> int:
        """Length of the longest message."""
        return max(protocol.bits_per_user for protocol in self.protocols.values())

    def prefix_std(self, *, along: bool = False) -> NDArray[np.float64]:
        """Return the running sum's noise per scaled coordinate after 1, ..., M batches, known in advance.

        along=True bounds every direction; for random directions it exceeds the mean.
        """
        if self.stream is not None:
            return self.stream.prefix_std()
        variances = [self._batch_std(size, along) ** 2 for size, _ in self.sizes.runs]
        if not any(variances):
            return np.broadcast_to(0.0, len(self.sizes))
        each = self.sizes.each(variances)
        return np.asarray(np.sqrt(np.cumsum(each, out=each)))

    def _batch_std(self, size: int, along: bool) -> float:
        protocol = self._batch_protocol(size)
        return protocol.std_along(size) if along and isinstance(protocol, LocalUnit) else protocol.std(size)

    def _batch_protocol(self, size: int) -> BatchProtocol:
        protocol = self.protocols[size]
        assert isinstance(protocol, BatchProtocol)
        return protocol


def running_sum_protocol_for(
    privacy: Privacy, *, domain: Domain, sizes: RunLengthSizes | Iterable[int]
) -> RunningSumProtocol:
    """Calibrate for a statistic and a schedule, one protocol per batch size."""
    sizes = sizes if isinstance(sizes, RunLengthSizes) else RunLengthSizes.of(sizes)
    if privacy.noisy and len(sizes) > _MOST:
        allowed = f"larger ones: {len(sizes):,} noisy releases are more than {_MOST:,}, of which each is planned for"
        raise InvalidArgument("batch", sizes[0], allowed)
    returning = privacy.noisy and privacy.participations > 1
    if returning and privacy.model == "shuffle" and privacy.protocol == "gaussian" and len(sizes.counts()) > 1:
        allowed = "batches of one size: shuffled Gaussians of several sizes do not compose within the budget"
        raise InvalidArgument("batch", sorted(sizes.counts()), allowed)
    if privacy.model == "concurrent" and privacy.noisy:
        return RunningSumProtocol(protocols={sizes[0]: _concurrent(privacy, domain, sizes)}, sizes=sizes)
    protocols = {size: _protocol_of_size(privacy, domain, size, len(sizes)) for size in sizes.counts()}
    return RunningSumProtocol(protocols=protocols, sizes=sizes)


def _protocol_of_size(privacy: Privacy, domain: Domain, size: int, steps: int) -> Protocol:
    if not privacy.noisy or privacy.budget is None:
        return Clear(domain=domain)
    shared: dict[str, Any] = {
        "domain": domain,
        "budget": privacy.budget,
        "participations": privacy.participations,
        "calibration": privacy.calibration,
    }
    if privacy.model == "central" and privacy.mechanism == "independent":
        return CentralGaussian.calibrate(**shared)
    if privacy.model == "central":
        return CentralContinual.calibrate(horizon=steps, mechanism=privacy.mechanism, **shared)
    if privacy.model == "local":
        return local_protocol_for(privacy, domain)
    if privacy.protocol == "gaussian":
        return ShuffleGaussian.calibrate(batch=size, **shared)
    return ShuffleBinomial.calibrate(batch=size, coins=privacy.noise, **shared)


def lowest_batch_size(privacy: Privacy, *, domain: Domain, horizon: int) -> int:
    """Return the users in a lowest batch of the concurrent shufflers' tree."""
    if privacy.budget is None:
        raise InvalidBudget("budget", None, "an (epsilon, delta)")
    tree = plan_tree(
        domain,
        privacy.budget,
        horizon,
        shufflers=privacy.shufflers,
        degrees=privacy.degrees,
        averaging=privacy.calibration == "tight",
    )
    return tree.sizes[0]


def _concurrent(privacy: Privacy, domain: Domain, sizes: RunLengthSizes) -> ConcurrentShuffle:
    """Calibrate shufflers whose lowest batches are the schedule's, of one size."""
    if len(sizes.counts()) != 1:
        raise InvalidArgument("batch", sorted(sizes.counts()), "one size: the lowest batches of concurrent shufflers")
    if privacy.participations != 1:
        allowed = "1: the batches of a returning user may be in one batch of a higher level"
        raise InvalidArgument("participations", privacy.participations, allowed)
    assert privacy.budget is not None
    return ConcurrentShuffle.calibrate(
        domain=domain,
        budget=privacy.budget,
        horizon=sum(sizes),
        shufflers=privacy.shufflers,
        degrees=privacy.degrees,
        calibration=privacy.calibration,
        lowest=sizes[0],
        coins=privacy.noise,
    )


def find_mismatch(privacy: Privacy, protocol: Protocol, *, size: int, steps: int) -> str | None:
    """Return how a protocol differs from the calibrated one for such batches, or None."""
    if not isinstance(protocol, _expected_types(privacy) if privacy.noisy else Clear):
        return "a protocol of another privacy model"
    if not privacy.noisy:
        return None
    if protocol.participations != privacy.participations:
        return "a protocol for other participations"
    if isinstance(protocol, CentralContinual) and protocol.factorisation.horizon != steps:
        return "a stream of another length"
    if getattr(protocol, "coins", "device") != privacy.noise:
        return "noise that another party draws"
    if isinstance(protocol, ShuffleBinomial | ShuffleGaussian) and protocol.batch != size:
        return "noise for another batch size"
    if isinstance(protocol, ConcurrentShuffle):
        tree = protocol.tree
        return None if tree.sizes[0] == size and tree.horizon == steps * size else "a tree of other batches"
    return None


def _expected_types(privacy: Privacy) -> type | tuple[type, ...]:
    if privacy.model == "shuffle":
        return ShuffleGaussian if privacy.protocol == "gaussian" else ShuffleBinomial
    if privacy.model == "local":
        return list_local_protocols(privacy)
    if privacy.model == "central" and privacy.mechanism == "independent":
        return CentralGaussian
    return {"central": CentralContinual, "concurrent": ConcurrentShuffle}.get(privacy.model, Clear)
